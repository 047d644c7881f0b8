package core

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
)

// crowded is a world of few items and one dedup key, so that in a round they
// have to do with each other all the time.
type crowded struct {
	*world
	rng *rand.Rand
	ids []events.ID
}

// may decides what may be refused.
func (c *crowded) may(cmd Command) Decision {
	d, err := c.try(cmd)
	var refused *events.Error
	if err != nil && !errors.As(err, &refused) {
		c.t.Fatalf("%T: %v", cmd, err)
	}
	return d
}

func (c *crowded) one() events.ID {
	if len(c.ids) == 0 {
		return events.ID{}
	}
	return c.ids[c.rng.IntN(len(c.ids))]
}

func (c *crowded) draft() Submit {
	s := Submit{Type: "email", NewID: c.newID()}
	if c.rng.IntN(3) > 0 {
		s.DedupKey = "k"
	}
	s.DedupPolicy = []events.DedupPolicy{"", events.DedupDistinct, events.DedupSupersede, events.DedupDefer}[c.rng.IntN(4)]
	switch c.rng.IntN(4) {
	case 0:
		hour := time.Hour
		s.DedupWindow = &hour
	case 1:
		s.Verdict = &events.Verdict{Policy: []events.DedupPolicy{events.DedupMerge, events.DedupDistinct, events.DedupSupersede, events.DedupDefer}[c.rng.IntN(4)], Canonical: c.one()}
	case 2:
		if id := c.one(); !id.IsZero() {
			s.After, s.AfterPolicy = []events.ID{id}, events.AfterRun
		}
	}
	return s
}

// step decides something; in a round, it may be that an item is carried.
func (c *crowded) step() {
	id := c.one()
	switch c.rng.IntN(12) {
	case 0, 1, 2:
		if d := c.may(c.draft()); len(d.Events) > 0 {
			c.ids = append(c.ids, d.ID)
		}
	case 3:
		c.may(Cancel{ID: id})
	case 4, 5:
		c.may(Replay{ID: id})
	case 6, 7, 8:
		c.runOne(id)
	case 9:
		c.now = c.now.Add(20 * time.Minute)
	case 10:
		c.may(Purge{ID: id})
	case 11:
		if c.s.meta.RoundAt != 0 {
			c.carry(id)
		}
	}
	if c.rng.IntN(3) > 0 {
		c.followUps()
	}
}

// runOne has an item run, and end: well, or badly, or in children.
func (c *crowded) runOne(id events.ID) {
	if it, err := c.s.Item(id); err != nil || it == nil || it.State != events.StateQueued {
		return
	}
	tok := events.NewToken(1, uint64(len(c.log)))
	c.may(Claim{ID: id, Token: tok, Worker: "w1", Start: true})
	run := Run{ID: id, Token: tok, Worker: "w1"}
	switch c.rng.IntN(4) {
	case 0:
		c.may(Fail{Run: run, Error: "e", Code: "logic"})
	case 1:
		sp := Spawn{Run: run, Continues: c.rng.IntN(2) == 0, Policy: []events.ChildPolicy{events.ChildFail, events.ChildContinue}[c.rng.IntN(2)]}
		for range 1 + c.rng.IntN(2) {
			sp.Children = append(sp.Children, c.draft())
		}
		if d := c.may(sp); len(d.Events) > 0 {
			for _, kid := range sp.Children {
				c.ids = append(c.ids, kid.NewID)
			}
			return
		}
		c.may(Complete{Run: run})
	default:
		c.may(Complete{Run: run})
	}
}

// However items have to do with each other in the midst of rounds, each round
// gives who begins to read with it what the whole log gives. CUT_SEEDS says how
// many runs it makes, to look for faults: the rarest takes thousands.
func TestCutLogOfACrowd(t *testing.T) {
	seeds, err := strconv.ParseUint(os.Getenv("CUT_SEEDS"), 10, 64)
	if err != nil {
		seeds = 500
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			c := &crowded{world: newWorld(t), rng: rand.New(rand.NewPCG(seed, 3))}
			c.do(Own{Owner: "o"})
			for range 2 {
				for range 12 {
					c.step()
				}
				c.do(BeginCut{})
				for range 35 {
					c.step()
				}
				c.endRound()
			}
		})
	}
}
