package query_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector"
	"github.com/streamwright/streamwright/projector/internal/layout"
	"github.com/streamwright/streamwright/projector/query"
	"github.com/streamwright/streamwright/wire"
)

// holds has a worker claim and start so many new items.
func holds(s *sim, w events.WorkerID, t events.Type, n int) (ids []events.ID) {
	for i := range n {
		id, tok := s.submit(core.Submit{Type: t}), s.token()
		s.do(core.Claim{ID: id, Token: tok, Worker: w, Start: i%2 == 0})
		if ids = append(ids, id); i%1000 == 999 {
			s.project()
		}
	}
	s.project()
	return ids
}

// listAll reads all pages of a listing, and the most steps that one has taken.
func listAll(t *testing.T, store *projector.Store, q wire.List) (ids []string, steps int) {
	t.Helper()
	for {
		var page wire.Listed
		var took int
		if err := store.Snapshot(func(v layout.View) (err error) { page, took, err = query.List(v, q); return err }); err != nil {
			t.Fatal(err)
		}
		for _, it := range page.Items {
			ids = append(ids, it.ID)
		}
		if steps = max(steps, took); page.NextCursor == "" {
			return ids, steps
		}
		q.Cursor = page.NextCursor
	}
}

// What a worker holds is found without a look at what the others hold, the last
// touched first, and no longer once it has let go.
func TestListByWorker(t *testing.T) {
	slow(t)
	live := openMem(t)
	s := newSim(t, 1, live)
	ids := holds(s, "one", "email", 7)
	holds(s, "others", "email", 3000)
	for _, q := range []wire.List{{}, {Limit: 2}, {State: "running", Limit: 1}, {Type: "email", Limit: 3}, {State: "running", Type: "email"}} {
		q.Worker = "one"
		want := []string{}
		for i := range ids {
			if id := ids[len(ids)-1-i]; q.State == "" || s.items()[id].State == events.StateRunning {
				want = append(want, id.String())
			}
		}
		if got, steps := listAll(t, live, q); len(got) != len(want) || got[0] != want[0] || got[len(got)-1] != want[len(want)-1] || steps > 40 {
			t.Errorf("%+v: %v in pages of at most %d steps, want %v", q, got, steps, want)
		}
	}
	s.do(core.Complete{Run: core.Run{ID: ids[0], Token: s.items()[ids[0]].Token, Worker: "one"}})
	s.project()
	if got, _ := listAll(t, live, wire.List{Worker: "one"}); len(got) != len(ids)-1 {
		t.Errorf("%d items are held, want %d", len(got), len(ids)-1)
	}
	for _, q := range []wire.List{{Worker: "nobody"}, {Worker: "one", State: "completed"}, {Worker: "one", State: "dead"}} {
		if got, _ := listAll(t, live, q); len(got) != 0 {
			t.Errorf("%+v finds %v", q, got)
		}
	}
	var refused *events.Error
	if _, err := query.Of(live).List(wire.List{Worker: "no worker's id"}); !errors.As(err, &refused) || refused.Code != events.CodeBadRequest {
		t.Errorf("a worker's id that can't be: %v", err)
	}
}

// More than a page takes from the index of workers is found all the same.
func TestListByWorkerThatHoldsTooMuch(t *testing.T) {
	slow(t)
	live := openMem(t)
	s := newSim(t, 1, live)
	s.submit(core.Submit{Type: "resize"})
	left := query.MaxHeldSource + 1
	for i := 0; left > 0; i++ { // a type's items that run at once have a bound of their own
		n := min(left, events.MaxCapacity)
		holds(s, "one", events.Type(fmt.Sprintf("email-%d", i)), n)
		left -= n
	}
	holds(s, "two", "email", 5)
	for _, c := range []struct {
		q    wire.List
		want int
	}{{wire.List{Limit: query.MaxListLimit}, query.MaxHeldSource + 1}, {wire.List{Limit: query.MaxListLimit, Type: "email-0"}, events.MaxCapacity}} {
		c.q.Worker = "one"
		if got, _ := listAll(t, live, c.q); len(got) != c.want {
			t.Errorf("%+v: %d items, want %d", c.q, len(got), c.want)
		}
	}
}

// BenchmarkListByWorker is a page of what a worker holds that has a thousand
// items, as many as a worker has slots.
func BenchmarkListByWorker(b *testing.B) {
	live := openMem(b)
	s := newSim(b, 1, live)
	holds(s, "one", "email", events.MaxCapacity)
	for b.Loop() {
		if page, err := query.Of(live).List(wire.List{Worker: "one"}); err != nil || len(page.Items) != query.DefaultListLimit {
			b.Fatalf("%d items, %v", len(page.Items), err)
		}
	}
}

// What waits for a signal is found among those that wait.
func TestListByWhatItWaitsFor(t *testing.T) {
	live := openMem(t)
	s := newSim(t, 1, live)
	waits := func(names ...string) string {
		id := s.submit(core.Submit{Type: "order"})
		run := core.Run{ID: id, Token: events.NewToken(1, uint64(id[15])), Worker: "w"}
		s.do(core.Claim{ID: id, Token: run.Token, Worker: run.Worker, Start: true})
		s.do(core.Park{Run: run, For: time.Hour, Wait: events.WaitTerms{Names: names, All: true, Then: events.WaitContinue}})
		return id.String()
	}
	paid, both := waits("paid"), waits("sent", "paid")
	waits("sent")
	waits()
	s.submit(core.Submit{Type: "order"})
	s.project()
	want := []string{both, paid}
	for _, q := range []wire.List{{}, {Limit: 1}, {State: "waiting"}, {Type: "order"}} {
		q.WaitsFor = "paid"
		if got, _ := listAll(t, live, q); !slices.Equal(got, want) {
			t.Errorf("%+v: %v, want %v", q, got, want)
		}
	}
	s.do(core.Signal{ID: mustID(t, paid), Name: "paid"})
	s.project()
	for _, q := range []struct {
		wire.List
		want []string
	}{{wire.List{WaitsFor: "paid"}, want[:1]}, {wire.List{WaitsFor: "paid", State: "queued"}, nil}, {wire.List{WaitsFor: "nobody"}, nil}} {
		if got, _ := listAll(t, live, q.List); !slices.Equal(got, q.want) {
			t.Errorf("%+v: %v, want %v", q.List, got, q.want)
		}
	}
}

// What a schedule has made is found without a look at what else there is, whatever
// has become of it, and nothing that only says its name.
func TestListBySchedule(t *testing.T) {
	live := openMem(t)
	s := newSim(t, 1, live)
	made := func(source, trigger string, labels map[string]string, n int) (ids []string) {
		for i := range n {
			id := s.submit(core.Submit{Type: "report", Labels: labels, Provenance: events.Provenance{Source: source, Trigger: trigger}})
			if ids = append([]string{id.String()}, ids...); i%1000 == 999 {
				s.project()
			}
		}
		s.project()
		return ids
	}
	want := made(events.SourceSchedule, "nightly", nil, 7)
	made(events.SourceSchedule, "hourly", nil, 3000)
	made("api", "nightly", map[string]string{"schedule": "nightly"}, 10)
	for _, q := range []wire.List{{}, {Limit: 2}, {State: "queued", Limit: 3}, {Type: "report", Limit: 1}} {
		q.Schedule = "nightly"
		if got, steps := listAll(t, live, q); !slices.Equal(got, want) || steps > 40 {
			t.Errorf("%+v: %v in pages of at most %d steps, want %v", q, got, steps, want)
		}
	}
	for _, q := range []wire.List{{Schedule: "nobody"}, {Schedule: "nightly", State: "dead"}, {Schedule: "nightly", Type: "other"}} {
		if got, _ := listAll(t, live, q); len(got) != 0 {
			t.Errorf("%+v: %v", q, got)
		}
	}
	first, err := query.Of(live).List(wire.List{Schedule: "nightly", Limit: 2})
	if err != nil || first.NextCursor == "" {
		t.Fatalf("%+v, %v", first, err)
	}
	var refused *events.Error
	if _, err := query.Of(live).List(wire.List{Schedule: "hourly", Cursor: first.NextCursor}); !errors.As(err, &refused) {
		t.Errorf("a cursor of another schedule: %v", err)
	}
	s.do(core.Cancel{ID: mustID(t, want[6])})
	s.project()
	if got, _ := listAll(t, live, wire.List{Schedule: "nightly"}); len(got) != 7 || got[0] != want[6] {
		t.Errorf("after a cancel: %v, want %s first", got, want[6])
	}
}

func mustID(t *testing.T, text string) events.ID {
	t.Helper()
	id, err := events.ParseID(text)
	if err != nil {
		t.Fatal(err)
	}
	return id
}
