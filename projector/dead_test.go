package projector

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector/query"
	"github.com/streamwright/streamwright/wire"
)

// What is kept of rejected submissions depends on the position alone, however
// the log was cut into batches, also at the bounds.
func TestRejectedIsBoundedWhateverTheBatches(t *testing.T) {
	slow(t)
	rapid.Check(t, func(rt *rapid.T) {
		opts := Options{InMemory: true, rejected: rejectedLimits{5, 2000, 7}}
		live, err := Open("", opts)
		if err != nil {
			t.Fatal(err)
		}
		defer live.Close()
		s := newSim(t, rapid.Uint64().Draw(rt, "seed"), live)
		every := rapid.SampledFrom([]int{1, 3, 64}).Draw(rt, "batch")
		s.per = rapid.SampledFrom([]int{1, 16, 1000}).Draw(rt, "frame")
		s.submit(core.Submit{Type: "email"})
		s.do(core.Own{Owner: "me"})
		for i := range rapid.IntRange(1, 120).Draw(rt, "steps") {
			s.do(s.rejected())
			if i%every == 0 {
				s.project()
			}
			if rapid.IntRange(0, 20).Draw(rt, "cut") == 0 {
				if begin, _ := s.round(0); begin > 0 && rapid.Bool().Draw(rt, "now") {
					s.log.first = begin.Frame()
				}
			}
		}
		s.project()
		again, err := StateAt(context.Background(), s.log, s.log.last(), time.Time{}, "", opts, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close()
		same(t, live, again)
		page, err := query.Of(live).Rejected(wire.ListRejected{})
		if err != nil || len(page.Rejected) > 5 {
			t.Fatalf("%d are kept, %v", len(page.Rejected), err)
		}
		for _, r := range page.Rejected {
			if one, found, err := query.Of(live).RejectedOf(r.Seq); err != nil || !found || one.IntakeSeq != r.IntakeSeq || one.Size != len(one.Text) {
				t.Fatalf("%+v %v %v", one, found, err)
			}
		}
	})
}

// An item shown as of each of its events is the one of a store as of then.
func TestItemAtIsWhatTheStoreWas(t *testing.T) {
	s := newSim(t, 11, openMem(t))
	s.run(300, 20)
	checked := 0
	for id := range s.items() {
		history, err := query.Of(s.store).History(id)
		if err != nil {
			t.Fatal(err)
		}
		if len(history) < 5 || checked > 12 {
			continue
		}
		checked++
		for _, ev := range []wire.HistoryEvent{history[0], history[len(history)/2], history[len(history)-1]} {
			var want wire.Item
			if err := s.store.AsOf(context.Background(), s.log, ev.Seq, time.Time{}, nil, func(then *Store) (err error) {
				want, _, err = query.Of(then).Full(id)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			got, found, err := query.Of(s.store).ItemAt(id, ev.Seq, time.Time{})
			if err != nil || !found {
				t.Fatalf("%s at %d: %v %v", id, ev.Seq, found, err)
			}
			if len(got.Notes) > 0 {
				got.Params = want.Params // replaced since, and it says so
			}
			want.Awaited = 0
			if want.Children != nil {
				want.Children.Live, want.Children.Failed = 0, 0
			}
			got.AsOf, got.Notes, want.Position = nil, nil, got.Position
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s at %d:\ngot  %+v\nwant %+v", id, ev.Seq, got, want)
			}
		}
	}
	if checked == 0 {
		t.Fatal("no item had a history to check")
	}
}

func TestAsOf(t *testing.T) {
	s := newSim(t, 5, openMem(t))
	s.run(200, 20)
	then := s.log.end(uint64(len(s.log.frames)/2)) - 1 // within a frame
	var got string
	err := s.store.AsOf(context.Background(), s.log, then, time.Time{}, nil, func(past *Store) error {
		if err := s.store.AsOf(context.Background(), s.log, then, time.Time{}, nil, nil); !errors.Is(err, ErrProving) {
			t.Errorf("a second one at once: %v", err)
		}
		got = digestOf(t, past)
		return nil
	})
	if err != nil || got != digestOf(t, replayed(t, s.log, then)) {
		t.Errorf("it is not the state of then; %v", err)
	}
	err = s.store.AsOf(context.Background(), s.log, s.log.last(), time.Unix(1, 0), nil, nil)
	if events.CodeOf(err) != events.CodeNotFound {
		t.Errorf("before the first event: %v", err)
	}
}
