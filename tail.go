package streamwright

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// TailOptions says which events Tail tells, and from where on. The zero value
// is all events, from now on.
type TailOptions struct {
	Types []string // only of these types
	Kinds []string // only of these kinds, such as "completed"
	ID    string   // only of this item

	// At most one of these two says where to begin.
	Since   time.Time  // with events from then on
	FromSeq events.Seq // with this position
}

// Tail tells fn the events of the log, live and in order, until ctx ends or fn
// errs; that is the error it returns. The server filters by type and kind. An
// event is told once its whole decision is in the log, so what a crash has cut
// short is never seen. Events come at least once over a lost connection's
// repair: no event is skipped, and positions never go back.
func (c *Client) Tail(ctx context.Context, o TailOptions, fn func(Event) error) error {
	cfg, err := c.tailConfig(o)
	if err != nil {
		return err
	}
	stream := c.set.names.EventStream(0)
	f, err := c.openFeed(ctx, stream, cfg)
	if err != nil {
		return err
	}
	defer f.close()
	t := tailer{c: c, stream: stream, id: strings.ToUpper(o.ID), fn: fn, filtered: len(o.Types)+len(o.Kinds) > 0}
	for {
		select {
		case m := <-f.next:
			if m.err != nil {
				return fmt.Errorf("tail: %w", m.err)
			}
			if err := t.take(ctx, m.msg); err != nil {
				return err
			}
		case <-ctx.Done():
			return endOf("tail", ctx.Err(), nil)
		}
	}
}

// maxTailFilters bounds the subjects of one tail.
const maxTailFilters = 256

// tailConfig is the consumer that gives what the options ask for.
func (c *Client) tailConfig(o TailOptions) (jetstream.OrderedConsumerConfig, error) {
	cfg := jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverNewPolicy}
	for _, t := range o.Types {
		if _, err := events.ParseType(t); err != nil {
			return cfg, events.Refuse(events.CodeBadType, "%v", err)
		}
	}
	for _, k := range o.Kinds {
		if _, err := events.ParseKind(k); err != nil {
			return cfg, events.Refuse(events.CodeBadRequest, "%v", err)
		}
	}
	if o.ID != "" {
		if _, err := events.ParseID(o.ID); err != nil {
			return cfg, events.Refuse(events.CodeBadID, "%v", err)
		}
	}
	switch {
	case o.FromSeq > 0 && !o.Since.IsZero():
		return cfg, events.Refuse(events.CodeBadRequest, "both a position and a time to begin with are given: give one of them")
	case o.FromSeq > 0:
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, uint64(o.FromSeq)
	case !o.Since.IsZero():
		cfg.DeliverPolicy, cfg.OptStartTime = jetstream.DeliverByStartTimePolicy, &o.Since
	}
	for _, t := range orAny(o.Types) {
		for _, k := range orAny(o.Kinds) {
			cfg.FilterSubjects = append(cfg.FilterSubjects, c.set.names.EventFilter("0", t, k))
		}
	}
	if len(cfg.FilterSubjects) > maxTailFilters {
		return cfg, events.Refuse(events.CodeTooLarge, "%d pairs of type and kind are asked for: at most %d are allowed; leave out the types or the kinds", len(cfg.FilterSubjects), maxTailFilters)
	}
	return cfg, nil
}

// orAny is the distinct values to filter by, or the one that matches all.
func orAny(values []string) []string {
	if len(values) == 0 {
		return []string{"*"}
	}
	values = slices.Clone(values)
	slices.Sort(values)
	return slices.Compact(values)
}

// tailer turns messages of the event stream into events that were decided.
type tailer struct {
	c        *Client
	stream   string
	id       string
	filtered bool // by the server: the rest of a decision may not come by
	fn       func(Event) error

	// Unfiltered: the events of a decision whose last has not come yet, at most
	// events.MaxDecisionEvents.
	pending []events.Event
	any     bool // a message has come

	// Filtered: what was last looked up.
	handle  jetstream.Stream
	end     events.Seq // the last position of a decision
	decided bool
}

// take judges one message.
func (t *tailer) take(ctx context.Context, msg jetstream.Msg) error {
	meta, err := msg.Metadata()
	if err != nil {
		return fmt.Errorf("tail: %w", err)
	}
	first := !t.any
	t.any = true
	ev, ok, err := t.c.decode(events.Seq(meta.Sequence.Stream), msg.Subject(), msg.Headers(), msg.Data())
	switch {
	case err != nil:
		return err
	case !ok:
		t.pending = t.pending[:0] // nothing can be appended to a decision behind it
		return nil
	case t.filtered:
		return t.takeAlone(ctx, ev)
	}
	return t.takeNext(ev, first)
}

// takeNext takes the next event of all.
func (t *tailer) takeNext(ev events.Event, first bool) error {
	if n := len(t.pending); n > 0 {
		last := t.pending[n-1]
		if ev.Seq != last.Seq+1 || ev.Tx.Of != last.Tx.Of || ev.Tx.N != last.Tx.N+1 {
			t.pending = t.pending[:0] // interrupted: it was never decided
		}
	}
	if ev.Tx.N > 1 && len(t.pending) == 0 && !first {
		return nil // the rest of what was interrupted
	}
	t.pending = append(t.pending, ev)
	if !ev.Tx.Last() {
		return nil
	}
	defer func() { t.pending = t.pending[:0] }()
	for _, ev := range t.pending {
		if err := t.tell(ev); err != nil {
			return err
		}
	}
	return nil
}

// takeAlone takes an event whose neighbours may be filtered out: whether its
// decision was completed is looked up in the stream.
func (t *tailer) takeAlone(ctx context.Context, ev events.Event) error {
	if t.id != "" && ev.ID.String() != t.id {
		return nil
	}
	if end := ev.Seq + events.Seq(ev.Tx.Of-ev.Tx.N); !ev.Tx.Last() && end != t.end {
		decided, err := t.lookUp(ctx, end, ev.Tx.Of)
		if err != nil {
			return err
		}
		t.end, t.decided = end, decided
	}
	if !ev.Tx.Last() && !t.decided {
		return nil
	}
	return t.tell(ev)
}

// lookUp says whether the decision of so many events that would end at end was
// completed. If the log does not reach so far yet it waits: the very next
// events tell.
func (t *tailer) lookUp(ctx context.Context, end events.Seq, of int) (bool, error) {
	for wait := minBackoff; ; wait = min(2*wait, maxBackoff) {
		msg, err := t.get(ctx, end)
		if err == nil {
			wire.Got(msg.Header)
			ev, ok, err := t.c.decode(end, msg.Subject, msg.Header, msg.Data)
			return ok && ev.Tx.Of == of && ev.Tx.Last(), err
		}
		if ctx.Err() == nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
			err = t.c.failed("tail", err)
			if _, again := worthAnother(err, wait); !again {
				return false, err
			}
		}
		if sleep(ctx, wait) != nil {
			return false, endOf("tail", ctx.Err(), nil)
		}
	}
}

func (t *tailer) get(ctx context.Context, seq events.Seq) (*jetstream.RawStreamMsg, error) {
	ctx, cancel := t.c.trying(ctx, "", t.c.set.tryTimeout)
	defer cancel()
	if t.handle == nil {
		s, err := t.c.js.Stream(ctx, t.stream)
		if err != nil {
			return nil, lostOr(ctx, err)
		}
		t.handle = s
	}
	msg, err := t.handle.GetMsg(ctx, uint64(seq))
	return msg, lostOr(ctx, err)
}

func (t *tailer) tell(ev events.Event) error {
	if t.id != "" && ev.ID.String() != t.id {
		return nil
	}
	return t.fn(wire.FromEvent(ev))
}

// decode reads a message of the event stream. Not ok: no engine wrote it.
func (c *Client) decode(seq events.Seq, subject string, h nats.Header, data []byte) (ev events.Event, ok bool, err error) {
	if h.Get(jetstream.MsgIDHeader) == "" || wire.Fetched(h) {
		return ev, false, nil
	}
	if ev, err = events.DecodeEvent(data); err != nil {
		return ev, false, fmt.Errorf("tail at position %d: %w", seq, err)
	}
	ev.Seq = seq
	return ev, subject == c.set.names.Event(0, ev.Type, ev.Kind), nil
}
