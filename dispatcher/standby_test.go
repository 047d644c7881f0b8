package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

// testLease is the lease of several engines, which a test gives to one of them.
type testLease struct {
	mu      sync.Mutex
	holder  string
	silent  bool // it can't be asked for
	members map[string]*leaseMember
}

type leaseMember struct {
	l       *testLease
	name    string
	changed chan struct{}
}

func newTestLease(holder string) *testLease {
	return &testLease{holder: holder, members: map[string]*leaseMember{}}
}

func (l *testLease) of(name string) Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := &leaseMember{l, name, make(chan struct{}, 1)}
	l.members[name] = m
	return m
}

func (l *testLease) set(holder string, silent bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holder, l.silent = holder, silent
	for _, m := range l.members {
		select {
		case m.changed <- struct{}{}:
		default:
		}
	}
}

func (m *leaseMember) Take(context.Context) (string, error) {
	m.l.mu.Lock()
	defer m.l.mu.Unlock()
	switch {
	case m.l.silent:
		return "", errors.New("nobody answers")
	case m.l.holder == "" || m.l.holder == m.name:
		m.l.holder = m.name
		return "", nil
	}
	return m.l.holder, nil
}

func (m *leaseMember) Failed(error, bool) {}

func (m *leaseMember) Changed() <-chan struct{} { return m.changed }

// newPair starts two engines on one log: a owns it, b stands by.
func newPair(t *testing.T) (l *testLease, a, b *harness) {
	l = newTestLease("a")
	named := func(name string) func(*Config) {
		return func(c *Config) { c.Alone, c.Owner, c.Lease = false, name, l.of(name) }
	}
	a = newHarness(t, named("a"))
	b = &harness{t: t, dir: t.TempDir(), srv: a.srv, nc: a.connect(), js: a.js, edit: named("b")}
	b.startEngine()
	t.Cleanup(func() { b.stopEngine(); b.nc.Close() })
	return l, a, b
}

// levelWith waits until an engine's projection has all that is durable.
func (h *harness) levelWith() {
	h.t.Helper()
	end, err := h.eng.End(h.ctx())
	if err == nil {
		err = h.eng.Await(h.ctx(), end)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

// stands waits until an engine stands by for the owner.
func (h *harness) stands(owner string) {
	h.t.Helper()
	h.until("the engine stands by for "+owner, func() bool {
		s, on := h.eng.StandsBy()
		return on && s.Owner == owner
	})
}

func (h *harness) owns() {
	h.t.Helper()
	h.until("the engine owns the log", func() bool {
		_, on := h.eng.StandsBy()
		return !on && h.eng.Epoch() > 0
	})
}

// A standby has in its own store what the owner decides, refuses to decide itself,
// and takes over where the owner was.
func TestStandbyFollowsAndTakesOver(t *testing.T) {
	slow(t)
	t.Parallel()
	l, a, b := newPair(t)
	b.stands("a")
	var ids []events.ID
	for range 50 {
		ids = append(ids, a.submit("email"))
	}
	b.levelWith()
	for _, id := range ids {
		if it, err := b.store.Item(id); err != nil || it == nil || it.State != events.StateQueued {
			t.Fatalf("item %s at the standby: %v %v", id, it, err)
		}
	}
	if _, err := b.eng.one(b.ctx(), core.Submit{Type: "email", NewID: b.eng.NewID()}); events.CodeOf(err) != events.CodeNotOwner {
		t.Fatalf("a standby decided: %v", err)
	}
	a.register("w", 1, "email")
	run := a.pull("email")
	if r := a.begin(run); !r.OK {
		t.Fatalf("%+v", r)
	}

	l.set("b", false)
	a.eng.Reload() // it finds out at once, rather than with its next look
	a.stands("b")
	b.owns()
	if r := b.report(reportOf(run, wire.ReportComplete))[0]; !r.OK {
		t.Fatalf("the new owner refuses the report of a run that went on: %+v", r)
	}
	ids = append(ids, b.submit("email"))
	a.levelWith()
	for _, id := range ids {
		if it, err := a.store.Item(id); err != nil || it == nil {
			t.Fatalf("item %s at the former owner: %v %v", id, it, err)
		}
	}
	b.register("w", 1, "email")
	for range len(ids) - 1 {
		m := b.pull("email")
		if r := b.begin(m); !r.OK {
			t.Fatalf("%+v", r)
		}
		b.complete(m)
	}
	a.levelWith()
	b.levelWith()
	for _, h := range []*harness{a, b} {
		for _, id := range ids {
			if it, err := h.store.Item(id); err != nil || it.State != events.StateCompleted {
				t.Fatalf("item %s: %v %v", id, it, err)
			}
		}
		h.equalsLog()
	}
}

// The log goes to and fro while clients submit to whoever takes it. Every submission is
// there once, and both stores are what the log says.
func TestOwnershipGoesToAndFro(t *testing.T) {
	slow(t)
	t.Parallel()
	l, a, b := newPair(t)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	var ids []events.ID
	for n, h := range []*harness{a, b} {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				id := h.eng.NewID()
				for at := h; ; { // the other, once this one does not own the log
					_, err := at.eng.one(h.ctx(), core.Submit{Type: "email", ID: id, NewID: id, Provenance: events.Provenance{Source: fmt.Sprintf("%d-%d", n, i)}})
					if err == nil {
						break
					}
					switch events.CodeOf(err) {
					case events.CodeNotOwner, events.CodeUnavailable:
					default:
						t.Errorf("submit: %v", err)
						return
					}
					if at == a {
						at = b
					} else {
						at = a
					}
				}
				mu.Lock()
				ids = append(ids, id)
				mu.Unlock()
			}
		})
	}
	from, to := a, b
	for range 6 {
		mu.Lock()
		n := len(ids)
		mu.Unlock()
		a.until("clients get on", func() bool { mu.Lock(); defer mu.Unlock(); return len(ids) >= n+20 })
		l.set(to.eng.Owner(), false)
		from.eng.Reload()
		from.stands(to.eng.Owner())
		to.owns()
		from, to = to, from
	}
	close(stop)
	wg.Wait()
	for _, h := range []*harness{a, b} {
		h.levelWith()
		for _, id := range ids {
			if it, err := h.store.Item(id); err != nil || it == nil {
				t.Fatalf("item %s: %v %v", id, it, err)
			}
		}
		h.equalsLog()
	}
}

// A standby that can ask neither for the lease nor hear of the log goes on where it was
// when it can.
func TestStandbyWithoutLease(t *testing.T) {
	slow(t)
	t.Parallel()
	l, a, b := newPair(t)
	b.stands("a")
	l.set("a", true)
	a.submit("email")
	b.levelWith()
	b.stands("a")
	l.set("", false)
	b.until("one of them owns the log", func() bool {
		_, x := a.eng.StandsBy()
		_, y := b.eng.StandsBy()
		return x != y
	})
}

// deafLease can't be asked for at first.
type deafLease struct {
	Lease
	left atomic.Int32
}

func (d *deafLease) Take(ctx context.Context) (string, error) {
	if d.left.Add(-1) >= 0 {
		return "", errors.New("nobody answers")
	}
	return d.Lease.Take(ctx)
}

// An engine that starts from the log when the way to it has just come back, and has not heard of
// the owner yet, does not fence that one.
func TestAnEngineThatComesBackFencesNobody(t *testing.T) {
	t.Parallel()
	l, a, b := newPair(t)
	a.owns()
	b.stands("a")
	epoch := a.eng.Epoch()
	b.stopEngine()
	deaf := &deafLease{Lease: l.of("b")}
	deaf.left.Store(leaseTries)
	b.edit = func(c *Config) { c.Alone, c.Owner, c.Lease = false, "b", deaf }
	b.startEngine()
	b.stands("a")
	a.submit("email")
	b.levelWith()
	if now := a.eng.Epoch(); now != epoch {
		t.Errorf("the owner's epoch was %d and is %d", epoch, now)
	}
}

// A standby that stops does so at once.
func TestStandbyStops(t *testing.T) {
	t.Parallel()
	_, a, b := newPair(t)
	b.stands("a")
	began := time.Now()
	if err := b.eng.Stop(b.ctx()); err != nil {
		t.Fatal(err)
	}
	t.Logf("stopped in %s", time.Since(began))
	a.submit("email")
}
