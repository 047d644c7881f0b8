package dispatcher

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/eventlog"
	"github.com/streamwright/streamwright/wire"
)

// chaos does random things to a sim, from a seed: work, and everything that can
// go wrong at every step of the loop.
type chaos struct {
	*sim
	rng      *rand.Rand
	accepted []events.ID // submissions that were answered
	granted  []*heldRun  // claims that were answered, to workers that still live
	crashAt  string      // stage at which the process ends, in crashIn visits
	crashIn  int
	rivals   events.Epoch
}

type heldRun struct {
	m      *simMsg
	worker string
}

var crashStages = []string{"decide", "append", "appended", "project", "projected"}

// What happens to an append.
var faultKinds = []eventlog.FaultKind{eventlog.FaultLost, eventlog.FaultAckLost, eventlog.FaultPrefix, eventlog.FaultLate, eventlog.FaultConflict}

func newChaos(t testing.TB, seed uint64) *chaos {
	c := &chaos{rng: rand.New(rand.NewPCG(seed, 1))}
	c.sim = newSim(t, func(cfg *Config) { cfg.MaxRunning = 12; cfg.Gone = 10 * time.Minute })
	set := c.cfg.Defaults
	set.MaxAttempts, set.Capacity = 50, 8
	c.do(events.Configure{Type: "email", Source: events.SourceAPI, Settings: set})
	c.onStage = func(stage string) {
		if stage == c.crashAt {
			if c.crashIn--; c.crashIn < 0 {
				c.crashAt = ""
				c.crash()
			}
		}
	}
	return c
}

func (c *chaos) worker() string { return "w" + strconv.Itoa(c.rng.IntN(3)) }

func (c *chaos) one() {
	switch c.rng.IntN(20) {
	case 0, 1, 2:
		c.submitSome()
	case 3:
		c.publish()
	case 4, 5, 6:
		c.pullSome()
	case 7, 8, 9:
		c.finishOne()
	case 10:
		c.tick(time.Duration(c.rng.IntN(20_000)) * time.Millisecond)
	case 11:
		c.register(c.worker(), 1+c.rng.IntN(4), nil, "email")
	case 12:
		c.reg.remove(events.WorkerID(c.worker()), "")
		c.settle()
	case 13:
		c.touchOne()
	case 14:
		c.crashAt, c.crashIn = crashStages[c.rng.IntN(len(crashStages))], c.rng.IntN(4)
	case 15:
		c.faultNext()
	case 16: // workers die: their leases run out
		c.granted = slices.DeleteFunc(c.granted, func(*heldRun) bool { return c.rng.IntN(2) == 0 })
	case 17:
		c.world.down, c.world.silent = c.rng.IntN(4) == 0, c.rng.IntN(6) == 0
	case 18:
		if c.rng.IntN(4) == 0 {
			clear(c.world.msgs)
			c.l.signals.dispatchLost()
			c.settle()
		}
	case 19:
		c.world.deaf = c.rng.IntN(4) == 0
	}
	c.heartbeats()
}

func (c *chaos) submitSome() {
	cmds := make([]events.Command, 1+c.rng.IntN(4))
	for i := range cmds {
		s := events.Submit{Type: "email", NewID: c.newID(), Priority: prio(events.Priority(c.rng.IntN(10)))}
		if c.rng.IntN(3) == 0 {
			s.DedupKey = strconv.Itoa(c.rng.IntN(5))
		}
		if c.rng.IntN(4) == 0 {
			s.Delay = time.Duration(c.rng.IntN(60)) * time.Second
		}
		cmds[i] = s
	}
	for _, o := range c.do(cmds...) {
		if o.Err == nil {
			c.accepted = append(c.accepted, o.Decision.ID)
		}
	}
}

func (c *chaos) publish() {
	body := []string{`{"n":1}`, `no json`}[c.rng.IntN(2)]
	c.intake = append(c.intake, &nats.Msg{Subject: "work.intake.0.email", Data: []byte(body), Header: nats.Header{}})
	c.settle()
}

func (c *chaos) pullSome() {
	for range 1 + c.rng.IntN(3) {
		m := c.world.pull(laneKey{"email", ""})
		if m == nil {
			return
		}
		w := c.worker()
		claim := wire.Report{ID: m.id.String(), Token: m.token.String(), Worker: w, Event: wire.ReportClaim, Start: true}
		if r := c.report(claim); len(r) == 1 && r[0].OK {
			c.granted = append(c.granted, &heldRun{m, w})
		}
	}
}

// finishOne reports the end of a run, and forgets it if it was answered.
func (c *chaos) finishOne() {
	if len(c.granted) == 0 {
		return
	}
	i := c.rng.IntN(len(c.granted))
	h := c.granted[i]
	r := wire.Report{ID: h.m.id.String(), Token: h.m.token.String(), Worker: h.worker}
	r.Event = []string{wire.ReportComplete, wire.ReportComplete, wire.ReportFail, wire.ReportRelease}[c.rng.IntN(4)]
	a := c.report(r)
	if len(a) == 1 && (a[0].OK || a[0].Error.Code != events.CodeUnavailable) {
		c.granted = slices.Delete(c.granted, i, i+1)
		if c.rng.IntN(3) > 0 { // else the worker dies before its ack
			delete(c.world.msgs, h.m.seq)
		}
	}
}

// touchOne cancels or reorders some item.
func (c *chaos) touchOne() {
	if len(c.accepted) == 0 {
		return
	}
	id := c.accepted[c.rng.IntN(len(c.accepted))]
	switch c.rng.IntN(4) {
	case 0:
		c.do(events.Cancel{ID: id})
	case 1:
		c.do(events.Reschedule{ID: id, Now: true})
	case 2:
		c.do(events.Reschedule{ID: id, Priority: prio(events.Priority(c.rng.IntN(10)))})
	case 3:
		c.do(events.Reschedule{ID: id, Delay: time.Duration(c.rng.IntN(30)) * time.Second})
	}
}

func (c *chaos) faultNext() {
	f := eventlog.Fault{Kind: faultKinds[c.rng.IntN(len(faultKinds))], N: c.rng.IntN(4), Land: eventlog.Landing(c.rng.IntN(3))}
	if f.Kind == eventlog.FaultConflict {
		c.rivals += 100
		f.Rival = []events.Event{{Kind: events.KindOwned, At: c.at, Body: &events.Owned{Epoch: c.l.state.Meta().Epoch + c.rivals, Owner: "rival"}}}
	}
	c.log.Script(f)
}

// heartbeats are those of the workers that live.
func (c *chaos) heartbeats() {
	runs := map[string][]wire.RunRef{}
	for _, h := range c.granted {
		runs[h.worker] = append(runs[h.worker], wire.RunRef{ID: h.m.id.String(), Token: h.m.token.String()})
		if m := c.world.msgs[h.m.seq]; m == h.m && !m.expired {
			m.expires = c.at.Add(m.lease)
		}
	}
	for w, in := range runs {
		c.l.signals.heartbeat(&wire.Heartbeat{Register: wire.Register{Worker: w}, InFlight: in})
	}
	c.settle()
}

// finish lets everything heal and all work be done.
func (c *chaos) finish() {
	c.crashAt, c.world.down, c.world.silent, c.world.deaf = "", false, false, false
	c.log.Script()
	c.granted = nil
	c.register("w9", 4, nil, "email")
	for range 400 {
		c.tick(30 * time.Second)
		for m := c.world.pull(laneKey{"email", ""}); m != nil; m = c.world.pull(laneKey{"email", ""}) {
			c.run(m, "w9")
			delete(c.world.msgs, m.seq)
		}
		if c.unfinished() == 0 && c.l.table.total() == 0 {
			return
		}
	}
	for tok, d := range c.l.table.byToken {
		c.t.Logf("slot %s: %+v, its item: %+v", tok, d, c.item(d.id))
	}
	c.t.Fatalf("%d items are stuck", c.unfinished())
}

func (c *chaos) unfinished() (n int64) {
	info, _ := c.l.state.Type("email")
	for st := range events.ItemState(events.NumStates) {
		if !st.Terminal() {
			n += info.Counts[st]
		}
	}
	return n
}

// verify reads the whole log: each message of the intake is answered once,
// each item is run by one at a time and completed at most once.
func (c *chaos) verify() error {
	running := map[events.ID]events.Token{}
	completed := map[events.ID]int{}
	answered := map[uint64]int{}
	known := map[events.ID]bool{}
	err := c.log.Read(context.Background(), 1, c.l.appended, func(g eventlog.Group) error {
		for _, ev := range g.Events {
			switch b := ev.Body.(type) {
			case *events.Created:
				known[ev.ID] = true
				answered[b.Intake.Seq]++
			case *events.Rejected:
				answered[b.Intake.Seq]++
			case *events.Claimed:
				if tok := running[ev.ID]; tok != 0 {
					return fmt.Errorf("event %d: item %s is claimed under %s while it runs under %s", ev.Seq, ev.ID, b.Token, tok)
				}
				running[ev.ID] = b.Token
			case *events.Completed:
				completed[ev.ID]++
				running[ev.ID] = 0
			case *events.Failed, *events.Released, *events.Cancelled:
				running[ev.ID] = 0
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for id, n := range completed {
		if n != 1 {
			return fmt.Errorf("item %s was completed %d times", id, n)
		}
	}
	for _, id := range c.accepted {
		if !known[id] {
			return fmt.Errorf("submission %s was accepted and is not in the log", id)
		}
	}
	for i := range c.intake {
		if n := answered[uint64(i+1)]; n != 1 {
			return fmt.Errorf("intake message %d was answered %d times", i+1, n)
		}
	}
	return nil
}

// Whatever happens, at whatever step: no item is lost, none is completed twice,
// none is stuck, and the projection is what the log says.
func TestChaos(t *testing.T) {
	seeds := 60
	if v, err := strconv.Atoi(os.Getenv("CHAOS_SEEDS")); err == nil {
		seeds = v
	}
	for seed := range uint64(seeds) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			c := newChaos(t, seed)
			for range 150 {
				c.one()
			}
			c.finish()
			c.check()
			c.ok(c.verify())
		})
	}
}
