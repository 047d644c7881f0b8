package query_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector/query"
	"github.com/streamwright/streamwright/wire"
)

// An item is whole: with its documents, what was merged into it, and its history.
func TestFullAndHistory(t *testing.T) {
	s := newSim(t, 1, openMem(t))
	read := query.Of(s.store)
	id := s.submit(core.Submit{Type: "email", DedupKey: "one", Params: json.RawMessage(`{"v":1}`)})
	for i := range 3 {
		s.submit(core.Submit{Type: "email", DedupKey: "one", Provenance: events.Provenance{Source: "test", Trigger: fmt.Sprint(i)}})
	}
	run := core.Run{ID: id, Token: s.token(), Worker: "w"}
	s.do(core.Claim{ID: id, Token: run.Token, Worker: "w", Start: true})
	s.do(core.Complete{Run: run, Result: json.RawMessage(`{"done":true}`)})
	s.project()
	full, found, err := read.Full(id)
	if err != nil || !found || string(full.Params) != `{"v":1}` || string(full.Result) != `{"done":true}` || full.MergedCount != 3 || len(full.MergedProvenance) != 3 {
		t.Fatalf("%+v, %v, %v", full, found, err)
	}
	for i, m := range full.MergedProvenance {
		if m.Trigger != fmt.Sprint(i) {
			t.Errorf("merged: %+v", full.MergedProvenance)
		}
	}
	history, err := read.History(id)
	var kinds []events.Kind
	for i, h := range history {
		if kinds = append(kinds, h.Kind); h.ID != id.String() || h.Type != "email" || i > 0 && h.Seq <= history[i-1].Seq {
			t.Errorf("%+v", h)
		}
	}
	if err != nil || len(kinds) < 4 || kinds[0] != events.KindCreated || kinds[len(kinds)-1] != events.KindCompleted {
		t.Fatalf("%v, %v", kinds, err)
	}
	if _, found, err := read.Full(events.ID{9}); found || err != nil {
		t.Errorf("an unknown item: %v, %v", found, err)
	}
	if h, err := read.History(events.ID{9}); h != nil || err != nil {
		t.Errorf("an unknown item: %v, %v", h, err)
	}
}

// An item shown as of each of its events is what it was then.
func TestItemAtIsWhatItWas(t *testing.T) {
	s := newSim(t, 11, openMem(t))
	read := query.Of(s.store)
	type moment struct {
		at  events.Seq
		was wire.Item
	}
	lives := map[events.ID][]moment{}
	for range 300 {
		s.step()
		s.project()
		for id, it := range s.all {
			if past := lives[id]; len(past) == 0 || past[len(past)-1].at < it.Seq {
				full, found, err := read.Full(id)
				if err != nil || !found {
					t.Fatal(found, err)
				}
				lives[id] = append(past, moment{s.store.Applied(), full})
			}
		}
	}
	checked, replaced := 0, 0
	for id, past := range lives {
		history, err := read.History(id)
		if err != nil {
			t.Fatal(err)
		}
		for i, m := range past {
			got, found, err := read.ItemAt(id, m.at, time.Time{})
			if err != nil || !found {
				t.Fatalf("%s at %d: %v, %v", id, m.at, found, err)
			}
			if got.AsOf.Latest != (history[len(history)-1].Seq <= m.at) {
				t.Errorf("%s at %d of %d: %+v", id, i, len(past), got.AsOf)
			}
			if len(got.Notes) > 0 {
				replaced++
				got.Params = m.was.Params // replaced since, and it says so
			}
			got.AsOf, got.Notes, m.was.Position = nil, nil, got.Position
			if checked++; !reflect.DeepEqual(got, m.was) {
				t.Errorf("%s at %d:\ngot  %+v\nwant %+v", id, m.at, got, m.was)
			}
		}
	}
	if checked < 200 || replaced == 0 {
		t.Fatalf("%d moments are checked, %d before a replay with other params", checked, replaced)
	}
}

// The live holder of a dedup key is found, and no other.
func TestHolders(t *testing.T) {
	s := newSim(t, 1, openMem(t))
	read := query.Of(s.store)
	window := time.Hour
	ended := s.submit(core.Submit{Type: "email", DedupKey: "a/ended", DedupWindow: &window})
	run := core.Run{ID: ended, Token: s.token(), Worker: "w"}
	s.do(core.Claim{ID: ended, Token: run.Token, Worker: "w", Start: true})
	s.do(core.Complete{Run: run})
	var want []string
	for _, key := range []string{"a/2", "a/1", "b/1", "a/3"} {
		id := s.submit(core.Submit{Type: "email", DedupKey: key, Params: json.RawMessage(`{"v":1}`)})
		want = append([]string{id.String()}, want...)
	}
	s.submit(core.Submit{Type: "resize", DedupKey: "a/4"})
	s.project()
	if it, err := read.DedupHolder("email", "a/1"); err != nil || it == nil || it.ID.String() != want[2] {
		t.Errorf("%+v, %v", it, err)
	}
	for _, c := range []struct {
		typ events.Type
		key string
	}{{"email", "a/4"}, {"email", "a/ended"}, {"email", "a/"}, {"none", "a/1"}} {
		if it, err := read.DedupHolder(c.typ, c.key); it != nil || err != nil {
			t.Errorf("%s of %s is held by %+v, %v", c.key, c.typ, it, err)
		}
	}
	for _, c := range []struct {
		prefix string
		most   int
		want   []string
	}{{"", 9, want}, {"a/", 9, []string{want[0], want[2], want[3]}}, {"a/", 2, []string{want[0], want[2]}}, {"", 1, want[:1]}, {"c", 9, nil}} {
		var got []string
		err := read.EachLive("email", c.prefix, func(it wire.Item) bool {
			if string(it.Params) != `{"v":1}` {
				t.Errorf("it is not whole: %+v", it)
			}
			got = append(got, it.ID)
			return len(got) < c.most
		})
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q, up to %d: %v, %v, want %v", c.prefix, c.most, got, err, c.want)
		}
	}
	n, stop := 0, errors.New("stop")
	if _, err := read.DedupHeld(t.Context(), func(events.Type, string, events.ID, events.ItemState) error { n++; return stop }); n != 1 || !errors.Is(err, stop) {
		t.Errorf("after an error: %d, %v", n, err)
	}
}

func TestRejectedRefuses(t *testing.T) {
	read := query.Of(openMem(t))
	for _, q := range []wire.ListRejected{{Limit: -1}, {Limit: query.MaxListLimit + 1}, {Cursor: "x"}} {
		if _, err := read.Rejected(q); events.CodeOf(err) != events.CodeBadRequest {
			t.Errorf("%+v: %v", q, err)
		}
	}
	if _, _, found, err := read.Answer(1); found || err != nil {
		t.Errorf("a message that nobody answered: %v, %v", found, err)
	}
}
