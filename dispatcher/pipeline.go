package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/streamwright/streamwright/dispatcher/feed"
	"github.com/streamwright/streamwright/dispatcher/outflow"
	"github.com/streamwright/streamwright/dispatcher/table"
	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// pipeline moves decisions from the batch being built to the log, to the projection, and to
// those who wait for an answer. Its fields belong to the loop; the goroutines append,
// commit and reply use only the channels.
type pipeline struct {
	cfg   *Config
	state *core.State
	// told is called with the partition's record as of the last durable event.
	told func(events.Meta)

	building    *batch
	rest        []events.Event // of a decision in parts, for the next batches
	spare       []events.Event // reused by the next batch
	appending   bool
	appended    events.Seq    // last durable event
	most        int           // bytes of a frame
	took        time.Duration // the last append
	unprojected []*batch      // appended and not yet projected, oldest first
	behind      int           // bytes of unprojected
	outflow     outflow.Meter // measures how items leave their queues
	feed        teller        // nil: nothing is told

	toAppend chan *batch
	results  chan appendResult
	toCommit chan *batch
	commits  chan commitResult
	toReply  chan []job
}

// teller is the live feed: see [feed.Feed.Tell].
type teller interface {
	Tell(seq uint64, after events.Seq, names []feed.Name, lines []byte)
}

// batch is a run of decisions that is appended as one frame.
type batch struct {
	after   uint64 // the frame that it follows
	before  uint64 // events in the log before it
	epoch   events.Epoch
	level   int
	events  []events.Event
	bytes   int // of the events, roughly
	changes *core.Changes
	done    []job             // jobs whose last command is in this batch
	granted []*table.Dispatch // assigned in this batch, to be sent once it is durable
	confirm bool              // an answer depends on the ownership, and no event proves it
}

// write is the frame that a batch becomes.
func (b *batch) write(owner string) *eventlog.Write {
	return &eventlog.Write{Epoch: b.epoch, Node: owner, Level: b.level, Before: b.before, Events: b.events}
}

type appendResult struct {
	b     *batch
	res   eventlog.Appended
	names []feed.Name // of the events; nil without a feed
	took  time.Duration
	err   error
}

type commitResult struct {
	batches int // batches committed together
	seq     events.Seq
	err     error
}

func newPipeline(cfg *Config, state *core.State, last events.Seq) *pipeline {
	return &pipeline{
		most: eventlog.FrameBytes(cfg.MaxPayload),
		cfg:  cfg, state: state, told: func(events.Meta) {}, building: &batch{after: last.Frame()}, appended: last,
		toAppend: make(chan *batch, 1), results: make(chan appendResult, 1),
		toCommit: make(chan *batch, MaxUnprojected), commits: make(chan commitResult, MaxUnprojected),
		toReply: make(chan []job, maxReplies),
	}
}

func (p *pipeline) idle() bool {
	return !p.appending && len(p.unprojected) == 0 && len(p.building.events) == 0 && len(p.rest) == 0 && len(p.building.done) == 0
}

// room reports whether another decision fits into the batch being built.
func (p *pipeline) room() bool { return p.roomFor(maxDecision, eventlog.MaxEvents) }

// roomFor reports whether a decision of need events fits into the batch. One that needs
// more than most gets a batch of its own.
func (p *pipeline) roomFor(need, most int) bool {
	have := len(p.building.events)
	return len(p.rest) == 0 && (have+need <= most || have == 0) && p.building.bytes < p.enough()
}

// enough is how many bytes of events a batch has when it takes no further decision.
func (p *pipeline) enough() int { return min(maxBatchBytes, p.most/2) }

// lineBytes is the most that an event takes in a frame.
func lineBytes(ev *events.Event) int { return ev.MaxJSON() + len("\n") }

// errNoRoom puts a decision off to the next batch.
var errNoRoom = errors.New("the batch has no room for the decision")

// fits returns the bytes of a decision. It errs if they are too many for the batch, with a
// refusal if they are too many for any.
func (p *pipeline) fits(evs []events.Event) (n int, err error) {
	for i := range evs {
		n += lineBytes(&evs[i])
	}
	switch {
	case p.building.bytes+n <= p.most:
		return n, nil
	case n <= p.most:
		return n, errNoRoom
	}
	return n, events.Refuse(events.CodeTooLarge, "what it says would make %d events with %d bytes: one decision has at most %d; ask for less at once", len(evs), n, p.most)
}

// add applies events that were just decided, and adds them to the batch, in which they take n
// bytes.
func (p *pipeline) add(evs []events.Event, n int) error {
	b := p.building
	b.bytes += n
	if len(b.events) == 0 {
		b.before = p.state.Meta().Events
	}
	for i := range evs {
		ev := &evs[i]
		ev.Seq = events.SeqOf(b.after+1, len(b.events)+i)
		if err := p.state.Apply(*ev); err != nil {
			return fmt.Errorf("apply what was just decided: %w", err)
		}
		if ev.Kind == events.KindClaimed {
			p.outflow.Left(1, ev.At)
		}
	}
	b.events = append(b.events, evs...)
	return nil
}

// addParts is add for a decision that has parts: what has no room goes into the next
// batches, before anything else is decided.
func (p *pipeline) addParts(evs []events.Event) error {
	p.rest = append(p.rest, evs...)
	return p.addRest()
}

func (p *pipeline) addRest() error {
	for b := p.building; len(p.rest) > 0; {
		n := lineBytes(&p.rest[0])
		if len(b.events) > 0 && (len(b.events) >= eventlog.MaxEvents || b.bytes+n >= p.enough()) {
			return nil
		}
		if err := p.add(p.rest[:1], n); err != nil {
			return err
		}
		p.rest = p.rest[1:]
	}
	return nil
}

// flush sends the batch to the appender, unless the appender is busy or the projection is
// too far behind.
func (p *pipeline) flush() error {
	b := p.building
	if p.appending || len(p.unprojected) >= MaxUnprojected || p.behind >= maxUnprojectedBytes || (len(b.events) == 0 && len(b.done) == 0) {
		return nil
	}
	if len(b.events) == 0 && (p.cfg.Alone || !b.confirm) {
		p.toReply <- b.done
		b.done, b.confirm = nil, false
		return nil
	}
	m := p.state.Meta()
	b.changes, b.epoch, b.level = p.state.TakeChanges(), m.Epoch, m.Level
	p.appending = true
	p.building = &batch{after: b.after, events: p.spare}
	if len(b.events) > 0 {
		p.building.after++
	}
	p.spare = nil
	p.toAppend <- b
	return p.addRest()
}

// append is the appender goroutine. It ends when its channel is closed.
func (p *pipeline) append(ctx context.Context) {
	for b := range p.toAppend {
		start := time.Now()
		r := appendResult{b: b}
		if len(b.events) == 0 {
			r.err = p.confirmOwner(ctx, b)
		} else {
			r.res, r.err = p.cfg.Log.Append(context.WithoutCancel(ctx), b.after, b.write(p.cfg.Owner))
		}
		if p.feed != nil && r.err == nil {
			r.names = namesOf(b.events)
		}
		r.took = time.Since(start)
		p.results <- r
	}
}

// namesOf returns where events are told.
func namesOf(evs []events.Event) []feed.Name {
	names := make([]feed.Name, len(evs))
	for i := range evs {
		names[i] = feed.Name{Type: evs[i].Type, Kind: evs[i].Kind}
	}
	return names
}

// confirmOwner checks, at the stream's leader, that nobody else has appended: an answer
// that appends nothing is only as good as the ownership behind it. A leader that was cut off
// together with this engine would not know of a new owner, so most servers must agree.
func (p *pipeline) confirmOwner(ctx context.Context, b *batch) error {
	tip, err := p.cfg.Log.Confirm(ctx)
	if err != nil {
		return err
	}
	if tip.Seq != b.after {
		return &eventlog.FencedError{Expected: b.after, Found: tip.Seq, Detail: "asked for the end"}
	}
	return nil
}

// durable notes that a batch is in the log, and has it projected. It reuses the batch's
// event slice, so nothing may refer to that any more.
func (p *pipeline) durable(r appendResult) {
	b := r.b
	if p.feed != nil {
		p.feed.Tell(r.res.Last.Frame(), p.appended, r.names, r.res.Lines)
	}
	p.appended, p.took = r.res.Last, r.took
	p.told(b.changes.Meta)
	b.changes.Checksum = r.res.Checksum
	p.unprojected = append(p.unprojected, b)
	p.behind += b.bytes
	p.toCommit <- b
	if h := p.cfg.Hooks.Appended; h != nil {
		h(len(b.events), len(r.res.Lines), r.took)
	}
	clear(b.events) // what they refer to must not outlive them here
	b.events, p.spare = nil, b.events[:0]
}

// projected notes that the projection has advanced.
func (p *pipeline) projected(c commitResult) error {
	if c.err != nil {
		return fmt.Errorf("project: %w", c.err)
	}
	for i := range c.batches {
		p.behind -= p.unprojected[i].bytes
		p.unprojected[i] = nil
	}
	p.unprojected = p.unprojected[c.batches:]
	p.state.Projected(c.seq)
	return nil
}

// eachUnprojected calls fn for the item changes that the projection may not show yet, in
// order. They bring a page of its indexes up to date. Waiting for the projection instead
// would starve the workers, since under load it is always a batch behind.
func (p *pipeline) eachUnprojected(fn func(before, after *events.Item)) {
	for _, b := range p.unprojected {
		for _, c := range b.changes.Items {
			fn(c.Old, c.New)
		}
	}
}

// reply is the replying goroutine: it encodes and sends answers while the loop goes on.
func (p *pipeline) reply() {
	turn := p.cfg.Turns.Turn()
	for jobs := range p.toReply {
		turn.Begin()
		for _, j := range jobs {
			j.finish()
			turn.Take()
		}
		turn.End()
	}
}

// errUnknown answers what was under way when an ownership ended.
var errUnknown = events.Refuse(events.CodeUnavailable, "the engine is recovering and does not know what became of this: ask again, with the same id")

// abandon answers what can't be finished after an error, and takes the append that is still
// under way.
func (p *pipeline) abandon() {
	if p.appending {
		abandonAll((<-p.results).b.done)
	}
	abandonAll(p.building.done)
}

func abandonAll(jobs []job) {
	for _, j := range jobs {
		j.abandon(errUnknown)
	}
}
