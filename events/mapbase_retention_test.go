package events

import (
	"encoding/json"
	"slices"
)

// writeHistory keeps histories in the form of their events' JSON.
func (b *mapBase) writeHistory(c *Changes) error {
	for _, ev := range c.History {
		data, err := ev.AppendJSON(nil)
		if err != nil {
			return err
		}
		b.history[ev.ID] = append(b.history[ev.ID], StoredEvent{Seq: ev.Seq, Data: data})
	}
	for _, r := range c.Restated {
		b.history[r.ID] = append(b.history[r.ID], r.History...)
	}
	for _, f := range c.Folds {
		if f.To > 0 {
			h := slices.DeleteFunc(b.history[f.ID], func(e StoredEvent) bool { return e.Seq >= f.From && e.Seq < f.To })
			for i := range h {
				if h[i].Seq == f.To {
					h[i].Data = f.Marker
				}
			}
			b.history[f.ID] = h
		}
		b.merged = slices.DeleteFunc(b.merged, func(m MergedEntry) bool { return m.Into == f.ID && m.Seq <= f.MergedTo })
	}
	for id, h := range b.history {
		slices.SortFunc(h, func(x, y StoredEvent) int { return int(x.Seq) - int(y.Seq) })
		b.history[id] = h
	}
	return nil
}

// mergedInto are the submissions merged into an item, in order.
func (b *mapBase) mergedInto(id ID) (m []MergedEntry) {
	for _, e := range b.merged {
		if e.Into == id {
			m = append(m, e)
		}
	}
	slices.SortFunc(m, func(x, y MergedEntry) int { return int(x.Seq) - int(y.Seq) })
	return m
}

func (e StoredEvent) kind() string {
	var k struct {
		Kind string `json:"kind"`
	}
	_ = json.Unmarshal(e.Data, &k)
	return k.Kind
}
