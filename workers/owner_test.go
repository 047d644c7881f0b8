package workers

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/fakeengine"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/internal/pull"
	"github.com/streamwright/streamwright/wire"
)

// call says what an engine says to all workers when it has become the owner.
func (f *fakeEngine) call() {
	f.t.Helper()
	if err := f.nc.Publish(f.names.ControlAll(), []byte(`{"register":true}`)); err != nil {
		f.t.Fatal(err)
	}
}

// A worker registers at once with a new owner, which has made the streams anew and knows
// nobody; neither its next heartbeat nor the end of a backoff is waited for. What it ran
// meanwhile is reported to the new owner.
func TestRegistersWithANewOwner(t *testing.T) {
	r := newRig(t)
	r.beatMS = 3_600_000
	b := newBlocker()
	w := r.worker(Config{Concurrency: 2})
	HandleRaw(w, "wait", b.run)
	r.start(w)
	id := r.submit("wait", `{}`)
	recv(t, "the run", b.begun)
	r.away()
	close(b.release)
	need.Eventually(t, "the outcome under way", func() bool { return w.Stats().Settling == 1 })
	r.mu.Lock()
	clear(r.workers)
	r.mu.Unlock()
	r.back()
	r.call()
	r.until("the registration", func() bool { return len(r.workers) == 1 })
	if got := r.outcome(id, 1); got.Event != wire.ReportComplete {
		t.Errorf("got %+v", got)
	}
	r.outcome(r.submit("wait", `{}`), 1)
	r.untilAcked()
}

// Only the engine's own call on the very subject counts.
func TestCallsOfOthersAreIgnored(t *testing.T) {
	r := newRig(t)
	w := r.worker(Config{})
	Handle(w, "add", add)
	r.start(w)
	for _, m := range []*nats.Msg{
		{Subject: r.names.ControlAll(), Data: []byte(`{"register":true}`), Reply: "somewhere"},
		{Subject: r.names.ControlAll(), Data: []byte(`{"register":true}`), Header: nats.Header{"Nats-Stream": {"S"}}},
		{Subject: r.names.ControlAll(), Data: []byte(`{"drain":true}`)},
		{Subject: r.names.ControlAll(), Data: []byte(`what?`)},
	} {
		w.session.onCall(m)
		if !w.Stats().Registered {
			t.Errorf("%+v was obeyed", m)
		}
	}
}

// A report is repeated until an owner takes it.
func TestReportIsRepeatedUntilThereIsAnOwner(t *testing.T) {
	r := newRig(t)
	w := r.worker(Config{})
	Handle(w, "add", add)
	refusals := 0
	r.refuse = func(rep wire.Report) *wire.Error {
		if refusals++; refusals <= 2 || rep.Event == wire.ReportComplete && refusals <= 5 {
			return &wire.Error{Code: events.CodeNotOwner, Message: "another engine owns the log"}
		}
		return nil
	}
	r.start(w)
	if got := r.outcome(r.submit("add", `{}`), 1); got.Event != wire.ReportComplete {
		t.Errorf("got %+v", got)
	}
	r.untilAcked()
}

// Pull requests that wait at a consumer are lost when the consumer is made anew, or is
// led by another server, and nobody says so: after a new owner's call they are sent
// again, but only then.
func TestPullsAgainWhenAConsumerHasMoved(t *testing.T) {
	for name, tt := range map[string]struct {
		before, after string
		pulls         int32 // more of them
	}{
		"the same":       {`{"created":"2026-01-02T03:04:05Z","cluster":{"leader":"s1"}}`, `{"created":"2026-01-02T03:04:05Z","cluster":{"leader":"s1"}}`, 0},
		"made anew":      {`{"created":"2026-01-02T03:04:05Z"}`, `{"created":"2026-01-02T03:04:06Z"}`, 1},
		"another leader": {`{"created":"2026-01-02T03:04:05Z","cluster":{"leader":"s1"}}`, `{"created":"2026-01-02T03:04:05Z","cluster":{"leader":"s2"}}`, 1},
		"not to be told": {`{"error":{"code":404}}`, `{"error":{"code":404}}`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			names := r.names.In("far") // where nothing but this test answers
			nc := fakeengine.Dial(t, r.url)
			var pulls, registrations atomic.Int32
			var info atomic.Pointer[string]
			info.Store(&tt.before)
			if _, err := nc.Subscribe(names.JetStream("CONSUMER.>"), func(m *nats.Msg) {
				if strings.Contains(m.Subject, ".MSG.NEXT.") {
					pulls.Add(1)
					return
				}
				_ = m.Respond([]byte(*info.Load()))
			}); err != nil {
				t.Fatal(err)
			}
			if err := nc.Flush(); err != nil {
				t.Fatal(err)
			}
			r.onRegister = func(wire.Register) *wire.Error { registrations.Add(1); return nil }
			w := r.worker(Config{Names: names})
			Handle(w, "add", add)
			r.start(w)
			need.Eventually(t, "the first pull", func() bool { return pulls.Load() == 1 })
			info.Store(&tt.after)
			r.call()
			need.Eventually(t, "another registration", func() bool { return registrations.Load() == 2 && w.Stats().Registered })
			began := time.Now()
			need.Eventually(t, fmt.Sprintf("%d more pulls", tt.pulls), func() bool {
				_ = w.nc.Flush() // what it has sent has been heard by the server
				_ = nc.Flush()   // and passed on
				return pulls.Load() >= 1+tt.pulls
			})
			if n := pulls.Load() - 1; n != tt.pulls || time.Since(began) > pull.Expires {
				t.Errorf("%d more pulls after %s, want %d", n, time.Since(began), tt.pulls)
			}
		})
	}
}
