package dispatcher

import (
	"context"
	"errors"
	"fmt"

	"github.com/streamwright/streamwright/dispatcher/retention"
	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector"
)

// RetentionStatus describes the state of retention.
type RetentionStatus = retention.Status

// Retention returns the state of retention.
func (d *Dispatcher) Retention(ctx context.Context) (RetentionStatus, error) {
	return retentionOf(ctx, d, (*retention.Retention).Status)
}

// Cut begins a round of snapshots, after which the log is cut, unless the log begins after
// past already. If a round is under way, that one goes on; it may have begun before past.
// Cut returns at once.
func (d *Dispatcher) Cut(ctx context.Context, past events.Seq) (RetentionStatus, error) {
	return retentionOf(ctx, d, func(k *retention.Retention) RetentionStatus { k.Ask(past); return k.Status() })
}

func retentionOf(ctx context.Context, d *Dispatcher, of func(*retention.Retention) RetentionStatus) (RetentionStatus, error) {
	return ask(ctx, d, func(l *loop) (RetentionStatus, error) { return of(l.retention), nil })
}

// newRetention makes the Retention of an ownership.
func (l *loop) newRetention() *retention.Retention {
	return retention.New(retention.Config{
		State: l.state, Store: l.cfg.Store, Clock: l.clock, Log: l.cfg.Logger, Batch: retained{&l.decider},
		Sweep: l.cfg.Sweep, SyncWithin: l.cfg.SyncWithin, CutEvents: l.cfg.CutEvents,
		Appended: func() events.Seq { return l.pipe.appended },
		CutLog:   func(below uint64) { l.out.CutLog(below) },
		Halted:   func() bool { return l.halt.on() },
	})
}

// retained is the decider as a [retention.Batch].
type retained struct{ *decider }

// Decide implements [retention.Batch].
func (r retained) Decide(c core.Command) (refused, err error) {
	_, _, refused = r.decide(c)
	return refused, fatal(refused)
}

// Add implements [retention.Batch].
func (r retained) Add(evs []events.Event) error { return r.pipe.addParts(evs) }

// Size implements [retention.Batch].
func (r retained) Size() (n, bytes int) {
	if len(r.pipe.rest) > 0 { // of a decision in parts: nothing else comes in between
		return eventlog.MaxEvents, r.pipe.most
	}
	return len(r.pipe.building.events), r.pipe.building.bytes
}

// ErrTooLarge is returned by Salvage for a store that no round can re-state.
var ErrTooLarge = retention.ErrTooLarge

// Salvage writes the content of a store into a log that has no events and begins right
// after the store's position: see [retention.Salvage]. It needs cfg.Log and cfg.Store, and
// uses Defaults, Limits and Logger.
func Salvage(ctx context.Context, cfg Config, progress func(done, total int64)) error {
	cfg = cfg.WithDefaults()
	return retention.Salvage(ctx, retention.SalvageConfig{Log: cfg.Log, Store: cfg.Store, Defaults: cfg.Defaults, Limits: cfg.Limits, Logger: cfg.Logger}, progress)
}

// cutBelow cuts the log below a frame. It flushes the projection first, which a crash would otherwise
// force to be made anew from what is left of the log.
func cutBelow(ctx context.Context, c *Config, below uint64) error {
	ctx, cancel := context.WithTimeout(ctx, retention.CutTimeout)
	defer cancel()
	if err := c.Store.Flush(); err != nil {
		return err
	}
	return c.Log.Purge(ctx, below)
}

// renewIfCut makes the projection anew if the log has been cut in front of its position,
// since it then lacks the events in between.
func renewIfCut(ctx context.Context, cfg *Config, tip eventlog.Tip) error {
	at := cfg.Store.Applied()
	if at == 0 || tip.First <= at.Frame()+1 {
		return nil
	}
	cfg.Logger.Warn("the log has been cut in front of the projection: making it anew", "position", at, "first", tip.First)
	err := cfg.Store.Renew(ctx, cfg.Log, events.SeqOf(tip.Seq, eventlog.MaxEvents), nil)
	if errors.Is(err, projector.ErrBeforeCut) {
		err = fmt.Errorf("the round of snapshots at the head of the log does not end: %w: %w", events.ErrCorrupt, err)
	}
	if err == nil && cfg.Hooks.Renewed != nil {
		cfg.Hooks.Renewed(cfg.Store.Applied())
	}
	return err
}
