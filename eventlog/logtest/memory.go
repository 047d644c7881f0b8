package logtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// MemoryStream is an event stream in memory, for tests: it takes messages by
// the rules of a JetStream stream with one replica, and any number of writers
// can open it. It is safe for concurrent use.
type MemoryStream struct {
	// Now is the clock of the server that it stands for. Set it before use;
	// nil: time.Now.
	Now func() time.Time
	// MaxBytes bounds the stored messages' data; 0: no bound. Set it before use.
	MaxBytes int

	partition int
	created   time.Time

	mu     sync.Mutex        // guards the fields behind it
	msgs   []eventlog.Stored // from first on
	first  uint64
	bytes  int
	parked []parked
	grown  chan struct{} // closed when there is another message; nil until somebody waits
}

// publish is a message as a writer sends it.
type publish struct {
	eventlog.Stored
	expect *uint64 // the stream's last sequence; nil: whatever it is
}

// parked is a message that was sent and will arrive later.
type parked struct {
	msg  publish
	land Landing
}

// NewMemoryStream makes an empty stream.
func NewMemoryStream(partition int) *MemoryStream {
	return &MemoryStream{partition: partition, first: 1, created: time.Now()}
}

// Open makes a writer of its own on the stream.
func (s *MemoryStream) Open() *Memory {
	return &Memory{stream: s, open: true}
}

// Inject stores a message as a foreign publisher would: no checks.
func (s *MemoryStream) Inject(header nats.Header, data []byte) (seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.store(publish{Stored: eventlog.Stored{Header: header, Data: data}}) // no checks, no error
	return s.last()
}

// Trim drops everything before first, as retention does.
func (s *MemoryStream) Trim(first uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.first < first && len(s.msgs) > 0 {
		s.bytes -= len(s.msgs[0].Data)
		s.msgs, s.first = s.msgs[1:], s.first+1
	}
}

// Land lets every message arrive that is still on its way, and returns how
// many of them were stored.
func (s *MemoryStream) Land() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.arrive(func(Landing) bool { return true })
}

// last is the last sequence. REQUIRES: mu.
func (s *MemoryStream) last() uint64 { return s.first + uint64(len(s.msgs)) - 1 }

// ends says where the log begins and ends. REQUIRES: mu.
func (s *MemoryStream) ends() eventlog.Tip { return eventlog.Tip{Seq: s.last(), First: s.first} }

// store takes a message or refuses it, in the order of the server's checks.
// REQUIRES: mu.
func (s *MemoryStream) store(p publish) error {
	switch {
	case p.expect != nil && *p.expect != s.last():
		return wrongLast(*p.expect, s.last())
	case s.MaxBytes > 0 && s.bytes+len(p.Data) > s.MaxBytes:
		return errStreamFull
	}
	p.Seq = s.last() + 1
	s.msgs = append(s.msgs, p.Stored)
	s.bytes += len(p.Data)
	if s.grown != nil {
		close(s.grown)
		s.grown = nil
	}
	return nil
}

var errStreamFull = errors.New("maximum bytes exceeded")

// wrongLast is the refusal of a message that was to follow another sequence than the last.
func wrongLast(expected, last uint64) error {
	return &eventlog.FencedError{Expected: expected, Found: last, Detail: fmt.Sprintf("wrong last sequence: %d", last)}
}

// from returns the messages from next on, or, if there are none, what is closed
// when there are.
func (s *MemoryStream) from(next uint64) ([]eventlog.Stored, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case next < s.first:
		return nil, nil, &eventlog.TrimmedError{Asked: next, First: s.first}
	case next <= s.last():
		return append([]eventlog.Stored(nil), s.msgs[next-s.first:]...), nil, nil
	}
	if s.grown == nil {
		s.grown = make(chan struct{})
	}
	return nil, s.grown, nil
}

// arrive stores what is parked and due, in order. REQUIRES: mu.
func (s *MemoryStream) arrive(due func(Landing) bool) (stored int) {
	rest := s.parked[:0]
	for _, p := range s.parked {
		if !due(p.land) {
			rest = append(rest, p)
		} else if s.store(p.msg) == nil {
			stored++
		}
	}
	s.parked = rest
	return stored
}

// Memory is a writer of a MemoryStream: a Log. Each of its appends suffers the
// next fault of its script, if there is one left.
type Memory struct {
	stream *MemoryStream
	// OnForeign is called with foreign messages. Set it before use.
	OnForeign eventlog.ForeignFunc

	mu     sync.Mutex // guards the fields behind it
	script []Fault
	purges []PurgeFault
	open   bool // false: unsettled
	closed bool
}

var _ eventlog.Log = (*Memory)(nil)

// Script sets the faults of the coming appends, one for each.
func (m *Memory) Script(faults ...Fault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.script = append(m.script[:0:0], faults...)
}

// errUnsettled makes an Append fail between ErrAmbiguous and Reset.
var errUnsettled = errors.New("an earlier append has not been settled")

// Append implements [eventlog.Log].
func (m *Memory) Append(ctx context.Context, after uint64, w *eventlog.Write) (eventlog.Appended, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return eventlog.Appended{}, eventlog.ErrClosed
	case !m.open:
		return eventlog.Appended{}, &eventlog.AmbiguousError{Expected: after, Count: len(w.Events), Cause: errUnsettled}
	}
	if err := ctx.Err(); err != nil {
		return eventlog.Appended{}, err
	}
	var fault Fault
	if len(m.script) > 0 {
		fault, m.script = m.script[0], m.script[1:]
	}
	p, err := message(m.stream.partition, after, w)
	if err != nil {
		return eventlog.Appended{}, err
	}
	switch err := m.send(p, fault); {
	case err == nil:
		return p.appended(w), nil
	case errors.Is(err, errStreamFull):
		return eventlog.Appended{}, &eventlog.FullError{Expected: after, Detail: err.Error()}
	case errors.Is(err, errInjected):
		m.open = false
		return eventlog.Appended{}, &eventlog.AmbiguousError{Expected: after, Count: len(w.Events), Cause: err}
	default:
		return eventlog.Appended{}, err
	}
}

// message makes the message of a frame that is to follow a sequence.
func message(partition int, after uint64, w *eventlog.Write) (publish, error) {
	m, err := eventlog.NewMessage(wire.Default, partition, w)
	if err != nil {
		return publish{}, err
	}
	return publish{eventlog.Stored{Header: m.Header, Data: m.Data}, &after}, nil
}

// appended is the result of storing a frame where it was to be.
func (p *publish) appended(w *eventlog.Write) eventlog.Appended {
	return eventlog.Appended{Last: events.SeqOf(*p.expect+1, len(w.Events)-1), Lines: p.Data, Checksum: events.Checksum(p.Data)}
}

// Reset implements [eventlog.Log].
func (m *Memory) Reset(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return eventlog.ErrClosed
	}
	m.open = ctx.Err() == nil
	return ctx.Err()
}

// Last implements [eventlog.Log].
func (m *Memory) Last(ctx context.Context) (eventlog.Tip, error) {
	if err := m.usable(ctx); err != nil {
		return eventlog.Tip{}, err
	}
	s := m.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now
	if s.Now != nil {
		now = s.Now
	}
	tip := s.ends()
	tip.Time, tip.Bytes, tip.Created = now(), uint64(s.bytes), s.created
	s.arrive(func(l Landing) bool { return l == LandAfterLast })
	return tip, nil
}

// Confirm implements [eventlog.Log].
func (m *Memory) Confirm(ctx context.Context) (eventlog.Tip, error) { return m.Last(ctx) }

// End implements [eventlog.Log].
func (m *Memory) End(ctx context.Context) (eventlog.End, error) {
	tip, err := m.Last(ctx)
	if err != nil {
		return eventlog.End{}, err
	}
	return tip.End(m.stream.get)
}

// get returns a message.
func (s *MemoryStream) get(seq uint64) (eventlog.Stored, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ends().Check(seq, seq); err != nil {
		return eventlog.Stored{}, err
	}
	return s.msgs[seq-s.first], nil
}

// Read implements [eventlog.Log].
func (m *Memory) Read(ctx context.Context, from, to uint64, fn func(eventlog.Frame) error) error {
	if err := m.usable(ctx); err != nil || from > to {
		return err
	}
	s := m.stream
	s.mu.Lock()
	from, err := s.ends().Range(from, to)
	var msgs []eventlog.Stored
	if err == nil {
		msgs = append(msgs, s.msgs[from-s.first:to-s.first+1]...)
	}
	s.arrive(func(l Landing) bool { return l == LandAfterRead })
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return m.replay(ctx, msgs, func(context.Context) ([]eventlog.Stored, error) { return nil, nil }, fn)
}

// Follow implements [eventlog.Log].
func (m *Memory) Follow(ctx context.Context, from uint64, fn func(eventlog.Frame) error) error {
	if err := m.usable(ctx); err != nil {
		return err
	}
	next := max(from, 1)
	return m.replay(ctx, nil, func(ctx context.Context) ([]eventlog.Stored, error) {
		for {
			msgs, grown, err := m.stream.from(next)
			if err != nil || len(msgs) > 0 {
				next += uint64(len(msgs))
				return msgs, err
			}
			select {
			case <-grown:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	}, fn)
}

// replay hands over messages, and those that more then returns, until it returns none.
func (m *Memory) replay(ctx context.Context, msgs []eventlog.Stored, more func(context.Context) ([]eventlog.Stored, error), fn func(eventlog.Frame) error) error {
	return eventlog.Replay(ctx, m.OnForeign, func(ctx context.Context) (st eventlog.Stored, ok bool, err error) {
		if len(msgs) == 0 {
			if msgs, err = more(ctx); err != nil || len(msgs) == 0 {
				return st, false, err
			}
		}
		st, msgs = msgs[0], msgs[1:]
		return st, true, nil
	}, fn)
}

// Purge implements [eventlog.Log].
func (m *Memory) Purge(ctx context.Context, below uint64) error {
	if err := m.usable(ctx); err != nil {
		return err
	}
	m.mu.Lock()
	fault := PurgeOK
	if len(m.purges) > 0 {
		fault, m.purges = m.purges[0], m.purges[1:]
	}
	m.mu.Unlock()
	if fault != PurgeLost {
		m.stream.Trim(below)
	}
	if fault != PurgeOK {
		return fmt.Errorf("cut the event log below frame %d: %w", below, errors.Join(eventlog.ErrUnreachable, errInjected))
	}
	return nil
}

// Checksum implements [eventlog.Log].
func (m *Memory) Checksum(ctx context.Context, seq uint64) (uint64, error) {
	if err := m.usable(ctx); err != nil {
		return 0, err
	}
	msg, err := m.stream.get(seq)
	return events.Checksum(msg.Data), err
}

func (m *Memory) usable(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return eventlog.ErrClosed
	}
	return ctx.Err()
}

// Close implements [eventlog.Log].
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}
