package core

import (
	"github.com/streamwright/streamwright/events"
)

// FoldItem is an item as its own events, in order and from its created on,
// leave it. What other items' events have done to it (submissions merged into
// it, items that wait for it) they do not say.
func FoldItem(evs []events.Event) (*events.Item, error) {
	base := foldBase{stubs: map[events.ID]*events.Item{}}
	for _, ev := range evs {
		if b, ok := ev.Body.(*events.Merged); ok {
			base.stubs[b.Into] = &events.Item{ID: b.Into, Type: ev.Type, State: events.StateQueued}
		}
	}
	s, err := NewState(base)
	if err != nil {
		return nil, err
	}
	for _, ev := range evs {
		if err := s.Apply(ev); err != nil {
			return nil, err
		}
	}
	if len(evs) == 0 {
		return nil, nil
	}
	return s.Item(evs[0].ID)
}

// foldBase is empty but for what an item was merged into.
type foldBase struct {
	Empty
	stubs map[events.ID]*events.Item
}

func (b foldBase) Item(id events.ID) (*events.Item, error) { return b.stubs[id], nil }
