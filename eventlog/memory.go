package eventlog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

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

	mu     sync.Mutex // guards the fields behind it
	msgs   []message  // from first on
	first  uint64
	bytes  int
	parked []parked
	grown  chan struct{} // closed when there is another message; nil until somebody waits
}

// publish is a message as a writer sends it.
type publish struct {
	message
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
	return &Memory{stream: s, enc: newEncoder(wire.Default, s.partition), open: true}
}

// Inject stores a message as a foreign publisher would: no checks.
func (s *MemoryStream) Inject(header nats.Header, data []byte) (seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.store(publish{message: message{header: header, data: data}}) // no checks, no error
	return s.last()
}

// Trim drops everything before first, as retention does.
func (s *MemoryStream) Trim(first uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.first < first && len(s.msgs) > 0 {
		s.bytes -= len(s.msgs[0].data)
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

// store takes a message or refuses it, in the order of the server's checks.
// REQUIRES: mu.
func (s *MemoryStream) store(p publish) *apiError {
	switch {
	case p.expect != nil && *p.expect != s.last():
		return &apiError{Code: codeWrongLastSeq, Description: fmt.Sprintf("wrong last sequence: %d", s.last())}
	case s.MaxBytes > 0 && s.bytes+len(p.data) > s.MaxBytes:
		return errStreamFull
	}
	p.seq = s.last() + 1
	s.msgs = append(s.msgs, p.message)
	s.bytes += len(p.data)
	if s.grown != nil {
		close(s.grown)
		s.grown = nil
	}
	return nil
}

var errStreamFull = &apiError{Code: codeStoreFailed, Description: "maximum bytes exceeded"}

// from returns the messages from next on, or, if there are none, what is closed
// when there are.
func (s *MemoryStream) from(next uint64) ([]message, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case next < s.first:
		return nil, nil, &TrimmedError{Asked: next, First: s.first}
	case next <= s.last():
		return append([]message(nil), s.msgs[next-s.first:]...), nil, nil
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
	OnForeign ForeignFunc

	mu     sync.Mutex // guards the fields behind it
	enc    *encoder
	script []Fault
	purges []PurgeFault
	open   bool // false: unsettled
	closed bool
}

var _ Log = (*Memory)(nil)

// Script sets the faults of the coming appends, one for each.
func (m *Memory) Script(faults ...Fault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.script = append(m.script[:0:0], faults...)
}

// maxMemoryFrame bounds a frame of a Memory.
const maxMemoryFrame = 1 << 30

// Append implements Log.
func (m *Memory) Append(ctx context.Context, after uint64, w *Write) (Appended, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return Appended{}, ErrClosed
	case !m.open:
		return Appended{}, &AmbiguousError{Expected: after, Count: len(w.Events), Cause: errUnsettled}
	}
	if err := ctx.Err(); err != nil {
		return Appended{}, err
	}
	var fault Fault
	if len(m.script) > 0 {
		fault, m.script = m.script[0], m.script[1:]
	}
	msg, err := m.enc.encode(w, maxMemoryFrame)
	if err != nil {
		return Appended{}, err
	}
	if err := m.send(publish{message{header: msg.Header, data: msg.Data}, &after}, fault); err != nil {
		var refused *apiError
		switch {
		case !errors.As(err, &refused):
			m.open = false
			return Appended{}, &AmbiguousError{Expected: after, Count: len(w.Events), Cause: err}
		case refused.fenced():
			return Appended{}, &FencedError{Expected: after, Found: refused.found(), Detail: refused.Description}
		}
		return Appended{}, &FullError{Expected: after, Detail: refused.Error()}
	}
	return appended(after+1, w, msg), nil
}

// Reset implements Log.
func (m *Memory) Reset(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	m.open = ctx.Err() == nil
	return ctx.Err()
}

// Last implements Log.
func (m *Memory) Last(ctx context.Context) (Tip, error) {
	if err := m.usable(ctx); err != nil {
		return Tip{}, err
	}
	s := m.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now
	if s.Now != nil {
		now = s.Now
	}
	tip := Tip{Seq: s.last(), First: s.first, Time: now(), Bytes: uint64(s.bytes), Created: s.created}
	s.arrive(func(l Landing) bool { return l == LandAfterLast })
	return tip, nil
}

// Confirm implements Log.
func (m *Memory) Confirm(ctx context.Context) (Tip, error) { return m.Last(ctx) }

// End implements Log.
func (m *Memory) End(ctx context.Context) (End, error) {
	tip, err := m.Last(ctx)
	if err != nil {
		return End{}, err
	}
	return endOf(tip, m.stream.get)
}

// get returns a message.
func (s *MemoryStream) get(seq uint64) (message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := checkRange(Tip{Seq: s.last(), First: s.first}, seq, seq); err != nil {
		return message{}, err
	}
	return s.msgs[seq-s.first], nil
}

// Read implements Log.
func (m *Memory) Read(ctx context.Context, from, to uint64, fn func(Frame) error) error {
	if err := m.usable(ctx); err != nil || from > to {
		return err
	}
	s := m.stream
	s.mu.Lock()
	if from == 0 {
		from = s.first
	}
	err := checkRange(Tip{Seq: s.last(), First: s.first}, from, to)
	var msgs []message
	if err == nil {
		msgs = append(msgs, s.msgs[from-s.first:to-s.first+1]...)
	}
	s.arrive(func(l Landing) bool { return l == LandAfterRead })
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return replay(ctx, m.OnForeign, func(ctx context.Context, p *pipeline) error { return putAll(ctx, p, msgs) }, fn)
}

// Follow implements Log.
func (m *Memory) Follow(ctx context.Context, from uint64, fn func(Frame) error) error {
	if err := m.usable(ctx); err != nil {
		return err
	}
	next := max(from, 1)
	return replay(ctx, m.OnForeign, func(ctx context.Context, p *pipeline) error {
		for {
			msgs, grown, err := m.stream.from(next)
			if err != nil {
				return err
			}
			if len(msgs) == 0 {
				select {
				case <-grown:
					continue
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			next += uint64(len(msgs))
			if err := putAll(ctx, p, msgs); err != nil {
				return err
			}
		}
	}, fn)
}

// putAll puts messages into a pipeline.
func putAll(ctx context.Context, p *pipeline, msgs []message) error {
	for _, m := range msgs {
		if err := p.put(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// Checksum implements Log.
func (m *Memory) Checksum(ctx context.Context, seq uint64) (uint64, error) {
	if err := m.usable(ctx); err != nil {
		return 0, err
	}
	msg, err := m.stream.get(seq)
	return events.Checksum(msg.data), err
}

func (m *Memory) usable(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	return ctx.Err()
}

// Close implements Log.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}
