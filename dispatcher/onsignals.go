package dispatcher

import (
	"maps"
	"slices"
)

// onSignals handles the signals that other goroutines have left.
func (l *loop) onSignals() error {
	t := l.signals.Take()
	if t.Reload {
		return errReload
	}
	now := l.clock.Now()
	if t.Registry {
		if err := l.workforce.registryChanged(now); err != nil {
			return err
		}
	}
	if err := l.acks.hearSignals(&t, now); err != nil {
		return err
	}
	for _, w := range slices.Sorted(maps.Keys(t.Beats)) { // in order: a simulation can be repeated
		l.leases.heard(w, t.Beats[w], now)
		if err := l.assigner.heard(w, t.Beats[w]); err != nil {
			return err
		}
	}
	for w, o := range t.Offers {
		l.assigner.offered(w, o.Session, o.Room)
	}
	if t.Cut > 0 {
		l.retention.CutDone(t.Cut)
	}
	if t.Sweep {
		l.sweeper.next = now
	}
	return nil
}
