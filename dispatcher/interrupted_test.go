package dispatcher

import (
	"strconv"
	"testing"

	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events/core"
)

// stranger puts messages that no engine wrote into the event stream.
func (c *chaos) stranger() {
	for range 1 + c.rng.IntN(3) {
		c.stream.Inject(eventlog.ForeignSubject(0), "", []byte(`{"stream":"WORK_X","seq":1}`))
	}
}

// Foreign messages at every stage of the loop, before an append and in the midst
// of it: no ownership ends, nothing has to be asked again, and the projection is
// what the log says.
func TestForeignMessagesEndNoOwnership(t *testing.T) {
	slow(t)
	for seed := range seeds(15) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			c := newChaos(t, seed)
			stepped := 0
			c.onStage = func(stage string) {
				if c.rng.IntN(3) > 0 {
					return
				}
				c.stranger()
				if stage == "append" && c.rng.IntN(2) == 0 {
					c.log.Script(eventlog.Fault{Kind: eventlog.FaultForeign, N: c.rng.IntN(6), Foreign: 1 + c.rng.IntN(3)})
				}
				if c.l.pipe.interrupted != nil {
					stepped++
				}
			}
			c.log.Atomic = seed%3 == 0
			do := []func(*chaos){(*chaos).submitSome, (*chaos).publish, (*chaos).pullSome, (*chaos).pullSome, (*chaos).finishOne, (*chaos).touchOne, (*chaos).holdBackSome}
			for range 250 {
				do[c.rng.IntN(len(do))](c)
				c.heartbeats()
				c.rest()
			}
			c.onStage = nil
			c.finish()
			c.check()
			c.ok(c.verify())
			if c.losses > 0 || stepped == 0 {
				t.Fatalf("%d ownerships ended; %d times an append was interrupted", c.losses, stepped)
			}
		})
	}
}

// What is answered tells the positions that the events have come to.
func TestInterruptedAppendAnswersItsPositions(t *testing.T) {
	for n := range 4 {
		for _, atomic := range []bool{false, true} {
			s := newSim(t, nil)
			s.log.Atomic = atomic
			s.submit(core.Submit{})
			s.log.Script(eventlog.Fault{Kind: eventlog.FaultForeign, N: n, Foreign: 3})
			o := s.submit(core.Submit{})
			if it, at := s.item(o.Decision.ID), s.store.Applied(); o.Position != at || o.Item.Seq != it.Seq || o.Item.CreatedSeq != it.CreatedSeq || o.Item.BaseSeq != it.BaseSeq || s.l.pipe.appended != at {
				t.Fatalf("%d, %t: answered %d %d %d, it is %d %d %d", n, atomic, o.Position, o.Item.Seq, o.Item.CreatedSeq, at, it.Seq, it.CreatedSeq)
			}
			if s.losses > 0 {
				t.Fatal("the ownership ended")
			}
		}
	}
}
