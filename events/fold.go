package events

import (
	"encoding/json"
	"fmt"
)

// DecodeBody reads a payload of a kind, as [Event.Data] gives it. What a
// history leaves out of it is zero.
func DecodeBody(k Kind, data json.RawMessage) (Body, error) {
	b := newBody(k)
	if b == nil || len(data) == 0 {
		return b, nil
	}
	if err := json.Unmarshal(data, b); err != nil {
		return nil, fmt.Errorf("decode the payload of %s: %w: %w", k, ErrCorrupt, err)
	}
	return b, nil
}

// FoldItem is an item as its own events, in order and from its created on,
// leave it. What other items' events have done to it (submissions merged into
// it, items that wait for it) they do not say.
func FoldItem(evs []Event) (*Item, error) {
	base := foldBase{stubs: map[ID]*Item{}}
	for _, ev := range evs {
		if b, ok := ev.Body.(*Merged); ok {
			base.stubs[b.Into] = &Item{ID: b.Into, Type: ev.Type, State: StateQueued}
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
	stubs map[ID]*Item
}

func (b foldBase) Item(id ID) (*Item, error) { return b.stubs[id], nil }
