package dispatcher

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector"
)

const nextLevel = events.FormatLevel + 1

// older is a program of this format level beside an engine of the next, with a store of
// its own.
type older struct {
	cfg   Config
	store *projector.Store
}

func newOlder(h *harness) *older {
	h.t.Helper()
	log, err := eventlog.Open(h.ctx(), eventlog.Config{Connect: func() (*nats.Conn, error) {
		return nats.Connect("", nats.InProcessServer(h.srv), nats.ReconnectBufSize(-1))
	}})
	if err != nil {
		h.t.Fatal(err)
	}
	store, err := projector.Open("", projector.Options{InMemory: true})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _, _ = log.Close(), store.Close() })
	return &older{Config{Log: log, Store: store, Conn: h.nc, Owner: "older"}.WithDefaults(), store}
}

// takeOver tries to become the owner.
func (o *older) takeOver(h *harness) (*core.State, error) {
	s, _, _, err := takeOver(h.ctx(), &o.cfg, newClocks(&o.cfg, time.Now), nil)
	return s, err
}

// raise raises the log to a format level, and returns the position from which on it holds.
func (h *harness) raise(level int) (events.Seq, error) {
	out, err := h.eng.one(h.ctx(), core.RaiseFormat{Level: level, Version: h.eng.cfg.Version})
	return out.Position, err
}

// Two programs of different levels share a log as it is. Once it has been raised the
// older one, which has followed it so far, is refused, and has appended nothing.
func TestRaiseFormatShutsOlderProgramsOut(t *testing.T) {
	h := newHarness(t, func(c *Config) { c.FormatLevel, c.Version, c.Alone = nextLevel, "2.0.0", false })
	o := newOlder(h)
	h.submit("email")
	if s, err := o.takeOver(h); err != nil || s.Level() != events.FormatLevel {
		t.Fatalf("the older program can't take over a log of its level: %v", err)
	}
	h.until("the newer one finds itself fenced, and takes over again", func() bool {
		_, err := h.eng.one(h.ctx(), core.Submit{Type: "email", NewID: h.eng.NewID()})
		return err == nil && h.eng.Epoch() > 2
	})

	at, err := h.raise(nextLevel)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := h.raise(nextLevel); err != nil || again != at {
		t.Fatalf("raised twice: at %d and %d, %v", at, again, err)
	}
	if err := h.eng.Await(h.ctx(), at); err != nil {
		t.Fatal(err)
	}
	if m, err := h.store.Meta(); err != nil || m.Level != nextLevel {
		t.Fatalf("the log is at level %d: %v", m.Level, err)
	}
	if _, err := h.raise(nextLevel + 1); !errors.Is(err, &events.Error{Code: events.CodeBadRequest}) {
		t.Fatalf("raised to what it does not read: %v", err)
	}

	_, err = o.takeOver(h)
	if !errors.Is(err, events.ErrNewer) || !final(err) || !strings.Contains(err.Error(), "use version 2.0.0 or newer") {
		t.Fatalf("the older program takes over a raised log: %v", err)
	}
	if o.store.Applied() >= at {
		t.Fatalf("the older program has projected up to %d, behind the raise at %d", o.store.Applied(), at)
	}
	h.submit("email") // the owner has not been fenced
	if tip, err := h.log.Last(h.ctx()); err != nil || h.eng.Epoch() != 3 || tip.Seq < at.Frame() {
		t.Fatalf("epoch %d, %v", h.eng.Epoch(), err)
	}
}

// A store that has passed the raise belongs to programs of the new level: one of them
// opens it, an older one is refused before it appends.
func TestStoreOfARaisedLog(t *testing.T) {
	h := newHarness(t, func(c *Config) { c.FormatLevel, c.Version = nextLevel, "2.0.0" })
	id := h.submit("email")
	if _, err := h.raise(nextLevel); err != nil {
		t.Fatal(err)
	}
	h.stopEngine()
	h.startEngine()
	if m, err := h.store.Meta(); err != nil || m.Level != nextLevel || h.item(id) == nil {
		t.Fatalf("after a restart the log is at level %d: %v", m.Level, err)
	}
	last := h.eng.Position()
	o := newOlder(h)
	o.cfg.Store = h.store
	if _, err := o.takeOver(h); !errors.Is(err, events.ErrNewer) {
		t.Fatalf("the older program takes the store: %v", err)
	}
	if tip, err := h.log.Last(h.ctx()); err != nil || tip.Seq != last.Frame() {
		t.Fatalf("the older program has appended: the log ends at %d, was at %d: %v", tip.Seq, last, err)
	}
}
