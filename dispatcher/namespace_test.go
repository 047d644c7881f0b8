package dispatcher

import (
	"slices"
	"sync/atomic"
	"testing"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// Projected tells of a change of the namespaces once the store has it, at the owner, at who
// stands by, and at who starts.
func TestProjectedTellsOfNamespaces(t *testing.T) {
	slow(t)
	t.Parallel()
	l := newTestLease("a")
	var told [2]atomic.Int64
	edit := func(i int, name string) func(*Config) {
		return func(c *Config) {
			c.Alone, c.Owner, c.Lease = false, name, l.of(name)
			c.Hooks.Projected = func(ch *core.Changes) {
				if ch.Namespaces() {
					list, err := c.Store.Namespaces()
					if err != nil {
						t.Error(err)
					}
					told[i].Store(int64(len(list)))
				}
			}
		}
	}
	a := newHarness(t, edit(0, "a"))
	b := &harness{t: t, dir: t.TempDir(), srv: a.srv, nc: a.connect(), js: a.js, edit: edit(1, "b")}
	b.startEngine()
	t.Cleanup(func() { b.stopEngine(); b.nc.Close() })
	b.stands("a")
	set := func(name events.Namespace) core.Command { return core.SetNamespace{Name: name, Source: events.SourceAPI} }
	decide := func(h *harness, cmds ...core.Command) {
		t.Helper()
		out, err := h.eng.all(h.ctx(), cmds)
		if i := slices.IndexFunc(out, func(o Outcome) bool { return o.Err != nil }); err != nil || i >= 0 {
			t.Fatalf("%+v: %v", out, err)
		}
		a.levelWith()
		b.levelWith()
	}
	both := func(want int64) {
		t.Helper()
		a.until("both tell of the namespaces", func() bool { return told[0].Load() == want && told[1].Load() == want })
	}
	decide(a, set("acme"), set("beta"))
	both(2)
	decide(a, core.RemoveNamespace{Name: "acme"})
	both(1)

	l.set("b", false)
	a.eng.Reload()
	a.stands("b")
	b.owns()
	decide(b, set("acme"), set("gamma"))
	both(3)
	b.stopEngine()
	if list, err := a.store.Namespaces(); err != nil || len(list) != 3 || list[0].Name != "acme" || list[2].Name != "gamma" {
		t.Fatalf("%+v, %v", list, err)
	}
	a.equalsLog()
}
