package dispatcher

import (
	"slices"
	"time"

	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/dispatcher/readyq"
	"github.com/streamwright/streamwright/dispatcher/seats"
	"github.com/streamwright/streamwright/dispatcher/table"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector"
	"github.com/streamwright/streamwright/wire"
)

// A worker that has offered an inbox does not pull and does not claim. As soon as it has a
// slot free, the loop decides the claim of the best item for it, in the batch in which the
// slot was freed or the item was made, and sends the item once that is durable. The message
// is not stored anywhere: if it is lost, the item is not reported as started in time, and
// goes back. From its decision on, an assigned item counts as claimed, and its worker's
// heartbeats keep its lease.

// startWithin is the longest from an assignment to the report that the item has started.
const startWithin = 5 * time.Second

// maxFresh bounds the items of a batch that may be assigned in it.
const maxFresh = 1024

// assigner gives items to the workers that have offered an inbox. Owned by the loop.
type assigner struct {
	l     *loop
	seats *seats.Seats
	// fresh holds items that were queued by decisions that are not durable yet, and so
	// are in no queue.
	fresh []events.ID
}

// assign decides that a worker runs an item, if one with an inbox has a slot free for it.
// taken says that the item is the worker's, or needs none. REQUIRES: room.
func (a *assigner) assign(it *events.Item, lane string, set *events.TypeSettings, now time.Time) (taken bool, err error) {
	seat := a.seats.Choose(lanes.Key{Type: it.Type, Name: lane}, seats.MostFree, "")
	if seat == nil {
		return false, nil
	}
	l := a.l
	l.sender.tokens++
	tok := events.NewToken(l.state.Meta().Epoch, l.sender.tokens)
	id := it.ID
	_, run, err := l.decide(core.Claim{ID: id, Token: tok, Worker: seat.Worker, Dispatched: tok, StartWithin: startWithin})
	if err != nil {
		return false, err
	}
	d := &table.Dispatch{
		ID: id, Token: tok, Type: run.Type, Lane: lane, Group: run.Group, At: now, Lease: set.Lease(),
		Claimed: true, Worker: seat.Worker, Inbox: seat.Inbox, Orphan: true, Heard: now,
	}
	l.table.Add(d)
	l.leases.nextOrphan = clock.Sooner(l.leases.nextOrphan, now.Add(l.leases.leaseOf(d)))
	l.pipe.building.granted = append(l.pipe.building.granted, d)
	if h := l.cfg.Hooks.Dispatched; h != nil {
		h(d.Type)
	}
	return true, nil
}

// queued notes an item that a decision has queued.
func (a *assigner) queued(it *events.Item) {
	if a.seats.FreeAll() > 0 && len(a.fresh) < maxFresh {
		a.fresh = append(a.fresh, it.ID)
	}
}

// assignFresh assigns items in the batch that makes them, where nothing else waits that
// could go first.
func (a *assigner) assignFresh() error {
	if len(a.fresh) == 0 {
		return nil
	}
	l, now := a.l, a.l.clock.Now()
	defer func() { a.fresh = a.fresh[:0] }()
	type candidate struct {
		it   *events.Item
		td   *typeDispatch
		rank readyq.Rank
	}
	var list []candidate
	tds := map[events.Type]*typeDispatch{}
	for _, id := range a.fresh {
		it, err := l.state.Item(id)
		if err != nil {
			return err
		}
		if it == nil || it.State != events.StateQueued || it.AvailableAt.After(l.clock.Due()) || l.table.ByID[id] != nil {
			continue
		}
		td := tds[it.Type]
		if td == nil {
			td = l.sender.dispatchOf(it.Type, now)
			tds[it.Type] = td
		}
		if td.pool == nil && !td.set.Native() && l.ready.Empty(it.Type) {
			list = append(list, candidate{it, td, readyq.RankOf(it.Priority, td.pick.AgeStep, projector.ReadyKeyOf(it))})
		}
	}
	slices.SortStableFunc(list, func(x, y candidate) int {
		switch {
		case x.rank > y.rank:
			return -1
		case x.rank < y.rank:
			return 1
		}
		return 0
	})
	for _, c := range list {
		if a.seats.FreeAll() == 0 || !l.pipe.room() || l.table.Total() >= l.cfg.MaxRunning {
			return nil
		}
		key := lanes.Key{Type: c.it.Type, Name: c.it.Lane()}
		if a.seats.Free(key) <= 0 {
			continue
		}
		if open, err := l.sender.open(c.td, c.it.Group); !open {
			if err != nil {
				return err
			}
			continue
		}
		if _, err := a.assign(c.it, key.Name, &c.td.set, now); fatal(err) != nil {
			return err
		}
	}
	return nil
}

// send sends the assignments of a batch that is durable.
func (a *assigner) send(granted []*table.Dispatch) error {
	for _, d := range granted {
		if a.l.table.ByToken[d.Token] != d || d.Lingering {
			continue
		}
		it, err := a.l.state.Item(d.ID)
		if err != nil {
			return err
		}
		if it == nil || it.Token != d.Token || it.State != events.StateClaimed {
			continue // what ended it is decided, and lets go of it
		}
		params, err := a.l.state.Params(d.ID)
		if err != nil {
			return err
		}
		a.l.out.Assign(d, it, params)
	}
	if len(granted) > 0 {
		a.l.out.FlushAssigned()
	}
	return nil
}

// registryChanged follows the registered workers. What a worker that has left was given
// and has not begun goes back at once.
func (a *assigner) registryChanged() error {
	left := a.seats.Set(a.l.workforce.registry.Seats(), func(fn func(events.WorkerID, events.Type, int)) {
		for h, n := range a.l.table.Held.By {
			fn(h.Worker, h.Lane.Type, n)
		}
	})
	if len(left) == 0 {
		return nil
	}
	for d := range inOrder(a.l.table.ByToken) {
		if d.Inbox == "" || !slices.Contains(left, d.Worker) {
			continue
		}
		if seat := a.seats.Of(d.Worker); seat != nil && seat.Inbox == d.Inbox {
			continue
		}
		if err := a.takeBack(d, "worker_gone", wire.RecoveryWorkerGone); err != nil {
			return err
		}
	}
	return nil
}

// takeBack hands an item back that was assigned and is not known to have started. If the
// batch has no room, the item's own timer does so.
func (a *assigner) takeBack(d *table.Dispatch, reason, why string) error {
	it, err := a.l.state.Item(d.ID)
	if err != nil || it == nil || it.Token != d.Token || it.State != events.StateClaimed || !a.l.pipe.room() {
		return err
	}
	_, _, err = a.l.decide(core.Release{Run: core.Run{ID: d.ID, Token: d.Token, Worker: d.Worker}, Reason: reason})
	if err != nil {
		return fatal(err)
	}
	a.l.flight.letGo(d)
	a.l.flight.returned(d.Type, why, 1)
	return nil
}

// heard follows a worker's heartbeat.
func (a *assigner) heard(w events.WorkerID, runs map[events.Token]bool) error {
	if a.seats.Heard(w) {
		for _, t := range a.l.state.TypeNames() {
			a.l.sender.dirty[t] = true
		}
	}
	return nil
}

// ended follows a worker's report that it has let go of a run: its slot is free at once.
func (a *assigner) ended(d *table.Dispatch) {
	if d != nil && d.Inbox != "" && !d.Lingering {
		a.l.flight.letGo(d)
	}
}
