package workers

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
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
	r.beat = time.Hour
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
	r.untilIdle()
}

// What an owner was asked, and can't answer any more, is asked the next one as soon as that
// calls: the report of a start that comes later than that is one too late.
func TestAsksANewOwnerAgain(t *testing.T) {
	r := newRig(t)
	w := r.worker(Config{})
	b := newBlocker()
	HandleRaw(w, "wait", b.run)
	r.start(w)
	id := r.submit("wait", `{}`)
	recv(t, "the run", b.begun)
	r.away()
	asked := make(chan *nats.Msg, 10)
	silent, err := r.nc.ChanSubscribe(r.names.API(wire.APIReport), asked)
	if err == nil {
		err = r.nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	close(b.release)
	recv(t, "the report that nobody answers", asked)
	if err := silent.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	r.back()
	began := time.Now()
	r.call()
	if got := r.outcome(id, 1); got.Event != wire.ReportComplete || time.Since(began) > requestTimeout/2 {
		t.Errorf("got %+v after %s", got, time.Since(began))
	}
	r.untilIdle()
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
	r.untilIdle()
}
