package embedded

import (
	"context"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/wire"
)

// Headers that make the server do something else with a message than store it
// get nobody further than his permissions.
func TestHeadersThatTheServerObeys(t *testing.T) {
	e := guarded(t)
	kept := submit(t, e, wire.Submit{Type: "email"})
	last, err := e.ledger.eventLog.Last(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	id := kept.ID
	for _, tc := range []struct{ user, subject, header, value string }{
		{"submit", "work.submit.email", "Nats-Rollup", "all"},
		{"submit", "work.submit.email", "Nats-Rollup", "sub"},
		{"work", "work.log.email." + id, "Nats-Rollup", "all"},
		{"submit", "work.submit.email", "Nats-TTL", "1s"},
		{"submit", "work.submit.email", "Nats-Schedule", "@every 1s"},
		{"submit", "work.submit.email", "Nats-Schedule-Target", "work.event.0.email.completed"},
		{"submit", "work.submit.email", "Nats-Trace-Dest", "work.event.0.email.completed"},
		{"submit", "work.api.info", "Nats-Trace-Dest", "work.event.0.email.completed"},
		{"work", "work.log.email." + id, "Nats-Trace-Dest", "work.control.w1"},
	} {
		c, _ := as(t, e, tc.user)
		m := nats.NewMsg(tc.subject)
		m.Header.Set(tc.header, tc.value)
		m.Data = []byte(`{}`)
		if err := c.Conn().PublishMsg(m); err != nil {
			t.Fatal(err)
		}
		if err := c.Conn().FlushTimeout(testTimeout); err != nil {
			t.Fatal(err)
		}
	}
	// What came of it is in the log: nothing but submissions, decided as such.
	reader, _ := as(t, e, "read")
	done := submit(t, e, wire.Submit{Type: "last"})
	ended := false
	err = reader.Tail(testContext(t), streamwright.TailOptions{FromSeq: 1}, func(ev streamwright.Event) error {
		switch {
		case ev.ID == done.ID:
			ended = true
			return context.Canceled
		case ev.Seq.Frame() > last.Seq && ev.Kind.String() != "created" && ev.Kind.String() != "queued" && ev.Kind.String() != "rejected" && !strings.HasPrefix(ev.Kind.String(), "type_"):
			t.Errorf("the log has got %s %s", ev.Kind, ev.ID)
		}
		return nil
	})
	if !ended {
		t.Fatalf("the tail: %v", err)
	}
	if _, err := reader.Get(testContext(t), id); err != nil {
		t.Errorf("what was there: %v", err)
	}
	if n, err := e.ledger.eventLog.Last(testContext(t)); err != nil || n.Seq <= last.Seq {
		t.Errorf("the log ends with %d, %v", n.Seq, err)
	}
}
