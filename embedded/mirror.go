package embedded

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/internal/nudge"
	"github.com/streamwright/streamwright/kvstate"
	"github.com/streamwright/streamwright/projector/query"
	"github.com/streamwright/streamwright/wire"
)

// mirror keeps the KV buckets that other programs read: the taken dedup keys,
// the workers, the partition's owner. Nothing depends on them.
type mirror struct {
	*base
	decider *decider
	dedup   atomic.Pointer[kvstate.Dedup] // nil if switched off, or while the engine stands by
	// keyless says that the bucket is to be made once a dedup key is taken: namespaces beside
	// the default one do without until then.
	keyless atomic.Bool
	workers *kvstate.Workers
	owners  *kvstate.Partitions

	wake   chan struct{}
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu    sync.Mutex // guards what follows
	began bool       // there has been a worker
	epoch events.Epoch
	gone  bool // a bucket was deleted: show everything again
}

func (d *decider) openMirror(context.Context) error {
	js, err := connect.JetStream(d.nc, d.names())
	if err != nil {
		return fmt.Errorf("start mirrors: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &mirror{base: d.base, decider: d, workers: kvstate.NewWorkers(js, d.names(), 0).Replicate(d.copies.replicas, d.copies.placement), owners: kvstate.NewPartitions(js, d.names(), 0).Replicate(d.copies.replicas, d.copies.placement), wake: make(chan struct{}, 1), cancel: cancel}
	m.wg.Go(func() { m.run(ctx) })
	d.mirror = m
	return nil
}

func (m *mirror) stop(ctx context.Context) error {
	m.cancel()
	m.wg.Wait()
	return m.stopDedup(ctx)
}

// snapshot gives the mirror all keys that are taken.
func (m *mirror) snapshot(ctx context.Context, yield func(kvstate.DedupHeld) error) (events.Seq, error) {
	return query.Of(m.decider.ledger.store).DedupHeld(ctx, func(t events.Type, key string, id events.ID, state events.ItemState) error {
		return yield(kvstate.DedupHeld{Type: t, Key: key, DedupEntry: kvstate.DedupEntry{ID: id, State: state}})
	})
}

// startDedup begins to mirror the taken dedup keys, from the store's position on.
func (m *mirror) startDedup() error {
	if m.cfg.Server.NoDedupBucket {
		m.wg.Go(m.dropDedup)
		return nil
	}
	identity, err := m.decider.ledger.store.Identity()
	if err != nil {
		return err
	}
	d, err := kvstate.NewDedup(kvstate.DedupOptions{
		Conn: m.nc, Names: m.names(), Memory: m.o.Memory, Replicas: m.copies.replicas, Placement: m.copies.placement, Identity: identity, Snapshot: m.snapshot, Log: m.log,
	})
	if err == nil {
		err = d.Start(m.decider.ledger.store.Applied())
	}
	if err == nil {
		m.dedup.Store(d)
	}
	return err
}

// stopDedup leaves the bucket to another engine.
func (m *mirror) stopDedup(ctx context.Context) error {
	if d := m.dedup.Swap(nil); d != nil {
		return d.Stop(ctx)
	}
	return nil
}

const (
	// dropDedupTimeout bounds dropDedup.
	dropDedupTimeout = 5 * time.Second
	// leaveDedupTimeout bounds what a standby still writes of what it has heard as the owner.
	leaveDedupTimeout = time.Second
)

// dropDedup deletes the bucket of taken dedup keys that is left after it was
// switched off: nobody writes it any more, and clients would believe it.
func (m *mirror) dropDedup() {
	ctx, cancel := context.WithTimeout(context.Background(), dropDedupTimeout)
	defer cancel()
	if err := kvstate.DropDedup(ctx, m.nc, m.names()); err != nil {
		m.log.Warn("the bucket of taken dedup keys is switched off and could not be deleted: what it shows is out of date", "error", err)
	}
}

func (m *mirror) projected(c *core.Changes) {
	if d := m.dedup.Load(); d != nil {
		d.Feed(c)
	} else if m.keyless.Load() && slices.ContainsFunc(c.Items, func(i core.ItemChange) bool { return i.New != nil && i.New.DedupKey != "" }) {
		m.beginDedup()
	}
}

// hasKeys reports whether any dedup key is taken.
func (m *mirror) hasKeys() bool {
	found := errors.New("found")
	_, err := query.Of(m.decider.ledger.store).DedupHeld(context.Background(), func(events.Type, string, events.ID, events.ItemState) error { return found })
	return err != nil
}

// beginDedup begins to mirror the taken dedup keys.
func (m *mirror) beginDedup() {
	m.keyless.Store(false)
	if err := m.startDedup(); err != nil {
		m.log.Error("the bucket of taken dedup keys is not written", "error", err)
	}
}

// renewed: the projection was made anew, and what it fed has a gap.
func (m *mirror) renewed(at events.Seq) {
	if d := m.dedup.Load(); d != nil {
		d.Skip(at)
	}
}

// owned begins to mirror, before the engine does anything as the owner.
func (m *mirror) owned(e events.Epoch) {
	m.mu.Lock()
	m.epoch = e
	m.mu.Unlock()
	if m.dedup.Load() == nil {
		if m.other() && !m.hasKeys() {
			m.keyless.Store(true)
		} else {
			m.beginDedup()
		}
	}
	m.decider.ledger.lease.owned(e)
	m.poke()
}

// standBy leaves the buckets to the engine that owns the log now.
func (m *mirror) standBy() {
	m.keyless.Store(false)
	m.mu.Lock()
	m.epoch, m.began = 0, false
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), leaveDedupTimeout)
	defer cancel()
	if err := m.stopDedup(ctx); err != nil {
		m.log.Warn("the bucket of taken dedup keys may lack the last changes: the new owner writes them", "error", err)
	}
}

func (m *mirror) workersChanged([]wire.WorkerInfo) {
	m.mu.Lock()
	m.began = true
	m.mu.Unlock()
	m.poke()
}

func (m *mirror) bucketGone() {
	m.mu.Lock()
	m.gone = true
	m.mu.Unlock()
	m.decider.ledger.lease.poke()
	m.poke()
}

func (m *mirror) poke() { nudge.Send(m.wake) }

// run writes the registry and the owner when they have changed, and again
// before their entries expire.
func (m *mirror) run(ctx context.Context) {
	// The server tells of a deleted bucket, mostly: the renewals find the others.
	for _, bucket := range []string{"workers", "partitions"} {
		sub, err := m.nc.Subscribe("$JS.EVENT.ADVISORY.STREAM.DELETED.KV_"+m.names().Bucket(bucket), func(*nats.Msg) { m.bucketGone() })
		if err != nil {
			m.log.Warn("a deleted bucket will come back only with the next renewal", "error", err)
			continue
		}
		defer func() { _ = sub.Unsubscribe() }()
	}
	renew := time.NewTicker(kvstate.DefaultPartitionTTL / 3)
	defer renew.Stop()
	shown := map[string]shownWorker{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.wake:
		case <-renew.C:
		}
		c, cancel := context.WithTimeout(ctx, 5*time.Second)
		m.write(c, shown)
		cancel()
	}
}

// shownWorker holds what the bucket has of a worker, and when it was written.
type shownWorker struct {
	info wire.WorkerInfo
	at   time.Time
}

// current reports whether the bucket's entry for a worker is up to date. Its
// load and the time it was last seen may be as old as the entry may be.
func (s shownWorker) current(w wire.WorkerInfo) bool {
	return s.info.Session == w.Session && s.info.Status == w.Status && s.info.Reason == w.Reason &&
		time.Since(s.at) < kvstate.DefaultWorkerTTL/3
}

func (m *mirror) write(ctx context.Context, shown map[string]shownWorker) {
	m.mu.Lock()
	began, epoch, gone := m.began, m.epoch, m.gone
	m.gone = false
	m.mu.Unlock()
	var list []wire.WorkerInfo
	if began { // the dispatcher is there since
		list = m.decider.dispatcher.Workers()
	}
	if gone {
		clear(shown)
	}
	if epoch != 0 && !m.other() && !m.decider.ledger.lease.shared() { // else the lease shows it
		m.note(ctx, m.owners.Put(ctx, 0, kvstate.Owner{Owner: m.decider.dispatcher.Owner(), Epoch: epoch, At: time.Now().UTC()}))
	}
	live := map[string]bool{}
	for _, w := range list {
		live[w.Worker] = true
		if s, ok := shown[w.Worker]; ok && s.current(w) {
			continue
		}
		shown[w.Worker] = shownWorker{w, time.Now()}
		m.note(ctx, m.workers.Put(ctx, w))
	}
	for id := range shown {
		if !began {
			clear(shown) // another engine shows them now
			break
		}
		if !live[id] {
			delete(shown, id)
			m.note(ctx, m.workers.Delete(ctx, events.WorkerID(id)))
		}
	}
}

func (m *mirror) note(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		m.log.Warn("a bucket could not be written: trying again later", "error", err)
	}
}
