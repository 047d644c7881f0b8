package core

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/policy"
)

const maxObstacleItems = 10

// Explain says what of the partition's state keeps an item from running at a
// time: the most telling reason first, none if it is only a matter of its turn.
func Explain(s *State, it *events.Item, now time.Time) []events.BlockReason {
	switch it.State {
	case events.StateClaimed, events.StateRunning:
		return []events.BlockReason{{Code: events.WhyRunning, Message: fmt.Sprintf("it is %s, attempt %d of %d, by worker %s", it.State, it.Attempt, it.MaxAttempts, it.Worker)}}
	case events.StateWaiting:
		return []events.BlockReason{explainWaiting(s, it)}
	case events.StateQueued:
		return append(append(explainDue(s, it, now), explainType(s, it)...), explainLimits(s, it, now)...)
	}
	o := events.BlockReason{Code: events.WhyEnded, Message: fmt.Sprintf("it is %s since %s", it.State, it.FinishedAt.Format(time.RFC3339))}
	switch {
	case it.State == events.StateMerged:
		o.Message, o.Items = "it was merged into another item, which runs in its place", []events.ID{it.MergedInto}
	case it.State == events.StateDead && it.Attempt == 0: // it never ran: what it comes after has ended badly
		o.Message += fmt.Sprintf(": %s: %s", it.Reason, events.Clip(it.Error, 200))
	case it.State == events.StateDead:
		o.Message += fmt.Sprintf(": %s, after %s; its last error was %s: %s", it.Reason, events.Count(it.Attempt, "attempt"), it.Code, events.Clip(it.Error, 200))
	case it.State == events.StateCompleted && it.Reason == reasonChildren:
		o.Message += ": the last item that it waited for has ended"
	case it.Reason != "":
		o.Message += ": " + it.Reason
	}
	return []events.BlockReason{o}
}

func explainWaiting(s *State, it *events.Item) events.BlockReason {
	if w := it.Wait(); w != nil {
		return explainWait(s, it, w)
	}
	r := relationsOf(it)
	if !r.Spawned {
		return events.BlockReason{Code: events.WhyWaiting, Message: fmt.Sprintf("it waits for %s to end", events.Count(len(r.Waits), "item")), Items: r.Waits[:min(len(r.Waits), maxObstacleItems)]}
	}
	if r.Batch {
		return withMerged(explainBatch(&r), &r)
	}
	o := events.BlockReason{Code: events.WhyChildren, Message: fmt.Sprintf("it waits for %d of its %s", r.Live, children(r.Size()))}
	if r.Unmade() {
		o.Message = fmt.Sprintf("%d of its %s are made so far, %d of them have not ended", r.Made, children(r.Declared), r.Live)
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
func withMerged(o events.BlockReason, r *events.Relations) events.BlockReason {
	if n := len(r.Waits); n > 0 {
		o.Message += fmt.Sprintf(", and for %s that others of them were merged into", events.Count(n, "item"))
		o.Items = append(o.Items, r.Waits[:min(n, maxObstacleItems-len(o.Items))]...)
	}
	return o
}

// explainBatch says what a batch waits for.
func explainBatch(r *events.Relations) events.BlockReason {
	o := events.BlockReason{Code: events.WhyChildren, Message: fmt.Sprintf("it waits for %d of its %s", r.Live, events.Count(r.Made, "item"))}
	switch {
	case !r.Sealed:
		o.Message += ", and to be sealed: more may be submitted to it until then"
	case r.Made < r.Declared:
		o.Message += fmt.Sprintf(", and for %d more to be submitted", r.Declared-r.Made)
	}
	return o
}

func explainDue(s *State, it *events.Item, now time.Time) []events.BlockReason {
	if !it.AvailableAt.After(now) {
		return nil
	}
	o := events.BlockReason{Code: events.WhyNotDue, Message: "it is due later", Until: it.AvailableAt}
	switch {
	case isSnoozed(it.Reason):
		o.Code, o.Message = events.WhySnoozed, "its handler has put it off"
	case it.Attempt > 0 && it.Code != "" && it.Reason == "":
		set, _ := s.Settings(it.Type)
		_, from := policy.AttemptLimit(set, it, it.Code)
		o.Code, o.Message = events.WhyBackingOff, fmt.Sprintf("attempt %d of %d (%s) has failed (%s: %s): it is tried again", it.Attempt, it.MaxAttempts, from, it.Code, events.Clip(it.Error, 200))
	}
	return []events.BlockReason{o}
}

// explainType says what holds all items of the type back.
func explainType(s *State, it *events.Item) (out []events.BlockReason) {
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
		out = append(out, events.BlockReason{Code: events.WhyPaused, Message: msg + fmt.Sprintf(" (`engine types resume %s` ends the pause)", it.Type), Until: p.Until})
	}
	switch c := t.Circuit; c.State {
	case events.CircuitOpen:
		out = append(out, events.BlockReason{Code: events.WhyCircuit, Until: c.Until,
			Message: fmt.Sprintf("the circuit of type %s is open since %s (%s); then some runs may try", it.Type, c.At.Format(time.RFC3339), c.Reason)})
	case events.CircuitHalfOpen:
		if n := t.Settings.Circuit.WithDefaults().Probes; c.Probing >= n {
			out = append(out, events.BlockReason{Code: events.WhyCircuit, Message: fmt.Sprintf("the circuit of type %s is half open: %s try it, the others wait for what comes of that", it.Type, events.Count(c.Probing, "run"))})
		}
	}
	return out
}

// explainLimits says which limits have no room for the item. A limit that can't
// be read is left out: it is only said, not decided.
func explainLimits(s *State, it *events.Item, now time.Time) (out []events.BlockReason) {
	set, _ := s.Settings(it.Type)
	if most := set.GroupCapacity; most > 0 && it.Group != "" {
		if n, err := s.GroupRuns(it.Type, it.Group); err == nil && n >= int64(most) {
			out = append(out, events.BlockReason{Code: events.WhyGroupFull, Message: fmt.Sprintf("%s %q has %s running: group_capacity is %d", set.GroupKey(), events.Clip(it.Group, 80), events.Count(n, "item"), most)})
		}
	}
	if slots, limited := s.PoolSlots(set); limited {
		if n := s.PoolRuns(set.Pool); n >= int64(slots) {
			out = append(out, events.BlockReason{Code: events.WhyPoolFull, Message: fmt.Sprintf("pool %s has %s running: it has %s", set.Pool, events.Count(n, "item"), events.Count(slots, "slot"))})
		}
	}
	for _, group := range slices.Compact([]string{"", it.Group}) {
		open, at, err := s.RatesAllow(it.Type, group, 0, now)
		if err != nil || open {
			continue
		}
		whose := "type " + string(it.Type)
		if group != "" {
			whose = fmt.Sprintf("%s %q", set.GroupKey(), events.Clip(group, 80))
		}
		out = append(out, events.BlockReason{Code: events.WhyRateLimited, Message: "a rate limit of " + whose + " is reached", Until: at})
	}
	return out
}

// children returns a number of children in words.
func children(n int) string {
	if n == 1 {
		return "1 child"
	}
	return fmt.Sprintf("%d children", n)
}

// explainWait says what signals the item waits for, and what happens if they don't come.
func explainWait(s *State, it *events.Item, w *events.Wait) events.BlockReason {
	o := events.BlockReason{Code: events.WhySignal, Until: w.Until}
	names := w.Names
	if w.Ask != nil {
		names = names[1:]
		o.Message = fmt.Sprintf("it asks %q since %s, which %s may answer (`engine answer %s approve`, or the page's approvals)", w.Ask.Title, w.Since.Format(time.RFC3339), answerers(&w.Ask.Who), it.ID)
		box, _ := s.mailbox(it) // without it the rest is true all the same
		if slices.ContainsFunc(box.Tokens, func(t events.WaitToken) bool { return t.Open() && t.For != "" && t.Name == w.Names[0] }) {
			o.Message += ", or whoever holds a link to it"
		}
		if len(names) > 0 {
			o.Message += "; the signal " + nameList(names, false) + " ends it too"
		}
	} else if len(w.Names) == 0 {
		o.Message = "its handler has it wait until " + w.Until.Format(time.RFC3339)
	} else {
		o.Message = fmt.Sprintf("it waits for the signal %s since %s, which anyone may send who has the role submit or operate (`engine signal %s NAME`)", nameList(w.Names, w.All), w.Since.Format(time.RFC3339), it.ID)
		box, _ := s.mailbox(it) // without it the rest is true all the same
		if slices.ContainsFunc(box.Tokens, func(t events.WaitToken) bool { return t.Open() && slices.Contains(w.Names, t.Name) }) {
			o.Message += ", or whoever holds a token for it"
		}
	}
	o.Message += "; at " + w.Until.Format(time.RFC3339) + " it "
	switch w.Then {
	case events.WaitFail:
		o.Message += "is dead"
	case events.WaitComplete:
		o.Message += "completes"
	default:
		o.Message += "runs again without it"
	}
	if n := unreadBy(it); n > 0 {
		o.Message += fmt.Sprintf("; it has %s that no run was given", events.Count(n, "signal"))
	}
	return o
}

// answerers names those who may answer a question.
func answerers(who *events.Answerers) string {
	text := "whoever has the role approve or operate"
	if names := who.Names(); len(names) > 0 {
		text = strings.Join(names, " or ")
	}
	if who.NotSubmitter {
		text += ", but not the one who submitted it,"
	}
	return text
}
