package eventlog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Bounds of a tail, for each partition.
const (
	tailMessages = 512             // requested at a time
	tailBytes    = 16 << 20        // of them
	tailFilters  = 1024            // subjects: types × kinds
	tailTimeout  = 5 * time.Second // of one request to the server
)

// TailConfig says which events to tail. Type and kind are filtered by the
// server, the id by the client.
type TailConfig struct {
	Names      wire.Names // zero: wire.Default
	Partitions []int      // none: partition 0

	// FromSeq begins at a position, or at the first that is kept behind it. It
	// needs a single partition.
	FromSeq events.Seq
	// Since begins at the first event stored at or after a time. Ignored with
	// FromSeq. With neither, a live tail begins with what comes next, another at
	// the beginning.
	Since time.Time
	// Live goes on until ctx ends; else the tail ends with what the log held
	// when it began.
	Live bool

	Types []events.Type // none: all; the empty type: the partition's own events
	Kinds []events.Kind // none: all
	ID    events.ID     // zero: all

	OnForeign ForeignFunc // nil: they are skipped in silence
}

// WithDefaults fills in what is not set.
func (c TailConfig) WithDefaults() TailConfig {
	if c.Names == (wire.Names{}) {
		c.Names = wire.Default
	}
	if len(c.Partitions) == 0 {
		c.Partitions = []int{0}
	}
	return c
}

// Validate reports everything that is wrong, joined.
func (c TailConfig) Validate() error {
	var errs []error
	if c.FromSeq > 0 && len(c.Partitions) > 1 {
		errs = append(errs, errors.New("a position belongs to one partition: name only that one"))
	}
	if n := len(c.Types) * len(c.Kinds); n > tailFilters {
		errs = append(errs, fmt.Errorf("%d types and %d kinds make %d filters: use at most %d, or tail all and choose from them", len(c.Types), len(c.Kinds), n, tailFilters))
	}
	return errors.Join(errs...)
}

// Tail gives the events of the log that were decided to fn, in order within a
// partition, one at a time. It outlives reconnects of nc, which it does not
// close. It returns nil when ctx ends or, if it is not live, at the end of the
// log; else fn's error, or one that says what is wrong with the log.
//
// An event that is one of several of a decision comes once the decision is
// complete. With a filter that takes a request to the server for each such
// event, unless its decision's last event is the one before.
func Tail(ctx context.Context, nc *nats.Conn, cfg TailConfig, fn func(events.Event) error) error {
	if err := cfg.Validate(); err != nil {
		return fmt.Errorf("tail the event log: %w", err)
	}
	cfg = cfg.WithDefaults()
	js, err := connect.JetStream(nc, cfg.Names)
	if err != nil {
		return fmt.Errorf("tail the event log: %w", err)
	}
	var mu sync.Mutex // fn is called by one partition at a time
	g, gctx := errgroup.WithContext(ctx)
	for _, p := range cfg.Partitions {
		g.Go(func() error {
			t := &tail{cfg: cfg, nc: nc, js: js, partition: p, stream: cfg.Names.EventStream(p), dec: newDecoder(cfg.Names, p)}
			t.emit = func(ev events.Event) error {
				if cfg.ID != (events.ID{}) && ev.ID != cfg.ID {
					return nil
				}
				mu.Lock()
				defer mu.Unlock()
				return fn(ev)
			}
			return t.run(gctx)
		})
	}
	err = g.Wait()
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// tail is that of one partition. It belongs to one goroutine.
type tail struct {
	cfg       TailConfig
	nc        *nats.Conn
	js        jetstream.JetStream
	partition int
	stream    string
	dec       *decoder
	emit      func(events.Event) error
	log       jetstream.Stream

	next    events.Seq // where to begin; 0: at cfg.Since
	until   events.Seq // a tail that is not live ends with it
	group   Grouper    // without a filter
	decided events.Seq // with one: the last position known to end a decision
}

func (t *tail) run(ctx context.Context) error {
	if err := t.begin(ctx); err != nil {
		return err
	}
	for wait := retryMin; t.cfg.Live || t.next <= t.until; {
		before := t.next
		done, err := t.follow(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && !errors.Is(err, ErrUnreachable):
			return err
		case done:
			return nil
		case t.nc.IsClosed():
			return fmt.Errorf("tail the event log: %w", nats.ErrConnectionClosed)
		}
		if t.next > before {
			wait = retryMin
		}
		if err := pause(ctx, &wait); err != nil {
			return err
		}
	}
	return nil
}

// begin finds out where the tail starts and ends.
func (t *tail) begin(ctx context.Context) error {
	s, err := t.handle(ctx)
	if err != nil {
		return err
	}
	t.log = s
	st := s.CachedInfo().State
	t.until = events.Seq(st.LastSeq)
	t.next = t.cfg.FromSeq
	if t.next == 0 && t.cfg.Since.IsZero() {
		if t.next = 1; t.cfg.Live {
			t.next = t.until + 1
		}
	}
	if t.next > 0 {
		t.next = max(t.next, events.Seq(st.FirstSeq))
	}
	t.group.Midway = true
	return nil
}

// handle looks the stream up.
func (t *tail) handle(ctx context.Context) (jetstream.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, tailTimeout)
	defer cancel()
	s, err := t.js.Stream(ctx, t.stream)
	if err == nil {
		return s, nil
	}
	var api *jetstream.APIError
	if errors.As(err, &api) && api.Code < 500 {
		return nil, fmt.Errorf("tail the event log %s: %w", t.stream, err)
	}
	return nil, fmt.Errorf("tail the event log %s: %w: %w", t.stream, ErrUnreachable, err)
}

// filters are the subjects that the server is to send, none for all.
func (t *tail) filters() []string {
	if len(t.cfg.Types) == 0 && len(t.cfg.Kinds) == 0 {
		return nil
	}
	types, kinds := []string{"*"}, []string{"*"}
	if len(t.cfg.Types) > 0 {
		types = types[:0]
		for _, typ := range t.cfg.Types {
			if typ == "" {
				typ = events.NoType
			}
			types = append(types, string(typ))
		}
	}
	if len(t.cfg.Kinds) > 0 {
		kinds = kinds[:0]
		for _, k := range t.cfg.Kinds {
			kinds = append(kinds, k.String())
		}
	}
	var out []string
	for _, typ := range types {
		for _, k := range kinds {
			out = append(out, t.cfg.Names.EventFilter(strconv.Itoa(t.partition), typ, k))
		}
	}
	return out
}

// follow reads with one consumer for as long as it lasts. done: the tail is at
// its end.
func (t *tail) follow(ctx context.Context) (done bool, err error) {
	filters := t.filters()
	cfg := connect.FeedConfig{Stream: t.stream, Filters: filters, FromSeq: uint64(t.next), Since: t.cfg.Since, Messages: tailMessages, Bytes: tailBytes}
	if _, err := t.handle(ctx); err != nil {
		return false, err
	}
	f, err := connect.OpenFeed(ctx, t.js, t.cfg.Names, cfg)
	if err != nil {
		return false, fmt.Errorf("tail the event log: %w: %w", ErrUnreachable, err)
	}
	defer f.Close()
	if !t.cfg.Live && f.Pending() == 0 {
		return true, nil
	}
	for {
		m, err := f.Next(ctx)
		if err != nil {
			return false, fmt.Errorf("tail the event log: %w: %w", ErrUnreachable, err)
		}
		if done, err := t.take(ctx, m, len(filters) > 0); done || err != nil {
			return done, err
		}
	}
}

// take handles one message. done: the tail is at its end.
func (t *tail) take(ctx context.Context, m connect.Message, filtered bool) (done bool, err error) {
	seq := events.Seq(m.Seq)
	if !t.cfg.Live && seq > t.until {
		return true, nil
	}
	d := t.dec.decode(message{seq: seq, subject: m.Subject, id: headerID(m.Header), data: m.Data})
	if filtered {
		err = t.alone(ctx, &d)
	} else {
		err = t.together(&d)
	}
	if err != nil {
		return false, err
	}
	t.next = seq + 1
	return !t.cfg.Live && (seq == t.until || m.Pending == 0), nil
}

// together takes a message of a tail that sees all of them.
func (t *tail) together(d *decoded) error {
	if err := t.group.take(d, t.cfg.OnForeign); err != nil {
		return err
	}
	return flush(&t.group, func(g Group) error {
		for _, ev := range g.Events {
			if err := t.emit(ev); err != nil {
				return err
			}
		}
		return nil
	})
}

// alone takes a message of a tail that sees only some of a decision's.
func (t *tail) alone(ctx context.Context, d *decoded) error {
	switch {
	case d.err != nil:
		return d.err
	case d.foreign != "":
		if t.cfg.OnForeign != nil {
			t.cfg.OnForeign(d.seq, d.subject, d.foreign)
		}
		return nil
	}
	end := d.seq
	if tx := d.ev.Tx; tx.Of > 0 {
		end += events.Seq(tx.Of - tx.N)
	}
	if end > d.seq && end != t.decided {
		whole, err := t.complete(ctx, end, d.ev.Tx.Of)
		if err != nil || !whole {
			return err
		}
	}
	t.decided = end
	return t.emit(d.ev)
}

// complete reports whether a decision of n events that would end at a position
// does so, waiting until that position is written. It does if the event there
// is the last of a decision of n: one that began later would end later.
func (t *tail) complete(ctx context.Context, end events.Seq, n int) (bool, error) {
	for wait := retryMin; ; {
		m, err := t.get(ctx, end)
		if err == nil {
			d := t.dec.decode(m)
			if d.err != nil {
				return false, d.err
			}
			return d.foreign == "" && d.ev.Tx == events.Tx{N: n, Of: n}, nil
		}
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		if !errors.Is(err, ErrUnreachable) {
			return false, err
		}
		if !t.cfg.Live && end > t.until {
			return false, nil
		}
		if err := pause(ctx, &wait); err != nil {
			return false, err
		}
	}
}

// get fetches a message. ErrUnreachable: not now, or not yet.
func (t *tail) get(ctx context.Context, seq events.Seq) (message, error) {
	ctx, cancel := context.WithTimeout(ctx, tailTimeout)
	defer cancel()
	raw, err := t.log.GetMsg(ctx, uint64(seq))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		info, ierr := t.log.Info(ctx)
		// Not "up to the last": it may have been written since it was asked for.
		if ierr == nil && seq < events.Seq(info.State.FirstSeq) {
			return message{}, &TrimmedError{Asked: seq, First: events.Seq(info.State.FirstSeq)}
		}
	}
	if err != nil {
		return message{}, fmt.Errorf("read event %d: %w: %w", seq, ErrUnreachable, err)
	}
	wire.Got(raw.Header)
	return message{seq: seq, subject: raw.Subject, id: headerID(raw.Header), data: raw.Data}, nil
}
