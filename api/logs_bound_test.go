package api

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Records of ids that are no item's have a subject each, which costs the server
// memory: their number is bounded, and the newest stay.
func TestSubjectsOfLogsAreBounded(t *testing.T) {
	r := newRig(t, nil)
	if _, err := OpenLogs(r.ctx(), LogsConfig{Conn: r.svc.Conn, Names: wire.Default, MaxBytes: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(r.nc)
	if err != nil {
		t.Fatal(err)
	}
	const made = MaxLogRecords + 500
	for i := range made {
		if _, err := js.PublishMsgAsync(nats.NewMsg(fmt.Sprintf("work.log.email.%026d", i)), jetstream.WithStallWait(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-r.ctx().Done():
		t.Fatal("the records are not acknowledged")
	}
	s, err := js.Stream(r.ctx(), wire.Default.LogStream())
	if err != nil {
		t.Fatal(err)
	}
	if st := s.CachedInfo().State; st.NumSubjects > MaxLogRecords || st.LastSeq < made {
		t.Errorf("%d subjects are kept of %d", st.NumSubjects, st.LastSeq)
	}
	// An item's own log goes on.
	sub := r.submit(wire.Submit{Type: "email"})
	id, err := events.ParseID(sub.ID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(r.ctx(), wire.Default.Log("email", id), []byte(`{"message":"here"}`)); err != nil {
		t.Fatal(err)
	}
	if got := ask[wire.LogsReply](r, wire.APILogs, wire.Logs{ID: sub.ID}).Records; len(got) != 1 || got[0].Message != "here" {
		t.Errorf("records: %+v", got)
	}
}
