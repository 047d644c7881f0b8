package projector

import (
	"time"

	"github.com/streamwright/streamwright/events"
)

// maxAheadGroups bounds the groups of a queue that CountAhead looks at.
const maxAheadGroups = 1000

// CountAhead counts the items of a ready queue that go before the item it, up
// to limit: those that may run at now and have a place before a time. Groups
// take turns, so of another group no more count than of the item's own, and
// one. It reads an index entry for each, of at most maxAheadGroups groups.
func (s *Store) CountAhead(q ReadyQueue, it *events.Item, before, now time.Time, limit int) (int, error) {
	own, err := s.countReady(q, it.Group, before, now, limit)
	if err != nil || own >= limit {
		return own, err
	}
	groups, err := s.ReadyGroups(q, "", true, maxAheadGroups)
	n := own
	for _, g := range groups {
		if g.Name == it.Group || err != nil || n >= limit {
			continue
		}
		var k int
		k, err = s.countReady(q, g.Name, before, now, min(own+1, limit-n))
		n += k
	}
	return n, err
}

func (s *Store) countReady(q ReadyQueue, group string, before, now time.Time, limit int) (n int, err error) {
	if limit <= 0 {
		return 0, nil
	}
	prefix := appendText(appendReadyPrefix(nil, q), group)
	err = s.lookup(func(v view) error {
		return v.scan(prefix, prefix, func(key, value []byte) (bool, error) {
			e, err := decodeReady(key, key[len(prefix):], value)
			if err != nil || e.OrderAt >= nanos(before) {
				return false, err
			}
			if !e.AvailableAt.After(now) {
				n++
			}
			return n < limit, nil
		})
	})
	return n, err
}
