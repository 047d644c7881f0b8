package projector

import (
	"time"
)

// CountReady counts the items of a ready queue that have a place before a time
// and may run at now, up to limit. It reads each of their index entries.
func (s *Store) CountReady(q ReadyQueue, before, now time.Time, limit int) (n int, err error) {
	if limit <= 0 {
		return 0, nil
	}
	prefix := appendReadyPrefix(nil, q)
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
