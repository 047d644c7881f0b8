package dispatcher

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/eventlog/logtest"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

// newAssignChaos is a chaos in which some workers have inboxes.
func newAssignChaos(t testing.TB, seed uint64) *chaos {
	return withInboxes(newChaos(t, seed))
}

func withInboxes(c *chaos) *chaos {
	c.assigns = true
	c.newInbox("w0")
	if c.rng.IntN(2) == 0 {
		c.newInbox("w1")
	}
	return c
}

// newInbox gives a worker an inbox that it never had.
func (c *chaos) newInbox(w string) {
	c.lives++
	c.inboxes[w] = "i" + strconv.Itoa(c.lives)
}

// assignDeeds are what can happen to assigned items, beside the rest.
func (c *chaos) assignDeed() {
	switch n := c.rng.IntN(20); {
	case n < 14:
		c.receiveSome()
	case n < 16: // the messages on their way are lost
		c.lost += len(c.world.sent)
		c.world.sent = nil
	case n < 17: // a worker begins a new life, or pulls from now on
		w := c.worker()
		c.granted = slices.DeleteFunc(c.granted, func(h *heldRun) bool { return h.worker == w })
		c.reg.Remove(events.WorkerID(w), "")
		if delete(c.inboxes, w); c.rng.IntN(3) > 0 {
			c.newInbox(w)
		}
	case n < 18: // a message comes twice
		if len(c.world.sent) > 0 {
			c.world.sent = append(c.world.sent, c.world.sent[c.rng.IntN(len(c.world.sent))])
		}
	default:
		c.startOne()
	}
	c.settle()
}

// receiveSome has workers receive what was sent to them, in any order; of another life
// of theirs nobody receives anything.
func (c *chaos) receiveSome() {
	for range 1 + c.rng.IntN(4) {
		if len(c.world.sent) == 0 {
			return
		}
		i := c.rng.IntN(len(c.world.sent))
		a := c.world.sent[i]
		c.world.sent = slices.Delete(c.world.sent, i, i+1)
		w := string(a.worker)
		if c.inboxes[w] != a.inbox || slices.ContainsFunc(c.granted, func(h *heldRun) bool { return h.m.token == a.token }) {
			continue
		}
		c.received++
		c.granted = append(c.granted, &heldRun{&simMsg{id: a.id, token: a.token, attempt: a.attempt}, w, true})
	}
}

// finishAssigned completes what is sent to workers that live, as they do.
func (c *chaos) finishAssigned() {
	for len(c.world.sent) > 0 {
		a := c.world.sent[0]
		if c.world.sent = c.world.sent[1:]; c.inboxes[string(a.worker)] == a.inbox {
			c.report(wire.Report{ID: a.id.String(), Token: a.token.String(), Worker: string(a.worker), Event: wire.ReportComplete, Start: true})
		}
	}
	c.l.signals.Heartbeat(&wire.Heartbeat{Register: wire.Register{Pull: true, Worker: "w9"}})
	c.settle()
}

// startOne tells the start of an assigned run by itself. A worker of which the item was
// taken back learns so.
func (c *chaos) startOne() {
	for _, h := range c.granted {
		if !h.assigned {
			continue
		}
		r := wire.Report{ID: h.m.id.String(), Token: h.m.token.String(), Worker: h.worker, Event: wire.ReportStart}
		c.tell(func(a []wire.Reported) {
			if !a[0].OK && a[0].Error.Code != events.CodeUnavailable {
				c.fenced++
				c.granted = slices.DeleteFunc(c.granted, func(g *heldRun) bool { return g == h })
			}
		}, r)
		return
	}
}

// claimsOf returns the tokens of all claims in the log, and the workers that made them.
func (c *chaos) claimsOf() (map[events.Token]events.WorkerID, error) {
	claims := map[events.Token]events.WorkerID{}
	err := c.readAll(func(evs []events.Event) error {
		for _, ev := range evs {
			if b, ok := ev.Body.(*events.Claimed); ok {
				claims[b.Token] = ev.Worker
			}
		}
		return nil
	})
	return claims, err
}

// sentAsLogged holds if each item that was ever sent to an inbox was claimed in the log
// for that worker, and durably so when it was sent.
func (c *chaos) sentAsLogged() error {
	claims, err := c.claimsOf()
	if err != nil {
		return err
	}
	for tok, w := range c.world.everSent {
		if claims[tok] != w {
			return fmt.Errorf("item under %s was sent to worker %s, and is claimed by %q", tok, w, claims[tok])
		}
	}
	return nil
}

// Whatever happens, assigned or pulled: no item is lost, none is completed twice, none
// is stuck, no worker is given more than it has slots for, and nothing is sent that is not
// claimed in the log.
func TestChaosAssigned(t *testing.T) {
	slow(t)
	noRace(t)
	received, fenced, lost := 0, 0, 0
	for seed := range seeds(15) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			c := newAssignChaos(t, seed)
			for range 250 {
				c.one()
				c.rest()
			}
			c.finish()
			c.check()
			c.ok(c.verify())
			c.ok(c.sentAsLogged())
			received, fenced, lost = received+c.received, fenced+c.fenced, lost+c.lost
		})
	}
	if !t.Failed() && (received < 100 || fenced == 0 || lost == 0) {
		t.Errorf("%d assigned items were received, %d fenced, %d lost: too few for a test", received, fenced, lost)
	}
}

// The same, with limits that nearly everything has to wait for: none is exceeded in the log.
func TestChaosAssignedWithLimits(t *testing.T) {
	slow(t)
	for seed := range seeds(10) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			c := newAssignChaos(t, seed)
			limits, edit := limitsUnderChaos(seed)
			c.cfg.Limits = limits
			c.steps = nil
			c.crash()
			set, _ := c.l.state.Settings("email")
			edit(&set)
			if o := c.do(core.Configure{Type: "email", Source: events.SourceAPI, Settings: set}); o[0].Err != nil {
				t.Fatal(o[0].Err)
			}
			c.steps = func() int { return c.rng.IntN(8) - 1 }
			for range 250 {
				shrink(c.l)
				if c.rng.IntN(4) == 0 {
					c.submitTenants(1 + int(seed%13))
				}
				c.one()
				c.rest()
			}
			c.finish()
			c.check()
			c.ok(c.verify())
			c.ok(c.withinLimits(set, limits))
		})
	}
}

// Two owners at once, both of which assign: of what the loser has decided nothing is
// stored, and nothing is sent.
func TestTwoLoopsAssign(t *testing.T) {
	slow(t)
	for seed := range seeds(30) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			stream := logtest.NewMemoryStream(0)
			a := withInboxes(newChaosOn(t, seed, stream, nil))
			b := newChaosOn(t, seed+1000, stream, a.world)
			maps.Copy(b.inboxes, a.inboxes)
			b.ids = 1 << 32
			for range 300 {
				c := a
				if a.rng.IntN(2) == 0 {
					c = b
				}
				c.world.signals = c.l.signals
				c.at = clock.Later(a.at, b.at) // one world, one time
				c.submitOrWork()
				c.receiveSome()
			}
			a.crash()
			a.accepted = append(a.accepted, b.accepted...)
			a.finish()
			a.check()
			a.ok(a.verify())
			a.ok(a.sentAsLogged())
		})
	}
}
