package workers

import (
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/standing"
	"github.com/streamwright/streamwright/wire"
)

// startAfter is how long a run has to end before its start is reported. The report of a
// shorter one says both.
const startAfter = 2 * time.Millisecond

// receiver receives the items that the engine has claimed for this worker, and starts
// their runs. Guarded by Worker.mu.
type receiver struct {
	w   *Worker
	sub *nats.Subscription
	// fence is from the last heartbeat's reply: an item with a lesser token came too late.
	fence events.Token

	started []*run // their starts are to be reported, oldest first
	timer   *time.Timer
	list    []wire.Assigned // reused
}

// open subscribes to the items of a session.
func (b *receiver) open(session string) error {
	sub, err := b.w.nc.Subscribe(b.w.cfg.Names.RunsOf(session), b.receive)
	if err != nil {
		return fmt.Errorf("subscribe to the session's items: %w", err)
	}
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	b.sub = sub
	return nil
}

// close ends the subscription.
func (b *receiver) close() {
	b.w.mu.Lock()
	sub := b.sub
	b.w.mu.Unlock()
	if sub != nil {
		_ = sub.Unsubscribe() // fails only when the connection is closed
	}
}

// receive takes in a message of items.
func (b *receiver) receive(m *nats.Msg) {
	if !standing.FromEngine(m) {
		return
	}
	w, now := b.w, time.Now()
	w.mu.Lock()
	defer w.unlock()
	var err error
	if b.list, err = wire.DecodeAssigned(b.list[:0], m.Data); err != nil {
		w.log.Error("a message of items can't be read: they go back to the engine", "err", err)
		return
	}
	for i := range b.list {
		b.take(&b.list[i], now)
	}
	clear(b.list)
}

// take starts the run of an item, or hands it back. REQUIRES: mu.
func (b *receiver) take(a *wire.Assigned, now time.Time) {
	w := b.w
	token, err := wire.ParseToken(a.Token)
	var r *run
	if err == nil {
		r, err = newRun(a, w.types, now)
	}
	if err != nil {
		w.log.Error("an item can't be run: it goes back to the engine", "item", a.ID, "err", err)
		return
	}
	if token < b.fence || w.table.runs[a.Token] != nil {
		return // it came too late, or twice
	}
	r.line.w, r.line.run = w, r
	w.table.add(r)
	switch reason := w.refuses(); {
	case reason != "":
		w.handBack(r, reason)
	case w.table.full(r.reg):
		w.handBack(r, "no_slot") // and gets nothing until the engine has heard what runs
		w.session.Ask()
		w.session.wake()
	case !w.table.share.take():
		w.hold(r)
	default:
		w.begin(r, now)
	}
}

// begun has the start of a run reported, unless it ends at once. REQUIRES: mu.
func (b *receiver) begun(r *run) {
	b.started = append(b.started, r)
	if len(b.started) > 1 {
		return
	}
	if b.timer == nil {
		b.timer = time.AfterFunc(startAfter, b.report)
		return
	}
	b.timer.Reset(startAfter)
}

// report reports the starts that are due.
func (b *receiver) report() {
	b.w.mu.Lock()
	defer b.w.unlock()
	now, n := time.Now(), 0
	var due []*report
	for _, r := range b.started {
		if r.state == running && now.Sub(r.received) < startAfter {
			break
		}
		if n++; r.state == running && !r.letGo {
			due = append(due, b.w.reports.of(r, wire.Report{Event: wire.ReportStart}))
		}
	}
	left := copy(b.started, b.started[n:])
	clear(b.started[left:])
	if b.started = b.started[:left]; left > 0 {
		b.timer.Reset(max(startAfter-now.Sub(b.started[0].received), time.Millisecond/4))
	}
	b.w.reports.add(due...)
}
