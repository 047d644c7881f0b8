package api

import (
	"cmp"
	"slices"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// attention returns what someone should look at. died returns how many items of a type
// have died of late. What is repaired is no longer in it.
func attention(r *wire.StatsReply, workers []wire.WorkerInfo, died func(typ string) int64) []wire.Attention {
	found := map[string][]wire.AttentionOf{}
	add := func(kind string, of wire.AttentionOf) { found[kind] = append(found[kind], of) }
	for i := range r.Types {
		attentionOfType(&r.Types[i], died, add)
	}
	for _, c := range r.Circuits {
		add(wire.AttentionWorkerCircuit, wire.AttentionOf{Worker: c.Worker, State: c.State, Reason: c.Reason})
	}
	gone := unreplaced(workers)
	for _, w := range workers {
		switch {
		case w.Status == wire.WorkerUnhealthy:
			add(wire.AttentionWorkerUnhealthy, wire.AttentionOf{Worker: w.Worker, Reason: w.Reason})
		case gone[w.Worker]:
			add(wire.AttentionWorkerDead, wire.AttentionOf{Worker: w.Worker})
		}
	}
	out := []wire.Attention{}
	for _, kind := range wire.AttentionKinds {
		list := found[kind]
		if len(list) == 0 {
			continue
		}
		slices.SortStableFunc(list, func(a, b wire.AttentionOf) int { return cmp.Compare(b.Items, a.Items) })
		at := wire.Attention{Kind: kind, Severity: attentionSeverity(kind), Count: len(list), First: list[:min(len(list), wire.MaxAttention)]}
		for _, of := range list {
			at.Items += of.Items
		}
		out = append(out, at)
	}
	return out
}

func attentionSeverity(kind string) wire.AlarmSeverity {
	switch kind {
	case wire.AttentionDead, wire.AttentionCircuit, wire.AttentionWorkerCircuit, wire.AttentionNoWorker, wire.AttentionQueue:
		return wire.AlarmCritical
	}
	return wire.AlarmWarning
}

func attentionOfType(t *wire.TypeStats, died func(string) int64, add func(string, wire.AttentionOf)) {
	queued, dead := t.States[events.StateQueued.String()], t.States[events.StateDead.String()]
	of := wire.AttentionOf{Type: t.Type, Items: queued, Oldest: t.Oldest}
	if recent := died(t.Type); recent > 0 && dead > 0 {
		add(wire.AttentionDead, wire.AttentionOf{Type: t.Type, Items: dead, Recent: recent})
	}
	if t.Circuit != nil {
		c := of
		c.State, c.Reason = t.Circuit.State, t.Circuit.Reason
		add(wire.AttentionCircuit, c)
	}
	switch {
	case t.Paused != nil:
		p := of
		p.Reason, p.By = t.Paused.Reason, t.Paused.By
		add(wire.AttentionPaused, p)
	case queued > t.Scheduled && t.Workers == 0:
		add(wire.AttentionNoWorker, of)
	}
	if t.Starving > 0 {
		add(wire.AttentionStarving, of)
	}
	waiting := queued + t.States[events.StateWaiting.String()]
	if t.MaxQueued > 0 && float64(waiting) >= nearLimit*float64(t.MaxQueued) {
		add(wire.AttentionQueue, wire.AttentionOf{Type: t.Type, Items: waiting, Most: int64(t.MaxQueued)})
	}
}

// unreplaced returns the dead workers in whose stead none has come: one that serves
// the same types and has registered since replaces one.
func unreplaced(workers []wire.WorkerInfo) map[string]bool {
	fresh := slices.DeleteFunc(slices.Clone(workers), func(w wire.WorkerInfo) bool { return w.Status == wire.WorkerDead })
	out := map[string]bool{}
	for _, w := range workers {
		if w.Status != wire.WorkerDead {
			continue
		}
		at := slices.IndexFunc(fresh, func(f wire.WorkerInfo) bool {
			return sameTypes(f.Types, w.Types) && !f.RegisteredAt.Before(w.LastSeen)
		})
		if at < 0 {
			out[w.Worker] = true
			continue
		}
		fresh = slices.Delete(fresh, at, at+1)
	}
	return out
}

func sameTypes(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
