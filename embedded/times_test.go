package embedded

import (
	"encoding/json"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/logins"
	"github.com/streamwright/streamwright/wire"
)

// pullOne takes the next dispatched item of a worker.
func pullOne(t *testing.T, nc *nats.Conn, reg wire.Registered, typ string) jetstream.Msg {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	c, err := js.Consumer(testContext(t), reg.Stream, reg.Consumers[typ][0])
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.Next(jetstream.FetchMaxWait(testTimeout))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Workers are told the heartbeat of engine.toml, or a third of their lease, and
// the silent are dead in its time.
func TestHeartbeatOfTheFile(t *testing.T) {
	slow(t)
	e := mustStart(t, Options{Memory: true, Config: configOf(t, `
[workers]
heartbeat_interval = "500ms"
dead_after = "1s"
[types.quick]
lease = "1s"
`)})
	for _, c := range []struct {
		typ    string
		wantMS int64
	}{{"slow", 500}, {"quick", 333}} {
		reg := request[wire.Registered](t, e, wire.APIRegister, wire.Register{Pull: true, Worker: c.typ, Types: []string{c.typ}, Slots: 1})
		if reg.HeartbeatMS != c.wantMS {
			t.Errorf("a worker of type %s is told to send a heartbeat each %d ms, want %d", c.typ, reg.HeartbeatMS, c.wantMS)
		}
		shown(t, e, c.typ, wire.WorkerDead, "nothing was heard of it for 1s")
	}
}

// What is not started in time comes back, and the sweep finds in its time a
// message that was lost without a word.
func TestStartTimeoutAndSweepOfTheFile(t *testing.T) {
	logins.Open(t, "it pulls from streams as only an open engine lets it")
	slow(t)
	t.Parallel()
	e := mustStart(t, Options{Memory: true, Config: configOf(t, `
[workers]
start_timeout = "200ms"
sweep_interval = "1s"
[types.email]
lease = "3s"
`)})
	nc := workerConn(t, e)
	reg := request[wire.Registered](t, e, wire.APIRegister, wire.Register{Pull: true, Worker: "me", Types: []string{"email"}, Slots: 1})
	sub := submit(t, e, wire.Submit{Type: "email", Params: json.RawMessage(`{}`)})
	first := pullOne(t, nc, reg, "email")
	claim := wire.Report{ID: sub.ID, Token: first.Headers().Get(wire.HeaderToken), Worker: "me", Session: reg.Session, Event: wire.ReportClaim}
	if got := request[[]wire.Reported](t, e, wire.APIReport, []wire.Report{claim}); !got[0].OK {
		t.Fatalf("the claim is refused: %v", got[0].Error)
	}
	until(t, "the item that was not started is back", func() bool {
		it := request[wire.Item](t, e, wire.APIGet, wire.Get{ID: sub.ID})
		return it.State == events.StateQueued && it.Attempt == 0
	})

	// Its new message is deleted before anybody has pulled it.
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(testContext(t), reg.Stream)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "it is dispatched again", func() bool {
		msg, err := stream.GetLastMsgForSubject(testContext(t), wire.Default.Run("email", ""))
		return err == nil && msg.Header.Get(wire.HeaderToken) != claim.Token && stream.DeleteMsg(testContext(t), msg.Sequence) == nil
	})
	second := pullOne(t, nc, reg, "email")
	claim.Token, claim.Start = second.Headers().Get(wire.HeaderToken), true
	if got := request[[]wire.Reported](t, e, wire.APIReport, []wire.Report{claim}); !got[0].OK {
		t.Errorf("the claim of the item that was found again is refused: %v", got[0].Error)
	}
}
