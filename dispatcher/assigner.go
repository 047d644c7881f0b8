package dispatcher

import (
	"bytes"
	"cmp"
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

// assigner gives items to the workers that have offered an inbox. Owned by the loop.
type assigner struct {
	l     *loop
	seats *seats.Seats
	fresh seats.Fresh
	// adopted holds what an earlier owner left claimed and not started.
	adopted []*table.Dispatch
}

// assign decides that a worker runs an item, if one with an inbox has a slot free for it.
// taken is false if the decision is refused. REQUIRES: room in the batch and at a worker;
// the item is queued and not dispatched.
func (a *assigner) assign(it *events.Item, lane string, set *events.TypeSettings, now time.Time) (taken bool, err error) {
	seat := a.seats.Choose(lanes.Key{Type: it.Type, Name: lane})
	l, id := a.l, it.ID
	l.sender.tokens++
	tok := events.NewToken(l.state.Meta().Epoch, l.sender.tokens)
	_, run, err := l.decide(core.Claim{ID: id, Token: tok, Worker: seat.Worker, Dispatched: tok, StartWithin: startWithin})
	if err != nil {
		if events.CodeOf(err) == events.CodeStaleToken {
			return true, nil // it has expired: its timer ends it
		}
		a.seats.Rest(seat.Worker)
		return false, fatal(err)
	}
	d := &table.Dispatch{
		ID: id, Token: tok, Type: run.Type, Lane: lane, Group: run.Group, At: now, Lease: set.Lease(), Priority: run.Priority,
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

// queued notes that a decision has queued an item.
func (a *assigner) queued(id events.ID) {
	if at := a.l.state.Meta().Applied; a.seats.FreeAll() > 0 {
		a.fresh.Add(id, at)
	} else {
		a.fresh.Pass(at)
	}
}

// assignFresh assigns items in the batch that makes them, where nothing waits that goes
// first: what is ready has been looked at before.
func (a *assigner) assignFresh() error {
	if a.seats.FreeAll() == 0 || a.l.sender.stalled {
		return nil
	}
	now := a.l.clock.Now()
	list, err := a.candidates(a.fresh.All(a.l.pipe.appended), now)
	if err != nil {
		return err
	}
	for _, c := range list {
		if a.seats.FreeAll() == 0 || !a.l.pipe.room() || a.l.table.Total() >= a.l.cfg.MaxRunning {
			return nil
		}
		lane := c.it.Lane()
		if a.seats.Free(lanes.Key{Type: c.it.Type, Name: lane}) <= 0 {
			continue
		}
		open, err := a.l.sender.open(c.td, c.it.Group)
		if err != nil {
			return err
		}
		if !open {
			continue
		}
		if _, err := a.assign(c.it, lane, &c.td.set, now); err != nil {
			return err
		}
	}
	return nil
}

// candidate is an item that may be assigned in the batch that makes it.
type candidate struct {
	it   *events.Item
	td   *typeDispatch
	rank readyq.Rank
}

// candidates returns the fresh items that may run, the first by rank first. Types that
// share a pool take their turns among what is ready.
func (a *assigner) candidates(ids []events.ID, now time.Time) (list []candidate, err error) {
	l := a.l
	tds := map[events.Type]*typeDispatch{}
	for _, id := range ids {
		it, err := l.state.Item(id)
		if err != nil {
			return nil, err
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
	slices.SortFunc(list, func(x, y candidate) int {
		return cmp.Or(cmp.Compare(y.rank, x.rank), bytes.Compare(x.it.ID[:], y.it.ID[:]))
	})
	return list, nil
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
		if d.Inbox == "" || !slices.Contains(left, d.Worker) || a.holds(d) {
			continue
		}
		if d.Lingering {
			a.l.flight.letGo(d)
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
	waits, err := a.unstarted(d)
	if err != nil || !waits || !a.l.pipe.room() {
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

// holds reports whether the worker that a dispatch was assigned to is there.
func (a *assigner) holds(d *table.Dispatch) bool {
	seat := a.seats.Of(d.Worker)
	return seat != nil && seat.Inbox == d.Inbox
}

// unstarted reports whether a run is claimed, and not known to have started.
func (a *assigner) unstarted(d *table.Dispatch) (bool, error) {
	it, err := a.l.state.Item(d.ID)
	return err == nil && it != nil && it.Token == d.Token && it.State == events.StateClaimed, err
}

// heard follows a worker's heartbeat. What an earlier owner has assigned to it, and it does
// not know of, goes back at once; of what this one has, the message may be on its way.
func (a *assigner) heard(w events.WorkerID, runs map[events.Token]bool) error {
	if a.seats.Of(w) == nil {
		return nil
	}
	if a.seats.Heard(w) {
		for _, t := range a.l.state.TypeNames() {
			a.l.sender.dirty[t] = true
		}
	}
	var rest []*table.Dispatch
	for _, d := range a.adopted {
		if a.l.table.ByToken[d.Token] != d {
			continue
		}
		if d.Worker != w {
			rest = append(rest, d)
		} else if !runs[d.Token] {
			if err := a.takeBack(d, "not_started", wire.RecoveryUnclaimed); err != nil {
				return err
			}
		}
	}
	a.adopted = rest
	return nil
}

// reported follows a worker's report, which was granted, that it has let go of a run: its
// slot is free from the decision on.
func (a *assigner) reported(d *table.Dispatch) {
	if d != nil && d.Inbox != "" && !d.Lingering {
		a.l.flight.letGo(d)
	}
}

// begin decides the start of an assigned run of which a later report has come, and none of
// the start. A worker that hands back what it has not begun is given nothing before its
// next heartbeat.
func (a *assigner) begin(d *table.Dispatch, r *wire.Report) error {
	if d == nil || d.Inbox == "" || d.Lingering || string(d.Worker) != r.Worker || d.ID.String() != r.ID {
		return nil
	}
	waits, err := a.unstarted(d)
	if err != nil || !waits {
		return err
	}
	if r.Event == wire.ReportRelease {
		a.seats.Rest(d.Worker)
	}
	if !r.Start || r.Event == wire.ReportClaim {
		return nil
	}
	_, _, err = a.l.decide(core.Start{Run: core.Run{ID: d.ID, Token: d.Token, Worker: d.Worker}})
	return fatal(err)
}
