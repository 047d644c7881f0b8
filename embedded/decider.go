package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/api"
	"github.com/streamwright/streamwright/blobs"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/dispatcher"
	"github.com/streamwright/streamwright/embedded/itemlog"
	"github.com/streamwright/streamwright/embedded/room"
	"github.com/streamwright/streamwright/embedded/submap"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector/query"
	"github.com/streamwright/streamwright/tracing/itemspans"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/wire/command"
)

// decider is what decides, and what acts on that.
type decider struct {
	*base
	ledger *ledger

	dispatcher *dispatcher.Dispatcher
	unheed     func() // ends heedRoom
	bound      logBound
	items      *itemlog.Log
	mirror     *mirror
	janitor    *blobs.Janitor
	spans      *itemspans.Recorder // nil: nothing is traced

	mu   sync.Mutex // guards held
	held reasons
}

// newDispatcher makes the dispatcher, and what its hooks need.
func (d *decider) newDispatcher(hooks dispatcher.Hooks) (err error) {
	if err := d.newJanitor(); err != nil {
		return err
	}
	if d.o.Tracing != nil {
		if d.spans, err = itemspans.New(d.o.Tracing, d.namespaceName(), query.Of(d.ledger.store).History); err != nil {
			return err
		}
	}
	c := dispatcher.Config{
		Log: d.ledger.eventLog, Store: d.ledger.store, Conn: d.nc, Names: d.names(), Owner: d.nodeName(), Version: Version, Turns: d.turns,
		Alone: !d.ledger.lease.shared(), Sites: d.cfg.Leaf.SiteNames(), MemoryOnly: d.o.Memory, Replicas: d.copies.replicas, Placement: d.copies.placement, Several: d.copies.several, Defaults: d.cfg.TypeDefaults(), MaxRunning: d.cfg.Limits.MaxRunning,
		Limits:    d.cfg.EngineLimits(),
		FileTypes: map[events.Type]func(events.TypeSettings) events.TypeSettings{}, FileSchedules: d.cfg.FileSchedules(), FileNamespaces: d.cfg.FileNamespaces(), Logger: d.log, Hooks: hooks,
		MaxParams: d.cfg.TypeDefaults().MaxParams, IntakeMaxBytes: d.share("", maxIntakeBytes, maxIntakeBytes),
		Heartbeat: d.cfg.Workers.HeartbeatInterval, Gone: d.cfg.Workers.DeadAfter, Sweep: d.cfg.Workers.SweepInterval,
		ProbeInterval: d.cfg.Workers.ProbeInterval, ProbeTimeout: d.cfg.Workers.ProbeTimeout, ProbeFailures: d.cfg.Workers.ProbeFailures,
		Dedup: dedupConfig(d.cfg.DedupHook, d.o.DedupHook, d.nc), Score: d.o.Score, ScoreTypes: d.o.ScoreTypes,
		CutEvents: d.cfg.Retention.CutEvents,
	}
	if d.srv != nil {
		c.Heard = func(subject string) bool {
			a, err := d.srv.ns().LookupAccount(d.names().Account())
			return err != nil || a.SubscriptionInterest(subject)
		}
	}
	if c.Children, err = childReader(d.nc, d.names()); err != nil {
		return err
	}
	if d.srv != nil && !d.ledger.lease.shared() {
		c.Door, c.DoorLate = submap.New(d.srv.ns, d.names().Account()), d.other()
	}
	if d.ledger.lease.shared() {
		c.Lease, c.Registered = d.ledger.lease, d.mirror.workers.List
	}
	c.MaxClockJump, c.ClockSynced, c.Suspended = d.cfg.Server.MaxClockJump, synced(), suspended
	if d.dir != nil {
		c.KnownTime, c.NoteTime = d.dir.clock(d.log)
	}
	if d.spans != nil {
		c.Traceparent = d.spans.Traceparent
	}
	fileSettings(d.cfg, &c)
	if d.dispatcher, err = dispatcher.New(c); err != nil {
		return err
	}
	d.items = itemlog.New(d.log, itemlog.Transitions(d.cfg.Server.LogTransitions))
	return nil
}

func (d *decider) stopDispatcher(ctx context.Context) error {
	err := d.dispatcher.Stop(ctx)
	d.items.Stop()
	return err
}

// takeOver has the engine own the log, or stand by.
func (d *decider) takeOver(ctx context.Context) error {
	d.does("the store is brought up to the log, from position %s", wire.PositionOf(d.ledger.store.Applied()))
	if err := d.dispatcher.Start(ctx); err != nil {
		if errors.Is(err, events.ErrNewer) {
			err = events.WithCode(events.CodeNewerFormat, err)
		}
		return err
	}
	d.ledger.lease.working.Store(d.dispatcher)
	return nil
}

// settle returns once what the engine does first (recording the file's settings) is done and
// visible.
func (d *decider) settle(ctx context.Context) error {
	if _, standsBy := d.dispatcher.StandsBy(); !standsBy {
		d.does("it takes the log over")
		if _, err := d.dispatcher.Loads(ctx); err != nil && events.CodeOf(err) != events.CodeNotOwner {
			return err
		}
		return d.dispatcher.Await(ctx, d.dispatcher.Position())
	}
	return nil
}

// fileSettings adds what engine.toml sets for types.
func fileSettings(cfg config.Config, c *dispatcher.Config) {
	if len(cfg.Defaults) > 0 {
		c.FileDefaults = cfg.Defaults.Apply
	}
	for name, t := range cfg.Types {
		if len(t.Patch) == 0 {
			continue // just a command: the log owns the settings
		}
		c.FileTypes[name] = t.Patch.Apply
		c.MaxParams = max(c.MaxParams, cfg.Settings(name).MaxParams)
	}
}

// dedupConfig returns whom the dispatcher asks about submissions: own, or the
// configured subject.
func dedupConfig(h config.DedupHook, own DedupHook, nc *nats.Conn) dispatcher.DedupConfig {
	c := dispatcher.DedupConfig{Hook: own, Candidates: h.Candidates, KeySeparator: h.KeySeparator, Timeout: h.Timeout, Fallback: h.Fallback}
	if c.Hook == nil && h.Subject != "" {
		c.Hook = &dispatcher.NATSDedupHook{Conn: nc, Subject: h.Subject}
	}
	for _, t := range h.Types {
		c.Types = append(c.Types, events.Type(t))
	}
	return c
}

// newJanitor makes what looks after the object store of large documents.
func (d *decider) newJanitor() (err error) {
	d.janitor, err = blobs.NewJanitor(blobs.JanitorConfig{
		Conn: d.nc, Names: d.names(), Bucket: blobs.BucketConfig{Memory: d.o.Memory, Replicas: d.copies.replicas, Placement: d.copies.placement, MaxBytes: d.documentBytes()},
		Exists: func(_ context.Context, id events.ID) (bool, error) {
			it, err := d.ledger.store.Item(id)
			return it != nil, err
		},
		Undecided: d.undecided, Logger: d.log,
	})
	return err
}

// exists reports whether there is an item, of all that is durable. An engine that does not
// own the log leaves it to the owner to find that one is gone.
func (d *decider) exists(ctx context.Context, id events.ID) (bool, error) {
	if _, standsBy := d.dispatcher.StandsBy(); standsBy {
		return true, nil
	}
	if err := d.dispatcher.Await(ctx, d.dispatcher.Position()); err != nil {
		return false, err
	}
	it, err := d.ledger.store.Item(id)
	return it != nil, err
}

// documentBytes bounds the object store of large documents; -1: by the storage alone.
func (d *decider) documentBytes() int64 {
	if d.other() {
		return cmp.Or(d.info.Limits.MaxDocumentBytes, -1)
	}
	return d.share("blob_max_size", d.cfg.Limits.BlobMaxBytes, config.Default().Limits.BlobMaxBytes)
}

// startBlobs makes the object store, and has it looked after.
func (d *decider) startBlobs(ctx context.Context) error { return d.patiently(ctx, d.janitor.Start) }

// pruned returns the items that are gone.
func pruned(items []core.ItemChange) (gone []*events.Item) {
	for _, c := range items {
		if c.New == nil && c.Old != nil {
			gone = append(gone, c.Old)
		}
	}
	return gone
}

// childReader returns the function that reads the children of a large spawn from
// the object store.
func childReader(nc *nats.Conn, names wire.Names) (func(context.Context, string) ([]core.Submit, error), error) {
	store, err := blobs.New(nc, names, blobs.DefaultMaxBytes)
	if err != nil {
		return nil, err
	}
	none := func() events.ID { return events.ID{} } // they are named when they are made
	return func(ctx context.Context, text string) ([]core.Submit, error) {
		ref, err := blobs.Parse([]byte(text))
		if err != nil {
			return nil, err
		}
		children, err := api.ReadChildren(ctx, store, ref)
		if err != nil {
			return nil, err
		}
		return command.OfChildren(children, none, events.MaxParamsCeiling)
	}, nil
}

// undecided returns since when the oldest submission has waited in the intake; zero
// if none does. Before it looks it sees to it that the store is up with the
// log: its own position may be old if another engine has taken over, so the
// log's end counts.
func (d *decider) undecided(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	js, err := connect.JetStream(d.nc, d.names())
	if err != nil {
		return time.Time{}, err
	}
	s, err := js.Stream(ctx, d.names().IntakeStream())
	if err != nil {
		return time.Time{}, err
	}
	end, err := d.ledger.eventLog.End(ctx)
	if err != nil {
		return time.Time{}, err
	}
	if err := d.dispatcher.Await(ctx, end.Last); err != nil {
		return time.Time{}, err
	}
	if state := s.CachedInfo().State; state.Msgs > 0 {
		return state.FirstTime, nil
	}
	return time.Time{}, nil
}

const (
	// maxIntakeBytes bounds the submissions that wait to be decided.
	maxIntakeBytes = 1 << 30
	// sideShare is the part of the storage that the intake, and the items' logs,
	// may each reserve: the server sets a stream's byte limit aside in full, and
	// the rest is for the truth. Namespaces beside the default one may reserve
	// otherShare of it each, at least otherLeast bytes: events.MaxNamespaces of them
	// take half of it, where it is large enough.
	sideShare  = 8
	otherShare = 4 * events.MaxNamespaces
	otherLeast = 4 << 20
)

// storage returns how much the server has for the streams that hold what the engine
// must keep; 0 if it is not ours.
func (s *server) storage(memory bool) int64 {
	if s == nil {
		return 0
	}
	c := s.ns().JetStreamConfig()
	switch {
	case c == nil:
		return 0
	case memory:
		return c.MaxMemory
	}
	return c.MaxStore
}

// share bounds what a stream beside the log may reserve: by the setting, and by its
// share of the storage. It warns if a setting that is not the usual one is cut.
func (b *base) share(setting string, wanted, usual int64) int64 {
	total := b.srv.storage(b.o.Memory)
	if total <= 0 {
		return wanted
	}
	kept := min(wanted, max(total/sideShare, 1))
	if b.other() {
		kept = min(wanted, max(total/otherShare, otherLeast))
	}
	if kept < wanted && wanted != usual {
		b.log.Warn(setting+" is more than its share of the storage: less is kept", setting, wanted, "kept", kept)
	}
	return kept
}

// watchRoom begins to watch the room that the process has.
func (b *base) watchRoom() {
	c := room.Config{Least: uint64(max(b.cfg.Limits.MinFreeBytes, 0)), Free: FreeSpace, Log: b.log, Dir: b.dir.root()}
	if b.srv != nil {
		c.Used = func() (uint64, uint64, bool) { return storageUsed(b.srv.ns(), b.o.Memory) }
		c.Failed, c.Restart = b.srv.fault, b.srv.restart
	}
	b.room = room.Start(c)
}

// heedRoom has the dispatcher do without what there is no room for.
func (d *decider) heedRoom() {
	d.unheed = d.room.Listen(func(full bool, hold string) {
		d.hold(func(h *reasons) { h.room, h.full = hold, full })
	})
}

// heedBound has the namespace keep to the bound of its log.
func (d *decider) heedBound(ctx context.Context) error {
	b := &d.bound
	b.name, b.most, b.log = d.info.Name, d.info.Limits.MaxLogBytes, d.log
	b.last, b.tell = d.ledger.eventLog.Last, func(full bool) { d.hold(func(h *reasons) { h.logFull = full }) }
	b.start(ctx)
	return nil
}

// full returns what stands in the way of new work: of the process, or else of the namespace.
func (d *decider) full() *api.RoomAlarm { return cmp.Or(d.room.Full(), d.bound.full()) }

// reasons say why nothing new is begun, empty: there is none; and why the intake is not read.
type reasons struct {
	room, pause   string
	full, logFull bool
}

// hold changes the reasons, and tells the dispatcher.
func (d *decider) hold(change func(*reasons)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(&d.held)
	d.dispatcher.HoldDispatch(cmp.Or(d.held.room, d.held.pause), d.held.room != "")
	d.dispatcher.PauseIntake(d.held.full || d.held.logFull)
}

// decide decides a command, and returns why it was refused.
func (d *decider) decide(ctx context.Context, cmd core.Command) error {
	done := make(chan error, 1)
	err := d.dispatcher.Do(ctx, []core.Command{cmd}, func(o []dispatcher.Outcome) { done <- o[0].Err })
	if err != nil {
		return err
	}
	select {
	case err = <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// set puts the settings of a namespace into force.
func (d *decider) set(info events.NamespaceInfo) {
	why := ""
	if info.Paused {
		why = fmt.Sprintf("the namespace %s is paused: `engine namespace resume %s`", info.Name, info.Name)
	}
	d.hold(func(h *reasons) { h.pause = why })
}

// storageUsed returns how much the server's streams hold, and may.
func storageUsed(ns *natsserver.Server, memory bool) (used, most uint64, ok bool) {
	info, err := ns.Jsz(nil)
	if err != nil || info.Disabled {
		return 0, 0, false
	}
	if memory {
		return info.Memory, uint64(max(info.Config.MaxMemory, 0)), true
	}
	return info.Store, uint64(max(info.Config.MaxStore, 0)), true
}
