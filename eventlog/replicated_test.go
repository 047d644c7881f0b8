package eventlog_test

import (
	"errors"
	"slices"
	"testing"

	. "github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/eventlog/logtest"
	"github.com/streamwright/streamwright/internal/natscluster"
)

// TestReplicated appends to a stream with three replicas, over rivals, a foreign message
// and a change of the leader.
func TestReplicated(t *testing.T) {
	servers := natscluster.Start(t)
	a := openLog(t, Config{Connect: dialURL(servers[1].ClientURL()), Replicas: 3})
	b := openLog(t, Config{Connect: inProcess(servers[2])})
	// Settling also waits until every server knows where the stream is.
	last := settle(t, a)
	for _, n := range []int{1, 12, MaxEvents} {
		last = mustAppend(t, a, last, logtest.Decision(n, "a"))
	}
	last = settle(t, b)
	stale := last
	last = mustAppend(t, b, last, logtest.Decision(3, "b"))
	if _, err := a.Append(logtest.Context(t), stale, logtest.Write(logtest.Decision(5, "lost"))); !errors.Is(err, ErrFenced) {
		t.Fatalf("append behind a rival: %v", err)
	}

	// A foreign message fences, and the owner goes on behind it.
	nc, err := inProcess(servers[0])()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	if _, err := nc.Request("work.frame.0", nil, logtest.Patience); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Append(logtest.Context(t), last, logtest.Write(logtest.Decision(3, "lost"))); !errors.Is(err, ErrFenced) {
		t.Fatalf("append in the place of a foreign message: %v", err)
	}
	last = settle(t, b)
	last = mustAppend(t, b, last, logtest.Decision(3, "c"))

	// A new leader, of the stream: what was in flight is unsettled.
	led := a.Led()
	resp, err := nc.Request("$JS.API.STREAM.LEADER.STEPDOWN.WORK_EVENTS_0", nil, logtest.Patience)
	if err != nil {
		t.Fatal(err, resp)
	}
	if _, err = a.Append(logtest.Context(t), last, logtest.Write(logtest.Decision(2, "maybe"))); err != nil && !errors.Is(err, ErrAmbiguous) {
		t.Fatalf("append at a change of leader: %v", err)
	}
	settled := settle(t, a)
	if tip, err := b.Confirm(logtest.Context(t)); err != nil || tip.Seq != settled || tip.First != 1 {
		t.Fatalf("confirmed %+v, %v, want the end at %d, and all of it kept", tip, err, settled)
	}
	if err := a.Unanswered(logtest.Context(t), led); !errors.Is(err, ErrDeposed) {
		t.Fatalf("an append that the last leader has dropped: %v", err)
	}
	if err := a.Unanswered(logtest.Context(t), a.Led()); !errors.Is(err, ErrAckTimeout) {
		t.Fatalf("an append that the present leader does not answer: %v", err)
	}
	after := mustAppend(t, a, settled, logtest.Decision(2, "after"))
	c := readAll(t, b)
	if slices.Contains(c.marks, "lost") || c.skipped != 1 || c.frames[len(c.frames)-1] != after {
		t.Fatalf("read %d marks in the frames %v, %d skipped", len(c.marks), c.frames, c.skipped)
	}
	// A stream is brought to the number of replicas that is set.
	one := openLog(t, Config{Connect: inProcess(servers[0]), Replicas: 1})
	if one.Replicated() {
		t.Fatal("the log counts as replicated after it was brought to one replica")
	}
	if kept := openLog(t, Config{Connect: inProcess(servers[0])}); kept.Replicated() {
		t.Fatal("the log counts as replicated, want the one replica that there is")
	}
}
