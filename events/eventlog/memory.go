package eventlog

import (
	"context"
	"fmt"
	"sync"
	"time"

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
	first  events.Seq
	bytes  int
	lastID string // of the last message stored, whether still kept or not
	parked []parked
	grown  chan struct{} // closed when there is another message; nil until somebody waits
}

// parked are messages that were sent and will arrive later, one behind the
// other.
type parked struct {
	msgs   []publish
	atomic bool
	land   Landing
}

// publish is a message as a writer sends it.
type publish struct {
	message
	expectSeq *events.Seq // Nats-Expected-Last-Sequence
	expectID  string      // Nats-Expected-Last-Msg-Id
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
func (s *MemoryStream) Inject(subject, msgID string, data []byte) events.Seq {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = s.store(publish{message: message{subject: subject, id: msgID, data: data}}) // no checks, no error
	return s.last()
}

// Trim drops everything before first, as retention does.
func (s *MemoryStream) Trim(first events.Seq) {
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

// last is the last position. REQUIRES: mu.
func (s *MemoryStream) last() events.Seq { return s.first + events.Seq(len(s.msgs)) - 1 }

// store takes a message or refuses it, in the order of the server's checks.
// REQUIRES: mu.
func (s *MemoryStream) store(p publish) (events.Seq, *apiError) {
	switch {
	case p.expectSeq != nil && *p.expectSeq != s.last():
		return 0, &apiError{Code: codeWrongLastSeq, Description: fmt.Sprintf("wrong last sequence: %d", s.last())}
	case p.expectID != "" && p.expectID != s.lastID:
		return 0, &apiError{Code: codeWrongLastMsgID, Description: "wrong last msg ID: " + s.lastID}
	case s.MaxBytes > 0 && s.bytes+len(p.data) > s.MaxBytes:
		return 0, &apiError{Code: codeStoreFailed, Description: "maximum bytes exceeded"}
	}
	p.seq = s.last() + 1
	s.msgs = append(s.msgs, p.message)
	s.bytes += len(p.data)
	s.lastID = p.id
	if s.grown != nil {
		close(s.grown)
		s.grown = nil
	}
	return p.seq, nil
}

// from returns the messages from next on, or, if there are none, what is closed
// when there are.
func (s *MemoryStream) from(next events.Seq) ([]message, <-chan struct{}, error) {
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

// batch stores all or nothing. REQUIRES: mu.
func (s *MemoryStream) batch(ps []publish) *apiError {
	size := s.bytes
	for _, p := range ps {
		size += len(p.data)
	}
	if s.MaxBytes > 0 && size > s.MaxBytes {
		return &apiError{Code: codeStoreFailed, Description: "maximum bytes exceeded"}
	}
	for _, p := range ps {
		if _, err := s.store(p); err != nil { // only the first can be refused
			return err
		}
	}
	return nil
}

// arrive stores what is parked and due, in order. REQUIRES: mu.
func (s *MemoryStream) arrive(due func(Landing) bool) (stored int) {
	rest := s.parked[:0]
	for _, p := range s.parked {
		if !due(p.land) {
			rest = append(rest, p)
			continue
		}
		n, _ := s.storeAll(p.msgs, p.atomic)
		stored += n
	}
	s.parked = rest
	return stored
}

// Memory is a writer of a MemoryStream: a Log. Each of its appends suffers the
// next fault of its script, if there is one left.
type Memory struct {
	stream *MemoryStream
	// Atomic makes its appends of several events atomic batches. Set it before
	// use.
	Atomic bool
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

// Append implements Log.
func (m *Memory) Append(ctx context.Context, after events.Seq, evs []events.Event) (Appended, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return Appended{}, ErrClosed
	case !m.open:
		return Appended{}, &AmbiguousError{Expected: after, Count: len(evs), Cause: errUnsettled}
	}
	if err := ctx.Err(); err != nil {
		return Appended{}, err
	}
	var fault Fault
	if len(m.script) > 0 {
		fault, m.script = m.script[0], m.script[1:]
	}
	return appendOn(evs, after, func(after events.Seq, evs []events.Event) (*encoder, events.Seq, error) {
		if err := m.enc.encode(evs, 1<<30); err != nil {
			return nil, 0, err
		}
		f := fault
		fault = Fault{} // the tries behind the first have none
		return m.enc, after + events.Seq(len(evs)), m.send(after, m.publishes(after, len(evs)), evs, f)
	})
}

// publishes are the messages of the append that enc holds.
func (m *Memory) publishes(after events.Seq, n int) []publish {
	ps := make([]publish, n)
	for i := range ps {
		ps[i].message = message{subject: m.enc.subj[i], id: m.enc.ids[i], data: append([]byte(nil), m.enc.data(i)...)}
		switch {
		case i == 0:
			ps[i].expectSeq = &after
		case !m.Atomic:
			ps[i].expectID = m.enc.ids[i-1]
		}
	}
	return ps
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

// Read implements Log.
func (m *Memory) Read(ctx context.Context, from, to events.Seq, fn func(Group) error) error {
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
	return replay(ctx, wire.Default, s.partition, m.OnForeign, func(ctx context.Context, p *pipeline) error {
		return putAll(ctx, p, msgs)
	}, fn)
}

// Follow implements Log.
func (m *Memory) Follow(ctx context.Context, from events.Seq, fn func(Group) error) error {
	if err := m.usable(ctx); err != nil {
		return err
	}
	next := max(from, 1)
	return replay(ctx, wire.Default, m.stream.partition, m.OnForeign, func(ctx context.Context, p *pipeline) error {
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
			next += events.Seq(len(msgs))
			if err := putAll(ctx, p, msgs); err != nil {
				return err
			}
		}
	}, fn)
}

// putAll puts messages into a pipeline.
func putAll(ctx context.Context, p *pipeline, msgs []message) error {
	for len(msgs) > 0 {
		c := &chunk{}
		for len(msgs) > 0 && !c.full() {
			c.add(msgs[0])
			msgs = msgs[1:]
		}
		if err := p.put(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// Checksum implements Log.
func (m *Memory) Checksum(ctx context.Context, seq events.Seq) (uint64, error) {
	if err := m.usable(ctx); err != nil {
		return 0, err
	}
	s := m.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case seq < s.first:
		return 0, &TrimmedError{Asked: seq, First: s.first}
	case seq > s.last():
		return 0, &BehindError{Known: seq, Last: s.last()}
	}
	return events.Checksum(s.msgs[seq-s.first].data), nil
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
