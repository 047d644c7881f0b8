package api

import (
	"maps"
	"sync"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// recoveries counts what was repaired, by cause (wire.Recoveries).
type recoveries struct {
	mu sync.Mutex
	n  map[string]int64
}

func (r *recoveries) add(cause string) {
	r.mu.Lock()
	if r.n == nil {
		r.n = map[string]int64{}
	}
	r.n[cause]++
	r.mu.Unlock()
}

func (r *recoveries) all() map[string]int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n == nil {
		return map[string]int64{}
	}
	return maps.Clone(r.n)
}

// recoveryOf is what an event repairs, empty for nothing.
func recoveryOf(ev *events.Event) string {
	switch b := ev.Body.(type) {
	case *events.Failed:
		switch b.Code {
		case events.FailLeaseExpired:
			return wire.RecoveryLeaseExpired
		case events.FailTimeout:
			return wire.RecoveryTimeout
		}
	case *events.Released:
		if b.Reason == "not_started" {
			return wire.RecoveryNotStarted
		}
	}
	return ""
}
