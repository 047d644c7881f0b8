package door

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/dispatcher/intake"
	"github.com/streamwright/streamwright/dispatcher/weight"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/internal/nudge"
	"github.com/streamwright/streamwright/wire"
)

const (
	// maxBytes bounds the messages that are taken and not answered. A message beyond it
	// makes the door lead to the stream.
	maxBytes = 16 << 20
	// maxHeldBytes bounds the same while the door changes its way: a message beyond it is
	// refused, as the server refuses one beyond the bounds of its own queue.
	maxHeldBytes = 2 * maxBytes
	// endWithin bounds how long End waits for what the server still has on its way.
	endWithin = 5 * time.Second
)

// Mapping turns a subject of the engine's account into another, for whoever publishes.
type Mapping interface {
	// Map may be called again for the same subject, and changes nothing then.
	Map(from, to string) error
	Unmap(from string)
}

// Config configures a Door. All fields but Late must be set.
type Config struct {
	Conn      *nats.Conn
	Names     wire.Names
	Partition int
	Mapping   Mapping
	// Late leaves the way to the loop closed until the stream has had a message: the server
	// looks through all mappings of an account for each message, whosever it is.
	Late   bool
	Logger *slog.Logger
	NewID  func() events.ID
	Now    func() time.Time   // the partition's time
	Rate   func(*core.Submit) // prepares a submission for its decision
	// Take is called with each batch. It returns false if ctx ended before the batch was
	// taken. Whoever takes a batch ends or abandons it.
	Take func(context.Context, *Batch) bool
	// Answered and Read return the last message of the stream that the log answers, and the
	// last that was read.
	Answered, Read func() uint64
}

// way is where the door leads.
type way int

const (
	toStream way = iota // each message goes on to the stream
	opening             // messages wait until the stream's backlog is decided
	toLoop              // messages are decided at once
	closing             // messages wait until those under way are decided or given back
)

// Door takes plain publishes during one ownership of the partition. A nil Door takes none.
type Door struct {
	cfg   Config
	sub   *nats.Subscription
	gone  chan struct{} // closed when sub has given out its last message
	relay *relay

	wake    chan struct{} // buf is not empty
	turned  chan struct{} // the way has become toStream
	settled chan struct{} // the log has answered more of the stream

	shut atomic.Bool // what is not decided goes to the stream

	mu    sync.Mutex // guards what follows
	way   way
	count uint64     // messages taken
	bytes int64      // of buf, held, back, and those under way
	buf   []*Message // to be handed to the loop
	away  int        // handed to the loop, or about to be
	back  []*Message // given back by the loop
	held  []*Message // wait while the way changes
	late  bool       // the way to the loop is to be opened once a message strays
}

// Open subscribes to the door's subject. Until Run has opened the way to the loop, messages
// go to the stream.
func Open(cfg Config) (*Door, error) {
	d := &Door{cfg: cfg, late: cfg.Late, gone: make(chan struct{}), wake: make(chan struct{}, 1), turned: make(chan struct{}, 1), settled: make(chan struct{}, 1)}
	d.shut.Store(true)
	var err error
	if d.relay, err = newRelay(cfg.Conn); err == nil {
		d.sub, err = cfg.Conn.Subscribe(cfg.Names.Door("*"), d.receive)
	}
	if err == nil {
		d.sub.SetClosedHandler(func(string) { close(d.gone) })
		err = cfg.Conn.Flush() // the server must know of it before it maps anything
	}
	if err != nil {
		return nil, fmt.Errorf("open the door for plain publishes: %w", err)
	}
	return d, nil
}

// Run hands what is published to the loop until ctx ends, and opens the way to it whenever
// the stream's backlog is decided.
func (d *Door) Run(ctx context.Context) {
	if d == nil {
		return
	}
	var opener sync.WaitGroup
	opener.Go(func() { d.keepOpen(ctx) })
	defer opener.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.wake:
		}
		for b := d.next(); b != nil; b = d.next() {
			if !d.cfg.Take(ctx, b) {
				b.Abandon()
				return
			}
		}
	}
}

// End leads everybody to the stream again, and gives it what has not been decided. Every
// batch must have ended, and Run must have returned.
func (d *Door) End() {
	if d == nil {
		return
	}
	d.mu.Lock()
	if d.way == toLoop {
		d.leave()
	} else if d.way == opening {
		d.handOn()
	}
	d.mu.Unlock()
	d.cfg.Mapping.Unmap(d.cfg.Names.SubmitAll())
	// What the server has mapped by now is on its way here: it goes to the stream too.
	err := d.cfg.Conn.FlushTimeout(endWithin)
	if err == nil {
		err = d.sub.Drain()
	}
	if err == nil {
		select {
		case <-d.gone:
			err = d.cfg.Conn.FlushTimeout(endWithin)
		case <-time.After(endWithin):
			err = context.DeadlineExceeded
		}
	}
	if err == nil {
		err = d.endRelay()
	}
	if err != nil {
		_ = d.sub.Unsubscribe()
		_ = d.relay.sub.Unsubscribe()
		d.cfg.Logger.Warn("plain publishes on their way may not have been acknowledged: their publishers repeat them", "error", err)
	}
}

// endRelay ends the relay once the stream has answered all that it was given.
func (d *Door) endRelay() error {
	d.mu.Lock()
	used := d.relay.used
	d.mu.Unlock()
	if used {
		ctx, cancel := context.WithTimeout(context.Background(), endWithin)
		defer cancel()
		if err := d.passed(ctx); err != nil {
			return err
		}
	}
	return d.relay.end()
}

// Strayed notes that a message of the stream was read. Others may follow it there, and what
// comes by the door must not overtake them.
func (d *Door) Strayed(seq uint64) {
	if d == nil || seq <= d.cfg.Answered() {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.way == toLoop:
		d.leave()
	case d.late:
		d.late = false
		nudge.Send(d.turned)
	}
}

// Settled notes that the log has answered more of the stream.
func (d *Door) Settled() {
	if d != nil {
		nudge.Send(d.settled)
	}
}

// Shut reports whether messages are given back to the stream, undecided.
func (d *Door) Shut() bool { return d.shut.Load() }

func (d *Door) receive(raw *nats.Msg) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := &Message{raw: raw, number: d.count, size: int64(weight.Overhead + len(raw.Data) + weight.Headers(raw.Header))}
	d.count++
	if d.way == toLoop && (d.bytes+m.size > maxBytes || !decidable(raw, d.cfg.Names)) {
		d.leave()
	}
	if d.way == opening && d.bytes+m.size > maxBytes {
		d.handOn()
	}
	switch {
	case d.way == toStream:
		d.forward(m)
		return
	case d.way == toLoop:
		d.buf = append(d.buf, m)
		nudge.Send(d.wake)
	case d.bytes+m.size > maxHeldBytes:
		d.answer(raw, errTooMuch)
		return
	default:
		d.held = append(d.held, m)
	}
	d.bytes += m.size
}

// leave turns the way from the loop to the stream: behind what is under way, what waits goes
// there in its order. REQUIRES: d.mu, and the way leads to the loop.
func (d *Door) leave() {
	d.shut.Store(true)
	d.way = closing
	d.held = append(d.held, d.buf...)
	d.buf = nil
	if d.away == 0 {
		d.handOn()
	}
}

// handOn gives everything that waits to the stream, in its order. REQUIRES: d.mu, and
// nothing is under way.
func (d *Door) handOn() {
	slices.SortFunc(d.back, func(a, b *Message) int { return cmp.Compare(a.number, b.number) })
	for _, ms := range [][]*Message{d.back, d.held} {
		for _, m := range ms {
			d.bytes -= m.size
			d.forward(m)
		}
	}
	d.back, d.held, d.way = nil, nil, toStream
	nudge.Send(d.turned)
}

// next takes the messages of the next batch; nil for none.
func (d *Door) next() *Batch {
	d.mu.Lock()
	n := min(len(d.buf), intake.MaxBatch)
	ms := d.buf[:n:n]
	if d.buf = d.buf[n:]; len(d.buf) == 0 {
		d.buf = nil
	}
	d.away += n
	d.mu.Unlock()
	if n == 0 {
		return nil
	}
	for _, m := range ms {
		m.parse(&d.cfg)
	}
	return &Batch{Messages: ms, door: d}
}

// over takes back a batch that has ended.
func (d *Door) over(b *Batch) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.away -= len(b.Messages)
	for _, m := range b.Messages {
		if m.back {
			d.back = append(d.back, m)
		} else {
			d.bytes -= m.size
		}
	}
	switch {
	case d.way == toLoop && len(d.back) > 0:
		d.leave()
	case d.way == closing && d.away == 0:
		d.handOn()
	}
}
