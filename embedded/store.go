package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright"
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

func (e *Engine) storeOptions() projector.Options {
	o := storeOptions(e.o.Memory, e.log)
	o.KeepPruned = e.o.keepPruned
	return o
}

// openStore opens the projection as it is. One that can't be opened is left
// alone until the log is seen to be there: see matchStore.
func (e *Engine) openStore(context.Context) (err error) {
	if e.dir != nil {
		_, outdated, err := projector.Holds(e.dir.store())
		if err == nil && outdated {
			err = errors.New("its format is that of an older program")
		}
		if e.unread = err; err != nil {
			return nil
		}
	}
	e.store, err = projector.Open(e.dir.store(), e.storeOptions())
	if err != nil && e.dir != nil && !errors.Is(err, projector.ErrInUse) {
		e.unread, err = err, nil
	}
	return err
}

func (e *Engine) closeStore(context.Context) error {
	if e.store == nil { // it could not be opened, or made anew
		return nil
	}
	return e.store.Close()
}

func (e *Engine) closeLog(context.Context) error { return e.eventLog.Close() }

func (e *Engine) openLog(ctx context.Context) error {
	l, err := e.awaitLog(ctx)
	if errors.Is(err, eventlog.ErrNoLog) {
		return e.lost(err)
	}
	if err != nil {
		return err // and no log, not even a nil one, for Stop to close
	}
	e.eventLog = l
	if e.o.Memory || e.o.clockSkew != nil {
		e.eventLog = skewedLog{l, func() time.Duration {
			d := time.Duration(e.advanced.Load())
			if e.o.clockSkew != nil {
				d += e.o.clockSkew()
			}
			return d
		}}
	}
	return nil
}

// checkStrict refuses an existing NATS that isn't: ours is, and would only warn of the
// question.
func (e *Engine) checkStrict(ctx context.Context) error {
	if e.srv != nil {
		return nil
	}
	return checkStrict(ctx, e.nc, e.names(), streamwright.Redact(e.URL()))
}

// logLook is the time between two looks of a standby whether the log is there.
const logLook = 250 * time.Millisecond

// awaitLog opens the log. If there is none, the engine with the lease makes it, and the
// others wait for that. On several servers it waits for one that leads the log.
func (e *Engine) awaitLog(ctx context.Context) (eventlog.Log, error) {
	for end := time.Now().Add(startPatience); ; {
		c := e.logConfig()
		known := c.Existing
		if e.lease != nil && !known {
			by, err := e.lease.Take(ctx)
			c.Existing = err != nil || by != ""
		}
		if known || !c.Existing {
			if err := restoreFirst(ctx, e); err != nil {
				return nil, err
			}
		}
		try, cancel := ctx, func() {}
		if e.lease != nil {
			try, cancel = context.WithTimeout(ctx, startTry)
		}
		l, err := eventlog.Open(try, c)
		cancel()
		// A stream that is just being made, or has no leader, does not answer.
		comes := silence(err) || gathering(err) && time.Now().Before(end) || !known && (errors.Is(err, eventlog.ErrNoLog) || errors.Is(err, eventlog.ErrUnrestored) && c.Existing)
		if err == nil || e.lease == nil || !comes || ctx.Err() != nil {
			return l, err
		}
		if silence(err) {
			e.does("the log (stream %s) does not answer: %v", e.names().EventStream(0), err)
			e.log.Warn("the log does not answer: trying again", "error", err)
		} else {
			e.does("another node is to make the log: %v", err)
		}
		if err := sleep.For(ctx, logLook); err != nil {
			return nil, err
		}
	}
}

// logConnect opens a connection as the log needs it.
func (e *Engine) logConnect() (*nats.Conn, error) {
	return e.connect(true, nats.Name("streamwright log"), nats.ReconnectBufSize(-1))
}

func (e *Engine) logConfig() eventlog.Config {
	knownLog := e.unread != nil || e.store.Applied() > 0 // the store has something of it
	return eventlog.Config{
		Connect:  e.logConnect,
		Existing: knownLog && !e.o.SetStoreAside,
		Replicas: e.copies.replicas, Placement: e.copies.placement,
		Names: e.names(), Memory: e.o.Memory, Logger: e.log,
		OnForeign: func(seq uint64, _ string) { e.metrics.Foreign(seq) },
	}
}

// matchStore makes sure that the store belongs to the log. The store is derived
// from the log, but if the log is lost it is the last copy: then Start refuses.
// It is made anew only if the log holds what it was made from, but for the
// little that a power loss takes, and even then the old store is set aside.
func (e *Engine) matchStore(ctx context.Context) error {
	var end eventlog.End
	err := patiently(ctx, e, func(ctx context.Context) (err error) {
		end, err = e.eventLog.End(ctx)
		return err
	})
	if err != nil {
		return err
	}
	e.metrics.CountFrom(end.Last)
	why := e.unread
	if why == nil {
		why = e.store.CheckLog(ctx, end.Identity(), e.eventLog)
	}
	switch {
	case why == nil:
	case e.unread == nil && !errors.Is(why, projector.ErrDiverged):
		return why // the log's own error
	case !e.o.SetStoreAside && wouldLose(end.Tip, why, e.Durability() == config.Always && e.srv != nil):
		return e.lost(why)
	case e.unread == nil && errors.Is(why, eventlog.ErrTrimmed) && !errors.Is(why, projector.ErrOtherLog):
		// The log has been cut in front of the store: the takeover renews it.
	default:
		if err := e.renewStore(why); err != nil {
			return err
		}
	}
	return e.store.SetIdentity(end.Identity())
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
func (e *Engine) lost(why error) error {
	what := "a store that can't be opened"
	if e.store != nil {
		what = "a store as of event " + e.store.Applied().String()
		if m, err := e.store.Meta(); err == nil {
			what += " of " + m.LastAt.UTC().Format(time.RFC3339)
		}
	}
	return events.WithCode(events.CodeLogLost, fmt.Errorf(
		"the event log is not the one of the store: %w: %s is in %s, and starting on this log would lose what it holds: "+
			"restore the log from a backup; or have `engine salvage` write a new log of what the store holds; or, if the log is right, start with --set-store-aside", why, what, e.dir.store()))
}

// renewStore sets the store aside and opens an empty one, which the takeover
// fills from the log.
func (e *Engine) renewStore(why error) error {
	if e.store != nil {
		s := e.store
		e.store = nil
		if err := s.Close(); err != nil {
			return err
		}
	}
	if e.dir != nil {
		aside, err := setAside(e.dir.store())
		if err != nil {
			return err
		}
		e.log.Warn("the store is made anew from the log; the old one is set aside: remove it when nothing is missed", "why", why, "folder", aside, "set_aside_in_all", len(storesAside(e.dir.path)))
	}
	e.unread = nil
	s, err := projector.Open(e.dir.store(), e.storeOptions())
	e.store = s
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
