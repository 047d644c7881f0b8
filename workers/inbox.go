package workers

import (
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/pull"
	"github.com/streamwright/streamwright/wire"
)

// startAfter is how long a run of an assigned item has to end before its start is
// reported. The report of a shorter one says both.
const startAfter = 2 * time.Millisecond

// inbox receives the items that the engine assigns to this worker: it has claimed them,
// so their handlers start at once.
// Guarded by Worker.mu.
type inbox struct {
	w   *Worker
	sub *nats.Subscription
	// fence is from the last heartbeat's reply: an item with a lesser token came too late.
	fence events.Token

	started []*run // their starts are to be reported, oldest first
	timer   *time.Timer
	list    []wire.Assigned // reused
}

// open subscribes to the items of a session.
func (b *inbox) open(session string) error {
	sub, err := b.w.nc.Subscribe(b.w.cfg.Names.RunsOf(session), b.receive)
	if err != nil {
		return fmt.Errorf("subscribe to the session's items: %w", err)
	}
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	b.sub = sub
	return nil
}

// bound says in a registration how many items of each type run at once. REQUIRES: mu.
func (b *inbox) bound(r *wire.Register) {
	for t, reg := range b.w.types {
		if reg.limit > 0 {
			if r.Most == nil {
				r.Most = map[string]int{}
			}
			r.Most[string(t)] = reg.limit
		}
	}
}

// close ends the subscription.
func (b *inbox) close() {
	b.w.mu.Lock()
	sub := b.sub
	b.w.mu.Unlock()
	if sub != nil {
		_ = sub.Unsubscribe() // fails only when the connection is closed
	}
}

// receive takes in a message of assigned items.
func (b *inbox) receive(m *nats.Msg) {
	if !pull.FromEngine(m) {
		return
	}
	w, now := b.w, time.Now()
	w.mu.Lock()
	defer w.unlock()
	var err error
	if b.list, err = wire.DecodeAssigned(b.list[:0], m.Data); err != nil {
		w.log.Error("assigned items can't be read: they go back to the engine", "err", err)
		return
	}
	for i := range b.list {
		b.take(&b.list[i], now)
	}
	clear(b.list)
}

// take starts an assigned item. REQUIRES: mu.
func (b *inbox) take(a *wire.Assigned, now time.Time) {
	w := b.w
	token, err := wire.ParseToken(a.Token)
	var r *run
	if err == nil {
		r, err = assignedRun(a, w.types, now)
	}
	if err != nil {
		w.log.Error("an assigned item can't be run: it goes back to the engine", "item", a.ID, "err", err)
		return
	}
	if token < b.fence || w.table.runs[a.Token] != nil {
		return // it came too late, or twice
	}
	r.line.w, r.line.run = w, r
	w.table.runs[r.msg.Token] = r
	r.state = claiming
	w.table.count(r, 1)
	switch {
	case w.health.unfit():
		w.handBack(r, "unhealthy")
	case w.table.busy() > w.table.concurrency:
		w.handBack(r, "no_slot") // and gets nothing until the engine has heard what runs
		w.session.Ask()
		w.session.wake()
	case a.Ask:
		w.reports.add(w.reports.of(r, wire.Report{Event: wire.ReportClaim, Start: true, Attempt: r.msg.Attempt}))
	default:
		w.granted(r, &wire.Reported{OK: true}, now)
		b.begun(r, now)
	}
}

// assignedRun makes the run of an assigned item.
func assignedRun(a *wire.Assigned, types map[events.Type]*registration, now time.Time) (*run, error) {
	id, err := events.ParseID(a.ID)
	if err != nil {
		return nil, err
	}
	reg := types[events.Type(a.Type)]
	if reg == nil {
		return nil, fmt.Errorf("item %s is of type %q, which this worker has no handler for", id, a.Type)
	}
	lease := events.DefaultLease
	if a.LeaseMS > 0 {
		lease = time.Duration(a.LeaseMS) * time.Millisecond
	}
	r := &run{reg: reg, received: now, contact: now, assigned: true, labels: a.Labels, msg: pull.Message{
		ID: id, RawID: a.ID, Type: a.Type, Token: a.Token, Attempt: a.Attempt, Lease: lease,
		Timeout: time.Duration(a.TimeoutMS) * time.Millisecond, Trace: a.Trace, Params: a.Params,
	}}
	return r, nil
}

// begun has the start of a run reported, unless it ends at once. REQUIRES: mu.
func (b *inbox) begun(r *run, now time.Time) {
	if r.state != running {
		return
	}
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
func (b *inbox) report() {
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
