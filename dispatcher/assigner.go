package dispatcher

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/dispatcher/readyq"
	"github.com/streamwright/streamwright/dispatcher/seats"
	"github.com/streamwright/streamwright/dispatcher/table"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector/ready"
	"github.com/streamwright/streamwright/wire"
)

// As soon as a worker has room, the loop decides the claim of the best item for it, in the
// batch in which the room was freed or the item was made, and sends the item once that is
// durable. The message is not stored anywhere: if it is lost, the item is not reported as
// started in time, and goes back. From its decision on, an assigned item counts as claimed,
// and its worker's heartbeats keep its lease.

// slowAppends is the number of appends whose time is added to the time to start. Three may
// come in between: of the claim, of the worker's last report, and of its next one. A shorter
// lease ends first, and uses an attempt.
const slowAppends = 4

// assigner gives items to registered workers. Owned by the loop.
type assigner struct {
	*decider
	cfg    *Config
	limits *limits
	flight *flight
	leases *leases
	table  *table.Table
	ready  *readyq.Queues
	seats  *seats.Seats
	dirty  dirty
	out    effects

	fresh seats.Fresh
	list  []candidate // see gather
	// adopted holds what an earlier owner left claimed or running, until its worker is
	// heard of.
	adopted []*table.Dispatch
	// spared holds claims of an earlier owner that should have started by now. They are left
	// alone until grace: without an owner, no start could be reported.
	spared []events.ID
	grace  time.Time
}

// assign decides that a worker runs an item.
// taken is false if the decision is refused. REQUIRES: room in the batch and at a worker;
// the item is queued and not dispatched.
func (a *assigner) assign(it *events.Item, lane string, set *events.TypeSettings, now time.Time) (taken bool, err error) {
	seat := a.seats.Choose(lanes.Key{Type: it.Type, Name: lane}, set.AssignBy, it)
	id, tok := it.ID, a.token()
	_, run, err := a.decide(core.Claim{ID: id, Token: tok, Worker: seat.Worker, Slack: slowAppends * a.appendTime()})
	if err != nil {
		if events.CodeOf(err) == events.CodeStaleToken {
			return true, nil // it has expired: its timer ends it
		}
		a.seats.Rest(seat.Worker)
		return false, fatal(err)
	}
	a.seats.Use(seat)
	d := &table.Dispatch{
		ID: id, Token: tok, Type: run.Type, Group: run.Group, At: now, Lease: set.Lease.Duration, Priority: run.Priority,
		Claimed: true, Worker: seat.Worker, Session: seat.Session, Leased: true,
	}
	a.table.Add(d)
	a.leases.begin(d)
	a.grant(d)
	if h := a.cfg.Hooks.Dispatched; h != nil {
		h(d.Type)
	}
	return true, nil
}

// candidate is a fresh item that may be assigned in the batch that queues it.
type candidate struct {
	td    *typeDispatch
	key   ready.Key
	rank  readyq.Rank
	prio  events.Priority
	group string
	lane  string
	given bool
	held  bool // the run that has ended is not gone from the table yet
}

// gather finds the fresh items that may run, for one step. The first by rank comes first.
func (a *assigner) gather() error {
	clear(a.list)
	if a.list = a.list[:0]; a.seats.FreeAll() == 0 || a.fresh.None() {
		return nil
	}
	now := a.clock.Now()
	tds := map[events.Type]*typeDispatch{}
	for id := range a.fresh.All() {
		it, err := a.state.Item(id)
		if err != nil {
			return err
		}
		if it == nil || it.State != events.StateQueued || !a.clock.Reached(it.AvailableAt) {
			continue
		}
		td := tds[it.Type]
		if td == nil {
			td = a.limits.dispatchOf(it.Type, now)
			tds[it.Type] = td
		}
		if !td.set.Ack() && !a.limits.unpooled(td) {
			key := ready.KeyOf(it)
			a.list = append(a.list, candidate{td: td, key: key, rank: readyq.RankOf(it.Priority, td.pick.AgeStep, key), prio: it.Priority, group: it.Group, lane: it.Lane(), held: a.table.ByID[id] != nil})
		}
	}
	slices.SortFunc(a.list, func(x, y candidate) int {
		return cmp.Or(cmp.Compare(y.rank, x.rank), bytes.Compare(x.key.ID[:], y.key.ID[:]))
	})
	return nil
}

// before returns a fresh item that goes before the head of what is ready, nil for none: it
// was released, say, and keeps its place. If that item can't be assigned yet, its type waits
// for it. Groups take their turns among what is ready.
func (a *assigner) before(td *typeDispatch, b *readyq.Head) (*candidate, error) {
	for i := range a.list {
		c := &a.list[i]
		if c.rank < b.Rank || c.rank == b.Rank && !c.key.Less(b.Key) {
			return nil, nil
		}
		if c.given || c.td.typ != td.typ || a.seats.Free(lanes.Key{Type: td.typ, Name: c.lane}) == 0 {
			continue
		}
		if c.prio == b.Priority() && c.group != b.Group() {
			continue // its group's turn comes
		}
		if c.prio != b.Priority() && !a.ready.Leads(ready.Queue{Type: td.typ, Lane: c.lane, Priority: c.prio}, c.group, c.key) {
			continue // another of its group goes first, when it is that one's turn
		}
		if open, err := a.limits.open(td, c.group); err != nil || open {
			return c, err
		}
	}
	return nil, nil
}

// give assigns a candidate, if it still waits. REQUIRES: as assign.
func (a *assigner) give(c *candidate, now time.Time) error {
	c.given = true
	it, err := a.state.Item(c.key.ID)
	if err != nil || it == nil || it.State != events.StateQueued || a.table.ByID[it.ID] != nil {
		return err
	}
	_, err = a.assign(it, c.lane, &c.td.set, now)
	return err
}

// assignFresh assigns items in the batch that makes them, where nothing waits that goes
// first: what is ready has been looked at before. Types that share a pool, and groups that
// have limits, take their turns among what is ready.
func (a *assigner) assignFresh() error {
	now := a.clock.Now()
	if !a.fresh.Whole(a.pipe.appended) {
		return nil
	}
	for i := range a.list {
		c := &a.list[i]
		if a.seats.FreeAll() == 0 || !a.room() || a.limits.full() {
			return nil
		}
		if c.held { // what follows it must not overtake it
			c.td.waits = true
		}
		if c.given || c.td.waits || c.td.pool != nil || c.td.pick.Open != nil || a.seats.Free(lanes.Key{Type: c.td.typ, Name: c.lane}) == 0 || !a.ready.Empty(c.td.typ) {
			continue
		}
		if open, err := a.limits.open(c.td, c.group); err != nil {
			return err
		} else if !open {
			continue
		}
		if err := a.give(c, now); err != nil {
			return err
		}
	}
	return nil
}

// send sends the assignments of a batch that is durable.
func (a *assigner) send(granted []*table.Dispatch) error {
	for _, d := range granted {
		if a.table.ByToken[d.Token] != d || d.Lingering {
			continue
		}
		it, err := a.state.Item(d.ID)
		if err != nil {
			return err
		}
		if it == nil || it.Token != d.Token || it.State != events.StateClaimed {
			continue // what ended it is decided, and lets go of it
		}
		params, err := a.state.Params(d.ID)
		if err != nil {
			return err
		}
		left, err := a.left(it)
		if err != nil {
			return err
		}
		d.Sent = true
		a.out.Assign(d, it, params, &left)
	}
	if len(granted) > 0 {
		a.out.FlushAssigned()
	}
	return nil
}

// left returns what earlier runs of an item have left for the next one.
func (a *assigner) left(it *events.Item) (left wire.Left, err error) {
	if it.HasCheckpoint {
		if left.Checkpoint, err = a.state.Document(events.DocCheckpoint, it.ID); err != nil {
			return left, err
		}
	}
	if r := it.Relations; r != nil && r.HasChildren {
		doc, err := a.state.Document(events.DocOutcomes, it.ID)
		if err != nil {
			return left, err
		}
		left.Continuation = &wire.Continuation{Name: r.Continuation, Children: doc}
	}
	w := it.Waited()
	if w == nil {
		return left, nil
	}
	left.Waited = &wire.EndedWait{Ended: w.Ended}
	given, err := a.state.Given(it)
	if err == nil && len(given) > 0 {
		left.Waited.Signals, err = json.Marshal(given)
	}
	return left, err
}

// registryChanged takes in the seats of the registered workers. What a worker that has left
// was given and has not begun goes back at once.
func (a *assigner) registryChanged(list []seats.Seat) error {
	left := a.seats.Set(list, func(fn func(events.WorkerID, string, events.Type, int)) {
		for h, n := range a.table.Held.By {
			fn(h.Worker, h.Session, h.Type, n)
		}
	})
	if len(left) == 0 {
		return nil
	}
	for d := range table.InOrder(a.table.ByToken) {
		if d.Session == "" || !slices.Contains(left, d.Worker) || a.seats.Holds(d.Worker, d.Session) {
			continue
		}
		if d.Lingering {
			a.flight.letGo(d)
			continue
		}
		if err := a.takeBack(d, "worker_gone", wire.RecoveryWorkerGone); err != nil {
			return err
		}
	}
	return nil
}

// offered follows a worker's offer.
func (a *assigner) offered(w events.WorkerID, session string, room int) {
	seat := a.seats.Of(w)
	if seat == nil || seat.Session != session || !a.seats.Offered(w, room) {
		return
	}
	for _, t := range seat.Types {
		a.dirty.mark(events.Type(t))
	}
}

// takeBack hands an item back that was assigned and is not known to have started. If the
// batch has no room, the item's own timer does so.
func (a *assigner) takeBack(d *table.Dispatch, reason, why string) error {
	waits, err := a.unstarted(d)
	if err != nil || !waits || !a.room() {
		return err
	}
	_, _, err = a.decide(core.Release{Run: core.Run{ID: d.ID, Token: d.Token, Worker: d.Worker}, Reason: reason})
	if err != nil {
		return fatal(err)
	}
	a.flight.letGo(d)
	a.flight.returned(d.Type, why, 1)
	return nil
}

// unstarted reports whether a run is claimed, and not known to have started.
func (a *assigner) unstarted(d *table.Dispatch) (bool, error) {
	it, err := a.state.Item(d.ID)
	return err == nil && it != nil && it.Token == d.Token && it.State == events.StateClaimed, err
}

// heard follows a worker's heartbeat. A worker whose offer is not known is asked to register
// again, and to repeat it. What an earlier owner has assigned to it, and it does
// not know of, goes back at once if it has not started, and otherwise was begun in an
// earlier life of the worker. Of what this owner has assigned, the message may be on its
// way.
func (a *assigner) heard(w events.WorkerID, runs map[events.Token]bool) error {
	seat := a.seats.Of(w)
	if seat == nil {
		return nil
	}
	if a.seats.Heard(w) {
		a.dirty.mark(a.state.TypeNames()...)
	}
	if a.seats.Unknown(w) { // else it would wait for ever
		a.out.Control(w, wire.Control{Register: true})
	}
	rest := a.adopted[:0]
	for _, d := range a.adopted {
		switch {
		case a.table.ByToken[d.Token] != d || d.Lingering:
		case d.Worker != w:
			rest = append(rest, d)
		case runs[d.Token]:
			a.table.Inherit(d, seat.Session)
		default:
			if err := a.takeBack(d, "not_started", wire.RecoveryUnclaimed); err != nil {
				return err
			}
			if a.table.ByToken[d.Token] == d {
				a.table.Inherit(d, earlierLife)
				a.dirty.mark(a.state.TypeNames()...) // its slot is free
			}
		}
	}
	clear(a.adopted[len(rest):])
	a.adopted = rest
	return nil
}

// spares reports whether an item that was claimed under an earlier owner stays with its
// worker although its time to start has passed, and notes it for endGrace.
func (a *assigner) spares(it *events.Item) bool {
	if !a.inherited(it) || !a.grace.After(a.clock.Now()) {
		return false
	}
	a.spared = append(a.spared, it.ID)
	return true
}

func (a *assigner) inherited(it *events.Item) bool {
	return it != nil && it.State == events.StateClaimed && it.Token < events.NewToken(a.state.Meta().Epoch, 0)
}

// nextGrace returns when endGrace has something to do; zero for never.
func (a *assigner) nextGrace() time.Time {
	if len(a.spared) == 0 {
		return time.Time{}
	}
	return a.grace
}

// endGrace takes back what has been spared and has not started since, up to maxDue items.
func (a *assigner) endGrace(now time.Time) error {
	for range maxDue {
		if len(a.spared) == 0 || a.grace.After(now) || !a.room() {
			return nil
		}
		id := a.spared[0]
		if a.spared = a.spared[1:]; len(a.spared) == 0 {
			a.spared = nil
		}
		it, err := a.state.Item(id)
		if err != nil {
			return err
		}
		if !a.inherited(it) {
			continue
		}
		if _, _, err := a.decide(core.Due{ID: id, Random: random()}); fatal(err) != nil {
			return err
		}
	}
	return nil
}

// earlierLife stands for an earlier session of a worker. No session is called so.
const earlierLife = "-"

// reported follows a worker's report, which was granted, that it has let go of a run: its
// slot is free from the decision on.
func (a *assigner) reported(d *table.Dispatch) {
	if d != nil && d.Session != "" && !d.Lingering {
		a.flight.letGo(d)
	}
}

// begin decides the start of a run of which a later report has come, and none of
// the start. A worker that hands back what it has not begun is given nothing before its
// next heartbeat.
func (a *assigner) begin(d *table.Dispatch, r *wire.Report) error {
	if d == nil || d.Lingering || string(d.Worker) != r.Worker || d.ID.String() != r.ID {
		return nil
	}
	waits, err := a.unstarted(d)
	if err != nil || !waits {
		return err
	}
	if r.Event == wire.ReportRelease {
		a.seats.Rest(d.Worker)
	}
	if !r.Start {
		return nil
	}
	_, _, err = a.decide(core.Start{Run: core.Run{ID: d.ID, Token: d.Token, Worker: d.Worker}})
	return fatal(err)
}
