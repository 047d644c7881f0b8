// Package pages reads an event log page by page, for any number of readers at once: those of the
// API, of the live feed and of tails.
package pages

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/singleflight"

	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/directget"
	"github.com/streamwright/streamwright/internal/sleep"
	"github.com/streamwright/streamwright/wire"
)

// Bounds of one page.
const (
	MaxEvents = 1000
	MaxBytes  = 1 << 20 // of the events' JSON, and one event beyond

	// pageGets bounds the gets of one page where a filter leaves little of what they
	// bring; then the page ends early.
	pageGets = 8
	// getFrames and getBytes bound one get.
	getFrames = 256
	getBytes  = 2 << 20
	// lookEvery is the least time between two looks for a query's first event:
	// the log may grow by nothing that it wants, thousands of times a second.
	lookEvery = 10 * time.Millisecond
	// unreachedFor bounds the time for which a position past the end is looked
	// for.
	unreachedFor = time.Second
	// infoTimeout bounds one question for the state of the stream.
	infoTimeout = 5 * time.Second
)

// The frames that are kept for all readers: those that came last, and those of older parts
// that were read last, of which a page may need no more than one of many.
const (
	keepFrames = 1024
	keepBytes  = 16 << 20
	keepOld    = 8 << 20 // bytes, and as many frames as one get brings
)

// Filter reports whether an event is wanted. The context is that of the reader.
type Filter func(context.Context, *events.Event) (bool, error)

// Query says what a page is to hold.
type Query struct {
	// From is the first position. 0 begins at Since, or behind the end if that
	// is zero.
	From  events.Seq
	Since time.Time // with the first frame stored then or later

	Types []events.Type // none: all; the empty type: the partition's own events
	Kinds []events.Kind // none: all
	ID    events.ID     // zero: all
	// Wants judges the events that the rest of the query leaves over; nil: all are wanted.
	Wants Filter

	Limit    int           // events; 0 or too many: MaxEvents
	MaxBytes int           // of their JSON; 0 or too many: MaxBytes. One event is always allowed
	Wait     time.Duration // for the first event, where the log has none yet
}

// Page is a part of the log.
type Page struct {
	Events []events.Event // in order
	Next   events.Seq     // where the next page begins
	More   bool           // the page is at a bound: the log goes on
	// First is the first position that is kept, if From is before it; else 0.
	First events.Seq
}

// Reader reads the log of partition 0 page by page, by direct gets: it makes no
// consumers. Any number of goroutines may use it. Those that follow the log share its
// last frames: each is read and decoded once.
type Reader struct {
	nc       *nats.Conn
	names    wire.Names
	position func() events.Seq
	known    func() (events.Meta, error)
	get      string // subject of direct gets
	seen     atomic.Uint64
	gets     singleflight.Group

	mu    sync.Mutex    // guards what follows
	grown chan struct{} // closed by Grown; nil: nobody waits
	last  shelf
	old   shelf
	// epoch is the newest of the frames that were read, if the projection does not know it
	// yet, and epochAt the first of these.
	epoch   events.Epoch
	epochAt uint64
}

// shelf keeps frames, within bounds.
type shelf struct {
	frames, size int // its bounds: number and bytes

	kept  map[uint64]*piece // by sequence
	order []uint64          // of kept, oldest first
	bytes int               // of kept
}

func newShelf(frames, size int) shelf {
	return shelf{frames: frames, size: size, kept: map[uint64]*piece{}}
}

// keep keeps a frame. Those that were put in first make room for it.
func (s *shelf) keep(c *piece) {
	if s.kept[c.seq] != nil {
		return
	}
	s.kept[c.seq] = c
	s.order = append(s.order, c.seq)
	s.bytes += c.Frame.Bytes
	for len(s.order) > 1 && (len(s.order) > s.frames || s.bytes > s.size) {
		gone := s.order[0]
		s.order = s.order[1:]
		s.bytes -= s.kept[gone].Frame.Bytes
		delete(s.kept, gone)
	}
}

// piece is a frame in a Reader, or a foreign message.
type piece struct {
	eventlog.Decoded
	seq  uint64
	lens []int // of each event's JSON
}

// NewReader makes a reader on a connection of the engine. position tells a
// position that is durable; Grown must be called when it has advanced. known tells
// what the projection knows of the log, by which some frames are passed over; nil: nothing.
func NewReader(nc *nats.Conn, names wire.Names, position func() events.Seq, known func() (events.Meta, error)) *Reader {
	return &Reader{
		nc: nc, names: names, position: position, known: known, get: names.JetStream("DIRECT.GET." + names.EventStream(0)),
		last: newShelf(keepFrames, keepBytes), old: newShelf(getFrames, keepOld),
	}
}

// Grown wakes the readers that wait for the log to grow. It never blocks.
func (p *Reader) Grown() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.grown != nil {
		close(p.grown)
		p.grown = nil
	}
}

func (p *Reader) waiting() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.grown == nil {
		p.grown = make(chan struct{})
	}
	return p.grown
}

// Read reads one page, waiting for its first event for as long as the query
// says. reading, if set, is called around each use of the server, so that the
// caller can bound these. A position that the log has not reached is a
// *eventlog.BehindError.
func (p *Reader) Read(ctx context.Context, q Query, reading func(context.Context) (done func(), err error)) (Page, error) {
	if q.Limit <= 0 || q.Limit > MaxEvents {
		q.Limit = MaxEvents
	}
	if q.MaxBytes <= 0 || q.MaxBytes > MaxBytes {
		q.MaxBytes = MaxBytes
	}
	if reading == nil {
		reading = func(context.Context) (func(), error) { return func() {}, nil }
	}
	until := time.NewTimer(q.Wait)
	defer until.Stop()
	from, begun := q.From, false
	for lag := eventlog.RetryMin; ; {
		looked := time.Now()
		grown, tip := p.waiting(), p.position()
		page, err := p.once(ctx, &q, from, begun, reading)
		if err != nil || len(page.Events) > 0 || page.First > 0 || page.More || q.Wait <= 0 {
			return page, err
		}
		if page.Next > from {
			lag = eventlog.RetryMin
		}
		from, begun = page.Next, true
		var again <-chan time.Time
		if from <= tip { // this replica has not got that far
			again = sleep.After(&lag, eventlog.RetryMax)
		}
		select {
		case <-grown:
			_ = sleep.For(ctx, time.Until(looked.Add(lookEvery))) // its error shows in the next look
		case <-again:
		case <-until.C:
			return page, nil
		case <-ctx.Done():
			return page, ctx.Err()
		}
	}
}

// once reads what there is.
func (p *Reader) once(ctx context.Context, q *Query, from events.Seq, begun bool, reading func(context.Context) (func(), error)) (Page, error) {
	done, err := reading(ctx)
	if err != nil {
		return Page{Next: from}, err
	}
	defer done()
	if !begun {
		if from, err = p.begin(ctx, q); err != nil {
			return Page{}, err
		}
	}
	s := scan{p: p, q: q, page: Page{Next: max(from, events.SeqOf(1, 0))}}
	err = s.run(ctx)
	p.saw(s.page.Next.Frame() - 1)
	return s.page, err
}

// saw notes the sequence of a stored frame, which may be ahead of the last one that the
// engine knows.
func (p *Reader) saw(seq uint64) {
	for {
		old := p.seen.Load()
		if seq <= old || p.seen.CompareAndSwap(old, seq) {
			return
		}
	}
}

// begin finds out where a query begins.
func (p *Reader) begin(ctx context.Context, q *Query) (events.Seq, error) {
	switch {
	case q.From > 0:
		return q.From, p.reached(ctx, q.From.Frame())
	case !q.Since.IsZero():
		return p.since(ctx, q.Since)
	}
	k, err := p.Kept(ctx)
	return events.SeqOf(max(k.Last, p.position().Frame())+1, 0), err
}

// reached errs if the log ends before the frame in front of a sequence.
func (p *Reader) reached(ctx context.Context, seq uint64) error {
	for begun, wait := time.Now(), eventlog.RetryMin; ; {
		if end := max(p.position().Frame(), p.seen.Load()); seq <= end+1 {
			return nil
		}
		k, err := p.Kept(ctx)
		switch {
		case err != nil:
			return err
		case seq <= k.Last+1:
			p.saw(k.Last)
			return nil
		case time.Since(begun) > unreachedFor:
			return &eventlog.BehindError{Known: seq - 1, Last: k.Last}
		}
		if err := sleep.Longer(ctx, &wait, eventlog.RetryMax); err != nil {
			return err
		}
	}
}

// since is the position of the first frame stored at a time or later, or of the next one.
func (p *Reader) since(ctx context.Context, at time.Time) (events.Seq, error) {
	for wait := eventlog.RetryMin; ; {
		tip := p.position().Frame()
		msgs, err := p.fetch(ctx, directget.Request{StartTime: &at, Batch: 1})
		if err != nil {
			return 0, err
		}
		if len(msgs) > 0 {
			return events.SeqOf(msgs[0].Seq, 0), nil
		}
		// None, if what answered has all that is durable.
		if tip == 0 {
			return events.SeqOf(1, 0), nil
		}
		msgs, err = p.fetch(ctx, directget.Request{Seq: tip, Batch: 1})
		if err != nil {
			return 0, err
		}
		if len(msgs) > 0 && msgs[0].Time.Before(at) {
			return events.SeqOf(msgs[0].Seq+1, 0), nil
		}
		k, err := p.Kept(ctx)
		if err != nil {
			return 0, err
		}
		if k.First > k.Last { // nothing is kept
			return events.SeqOf(k.Last+1, 0), nil
		}
		if err := sleep.Longer(ctx, &wait, eventlog.RetryMax); err != nil {
			return 0, err
		}
	}
}

func (p *Reader) fetch(ctx context.Context, r directget.Request) ([]directget.Message, error) {
	msgs, _, err := directget.Get(ctx, p.nc, p.get, r)
	if err != nil {
		if errors.Is(err, directget.ErrUnreachable) {
			err = fmt.Errorf("%w: %w", eventlog.ErrUnreachable, err)
		}
		err = fmt.Errorf("read the event log: %w", err)
	}
	return msgs, err
}

// pieces returns frames from a sequence on: those that are kept, or what one get brings.
func (p *Reader) pieces(ctx context.Context, seq uint64) ([]*piece, error) {
	if list := p.recent(seq); len(list) > 0 {
		return list, nil
	}
	// Who asks for the same at the same time shares a get, but for one whose context ends.
	got, err, _ := p.gets.Do(strconv.FormatUint(seq, 10), func() (any, error) {
		if list := p.recent(seq); len(list) > 0 {
			return list, nil
		}
		msgs, err := p.fetch(ctx, directget.Request{Seq: seq, Batch: getFrames, MaxBytes: getBytes})
		if err != nil {
			return []*piece(nil), err
		}
		var m events.Meta
		if p.known != nil {
			if m, err = p.known(); err != nil {
				return []*piece(nil), err
			}
		}
		list := make([]*piece, len(msgs))
		for i := range msgs {
			list[i] = newPiece(&msgs[i])
			p.keep(list[i], m)
		}
		return list, nil
	})
	if ctx.Err() == nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return p.pieces(ctx, seq) // the context of the one who got it has ended
	}
	return got.([]*piece), err
}

func newPiece(m *directget.Message) *piece {
	wire.Got(m.Header)
	msg := eventlog.Stored{Seq: m.Seq, Header: m.Header, Data: m.Data}
	c := &piece{Decoded: eventlog.Decode(&msg), seq: m.Seq}
	c.lens = make([]int, 0, len(c.Frame.Events))
	for rest := m.Data; len(c.lens) < len(c.Frame.Events); {
		n := bytes.IndexByte(rest, '\n')
		c.lens, rest = append(c.lens, n), rest[n+1:]
	}
	return c
}

// recent returns the kept frames from a sequence on.
func (p *Reader) recent(seq uint64) (list []*piece) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(list) < getFrames {
		n := seq + uint64(len(list))
		c := cmp.Or(p.last.kept[n], p.old.kept[n])
		if c == nil {
			break
		}
		list = append(list, c)
	}
	return list
}

// keep keeps a frame that was read, after it has judged it by what the projection knows of
// the log.
func (p *Reader) keep(c *piece, m events.Meta) {
	if c.Err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.Foreign == "" {
		p.passOver(c, m)
	}
	if c.seq+keepFrames/2 < p.position().Frame() {
		p.old.keep(c)
	} else {
		p.last.keep(c)
	}
}

// passOver leaves a frame without events if readers pass it over. REQUIRES: mu.
func (p *Reader) passOver(c *piece, m events.Meta) {
	if c.seq > p.epochAt {
		m.Epoch = max(m.Epoch, p.epoch)
	}
	by := c.Frame.Epoch
	switch {
	case m.PassesOver(c.seq, by):
		c.Frame.Events = nil
	case c.seq > m.Applied.Frame() && (by > p.epoch || by == p.epoch && c.seq < p.epochAt):
		p.epoch, p.epochAt = by, c.seq
	}
}

func (q *Query) wants(ev *events.Event) bool {
	return (len(q.Types) == 0 || slices.Contains(q.Types, ev.Type)) && (len(q.Kinds) == 0 || slices.Contains(q.Kinds, ev.Kind)) &&
		(q.ID.IsZero() || ev.ID == q.ID)
}

// scan is the reading of one page.
type scan struct {
	p    *Reader
	q    *Query
	page Page
	size int
	full bool
}

// run reads until the page is full, the log ends or enough was looked at.
func (s *scan) run(ctx context.Context) error {
	for range pageGets {
		list, err := s.p.pieces(ctx, s.page.Next.Frame())
		if len(list) == 0 && err == nil {
			return nil
		}
		for _, c := range list {
			if err == nil {
				err = s.take(ctx, c)
			}
			if s.full {
				s.page.More = true
				return nil
			}
		}
		if err != nil && len(s.page.Events) > 0 { // they are shown first
			s.page.More = true
			return nil
		}
		if err != nil {
			return err
		}
	}
	s.page.More = true
	return nil
}

// take puts what is wanted of a frame on the page.
func (s *scan) take(ctx context.Context, c *piece) error {
	if c.seq > s.page.Next.Frame() { // the log lacks what is before it
		if len(s.page.Events) > 0 || s.page.First > 0 {
			s.full = true
			return nil
		}
		s.page.First = events.SeqOf(c.seq, 0)
		s.page.Next = s.page.First
	}
	if c.Err != nil {
		return c.Err
	}
	for i := range c.Frame.Events {
		ev := &c.Frame.Events[i]
		if ev.Seq < s.page.Next || !s.q.wants(ev) {
			continue
		}
		if s.q.Wants != nil {
			if ok, err := s.q.Wants(ctx, ev); err != nil {
				s.page.Next = ev.Seq
				return err
			} else if !ok {
				continue
			}
		}
		if len(s.page.Events) == s.q.Limit || len(s.page.Events) > 0 && s.size+c.lens[i] > s.q.MaxBytes {
			s.page.Next, s.full = ev.Seq, true
			return nil
		}
		s.page.Events = append(s.page.Events, *ev)
		s.size += c.lens[i]
	}
	s.page.Next = events.SeqOf(c.seq+1, 0)
	return nil
}

// Kept is the range of frames that a log holds, by their sequences. An empty log has
// First at Last+1.
type Kept struct{ First, Last uint64 }

// Kept asks the server what the log holds.
func (p *Reader) Kept(ctx context.Context) (Kept, error) {
	stream := p.names.EventStream(0)
	js, err := connect.JetStream(p.nc, p.names)
	if err != nil {
		return Kept{}, fmt.Errorf("look at the event log: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, infoTimeout)
	defer cancel()
	s, err := js.Stream(ctx, stream)
	var api *jetstream.APIError
	switch {
	case errors.As(err, &api) && api.Code < 500:
		return Kept{}, fmt.Errorf("look at the event log %s: %w", stream, err)
	case err != nil:
		return Kept{}, fmt.Errorf("look at the event log %s: %w: %w", stream, eventlog.ErrUnreachable, err)
	}
	st := s.CachedInfo().State
	return Kept{First: max(st.FirstSeq, 1), Last: st.LastSeq}, nil // a new stream has 0 for both
}
