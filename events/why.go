package events

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Obstacle is one reason why an item is not running now, in words and as a
// stable code.
type Obstacle struct {
	Code    string    `json:"code"`
	Message string    `json:"message"`
	Until   time.Time `json:"until,omitzero"`  // when it passes by itself, where that is known
	Items   []ID      `json:"items,omitempty"` // the others that it is about, at most maxObstacleItems
	Ahead   int       `json:"ahead,omitempty"` // items in front of it, for WhyBehind
}

// The codes of obstacles. Those that no item is to blame for (capacity,
// workers, position) are the dispatcher's to find.
const (
	WhyEnded       = "ended"        // it is terminal
	WhyRunning     = "running"      // it is claimed or running
	WhyNotDue      = "not_due"      // delayed, or rescheduled
	WhyBackingOff  = "backing_off"  // after a failed attempt
	WhySnoozed     = "snoozed"      // its handler has put it off
	WhyWaiting     = "waiting_for"  // items that must end first
	WhyChildren    = "children"     // what it has spawned
	WhyPaused      = "paused"       // its type
	WhyCircuit     = "circuit_open" // of its type
	WhyRateLimited = "rate_limited"
	WhyGroupFull   = "group_at_capacity"
	WhyPoolFull    = "pool_at_capacity"
	WhyTypeFull    = "type_at_capacity"
	WhyEngineFull  = "engine_at_capacity"
	WhyNoWorker    = "no_worker"
	WhyNoCapable   = "no_capable_worker"
	WhyLanesFull   = "lanes_at_capacity"  // too many sets of capabilities at once
	WhyUnfit       = "workers_not_taking" // draining, unhealthy, or their circuit is open
	WhyBusy        = "workers_busy"
	WhyOnItsWay    = "dispatched" // on its way to a worker
	WhyBehind      = "behind"     // others go first
	WhyHeld        = "dispatch_held"
	WhyNoRoom      = "no_room" // on the engine's disk
	WhyReady       = "ready"   // nothing stands in its way: it is about to go
)

const maxObstacleItems = 10

// Explain says what of the partition's state keeps an item from running at a
// time: the most telling reason first, none if it is only a matter of its turn.
func Explain(s *State, it *Item, now time.Time) []Obstacle {
	switch it.State {
	case StateClaimed, StateRunning:
		return []Obstacle{{Code: WhyRunning, Message: fmt.Sprintf("it is %s, attempt %d of %d, by worker %s", it.State, it.Attempt, it.MaxAttempts, it.Worker)}}
	case StateWaiting:
		return []Obstacle{explainWaiting(s, it)}
	case StateQueued:
		return append(append(explainDue(s, it, now), explainType(s, it)...), explainLimits(s, it, now)...)
	}
	o := Obstacle{Code: WhyEnded, Message: fmt.Sprintf("it is %s since %s", it.State, it.FinishedAt.Format(time.RFC3339))}
	switch {
	case it.State == StateMerged:
		o.Message, o.Items = "it was merged into another item, which runs in its place", []ID{it.MergedInto}
	case it.State == StateDead && it.Attempt == 0: // it never ran: what it comes after has ended badly
		o.Message += fmt.Sprintf(": %s: %s", it.Reason, clip(it.Error, 200))
	case it.State == StateDead:
		o.Message += fmt.Sprintf(": %s, after %s; its last error was %s: %s", it.Reason, Count(it.Attempt, "attempt"), it.Code, clip(it.Error, 200))
	case it.State == StateCompleted && it.Reason == reasonChildren:
		o.Message += ": the last item that it waited for has ended"
	case it.Reason != "":
		o.Message += ": " + it.Reason
	}
	return []Obstacle{o}
}

func explainWaiting(s *State, it *Item) Obstacle {
	r := it.relations()
	if !r.Spawned {
		return Obstacle{Code: WhyWaiting, Message: fmt.Sprintf("it waits for %s to end", plural(len(r.Waits), "item")), Items: r.Waits[:min(len(r.Waits), maxObstacleItems)]}
	}
	if r.Batch {
		return withMerged(explainBatch(&r), &r)
	}
	o := Obstacle{Code: WhyChildren, Message: fmt.Sprintf("it waits for %d of its %s", r.Live, plural(r.Size(), "child"))}
	if r.Unmade() {
		o.Message = fmt.Sprintf("%d of its %s are made so far, %d of them have not ended", r.Made, plural(r.Declared, "child"), r.Live)
	}
	for _, id := range r.Children {
		child, err := s.Item(id)
		if err == nil && child != nil && !child.State.Terminal() && len(o.Items) < maxObstacleItems {
			o.Items = append(o.Items, id)
		}
	}
	return withMerged(o, &r)
}

// withMerged adds the items that children were merged into, and which are waited
// for as well.
func withMerged(o Obstacle, r *Relations) Obstacle {
	if n := len(r.Waits); n > 0 {
		o.Message += fmt.Sprintf(", and for %s that others of them were merged into", plural(n, "item"))
		o.Items = append(o.Items, r.Waits[:min(n, maxObstacleItems-len(o.Items))]...)
	}
	return o
}

// explainBatch says what a batch waits for.
func explainBatch(r *Relations) Obstacle {
	o := Obstacle{Code: WhyChildren, Message: fmt.Sprintf("it waits for %d of its %s", r.Live, plural(r.Made, "item"))}
	switch {
	case !r.Sealed:
		o.Message += ", and to be sealed: more may be submitted to it until then"
	case r.Made < r.Declared:
		o.Message += fmt.Sprintf(", and for %d more to be submitted", r.Declared-r.Made)
	}
	return o
}

func explainDue(s *State, it *Item, now time.Time) []Obstacle {
	if !it.AvailableAt.After(now) {
		return nil
	}
	o := Obstacle{Code: WhyNotDue, Message: "it is due later", Until: it.AvailableAt}
	switch {
	case isSnoozed(it.Reason):
		o.Code, o.Message = WhySnoozed, "its handler has put it off"
	case it.Attempt > 0 && it.Code != "" && it.Reason == "":
		set, _ := s.Settings(it.Type)
		_, from := set.attemptLimit(it, it.Code)
		o.Code, o.Message = WhyBackingOff, fmt.Sprintf("attempt %d of %d (%s) has failed (%s: %s): it is tried again", it.Attempt, it.MaxAttempts, from, it.Code, clip(it.Error, 200))
	}
	return []Obstacle{o}
}

// explainType says what holds all items of the type back.
func explainType(s *State, it *Item) (out []Obstacle) {
	t, _ := s.Type(it.Type)
	if p := t.Paused; p != nil {
		msg := fmt.Sprintf("type %s is paused since %s", it.Type, p.At.Format(time.RFC3339))
		if p.By != "" {
			msg += " by " + p.By
		}
		if p.Reason != "" {
			msg += ": " + p.Reason
		}
		if !p.Until.IsZero() {
			msg += "; the pause ends by itself at " + p.Until.Format(time.RFC3339)
		}
		out = append(out, Obstacle{Code: WhyPaused, Message: msg + " (`engine resume` lets it go)", Until: p.Until})
	}
	switch c := t.Circuit; c.State {
	case CircuitOpen:
		out = append(out, Obstacle{Code: WhyCircuit, Until: c.Until,
			Message: fmt.Sprintf("the circuit of type %s is open since %s (%s); then some runs may try", it.Type, c.At.Format(time.RFC3339), c.Reason)})
	case CircuitHalfOpen:
		if n := t.Settings.Circuit.WithDefaults().Probes; c.Probing >= n {
			out = append(out, Obstacle{Code: WhyCircuit, Message: fmt.Sprintf("the circuit of type %s is half open: %s try it, the others wait for what comes of that", it.Type, plural(c.Probing, "run"))})
		}
	}
	return out
}

// explainLimits says which limits have no room for the item. A limit that can't
// be read is left out: it is only said, not decided.
func explainLimits(s *State, it *Item, now time.Time) (out []Obstacle) {
	set, _ := s.Settings(it.Type)
	if most := set.GroupCapacity; most > 0 && it.Group != "" {
		if n, err := s.GroupRuns(it.Type, it.Group); err == nil && n >= int64(most) {
			out = append(out, Obstacle{Code: WhyGroupFull, Message: fmt.Sprintf("%s %q has %s running: group_capacity is %d", set.GroupKey(), clip(it.Group, 80), Count(n, "item"), most)})
		}
	}
	if slots, limited := s.PoolSlots(set); limited {
		if n := s.PoolRuns(set.Pool); n >= int64(slots) {
			out = append(out, Obstacle{Code: WhyPoolFull, Message: fmt.Sprintf("pool %s has %s running: it has %s", set.Pool, Count(n, "item"), Count(slots, "slot"))})
		}
	}
	for _, group := range slices.Compact([]string{"", it.Group}) {
		open, at, err := s.RatesOpen(it.Type, group, 0, now)
		if err != nil || open {
			continue
		}
		whose := "type " + string(it.Type)
		if group != "" {
			whose = fmt.Sprintf("%s %q", set.GroupKey(), clip(group, 80))
		}
		out = append(out, Obstacle{Code: WhyRateLimited, Message: "a rate limit of " + whose + " is reached", Until: at})
	}
	return out
}

// plural is a number with a noun.
func plural(n int, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "child"):
		return fmt.Sprintf("%d %sren", n, noun)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
