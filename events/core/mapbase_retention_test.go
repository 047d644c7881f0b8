package core

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/streamwright/streamwright/events"
)

// writeRejected keeps all of what was rejected, and forgets what was purged.
func (b *mapBase) writeRejected(c *Changes) {
	for _, r := range c.Rejected {
		maps.DeleteFunc(b.rejected, func(seq events.Seq, _ RejectedChange) bool { return seq < r.Cut })
		maps.DeleteFunc(b.answers, func(_ uint64, a events.KeptAnswer) bool { return a.Seq < r.CutAnswers })
		if k := r.Restated; k != nil {
			r = RejectedChange{Seq: k.Seq, Type: k.Type, At: k.At, Body: k.Body}
		}
		if a := r.RestatedAnswer; a != nil {
			b.answers[a.Intake] = *a
		}
		switch {
		case r.Seq == 0:
		case r.Body == nil:
			delete(b.rejected, r.Seq)
		case r.Body.Of.IsZero():
			b.rejected[r.Seq] = r
		}
		if r.Answer {
			b.answers[r.Body.Intake.Seq] = events.KeptAnswer{Intake: r.Body.Intake.Seq, Seq: r.Seq, Of: r.Body.Of}
		}
	}
}

// keptBefore is what is kept of submissions that became no item before a
// position, in order.
func (b *mapBase) keptBefore(below events.Seq) (rejected []events.KeptRejected, answers []events.KeptAnswer) {
	for _, seq := range slices.Sorted(maps.Keys(b.rejected)) {
		if r := b.rejected[seq]; seq < below {
			rejected = append(rejected, events.KeptRejected{Seq: seq, Type: r.Type, At: r.At, Size: r.Body.KeptBytes(), Body: r.Body})
		}
	}
	for _, n := range slices.Sorted(maps.Keys(b.answers)) {
		if a := b.answers[n]; a.Seq < below {
			answers = append(answers, a)
		}
	}
	return rejected, answers
}

// writeHistory keeps histories in the form of their events' JSON.
func (b *mapBase) writeHistory(c *Changes) error {
	for _, ev := range c.History {
		data, err := ev.AppendJSON(nil)
		if err != nil {
			return err
		}
		b.history[ev.ID] = append(b.history[ev.ID], events.StoredEvent{Seq: ev.Seq, Data: data})
	}
	for _, r := range c.Restated {
		b.history[r.ID] = append(b.history[r.ID], r.History...)
	}
	for _, f := range c.Folds {
		if f.To > 0 {
			h := slices.DeleteFunc(b.history[f.ID], func(e events.StoredEvent) bool { return e.Seq >= f.From && e.Seq < f.To })
			for i := range h {
				if h[i].Seq == f.To {
					h[i].Data = f.Marker
				}
			}
			b.history[f.ID] = h
		}
		b.merged = slices.DeleteFunc(b.merged, func(m events.MergedEntry) bool { return m.Into == f.ID && m.Seq <= f.MergedTo })
	}
	for id, h := range b.history {
		slices.SortFunc(h, func(x, y events.StoredEvent) int { return int(x.Seq) - int(y.Seq) })
		b.history[id] = h
	}
	return nil
}

// mergedInto are the submissions merged into an item, in order.
func (b *mapBase) mergedInto(id events.ID) (m []events.MergedEntry) {
	for _, e := range b.merged {
		if e.Into == id {
			m = append(m, e)
		}
	}
	slices.SortFunc(m, func(x, y events.MergedEntry) int { return int(x.Seq) - int(y.Seq) })
	return m
}

func storedKind(e events.StoredEvent) string {
	var k struct {
		Kind string `json:"kind"`
	}
	_ = json.Unmarshal(e.Data, &k)
	return k.Kind
}
