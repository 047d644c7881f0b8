package bridge

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Bounds of the bridge.
const (
	// MaxWorkers bounds the HTTP workers that one engine process serves; more are
	// refused with "unavailable".
	MaxWorkers = 1000 // unless Config says another number
	// MaxItems bounds the items that a poll returns.
	MaxItems = 100
	// MaxPollBytes bounds the documents of a poll's items together.
	MaxPollBytes = 8 << 20
	// DefaultMaxLoadedBytes bounds the documents that have arrived and are not handed out,
	// over all workers; what comes beyond goes back.
	DefaultMaxLoadedBytes = 256 << 20
	// MaxWait bounds how long a poll waits; DefaultWait applies if it does not say.
	MaxWait     = 60 * time.Second
	DefaultWait = 30 * time.Second
	// MaxReports bounds the reports of one request.
	MaxReports = 1000
	// MaxInFlight bounds the runs that one heartbeat names.
	MaxInFlight = 2000
	// DefaultGone is the time for which a worker may be silent before its session is
	// dropped: as long as the engine waits for a heartbeat.
	DefaultGone = 60 * time.Second
)

const (
	callTimeout = 10 * time.Second // of a request to the engine that no client waits for
	maxArriving = 64 << 10         // messages that wait to be taken in; what comes beyond is dropped, and its lease brings it back
	drainLimit  = 5 * time.Second  // for the last releases
)

// Caller answers the engine's requests, implemented by *api.Service. It asks again while the
// owner of the log changes.
type Caller interface {
	Call(ctx context.Context, endpoint string, body []byte) ([]byte, error)
}

// Config configures a Bridge. Conn and Engine must be set.
type Config struct {
	Conn   *nats.Conn // the engine's own
	Engine Caller
	Names  wire.Names
	// Documents keeps results that are too large for an event; nil: they are
	// refused.
	Documents Documents
	Gone      time.Duration // 0: DefaultGone
	// Key signs the sessions, KeyBytes of it. A bridge with the same key takes the
	// sessions that another has made; nil: one of this bridge's own.
	Key []byte
	// Shared says that there are other bridges with the same key, so that a worker may have
	// runs that this one has not seen.
	Shared bool
	// MaxWorkers bounds the workers that it serves; 0: the constant MaxWorkers.
	MaxWorkers int
	// MaxHeldBytes bounds what is held for repeats of polls; 0: DefaultMaxHeldBytes.
	MaxHeldBytes int
	// MaxLoadedBytes bounds what is on its way to workers; 0: DefaultMaxLoadedBytes.
	MaxLoadedBytes int
	Logger         *slog.Logger // nil: none
}

// Bridge holds the sessions of HTTP workers. Its methods may be used by any
// number of goroutines.
type Bridge struct {
	cfg      Config
	log      *slog.Logger
	id       string         // among the bridges of an engine cluster
	arriving chan *nats.Msg // items of all sessions

	ctx      context.Context // ends with Stop
	cancel   context.CancelFunc
	control  *nats.Subscription
	probes   *nats.Subscription
	loops    sync.WaitGroup
	polls    sync.WaitGroup // and waits for probes
	kick     chan struct{}  // wakes the expiry loop
	key      signingKey
	releases releases
	starts   starts

	mu        sync.Mutex // guards what follows, and all sessions
	stopping  bool
	sessions  map[string]*session  // by worker
	listening map[string]*session  // by the session's name at the engine
	idle      []*nats.Subscription // to be ended
	list      []wire.Assigned      // reused
	loaded    int                  // bytes of the documents of runs that are not handed out
	held      batches              // that may be asked for again
}

// New makes a Bridge, which works once it is started.
func New(cfg Config) (*Bridge, error) {
	if cfg.Conn == nil || cfg.Engine == nil {
		return nil, errors.New("make worker bridge: Conn and Engine must be set")
	}
	cfg.Names, cfg.Gone = cmp.Or(cfg.Names, wire.Default), cmp.Or(cfg.Gone, DefaultGone)
	if cfg.Key == nil {
		cfg.Key = make([]byte, KeyBytes)
		_, _ = rand.Read(cfg.Key) // never fails
	}
	if len(cfg.Key) != KeyBytes {
		return nil, fmt.Errorf("make worker bridge: the key has %d bytes: it must have %d", len(cfg.Key), KeyBytes)
	}
	cfg.MaxWorkers = cmp.Or(cfg.MaxWorkers, MaxWorkers)
	cfg.MaxLoadedBytes = cmp.Or(cfg.MaxLoadedBytes, DefaultMaxLoadedBytes)
	cfg.MaxHeldBytes = cmp.Or(cfg.MaxHeldBytes, DefaultMaxHeldBytes)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	b := &Bridge{
		cfg: cfg, log: cfg.Logger, id: rand.Text(), arriving: make(chan *nats.Msg, maxArriving), kick: make(chan struct{}, 1), key: cfg.Key,
		sessions: map[string]*session{}, listening: map[string]*session{},
	}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	b.releases = releases{b: b, wake: make(chan struct{}, 1)}
	b.starts = starts{b: b, wake: make(chan struct{}, 1)}
	return b, nil
}

// Start subscribes to the messages for the sessions. Call it once.
func (b *Bridge) Start() (err error) {
	if b.control, err = b.cfg.Conn.Subscribe(b.cfg.Names.Control(">"), b.onControl); err != nil {
		return fmt.Errorf("start worker bridge: subscribe to control messages: %w", err)
	}
	if b.probes, err = b.cfg.Conn.Subscribe(b.cfg.Names.Probe(">"), b.onProbe); err != nil {
		return fmt.Errorf("start worker bridge: subscribe to probes: %w", err)
	}
	b.loops.Go(b.watch)
	b.loops.Go(b.takeArriving)
	b.loops.Go(b.releases.run)
	b.loops.Go(b.starts.run)
	return nil
}

// Stop ends the open polls, hands back what has arrived and was not handed out,
// and returns when that is done or ctx ends. Nothing is registered or polled
// from then on; reports and heartbeats go through as long as the engine answers,
// and the workers keep their runs. Call it once, after Start.
func (b *Bridge) Stop(ctx context.Context) error {
	b.mu.Lock()
	b.stopping = true
	for _, s := range b.sessions {
		s.polling.poke()
		s.probing.poke()
	}
	b.mu.Unlock()
	b.polls.Wait() // each ends at once: nothing that it waits for outlasts this
	ctx, cancel := context.WithTimeout(ctx, drainLimit)
	defer cancel()
	err := b.releases.wait(ctx)
	b.mu.Lock()
	b.cancel() // no offer is made from here on
	b.mu.Unlock()
	b.loops.Wait()
	b.closeAll()
	if err != nil {
		return fmt.Errorf("stop worker bridge: what had arrived could not be handed back, the engine takes it back in a while: %w", err)
	}
	return nil
}

// closeAll gives up the subscriptions.
func (b *Bridge) closeAll() {
	for _, sub := range []*nats.Subscription{b.control, b.probes} {
		if sub != nil {
			_ = sub.Unsubscribe() // fails only when the connection is closed
		}
	}
	b.mu.Lock()
	defer b.unlock()
	for _, s := range b.sessions {
		s.silence()
	}
}

// unlock releases mu, and then ends the subscriptions that are idle.
func (b *Bridge) unlock() {
	idle := b.idle
	b.idle = nil
	b.mu.Unlock()
	for _, sub := range idle {
		_ = sub.Unsubscribe() // fails only when the connection is closed
	}
}

// watch drops the sessions of workers that have been silent for too long, and hands back
// what no poll has come for.
func (b *Bridge) watch() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(b.expire(time.Now()))
		select {
		case <-b.ctx.Done():
			return
		case <-timer.C:
		case <-b.kick:
		}
	}
}

// expire drops what has had its time, and returns when to look again.
func (b *Bridge) expire(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.unlock()
	next := time.Hour
	for _, s := range b.sessions {
		if held := s.expireHeld(now); !held.IsZero() {
			next = min(next, held.Sub(now))
		}
		if s.calls > 0 {
			next = min(next, b.cfg.Gone/4)
			continue
		}
		if left := s.seen.Add(b.cfg.Gone).Sub(now); left > 0 {
			next = min(next, left)
			continue
		}
		b.log.Warn("an HTTP worker is gone: nothing was heard of it", "worker", s.id, "runs", len(s.runs))
		s.drop()
	}
	return next
}

// call makes a request of the engine.
func (b *Bridge) call(ctx context.Context, endpoint string, req, reply any) error {
	body, err := json.Marshal(req)
	if err != nil {
		return events.Refuse(events.CodeBadRequest, "%v", err)
	}
	data, err := b.cfg.Engine.Call(ctx, endpoint, body)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, reply); err != nil {
		return fmt.Errorf("read the engine's answer to %s: %w", endpoint, err)
	}
	return nil
}

// Sessions returns the number of HTTP workers.
func (b *Bridge) Sessions() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.sessions)
}
