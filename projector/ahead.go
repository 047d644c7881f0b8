package projector

import (
	"time"

	"github.com/streamwright/streamwright/events"
)

// maxAheadGroups bounds the groups of a queue that CountAhead looks at.
const maxAheadGroups = 1000

// Ahead is what goes before an item.
type Ahead struct {
	Items int
	// Estimated are those of the items whose submission says how long a run is
	// likely to take, and Work how long they are likely to take together.
	Estimated int
	Work      time.Duration
}

// Add adds what else goes before the item.
func (a *Ahead) Add(o Ahead) {
	a.Items += o.Items
	a.Estimated += o.Estimated
	a.Work += o.Work
}

// CountAhead counts the items of a ready queue that go before the item it, up
// to limit: those that may run at now and have a place before a time. Groups
// take turns, so of another group no more count than of the item's own, and
// one. It reads an index entry for each, of at most maxAheadGroups groups.
func (s *Store) CountAhead(q ReadyQueue, it *events.Item, before, now time.Time, limit int) (Ahead, error) {
	own, err := s.countReady(q, it.Group, before, now, limit)
	if err != nil || own.Items >= limit {
		return own, err
	}
	groups, err := s.ReadyGroups(q, "", true, maxAheadGroups)
	all := own
	for _, g := range groups {
		if g.Name == it.Group || err != nil || all.Items >= limit {
			continue
		}
		var more Ahead
		more, err = s.countReady(q, g.Name, before, now, min(own.Items+1, limit-all.Items))
		all.Add(more)
	}
	return all, err
}

// CountBefore counts the items of a ready queue that may run at now and have a
// place before a time, up to limit, of at most maxAheadGroups groups.
func (s *Store) CountBefore(q ReadyQueue, before, now time.Time, limit int) (n int, err error) {
	groups, err := s.ReadyGroups(q, "", true, maxAheadGroups)
	for _, g := range groups {
		if err != nil || n >= limit {
			break
		}
		var more Ahead
		more, err = s.countReady(q, g.Name, before, now, limit-n)
		n += more.Items
	}
	return n, err
}

func (s *Store) countReady(q ReadyQueue, group string, before, now time.Time, limit int) (a Ahead, err error) {
	if limit <= 0 {
		return a, nil
	}
	prefix := appendText(appendReadyPrefix(nil, q), group)
	err = s.lookup(func(v view) error {
		return v.scan(prefix, prefix, func(key, value []byte) (bool, error) {
			e, err := decodeReady(key, key[len(prefix):], value)
			if err != nil || e.OrderAt >= nanos(before) {
				return false, err
			}
			if !e.AvailableAt.After(now) {
				a.Items++
				if d := readyEstimate(value); d > 0 {
					a.Estimated++
					a.Work += d
				}
			}
			return a.Items < limit, nil
		})
	})
	return a, err
}
