package events

import (
	"encoding/json"
	"errors"
	"testing"
	"time"
)

// sampleBody is a payload of a kind, nil for a kind without one.
func sampleBody(k Kind) Body {
	switch b := newBody(k).(type) {
	case *Created:
		b.Params = json.RawMessage("null")
		return b
	case *Merged:
		b.Into = crowdID(0)
		return b
	case *Owned:
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
	for st := range ItemState(NumStates) {
		if st != StateNone {
			base.items[crowdID(int(st))] = &Item{ID: crowdID(int(st)), Type: "email", State: st, CreatedSeq: 1, Seq: 1}
		}
	}
	base.items[crowdID(0)] = &Item{ID: crowdID(0), Type: "email", State: StateQueued}
	s, err := NewState(base)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ofItems are the kinds that move an item.
func ofItems(k Kind) bool { return k > KindNone && k < KindRejected }

func TestEveryCellOfTheTable(t *testing.T) {
	for st := range ItemState(NumStates) {
		for k := range Kind(NumKinds) {
			if k != KindNone && !ofItems(k) {
				if next, ok := Next(st, k); ok {
					t.Errorf("%s is no event of an item, and leads from %s to %s", k, st, next)
				}
				continue
			}
			t.Run(st.String()+"/"+k.String(), func(t *testing.T) { testCell(t, st, k) })
		}
	}
}

func testCell(t *testing.T, st ItemState, k Kind) {
	s := stateWith(t)
	id := crowdID(int(st))
	if st == StateNone {
		id = crowdID(1 << 20)
	}
	err := s.Apply(Event{Seq: 8, Kind: k, ID: id, Type: "email", At: time.Unix(1, 0), Attempt: 1, Worker: "w1", Body: sampleBody(k)})
	next, defined := Next(st, k)
	if defined && newBody(k) == nil {
		if !errors.Is(err, ErrCorrupt) {
			t.Fatalf("a kind that this program does not know was applied: %v", err)
		}
		return
	}
	if !defined {
		if !errors.Is(err, ErrCorrupt) {
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
	if _, ok := Next(NumStates, KindCreated); ok {
		t.Error("a state beyond the table")
	}
	if _, ok := Next(StateNone, NumKinds); ok {
		t.Error("a kind beyond the table")
	}
}

// Every state can be reached, and every state that is not terminal can be left.
func TestTheTableHasNoDeadEnds(t *testing.T) {
	reached := map[ItemState]bool{StateNone: true}
	for range NumStates {
		for st := range ItemState(NumStates) {
			for k := range Kind(NumKinds) {
				if next, ok := Next(st, k); ok && reached[st] {
					reached[next] = true
				}
			}
		}
	}
	for st := range ItemState(NumStates) {
		leaves := false
		for k := range Kind(NumKinds) {
			next, ok := Next(st, k)
			leaves = leaves || ok && next != st
		}
		if !reached[st] || !leaves && !st.Terminal() {
			t.Errorf("%s: reached %v, left %v", st, reached[st], leaves)
		}
	}
}

func TestNamesRoundTrip(t *testing.T) {
	for st := StateCreated; st < NumStates; st++ {
		if got, err := ParseItemState(st.String()); got != st || err != nil {
			t.Errorf("%s: %v, %v", st, got, err)
		}
	}
	for k := KindCreated; k < NumKinds; k++ {
		if got, err := ParseKind(k.String()); got != k || err != nil {
			t.Errorf("%s: %v, %v", k, got, err)
		}
		if b := newBody(k); b != nil && b.kind() != k {
			t.Errorf("the payload of %s says it is one of %s", k, b.kind())
		}
	}
}
