package api

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// A registration that is refused defines no types.
func TestRefusedRegistrationDefinesNothing(t *testing.T) {
	r := newRig(t, nil)
	first := wire.Register{Pull: true, Worker: "w", Types: []string{"email"}, Slots: 1}
	first.Session = ask[wire.Registered](r, wire.APIRegister, first).Session
	other := wire.Register{Pull: true, Worker: "w", Types: []string{"other"}, Slots: 1}
	_, err := try[wire.Registered](r, wire.APIRegister, other)
	wantCode(t, err, events.CodeWorkerIDInUse)

	ask[wire.OK](r, wire.APIUnregister, wire.Unregister{Worker: "w", Session: first.Session})
	late := first
	late.Types = []string{"late"}
	_, err = try[wire.Registered](r, wire.APIRegister, late)
	wantCode(t, err, events.CodeUnknownWorker)
	_, err = try[wire.HeartbeatReply](r, wire.APIHeartbeat, wire.Heartbeat{Register: late})
	wantCode(t, err, events.CodeUnknownWorker)

	var types []string
	for _, ty := range ask[wire.TypesReply](r, wire.APITypes, wire.StatsRequest{MinPosition: wire.PositionOf(r.eng.Position())}).Types {
		types = append(types, ty.Type)
	}
	if !slices.Equal(types, []string{"email"}) {
		t.Errorf("types %q", types)
	}
}

func TestTheTypeOfBatchesIsNotPaused(t *testing.T) {
	r := newRig(t, nil)
	_, err := try[wire.Changed](r, wire.APIPause, wire.Pause{Type: string(events.BatchType)})
	wantCode(t, err, events.CodeBadType)
	if !strings.Contains(err.Error(), "batches run nothing") {
		t.Error(err)
	}
}

// The event that answers a plain publish says whether the idempotency key that it repeats
// belongs to other content.
func TestRepeatedPublishSaysWhatDiffers(t *testing.T) {
	r := newRig(t, nil)
	rejected, err := r.nc.SubscribeSync("work.event.0.email.rejected")
	if err != nil {
		t.Fatal(err)
	}
	publish := func(body string) {
		t.Helper()
		before := r.eng.Position()
		msg := &nats.Msg{Subject: wire.Default.Submit("email"), Header: nats.Header{wire.HeaderIdempotencyKey: {"k"}}, Data: []byte(body)}
		if _, err := r.nc.RequestMsgWithContext(r.ctx(), msg); err != nil {
			t.Fatal(err)
		}
		if err := r.eng.Await(r.ctx(), before+1); err != nil {
			t.Fatal(err)
		}
	}
	publish(`{"n":1}`)
	for body, differs := range map[string]bool{`{"n":1}`: false, `{"n":2}`: true} {
		publish(body)
		msg, err := rejected.NextMsgWithContext(r.ctx())
		if err != nil {
			t.Fatal(err)
		}
		var ev struct{ Data events.Rejected }
		if err := json.Unmarshal(msg.Data, &ev); err != nil {
			t.Fatal(err)
		}
		if b := ev.Data; b.Code != string(events.CodeDuplicate) || strings.Contains(b.Message, "content_differs") != differs {
			t.Errorf("%s: %s: %s", body, b.Code, b.Message)
		}
	}
}
