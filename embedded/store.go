package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/api"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/sleep"
	"github.com/streamwright/streamwright/projector"
)

const (
	storeFolder = "store"
	// asidePrefix begins the names of stores that were set aside.
	asidePrefix = "store-set-aside-"
	// maxLostFrames bounds the frames that a power loss may have taken from a log
	// that is synced each second: what an engine appends in a few seconds. A log
	// that has lost more has lost it otherwise.
	maxLostFrames = 50_000
)

// ledger is the event log, with the store that is made of it and the claim to own it.
type ledger struct {
	*base
	lease    *lease
	metrics  *api.Metrics
	eventLog eventlog.Log
	store    *projector.Store
	unread   error        // why the store could not be opened, until it is made anew
	advanced atomic.Int64 // how far Advance has moved the clock
}

func newLedger(b *base) *ledger {
	l := &ledger{base: b, lease: &lease{base: b}, metrics: api.NewMetrics()}
	l.metrics.TypeHistograms(b.cfg.Metrics.TypeHistograms)
	return l
}

// store returns the store's folder; empty without a data folder.
func (d *dataDir) store() string {
	if d == nil {
		return ""
	}
	return filepath.Join(d.path, storeFolder)
}

func storeOptions(memory bool, log *slog.Logger) projector.Options {
	return projector.Options{InMemory: memory, Logger: log}
}

func (l *ledger) storeOptions() projector.Options {
	o := storeOptions(l.o.Memory, l.log)
	o.KeepPruned, o.Turns = l.o.keepPruned, l.turns
	return o
}

// openStore opens the projection as it is. One that can't be opened is left
// alone until the log is seen to be there: see matchStore.
func (l *ledger) openStore(context.Context) (err error) {
	if l.dir != nil {
		_, outdated, err := projector.Holds(l.dir.store())
		if err == nil && outdated {
			err = errors.New("its format is that of an older program")
		}
		if l.unread = err; err != nil {
			return nil
		}
	}
	l.store, err = projector.Open(l.dir.store(), l.storeOptions())
	if err != nil && l.dir != nil && !errors.Is(err, projector.ErrInUse) {
		l.unread, err = err, nil
	}
	return err
}

func (l *ledger) closeStore(context.Context) error {
	if l.store == nil { // it could not be opened, or made anew
		return nil
	}
	return l.store.Close()
}

func (l *ledger) openLog(ctx context.Context) error {
	log, err := l.awaitLog(ctx)
	if errors.Is(err, eventlog.ErrNoLog) {
		return l.lost(err)
	}
	if err != nil {
		return err // and no log, not even a nil one, for Stop to close
	}
	l.eventLog = log
	if l.o.Memory || l.o.clockSkew != nil {
		l.eventLog = skewedLog{log, func() time.Duration {
			d := time.Duration(l.advanced.Load())
			if l.o.clockSkew != nil {
				d += l.o.clockSkew()
			}
			return d
		}}
	}
	return nil
}

// logLook is the time between two looks of a standby whether the log is there.
const logLook = 250 * time.Millisecond

// awaitLog opens the log. If there is none, the engine with the lease makes it, and the
// others wait for that. On several servers it waits for one that leads the log.
func (l *ledger) awaitLog(ctx context.Context) (eventlog.Log, error) {
	for end := time.Now().Add(startPatience); ; {
		c := l.logConfig()
		known := c.Existing
		if l.lease.shared() && !known {
			by, err := l.lease.Take(ctx)
			c.Existing = err != nil || by != ""
		}
		if known || !c.Existing {
			if err := l.restoreFirst(ctx); err != nil {
				return nil, err
			}
		}
		try, cancel := ctx, func() {}
		if l.lease.shared() {
			try, cancel = context.WithTimeout(ctx, startTry)
		}
		log, err := eventlog.Open(try, c)
		cancel()
		// A stream that is just being made, or has no leader, does not answer.
		comes := silence(err) || gathering(err) && time.Now().Before(end) || !known && (errors.Is(err, eventlog.ErrNoLog) || errors.Is(err, eventlog.ErrUnrestored) && c.Existing)
		if err == nil || !l.lease.shared() || !comes || ctx.Err() != nil {
			return log, err
		}
		if silence(err) {
			l.does("the log (stream %s) does not answer: %v", l.names().EventStream(0), err)
			l.log.Warn("the log does not answer: trying again", "error", err)
		} else {
			l.does("another node is to make the log: %v", err)
		}
		if err := sleep.For(ctx, logLook); err != nil {
			return nil, err
		}
	}
}

// logConnect opens a connection as the log needs it.
func (b *base) logConnect() (*nats.Conn, error) {
	return b.connect(true, nats.Name("streamwright log"), nats.ReconnectBufSize(-1))
}

func (l *ledger) logConfig() eventlog.Config {
	knownLog := l.unread != nil || l.store.Applied() > 0 // the store has something of it
	return eventlog.Config{
		Connect:  l.logConnect,
		Existing: knownLog && !l.o.SetStoreAside,
		Replicas: l.copies.replicas, Placement: l.copies.placement,
		Folder: l.srv.streamsDir(l.names()), Names: l.names(), Memory: l.o.Memory, Logger: l.log, Turns: l.turns,
		OnForeign: func(seq uint64, _ string) { l.metrics.Foreign(seq) },
	}
}

// matchStore makes sure that the store belongs to the log. The store is derived
// from the log, but if the log is lost it is the last copy: then Start refuses.
// It is made anew only if the log holds what it was made from, but for the
// little that a power loss takes, and even then the old store is set aside.
func (l *ledger) matchStore(ctx context.Context) error {
	return l.match(ctx, func(tip eventlog.Tip, why error) bool {
		return !l.o.SetStoreAside && wouldLose(tip, why, l.cfg.Server.Durability == config.Always && l.srv != nil)
	})
}

// match does that; refuse reports whether a store that differs must stay as it is.
func (l *ledger) match(ctx context.Context, refuse func(tip eventlog.Tip, why error) bool) error {
	var end eventlog.End
	err := l.patiently(ctx, func(ctx context.Context) (err error) {
		end, err = l.eventLog.End(ctx)
		return err
	})
	if err != nil {
		return err
	}
	l.metrics.CountFrom(end.Last)
	why := l.unread
	if why == nil {
		why = l.store.CheckLog(ctx, end.Identity(), l.eventLog)
	}
	switch {
	case why == nil:
	case l.unread == nil && !errors.Is(why, projector.ErrDiverged):
		return why // the log's own error
	case errors.Is(why, projector.ErrOtherLog) && l.former():
		if err := l.renewStore(why); err != nil {
			return err
		}
	case refuse(end.Tip, why):
		return l.lost(why)
	case l.unread == nil && errors.Is(why, eventlog.ErrTrimmed) && !errors.Is(why, projector.ErrOtherLog):
		// The log has been cut in front of the store: the takeover renews it.
	default:
		if err := l.renewStore(why); err != nil {
			return err
		}
	}
	return l.store.SetIdentity(end.Identity())
}

// former reports whether the store is that of an earlier namespace of the same name, which was
// removed while this node was away.
func (l *ledger) former() bool {
	if l.store == nil || l.info.CreatedAt.IsZero() {
		return false
	}
	m, err := l.store.Meta()
	return err == nil && m.LastAt.Before(l.info.CreatedAt)
}

// wouldLose reports whether a store made anew of the log would lack what the
// present one holds. synced: the log has lost nothing to a power loss.
func wouldLose(tip eventlog.Tip, why error, synced bool) bool {
	var behind *eventlog.BehindError
	switch {
	case tip.First > tip.Seq: // the log is empty
		return true
	case errors.Is(why, projector.ErrOtherLog):
		return true
	case errors.As(why, &behind):
		return synced || behind.Known-behind.Last > maxLostFrames
	}
	return false
}

// lost returns the error of a log that must not be started on.
func (l *ledger) lost(why error) error {
	what := "a store that can't be opened"
	if l.store != nil {
		what = "a store as of event " + l.store.Applied().String()
		if m, err := l.store.Meta(); err == nil {
			what += " of " + m.LastAt.UTC().Format(time.RFC3339)
		}
	}
	return events.WithCode(events.CodeLogLost, fmt.Errorf(
		"the event log is not the one of the store: %w: %s is in %s, and starting on this log would lose what it holds: "+
			"restore the log from a backup; or have `engine salvage` write a new log of what the store holds; or, if the log is right, start with --set-store-aside", why, what, l.dir.store()))
}

// renewStore sets the store aside and opens an empty one, which the takeover
// fills from the log.
func (l *ledger) renewStore(why error) error {
	if l.store != nil {
		s := l.store
		l.store = nil
		if err := s.Close(); err != nil {
			return err
		}
	}
	if l.dir != nil {
		aside, err := setAside(l.dir.store())
		if err != nil {
			return err
		}
		l.log.Warn("the store is made anew from the log; the old one is set aside: remove it when nothing is missed", "why", why, "folder", aside, "set_aside_in_all", len(storesAside(l.dir.path)))
	}
	l.unread = nil
	s, err := projector.Open(l.dir.store(), l.storeOptions())
	l.store = s
	return err
}

// setAside gives a store's folder another name, and returns that. Nothing removes
// it but a person.
func setAside(dir string) (string, error) {
	parent := filepath.Dir(dir)
	aside := filepath.Join(parent, asidePrefix+time.Now().UTC().Format("20060102T150405.000Z"))
	if err := os.Rename(dir, aside); err != nil {
		return "", fmt.Errorf("set the store aside: %w", err)
	}
	return aside, syncDir(parent)
}

// storesAside returns the stores that were set aside, and not removed since.
func storesAside(dir string) (names []string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), asidePrefix) {
			names = append(names, e.Name())
		}
	}
	return names
}
