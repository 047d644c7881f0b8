package dispatcher

import (
	"fmt"
	"strings"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// typeIdle is the time after which a type is forgotten that has no items, no settings of
// its own, and no worker.
const typeIdle = 24 * time.Hour

// typesFree is the number of types that there should be room for. With less room, types are
// forgotten that two looks in a row have found idle.
const typesFree = 100

// maxForget bounds the types forgotten in one look.
const maxForget = 200

// forgetTypes forgets types that have long been idle, and if room is scarce, those that
// were idle at the last look. Only the sweep calls it: a client that could choose the time
// of the looks could fill the log with types that come and go.
func (sw *sweeper) forgetTypes(now time.Time) error {
	names := sw.state.TypeNames()
	scarce := len(names) > events.MaxTypes-typesFree
	was := sw.idle
	sw.idle = map[events.Type]time.Time{}
	forgotten := 0
	for _, t := range names {
		if !sw.unneeded(t) {
			continue
		}
		since, known := was[t]
		if !known {
			since = now
		}
		if known && (scarce || now.Sub(since) >= typeIdle) && forgotten < maxForget && sw.room() {
			if _, _, err := sw.decide(core.ForgetType{Type: t}); fatal(err) != nil {
				return err
			}
			forgotten++
			continue
		}
		sw.idle[t] = since
	}
	if forgotten > 0 {
		sw.cfg.Logger.Info("forgot types that have no items, settings or workers", "types", forgotten)
	}
	return nil
}

// unneeded reports whether nothing and nobody needs a type.
func (sw *sweeper) unneeded(t events.Type) bool {
	return sw.state.TypeInUse(t) == "" && sw.cfg.FileTypes[t] == nil && sw.table.ByType[t].All == 0 && !sw.ready.Offered(t)
}

// mayRemove refuses to remove a type that engine.toml names, or that a worker serves.
// Decide checks whether the log's state still uses it.
func (l *loop) mayRemove(t events.Type) error {
	if l.cfg.FileTypes[t] != nil {
		return events.Refuse(events.CodeSetInFile, "type %s has a table in engine.toml: take [types.%s] out and restart the engine, then remove it", t, t)
	}
	if workers := l.workforce.registry.Serving(t); len(workers) > 0 {
		const most = 3
		more := ""
		if n := len(workers) - most; n > 0 {
			workers, more = workers[:most], fmt.Sprintf(" and %d more", n)
		}
		names := make([]string, len(workers))
		for i, w := range workers {
			names[i] = string(w)
		}
		return events.Refuse(events.CodeWrongState, "type %s is in use: worker %s%s serves it; stop it first", t, strings.Join(names, ", "), more)
	}
	return nil
}

// typesForgotten drops what is kept in memory about forgotten types.
func (l *loop) typesForgotten(types []events.Type) {
	for _, t := range types {
		if _, known := l.state.Type(t); known {
			continue // it is back
		}
		l.ready.Forget(t)
		delete(l.leases.of, t)
		delete(l.limits.marks, t)
		delete(l.dirty, t)
		delete(l.gates.stopped, t)
	}
}
