package embedded

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/blobs"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/dispatcher"
	"github.com/streamwright/streamwright/embedded/itemlog"
	"github.com/streamwright/streamwright/embedded/room"
	"github.com/streamwright/streamwright/embedded/submap"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/projector/query"
	"github.com/streamwright/streamwright/tracing/itemspans"
	"github.com/streamwright/streamwright/wire"
)

// decider is what decides, and what acts on that.
type decider struct {
	*base
	ledger *ledger

	dispatcher *dispatcher.Engine
	space      *room.Watch
	items      *itemlog.Log
	mirror     *mirror
	janitor    *blobs.Janitor
	spans      *itemspans.Recorder // nil: nothing is traced
}

// newDispatcher makes the dispatcher, and what its hooks need.
func (d *decider) newDispatcher(hooks dispatcher.Hooks) (err error) {
	if err := d.newJanitor(); err != nil {
		return err
	}
	if d.o.Tracing != nil {
		if d.spans, err = itemspans.New(d.o.Tracing, query.Of(d.ledger.store).History); err != nil {
			return err
		}
	}
	c := dispatcher.Config{
		Log: d.ledger.eventLog, Store: d.ledger.store, Conn: d.nc, Names: d.names(), Owner: d.nodeName(), Version: Version,
		Alone: !d.ledger.lease.shared(), Sites: d.cfg.Leaf.SiteNames(), MemoryOnly: d.o.Memory, Replicas: d.copies.replicas, Placement: d.copies.placement, Several: d.copies.several, Defaults: d.cfg.TypeDefaults(), MaxRunning: d.cfg.Limits.MaxRunning,
		Limits:    d.cfg.EngineLimits(),
		FileTypes: map[events.Type]func(events.TypeSettings) events.TypeSettings{}, FileSchedules: d.cfg.FileSchedules(), Logger: d.log, Hooks: hooks,
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
		c.Door = submap.New(d.srv.ns, d.names().Account())
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
