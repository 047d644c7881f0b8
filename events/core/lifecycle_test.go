package core

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
)

// sampleBody is a payload of a kind, nil for a kind without one.
func sampleBody(k events.Kind) events.Body {
	switch b := newBody(k).(type) {
	case *events.Created:
		b.Params = json.RawMessage("null")
		return b
	case *events.Merged:
		b.Into = crowdID(0)
		return b
	case *events.Owned:
		b.Epoch = 1
		return b
	default:
		return b
	}
}

// stateWith is a state with an item in each state but StateNone; the item in
// StateX has crowdID(X). Item 0 is there to merge into.
func stateWith(t *testing.T) *State {
	base := newMapBase()
	base.meta.Applied = 7
	for st := range events.ItemState(events.NumStates) {
		if st != events.StateNone {
			base.items[crowdID(int(st))] = &events.Item{ID: crowdID(int(st)), Type: "email", State: st, CreatedSeq: 1, Seq: 1}
		}
	}
	base.items[crowdID(int(events.StateWaiting))].Signals = &events.Signals{Wait: &events.Wait{Ask: &events.Asked{}}}
	base.items[crowdID(0)] = &events.Item{ID: crowdID(0), Type: "email", State: events.StateQueued}
	s, err := NewState(base)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ofItems are the kinds that move an item.
func ofItems(k events.Kind) bool { return k > events.KindNone && k < events.KindRejected }

func TestEveryCellOfTheTable(t *testing.T) {
	for st := range events.ItemState(events.NumStates) {
		for k := range events.Kind(events.NumKinds) {
			if k != events.KindNone && !ofItems(k) {
				if next, ok := events.Next(st, k); ok {
					t.Errorf("%s is no event of an item, and leads from %s to %s", k, st, next)
				}
				continue
			}
			t.Run(st.String()+"/"+k.String(), func(t *testing.T) { testCell(t, st, k) })
		}
	}
}

func testCell(t *testing.T, st events.ItemState, k events.Kind) {
	s := stateWith(t)
	id := crowdID(int(st))
	if st == events.StateNone {
		id = crowdID(1 << 20)
	}
	err := s.Apply(events.Event{Seq: 8, Kind: k, ID: id, Type: "email", At: time.Unix(1, 0), Attempt: 1, Worker: "w1", Body: sampleBody(k)})
	next, defined := events.Next(st, k)
	if defined && newBody(k) == nil {
		if !errors.Is(err, events.ErrCorrupt) {
			t.Fatalf("a kind that this program does not know was applied: %v", err)
		}
		return
	}
	if !defined {
		if !errors.Is(err, events.ErrCorrupt) {
			t.Fatalf("undefined, and Apply says %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	it, err := s.Item(id)
	if err != nil || it == nil || it.State != next || it.Seq != 8 {
		t.Fatalf("%+v, %v: want it %s", it, err, next)
	}
}

func TestNextOutsideTheTable(t *testing.T) {
	if _, ok := events.Next(events.NumStates, events.KindCreated); ok {
		t.Error("a state beyond the table")
	}
	if _, ok := events.Next(events.StateNone, events.NumKinds); ok {
		t.Error("a kind beyond the table")
	}
}

// Every state can be reached, and every state that is not terminal can be left.
func TestTheTableHasNoDeadEnds(t *testing.T) {
	reached := map[events.ItemState]bool{events.StateNone: true}
	for range events.NumStates {
		for st := range events.ItemState(events.NumStates) {
			for k := range events.Kind(events.NumKinds) {
				if next, ok := events.Next(st, k); ok && reached[st] {
					reached[next] = true
				}
			}
		}
	}
	for st := range events.ItemState(events.NumStates) {
		leaves := false
		for k := range events.Kind(events.NumKinds) {
			next, ok := events.Next(st, k)
			leaves = leaves || ok && next != st
		}
		if !reached[st] || !leaves && !st.Terminal() {
			t.Errorf("%s: reached %v, left %v", st, reached[st], leaves)
		}
	}
}

func TestNamesRoundTrip(t *testing.T) {
	for st := events.StateCreated; st < events.NumStates; st++ {
		if got, err := events.ParseItemState(st.String()); got != st || err != nil {
			t.Errorf("%s: %v, %v", st, got, err)
		}
	}
	for k := events.KindCreated; k < events.NumKinds; k++ {
		if got, err := events.ParseKind(k.String()); got != k || err != nil {
			t.Errorf("%s: %v, %v", k, got, err)
		}
		if b := newBody(k); b != nil && b.Kind() != k {
			t.Errorf("the payload of %s says it is one of %s", k, b.Kind())
		}
	}
}
