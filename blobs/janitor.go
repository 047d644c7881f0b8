package blobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/nudge"
	"github.com/streamwright/streamwright/wire"
)

// Bounds and defaults of a janitor.
const (
	// DefaultGrace is the age from which an object without an item is deleted,
	// and the time that a janitor must have run before it deletes any.
	DefaultGrace = time.Hour
	// DefaultSweepEvery is the time between two sweeps.
	DefaultSweepEvery = 10 * time.Minute
	// DefaultMaxTracked bounds the objects that a janitor tracks in memory; only
	// the sweep finds further ones.
	DefaultMaxTracked = 100_000

	// retryDeletes is the wait before failed deletions are tried again.
	retryDeletes = 15 * time.Second
	listBatch    = 256 // descriptions asked for at once
)

// JanitorConfig configures a Janitor. Conn, Exists and Undecided must be set;
// other zero fields have defaults.
type JanitorConfig struct {
	Conn   *nats.Conn // the engine's own, which may purge
	Names  wire.Names
	Bucket BucketConfig
	// Exists reports whether there is such an item, finished or not.
	Exists func(context.Context, events.ID) (bool, error)
	// Undecided returns the time since which the oldest undecided submission has
	// waited; zero if there is none. It returns only once Exists knows of
	// everything decided before the call, and fails where that can't be
	// achieved, as in an engine that does not own the log.
	Undecided func(context.Context) (time.Time, error)

	Grace      time.Duration
	SweepEvery time.Duration
	MaxTracked int
	Now        func() time.Time // for tests; nil: the NATS server's clock
	Logger     *slog.Logger     // nil: none
}

func (c JanitorConfig) withDefaults() JanitorConfig {
	if c.Grace == 0 {
		c.Grace = DefaultGrace
	}
	if c.SweepEvery == 0 {
		c.SweepEvery = DefaultSweepEvery
	}
	if c.MaxTracked == 0 {
		c.MaxTracked = DefaultMaxTracked
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Janitor deletes the objects that no item has. Start it before the engine's
// loop, call Pruned with what each commit prunes, and Stop it.
type Janitor struct {
	cfg   JanitorConfig
	store *Store
	log   *slog.Logger

	began    time.Time // by now(); set by Start
	wake     chan struct{}
	cancel   context.CancelFunc
	done     chan struct{} // closed when run has ended
	sweeping sync.Mutex    // held by a sweep

	// Owned by run.
	watching chan struct{} // closed when the watch has ended; nil: there was none
	unwatch  context.CancelFunc

	mu      sync.Mutex // guards what follows
	objects map[events.ID][]object
	count   int                    // of objects; at most MaxTracked
	over    bool                   // an object was not tracked for that bound; said once
	pruned  map[events.ID]struct{} // whose objects are to be deleted; a part of objects' keys
}

// object is a description in the bucket.
type object struct {
	name string
	nuid string // names its chunks
	seq  uint64 // of the description
	at   time.Time
	junk bool // it describes nothing: a mark that an object was deleted, or what can't be read
}

// key tells descriptions apart. Each name may have several.
func (o object) key() string { return o.name + "\x00" + o.nuid }

// NewJanitor makes a Janitor. It sends nothing.
func NewJanitor(cfg JanitorConfig) (*Janitor, error) {
	cfg = cfg.withDefaults()
	if cfg.Conn == nil || cfg.Exists == nil || cfg.Undecided == nil {
		return nil, errors.New("make a janitor: it needs Conn, Exists and Undecided")
	}
	store, err := New(cfg.Conn, cfg.Names, 0)
	if err != nil {
		return nil, err
	}
	return &Janitor{
		cfg: cfg, store: store, log: cfg.Logger, wake: make(chan struct{}, 1), done: make(chan struct{}),
		objects: map[events.ID][]object{}, pruned: map[events.ID]struct{}{},
	}, nil
}

// Start makes the bucket and begins to look after it.
func (j *Janitor) Start(ctx context.Context) error {
	if err := j.store.makeBucket(ctx, j.cfg.Bucket); err != nil {
		return err
	}
	var err error
	if j.began, err = j.now(ctx); err != nil {
		return fmt.Errorf("look at the object store %s: %w", j.store.bucket, err)
	}
	running, cancel := context.WithCancel(context.Background())
	j.cancel = cancel
	go j.run(running)
	return nil
}

// Stop ends it, and returns when it has ended. What was not deleted yet is left
// to the next janitor's sweeps. It may be called again, and without Start.
func (j *Janitor) Stop() {
	if j.cancel == nil {
		return
	}
	j.cancel()
	<-j.done
}

// now is the time by the clock that dates the bucket's messages.
func (j *Janitor) now(ctx context.Context) (time.Time, error) {
	if j.cfg.Now != nil {
		return j.cfg.Now(), nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	h, err := j.store.use(ctx)
	if err != nil {
		return time.Time{}, err
	}
	info, err := h.Info(ctx)
	if err != nil {
		return time.Time{}, err
	}
	return info.TimeStamp, nil
}

// Pruned notes that items are gone: their objects are deleted soon after. It never
// blocks, and may be called before Start.
func (j *Janitor) Pruned(items []*events.Item) {
	found := false
	j.mu.Lock()
	for _, it := range items {
		if _, ok := j.objects[it.ID]; ok {
			j.pruned[it.ID] = struct{}{}
			found = true
		}
	}
	j.mu.Unlock()
	if found {
		j.poke()
	}
}

func (j *Janitor) poke() { nudge.Send(j.wake) }

// run watches, deletes and sweeps until ctx ends.
func (j *Janitor) run(ctx context.Context) {
	defer close(j.done)
	defer j.endWatch()
	j.watch(ctx)
	sweep := time.NewTicker(j.cfg.SweepEvery)
	defer sweep.Stop()
	retry := time.NewTicker(retryDeletes)
	defer retry.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-j.wake:
			err = j.deletePruned(ctx)
		case <-retry.C:
			j.watch(ctx)
			err = j.deletePruned(ctx)
		case <-sweep.C:
			_, err = j.Sweep(ctx)
		}
		if err != nil && ctx.Err() == nil {
			j.log.Warn("the object store could not be cleaned: trying again later", "bucket", j.store.bucket, "error", err)
		}
	}
}

// watch follows the bucket's descriptions, from the present ones on, unless it
// already does. What it misses the next sweep finds.
func (j *Janitor) watch(ctx context.Context) {
	if j.watching != nil {
		select {
		case <-j.watching:
		default:
			return
		}
	}
	j.endWatch()
	f, err := j.descriptions(ctx)
	if err != nil {
		if ctx.Err() == nil {
			j.log.Warn("the object store can't be watched: trying again", "bucket", j.store.bucket, "error", err)
		}
		return
	}
	ctx, j.unwatch = context.WithCancel(ctx)
	ended := make(chan struct{})
	j.watching = ended
	go func() {
		defer close(ended)
		defer f.Close()
		for {
			m, err := f.Next(ctx)
			if err != nil {
				return // the next tick watches again
			}
			if o := j.describe(m); !o.junk {
				j.track(o)
			}
		}
	}()
}

func (j *Janitor) endWatch() {
	if j.watching != nil {
		j.unwatch()
		<-j.watching
	}
	j.watching = nil
}

// descriptions reads all of them, in order.
func (j *Janitor) descriptions(ctx context.Context) (*connect.Feed, error) {
	return connect.OpenFeed(ctx, j.store.js, j.cfg.Names, connect.FeedConfig{Stream: j.store.stream, Filters: []string{"$O." + j.store.bucket + ".M.>"}, Messages: listBatch})
}

// describe reads a description. Its content comes from a client: a name for
// chunks that could match another object's makes it junk.
func (j *Janitor) describe(m connect.Message) object {
	o := object{seq: m.Seq, at: m.Time}
	var info jetstream.ObjectInfo
	if err := json.Unmarshal(m.Data, &info); err != nil || m.Subject != j.store.metaSubject(info.Name) || info.Deleted || !validNUID(info.NUID) {
		o.junk = true
		return o
	}
	o.name, o.nuid = info.Name, info.NUID
	return o
}

// track notes an object, if it belongs to an item and there is room.
func (j *Janitor) track(o object) {
	id, _, err := splitName(o.name)
	if err != nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	list := j.objects[id]
	for i := range list {
		if list[i].key() == o.key() {
			if o.seq > list[i].seq {
				list[i] = o
			}
			return
		}
	}
	if j.count >= j.cfg.MaxTracked {
		if !j.over {
			j.over = true
			j.log.Warn("there are more objects than are tracked: those beyond go by a sweep", "bucket", j.store.bucket, "tracked", j.count)
		}
		return
	}
	j.objects[id] = append(list, o)
	j.count++
}

// forget stops tracking an object, unless it has been put anew.
func (j *Janitor) forget(o object) {
	id, _, err := splitName(o.name)
	if err != nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	list := j.objects[id]
	for i := range list {
		if list[i].key() == o.key() && list[i].seq <= o.seq {
			list[i] = list[len(list)-1]
			list = list[:len(list)-1]
			j.count--
			break
		}
	}
	if j.objects[id] = list; len(list) == 0 {
		delete(j.objects, id)
		delete(j.pruned, id)
	}
}

// deletePruned deletes the objects of the items that have been pruned. What
// fails stays to be deleted.
func (j *Janitor) deletePruned(ctx context.Context) error {
	j.mu.Lock()
	var all []object
	for id := range j.pruned {
		all = append(all, j.objects[id]...)
	}
	j.mu.Unlock()
	for _, o := range all {
		if err := j.remove(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes an object: its chunks, and then its description, so that
// leftovers of a crash are still found by its name. An object that was put anew
// meanwhile has new chunks and a new description, which stay. Chunks whose name
// does not show that they are the item's may belong to another object that
// somebody has described anew: the sweep deletes them once no description names
// them.
func (j *Janitor) remove(ctx context.Context, o object) error {
	if id, _, err := splitName(o.name); err == nil && owns(id, o.nuid) {
		if err := j.store.purge(ctx, jetstream.WithPurgeSubject(j.store.chunkSubject(o.nuid))); err != nil {
			return fmt.Errorf("delete the chunks of object %s: %w", o.name, err)
		}
	}
	if err := j.store.purge(ctx, jetstream.WithPurgeSubject(j.store.metaSubject(o.name)), jetstream.WithPurgeSequence(o.seq+1)); err != nil {
		return fmt.Errorf("delete object %s: %w", o.name, err)
	}
	j.forget(o)
	return nil
}

// discard deletes a description that describes nothing, and that alone.
func (j *Janitor) discard(ctx context.Context, o object) error {
	h, err := j.store.use(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if err := h.DeleteMsg(ctx, o.seq); err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		return fmt.Errorf("delete message %d of the object store: %w", o.seq, err)
	}
	return nil
}
