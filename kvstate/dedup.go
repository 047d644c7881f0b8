package kvstate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/internal/nudge"
	"github.com/streamwright/streamwright/wire"
)

// The bounds and times of the mirror.
const (
	// MaxDedupPending bounds the changed keys that wait to be written. Beyond it
	// the mirror drops them and rewrites the whole bucket.
	MaxDedupPending = 100_000
	// DefaultDedupLag is the time for which changes are gathered before they are
	// written. A key that comes and goes within it costs no write.
	DefaultDedupLag = 25 * time.Millisecond
	// DedupMarkerTTL is the time for which a released key shows as deleted
	// before it leaves no trace.
	DedupMarkerTTL = time.Minute

	// DefaultRecreateAfter is the wait before a deleted bucket is made again.
	// The server announces a deletion before it has removed the files, and a
	// stream made too early has crashed the embedded server, and so the whole
	// process (2.15.2, newFileStore: nil dereference).
	DefaultRecreateAfter = time.Second
	// DefaultLookEvery is the time between an idle mirror's checks that the
	// bucket exists. Usually the server announces its deletion, but it sends the
	// announcement and ends the sender in a race (2.15.2, stream.go, stop).
	DefaultLookEvery = 15 * time.Second

	dedupWindow   = 1000 // writes in flight
	minDedupRetry = 50 * time.Millisecond
	maxDedupRetry = 10 * time.Second
	// positionKey holds the mirror's position.
	positionKey = wire.DedupPosition
)

// DedupKey is a dedup key's form in the bucket: see [wire.DedupEntry].
func DedupKey(t events.Type, key string) string { return wire.DedupEntry(t, key) }

// DedupEntry is the value in the bucket: who holds the key.
type DedupEntry struct {
	ID    events.ID        `json:"id"`
	State events.ItemState `json:"state"`
}

// DedupHeld is a taken dedup key, as the snapshot of a projection gives it.
type DedupHeld struct {
	Type events.Type
	Key  string
	DedupEntry
}

// DedupSnapshot calls yield with every dedup key that is held, as of one
// position of the log, which it returns. It ends with yield's error.
type DedupSnapshot func(ctx context.Context, yield func(DedupHeld) error) (events.Seq, error)

// DedupOptions configure a mirror. Zero fields have the defaults given.
type DedupOptions struct {
	Conn   *nats.Conn // needs no connection of its own
	Names  wire.Names
	Memory bool // keep the bucket in memory
	// Replicas is the bucket's number of replicas (0: 1), Placement the tags of their
	// servers.
	Replicas  int
	Placement []string
	// Identity names the log: a position in another log means nothing.
	Identity string
	Snapshot DedupSnapshot
	Log      *slog.Logger
	Lag      time.Duration // default DefaultDedupLag
	// MaxPending is for tests; default MaxDedupPending.
	MaxPending int
	// RecreateAfter is the wait before a deleted bucket is made again; default
	// DefaultRecreateAfter.
	RecreateAfter time.Duration
	// LookEvery is the time between an idle mirror's checks that the bucket
	// exists, and holds what was written; default DefaultLookEvery. Where somebody else
	// writes too, it is the least time before the bucket is written afresh again.
	LookEvery time.Duration
}

// Dedup mirrors the taken dedup keys into a bucket.
type Dedup struct {
	o       DedupOptions
	js      jetstream.JetStream
	b       bucket
	prefix  string        // of the bucket's subjects
	wake    chan struct{} // one token: there may be something to do
	stopped chan struct{} // closed when run has ended
	cancel  context.CancelFunc
	once    sync.Once // Start

	mu      sync.Mutex
	pending map[string]pendingKey // guarded by mu
	upto    events.Seq            // what pending brings the bucket to; guarded by mu
	written events.Seq            // what the bucket shows, if shown; guarded by mu
	shown   bool                  // the bucket is there and written; guarded by mu
	stale   bool                  // the bucket must be written afresh; guarded by mu
	// rewriting: keys that come now may be in the snapshot; guarded by mu.
	rewriting bool
	goneAt    time.Time     // when the bucket was last found gone; guarded by mu
	created   time.Time     // of the bucket that is written; run's own
	last      uint64        // the sequence of the last entry that was written; run's own
	shared    bool          // somebody else has written, or what was written is lost; run's own
	afresh    time.Time     // when it was last written afresh; run's own
	from      events.Seq    // where the feed begins; set by Start
	moved     chan struct{} // closed when written moves; guarded by mu
}

// pendingKey is the last change of a key.
type pendingKey struct {
	entry DedupEntry
	held  bool
	// fresh: the bucket does not have the key, so that letting go of it
	// before it is written takes no write.
	fresh bool
}

// NewDedup returns a mirror; Start starts it.
func NewDedup(o DedupOptions) (*Dedup, error) {
	o.Lag = cmp.Or(o.Lag, DefaultDedupLag)
	o.MaxPending = cmp.Or(o.MaxPending, MaxDedupPending)
	o.RecreateAfter = cmp.Or(o.RecreateAfter, DefaultRecreateAfter)
	o.LookEvery = cmp.Or(o.LookEvery, DefaultLookEvery)
	js, err := connect.JetStream(o.Conn, o.Names, jetstream.WithPublishAsyncMaxPending(dedupWindow), jetstream.WithPublishAsyncTimeout(requestTimeout))
	if err != nil {
		return nil, fmt.Errorf("start dedup mirror: %w", err)
	}
	name := o.Names.Bucket(wire.DedupBucket)
	conf := streamConfig(name, "taken dedup keys; derived, may be deleted", 0)
	conf.Replicas, conf.Placement = max(o.Replicas, 1), connect.Placement(o.Placement)
	if o.Memory {
		conf.Storage = jetstream.MemoryStorage
	} else if conf.Replicas == 1 {
		// Losing the last writes costs nothing: the position is lost with
		// them. So this stream need not wait for the disk.
		conf.PersistMode = jetstream.AsyncPersistMode
	}
	return &Dedup{
		o: o, js: js, prefix: o.Names.Entries(wire.DedupBucket),
		b:       bucket{js: js, name: name, conf: conf},
		wake:    make(chan struct{}, 1),
		stopped: make(chan struct{}),
		pending: map[string]pendingKey{},
		moved:   make(chan struct{}),
	}, nil
}

// DropDedup deletes the bucket of a mirror that is not kept any more. Without one it
// does nothing.
func DropDedup(ctx context.Context, nc *nats.Conn, names wire.Names) error {
	js, err := connect.JetStream(nc, names)
	if err == nil {
		err = js.DeleteStream(ctx, "KV_"+names.Bucket(wire.DedupBucket))
	}
	if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("drop dedup mirror: %w", err)
	}
	return nil
}

// Start begins to mirror the changes fed from behind position at on, which is
// the projection's when it starts. It returns at once, since nothing waits for
// the mirror; the bucket is made in the background, and written afresh if its
// position is another.
func (d *Dedup) Start(at events.Seq) error {
	err := errors.New("start dedup mirror: it was started before")
	d.once.Do(func() {
		var ctx context.Context
		ctx, d.cancel = context.WithCancel(context.Background())
		d.mu.Lock()
		d.from, d.upto = at, max(d.upto, at)
		d.mu.Unlock()
		go d.run(ctx)
		err = nil
	})
	return err
}

// Stop ends the mirror. What is not written by then is written afresh after
// the next start. It may be called again, and without Start.
func (d *Dedup) Stop(ctx context.Context) error {
	d.once.Do(func() { d.cancel = func() {}; close(d.stopped) })
	d.cancel()
	select {
	case <-d.stopped:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop dedup mirror: %w", ctx.Err())
	}
}

// Feed gives the mirror the changes of a commit of the projection. It never
// blocks. Commits are fed in order, from one goroutine, each after it is
// committed: a snapshot must hold all that has been fed.
func (d *Dedup) Feed(c *core.Changes) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.feed(c)
}

// feed is Feed for callers that hold mu.
func (d *Dedup) feed(c *core.Changes) {
	if c.Meta.Applied <= d.upto {
		return // a snapshot had it, or the bucket
	}
	d.upto = c.Meta.Applied
	// First what is let go: one commit may hold both the old and the new
	// holder of a key.
	for _, i := range c.Items {
		if i.Old.HoldsDedup() && !i.New.HoldsDedup() {
			d.note(DedupKey(i.Old.Type, i.Old.DedupKey), pendingKey{}, false)
		}
	}
	for _, i := range c.Items {
		if i.New.HoldsDedup() {
			d.note(DedupKey(i.New.Type, i.New.DedupKey), pendingKey{entry: DedupEntry{ID: i.New.ID, State: i.New.State}, held: true}, !i.Old.HoldsDedup())
		}
	}
	if len(d.pending) > d.o.MaxPending {
		d.stale = true
		clear(d.pending)
	}
	d.poke()
}

// Skip tells the mirror that the projection has reached a position by changes
// that were not fed: the bucket is written afresh.
func (d *Dedup) Skip(at events.Seq) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.upto = max(d.upto, at)
	d.stale = true
	clear(d.pending)
	d.poke()
}

// note merges a change into the pending ones. Callers hold mu.
func (d *Dedup) note(key string, p pendingKey, created bool) {
	was, pending := d.pending[key]
	switch {
	case pending && was.fresh && !p.held:
		delete(d.pending, key)
		return
	case pending:
		p.fresh = was.fresh
	default:
		// A rewrite may be about to write the key.
		p.fresh = created && !d.rewriting
	}
	d.pending[key] = p
}

func (d *Dedup) poke() { nudge.Send(d.wake) }

// Await returns once the bucket shows position seq, or with ctx's error.
func (d *Dedup) Await(ctx context.Context, seq events.Seq) error {
	for {
		d.mu.Lock()
		done, moved := d.shown && d.written >= seq, d.moved
		d.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("await position %s of the dedup mirror: %w", seq, ctx.Err())
		}
	}
}

func (d *Dedup) setWritten(seq events.Seq) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.written, d.shown = seq, true
	close(d.moved)
	d.moved = make(chan struct{})
}
