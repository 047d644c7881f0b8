package dispatcher

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/streamwright/streamwright/dispatcher/table"
	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector"
)

// oracle reads what is agreed on as soon as it is, and holds it against what must be true
// at each event, and against what people were told.
type oracle struct {
	c       *cluster
	state   *core.State // the fold of the log
	read    uint64      // frames
	through events.Seq
	ends    []events.Seq // ends of decisions
	epochs  []frameEpoch // of the frames
	skew    []time.Duration

	running   map[events.ID]events.Token
	lives     map[events.ID][]life // oldest first
	tenants   map[events.ID]string
	handed    map[string]int // items created, by their source behind handedBy
	typeOf    map[events.ID]events.Type
	answered  map[uint64]int // messages of the intake
	ticks     map[string]bool
	tokens    map[events.Token]bool
	workerOf  map[events.Token]events.WorkerID // of all claims
	began     map[string][]time.Time
	limited   map[events.Type]events.TypeSettings
	onShelf   map[events.ID]*events.Item // queued, as of through
	lastAt    time.Time
	epoch     events.Epoch
	completed int
	raised    events.Seq         // where the log was raised to the next format level; 0: not
	acked     map[events.ID]bool // by an ack worker
	mail      *mail
	sum       uint64 // of all events
	proved    events.Seq
	digest    string // of the fold of the log up to proved
}

// handedBy begins the source of what another log has handed over: see fleet.
const handedBy = "namespace "

// life is an item from its creation until it is pruned. After that it may be asked for
// again, when nobody knows it any more.
type life struct {
	created, completed, pruned events.Seq   // 0: not yet
	under                      events.Token // it was completed under; 0: by its children
}

// life returns an item's life as of a position; nil: there is no such item.
func (o *oracle) life(id events.ID, at events.Seq) *life {
	lives := o.lives[id]
	for i := range lives {
		if v := &lives[i]; v.created <= at && (v.pruned == 0 || at < v.pruned) {
			return v
		}
	}
	return nil
}

// frameEpoch says who wrote a frame.
type frameEpoch struct {
	seq   uint64
	epoch events.Epoch
}

func newOracle(c *cluster) *oracle {
	state, err := core.NewState(core.Empty{})
	if err != nil {
		panic(err)
	}
	set := events.DefaultTypeSettings()
	set.Backoff.Jitter = 0
	state.SetDefaults(set)
	c.failed(state.SetFormatLevel(nextLevel))
	return &oracle{c: c, acked: map[events.ID]bool{}, mail: newMail(), state: state, skew: make([]time.Duration, 5), running: map[events.ID]events.Token{}, lives: map[events.ID][]life{}, tenants: map[events.ID]string{}, handed: map[string]int{},
		typeOf: map[events.ID]events.Type{}, answered: map[uint64]int{}, ticks: map[string]bool{}, tokens: map[events.Token]bool{}, workerOf: map[events.Token]events.WorkerID{},
		began: map[string][]time.Time{}, limited: map[events.Type]events.TypeSettings{}, onShelf: map[events.ID]*events.Item{}}
}

// look reads on.
func (o *oracle) look() {
	last, _ := o.c.log.End()
	if last == o.read || o.c.failure != nil {
		return
	}
	err := o.c.log.Replay(context.Background(), o.read+1, last, nil, func(f eventlog.Frame) error {
		counts, err := o.state.Frame(f.Seq, f.Epoch, f.Before)
		if !counts || err != nil {
			o.c.figures.stale++
			return err
		}
		o.epochs = append(o.epochs, frameEpoch{f.Seq, f.Epoch})
		for _, ev := range f.Events {
			if err := o.event(ev); err != nil {
				return fmt.Errorf("event %d, %s of %s: %w", ev.Seq, ev.Kind, ev.ID, err)
			}
		}
		o.through = f.Last()
		o.ends = append(o.ends, o.through)
		o.sum = o.sum*31 + f.Checksum
		return o.mail.frame()
	})
	o.read = last
	o.c.failed(err)
}

// event takes the next event of the log.
func (o *oracle) event(ev events.Event) error {
	if err := o.state.Apply(ev); err != nil {
		return err
	}
	if o.c.verbose != nil {
		o.c.trace("          %d %s %s %s %s", ev.Seq, ev.Kind, ev.ID, ev.Worker, ev.At.Sub(simStart))
	}
	if own, ok := ev.Body.(*events.Owned); !ok || own.Clock == nil {
		if ev.At.Before(o.lastAt) {
			return fmt.Errorf("its time is %s, before %s", ev.At, o.lastAt)
		}
	}
	o.lastAt = ev.At
	if err := o.item(ev); err != nil {
		return err
	}
	if err := o.mail.event(ev); err != nil {
		return err
	}
	if !ev.ID.IsZero() {
		it, err := o.state.Item(ev.ID)
		if err != nil {
			return err
		}
		delete(o.onShelf, ev.ID)
		if it != nil && it.State == events.StateQueued {
			o.onShelf[ev.ID] = it
		}
	}
	return nil
}

func (o *oracle) item(ev events.Event) error {
	switch b := ev.Body.(type) {
	case *events.Owned:
		if b.Epoch < o.epoch || b.Epoch == o.epoch && !b.Barrier {
			return fmt.Errorf("epoch %d begins behind epoch %d", b.Epoch, o.epoch)
		}
		o.epoch = b.Epoch
	case *events.Created:
		if o.life(ev.ID, ev.Seq) != nil {
			return fmt.Errorf("the item is created twice")
		}
		o.lives[ev.ID] = append(o.lives[ev.ID], life{created: ev.Seq})
		o.tenants[ev.ID], o.typeOf[ev.ID] = b.Tenant, ev.Type
		if key, is := strings.CutPrefix(b.Provenance.Source, handedBy); is {
			o.handed[key]++
		}
		return o.answer(b.Intake)
	case *events.Rejected:
		return o.answer(b.Intake)
	case *events.ScheduleFired:
		key := b.Name + " " + b.Tick.String()
		if o.ticks[key] {
			return fmt.Errorf("tick %s is answered twice", key)
		}
		o.ticks[key] = true
	case *events.TypeConfigured:
		o.limited[ev.Type] = b.Settings
	case *events.FormatRaised:
		o.raised = ev.Seq
		o.c.figures.raised++
	case *events.Pruned:
		v := o.life(ev.ID, ev.Seq)
		if v == nil {
			return fmt.Errorf("there is no such item")
		}
		v.pruned = ev.Seq
	case *events.Claimed:
		return o.claim(ev, b)
	case *events.Completed:
		v := o.life(ev.ID, ev.Seq)
		if v == nil || v.completed > 0 {
			return fmt.Errorf("the item is completed a second time")
		}
		if ev.Type == ackType && !o.acked[ev.ID] {
			return fmt.Errorf("the item is completed, and no worker has acked it")
		}
		v.completed, v.under = ev.Seq, o.running[ev.ID]
		o.completed++
		delete(o.running, ev.ID)
	case *events.Failed, *events.Released, *events.Cancelled, *events.Spawned, *events.Snoozed, *events.Parked:
		delete(o.running, ev.ID)
	}
	return nil
}

func (o *oracle) answer(in events.Intake) error {
	if in.Seq == 0 {
		return nil
	}
	if o.answered[in.Seq]++; o.answered[in.Seq] > 1 {
		return fmt.Errorf("intake message %d is answered twice", in.Seq)
	}
	return nil
}

// claim checks that a claim is the only one, of this ownership, and within all limits.
func (o *oracle) claim(ev events.Event, b *events.Claimed) error {
	if tok := o.running[ev.ID]; tok != 0 {
		return fmt.Errorf("claimed under %s while it runs under %s", b.Token, tok)
	}
	if o.tokens[b.Token] {
		return fmt.Errorf("token %s is claimed a second time", b.Token)
	}
	if epoch := events.Epoch(b.Token >> 40); epoch != o.epoch && (ev.Type != ackType || epoch > o.epoch) { // an ack message outlives its owner
		return fmt.Errorf("token %s of epoch %d is claimed in epoch %d", b.Token, epoch, o.epoch)
	}
	o.running[ev.ID], o.tokens[b.Token], o.workerOf[b.Token] = b.Token, true, ev.Worker
	if ev.Type == ackType {
		return nil
	}
	set := o.limited[ev.Type]
	n, all, group := 0, 0, 0
	for id := range o.running {
		all++
		if o.typeOf[id] == ev.Type {
			n++
			if o.tenants[id] == o.tenants[ev.ID] {
				group++
			}
		}
	}
	pool := o.c.people.limits.Pools[set.Pool]
	switch {
	case set.Capacity > 0 && n > set.Capacity:
		return fmt.Errorf("%d of type %s run, of at most %d", n, ev.Type, set.Capacity)
	case all > 12:
		return fmt.Errorf("%d run, of at most 12", all)
	case o.tenants[ev.ID] != "" && set.GroupCapacity > 0 && group > set.GroupCapacity:
		return fmt.Errorf("%d of tenant %s run, of at most %d", group, o.tenants[ev.ID], set.GroupCapacity)
	case set.Pool != "" && n > pool.Slots:
		return fmt.Errorf("%d run in the pool, of at most %d", n, pool.Slots)
	}
	if len(set.Rates) > 0 {
		o.began[""] = append(o.began[""], ev.At)
		if t := o.tenants[ev.ID]; t != "" {
			o.began[t] = append(o.began[t], ev.At)
		}
	}
	return nil
}

// appended checks that what a node has appended is where it was told.
func (o *oracle) appended(n *clusterNode, r appendResult) {
	o.look()
	if o.raised > 0 && r.res.Last > o.raised && n.reads < nextLevel {
		o.c.failf("n%d, which reads level %d, has appended %d to a log that was raised at %d", n.n, n.reads, r.res.Last, o.raised)
	}
	if r.res.Last > o.c.logEnd() || o.c.log.ChecksumAt(r.res.Last.Frame()) != r.res.Checksum {
		o.c.failf("n%d was told that its events are stored up to %d, and they are not", n.n, r.res.Last)
	}
}

// fed checks what a node tells the live feed: a frame that is in the log, behind the last.
func (o *oracle) fed(n *clusterNode, seq uint64, after events.Seq, lines []byte) {
	o.look()
	o.c.figures.fed++
	if last, _ := o.c.log.End(); seq > last || o.c.log.ChecksumAt(seq) != events.Checksum(lines) {
		o.c.failf("n%d tells the feed frame %d, which is not in the log", n.n, seq)
		return
	}
	i, _ := slices.BinarySearch(o.ends, events.SeqOf(seq, 0))
	if after > 0 && (i == 0 || o.ends[i-1] != after) {
		o.c.failf("n%d tells the feed that frame %d comes behind %d", n.n, seq, after)
	}
}

// told checks an answer that a node gives: all it says is in the log, and it knew all that
// was there when the question was asked, at the position asked.
func (o *oracle) told(n *clusterNode, l *loop, asked events.Seq, pos events.Seq, what string) {
	o.c.figures.answers++
	last := o.c.logEnd()
	switch {
	case pos > last:
		o.c.failf("n%d answers %s of position %d, and the log ends at %d", n.n, what, pos, last)
	case l.pipe.appended < asked && !o.foreignOnly(l.pipe.appended, asked):
		o.c.failf("n%d answers %s as of position %d: when it was asked the log ended at %d", n.n, what, l.pipe.appended, asked)
	}
}

// logEnd is behind every event of the log.
func (c *cluster) logEnd() events.Seq {
	last, _ := c.log.End()
	return events.SeqOf(last, eventlog.MaxEvents)
}

// foreignOnly reports whether no decision ends between two positions.
func (o *oracle) foreignOnly(after, to events.Seq) bool {
	i, _ := slices.BinarySearch(o.ends, after+1)
	return i == len(o.ends) || o.ends[i] > to
}

// assigned checks what is sent to a worker: the log says that this worker has
// claimed it, no other item of its priority that could go was queued before it, and the
// owner has a slot taken for each run.
func (o *oracle) assigned(n *clusterNode, d *table.Dispatch, it *events.Item) {
	o.look()
	l := n.l
	switch {
	case l == nil || o.c.failure != nil:
		return
	case o.workerOf[d.Token] != d.Worker:
		o.c.failf("n%d sends %s to %s under %s: the log has this claim of %q", n.n, it.ID, d.Worker, d.Token, o.workerOf[d.Token])
		return
	case l.pipe.appended != o.through || l.state.Meta().Applied != o.through || l.clock.Doubtful():
		return // it does not know yet what the log has, or has decided more
	}
	for id, tok := range o.running {
		if tok != 0 && l.table.ByToken[tok] == nil {
			o.c.failf("n%d does not know that %s runs under %s", n.n, id, tok)
			return
		}
	}
	for id, other := range o.onShelf {
		if other.Type == it.Type && other.Priority == it.Priority && other.Group == it.Group && other.OrderAt.Before(it.OrderAt) && other.AvailableAt.Before(it.OrderAt) &&
			other.Seq < it.Seq && l.table.ByID[id] == nil {
			o.c.failf("n%d assigns %s of %s, and %s of %s waits", n.n, it.ID, it.OrderAt.Sub(simStart), id, other.OrderAt.Sub(simStart))
			return
		}
	}
}

// unfinished counts the items that have not ended.
func (o *oracle) unfinished() (n int64) {
	for _, t := range o.state.TypeNames() {
		info, _ := o.state.Type(t)
		for st := range events.ItemState(events.NumStates) {
			if !st.Terminal() {
				n += info.Counts[st]
			}
		}
	}
	return n
}

// final checks what must be true in the end.
func (o *oracle) final() {
	c := o.c
	for id := range c.people.accepted {
		if len(o.lives[id]) == 0 {
			c.failf("submission %s was accepted, and is not in the log", id)
		}
	}
	c.failed(o.mail.atEnd(o.state))
	c.figures.mail = o.mail.counts
	for i := range c.world.intake {
		if n := o.answered[uint64(i+1)]; n != 1 {
			c.failf("intake message %d was answered %d times", i+1, n)
		}
	}
	for _, r := range c.people.set.Rates {
		for _, tenant := range slices.Sorted(maps.Keys(o.began)) {
			if (r.Per == events.PerType) == (tenant == "") {
				if err := rateKept(r, o.began[tenant]); err != nil {
					c.failf("tenant %q: %w", tenant, err)
				}
			}
		}
	}
}

// sameAsLog compares a node's store with the fold of the log up to its position.
func (o *oracle) sameAsLog(n *clusterNode) {
	c := o.c
	if n.store == nil || n.moving || n.store.Applied() == 0 || c.failure != nil {
		return
	}
	c.figures.checks++
	at := n.store.Applied()
	got, err := n.store.Digest(context.Background())
	c.failed(err)
	if at == o.proved && got == o.digest {
		return
	}
	want := c.asOf(at)
	if want == nil {
		return
	}
	defer func() { c.failed(want.Close()) }()
	o.proved = at
	o.digest, err = want.Digest(context.Background())
	c.failed(err)
	if o.digest != got {
		diff, _ := projector.Diff(context.Background(), n.store, want, 5)
		c.failf("the store of n%d is not the fold of the log up to %d: %s", n.n, at, strings.Join(diff, "; "))
	}
}
