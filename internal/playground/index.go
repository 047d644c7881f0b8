package playground

import (
	"cmp"
	"slices"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/projector/ready"
)

// index is the session's items as the ready queues read them.
type index struct{ s *Session }

// entries lists the queued items of a queue, by group and then by place.
func (x index) entries(q ready.Queue) (entries []ready.Group, err error) {
	its, err := x.s.all()
	for _, it := range its {
		if it.State == events.StateQueued && (ready.Queue{Type: it.Type, Lane: it.Lane(), Priority: it.Priority}) == q {
			entries = append(entries, ready.Group{Name: it.Group, First: ready.Entry{Key: ready.KeyOf(it), AvailableAt: it.AvailableAt}})
		}
	}
	slices.SortFunc(entries, func(a, b ready.Group) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), a.First.Compare(b.First.Key))
	})
	return entries, err
}

func (x index) EachReady(q ready.Queue, group string, behind ready.Key, fn func(ready.Entry) (more bool)) error {
	entries, err := x.entries(q)
	for _, e := range entries {
		if e.Name == group && behind.Less(e.First.Key) && !fn(e.First) {
			break
		}
	}
	return err
}

func (x index) ReadyGroups(q ready.Queue, behind string, fromStart bool, limit int) ([]ready.Group, error) {
	entries, err := x.entries(q)
	groups := slices.CompactFunc(entries, func(a, b ready.Group) bool { return a.Name == b.Name })
	groups = slices.DeleteFunc(groups, func(g ready.Group) bool { return !fromStart && g.Name <= behind })
	return groups[:min(len(groups), limit)], err
}

// ReadyLanes finds none: the worker has no capabilities.
func (index) ReadyLanes(events.Type, string, func(lane string) (next string)) error { return nil }

// Current finds none: what is taken from the queues is claimed at once.
func (index) Current(events.ID) events.Token { return 0 }
