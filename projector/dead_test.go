package projector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector/internal/layout"
	"github.com/streamwright/streamwright/projector/query"
	"github.com/streamwright/streamwright/wire"
)

// deaths are dead items of some types, codes and errors, of which a few were
// replayed.
func deaths(t *testing.T, n int) *sim {
	s := newSim(t, 7, openMem(t))
	for i := range n {
		s.now = s.now.Add(time.Duration(i%3) * time.Second) // some at one moment
		id := s.submit(core.Submit{Type: simTypes[i%3], Tenant: fmt.Sprintf("tenant-%d", i%4), MaxAttempts: 1})
		tok := s.token()
		s.do(core.Claim{ID: id, Token: tok, Worker: "w1", Start: true})
		s.do(core.Fail{Run: core.Run{ID: id, Token: tok, Worker: "w1"}, Code: []string{"io", "logic"}[i%2], Retryable: i%5 == 0,
			Error: []string{"no space left", "no such user 17", "timeout after 30s"}[i%3]})
		if i%7 == 0 {
			s.do(core.Replay{ID: id})
		}
	}
	s.project()
	return s
}

func TestDeadIsPagedByTimeOfDeath(t *testing.T) {
	s := deaths(t, 300)
	var dead []*events.Item
	for _, it := range s.items() {
		if it.State == events.StateDead {
			dead = append(dead, it)
		}
	}
	slices.SortFunc(dead, func(a, b *events.Item) int { return layout.DeadPlace(a).Compare(layout.DeadPlace(b)) })
	mid := dead[len(dead)/2]
	for name, c := range map[string]struct {
		q    wire.Selection
		want func(*events.Item) bool
	}{
		"all":    {wire.Selection{}, func(*events.Item) bool { return true }},
		"type":   {wire.Selection{List: wire.List{Type: "email"}}, func(it *events.Item) bool { return it.Type == "email" }},
		"reason": {wire.Selection{List: wire.List{Reason: "exhausted"}}, func(it *events.Item) bool { return it.Reason == "exhausted" }},
		"code":   {wire.Selection{List: wire.List{Code: "io", State: "dead"}}, func(it *events.Item) bool { return it.Code == "io" }},
		"cause":  {wire.Selection{Cause: mid.Cause}, func(it *events.Item) bool { return it.Cause == mid.Cause }},
		"tenant": {wire.Selection{List: wire.List{Tenant: "tenant-1", Code: "logic"}}, func(it *events.Item) bool { return it.Tenant == "tenant-1" && it.Code == "logic" }},
		"words":  {wire.Selection{List: wire.List{Error: "no such", Tenant: "tenant-1"}}, func(it *events.Item) bool { return it.Tenant == "tenant-1" && it.Error == "no such user 17" }},
		"search": {wire.Selection{List: wire.List{Q: "after time"}}, func(it *events.Item) bool { return it.Error == "timeout after 30s" }},
		"words since": {wire.Selection{List: wire.List{Error: "space"}, Since: mid.FinishedAt}, func(it *events.Item) bool {
			return it.Error == "no space left" && !it.FinishedAt.Before(mid.FinishedAt)
		}},
		"words until": {wire.Selection{List: wire.List{Error: "space", Q: "left"}, Until: mid.FinishedAt}, func(it *events.Item) bool {
			return it.Error == "no space left" && !it.FinishedAt.After(mid.FinishedAt)
		}},
		"words of a cause": {wire.Selection{List: wire.List{Error: mid.Error}, Cause: mid.Cause}, func(it *events.Item) bool { return it.Cause == mid.Cause }},
		"since":            {wire.Selection{Since: mid.FinishedAt}, func(it *events.Item) bool { return !it.FinishedAt.Before(mid.FinishedAt) }},
		"until":            {wire.Selection{Until: mid.FinishedAt}, func(it *events.Item) bool { return !it.FinishedAt.After(mid.FinishedAt) }},
		"none":             {wire.Selection{Cause: "nothing"}, func(*events.Item) bool { return false }},
	} {
		var want, got []string
		sorted := slices.Clone(dead)
		if c.q.Cause == "" && (c.q.Label != "" || c.q.Tenant != "" || c.q.Worker != "" || c.q.Error != "" || c.q.Q != "") { // of those that died at one moment the last comes first
			slices.SortFunc(sorted, func(a, b *events.Item) int {
				return layout.ListPlace{Seq: a.Seq, ID: a.ID}.Compare(layout.ListPlace{Seq: b.Seq, ID: b.ID})
			})
		}
		for i, it := range sorted {
			if i > 0 && it.FinishedAt.After(sorted[i-1].FinishedAt) {
				t.Fatalf("%s: %s died after the one before it", name, it.ID)
			}
			if c.want(it) {
				want = append(want, it.ID.String())
			}
		}
		for _, limit := range []int{1, 7, 1000} {
			got, c.q.Cursor, c.q.Limit = nil, "", limit
			for pages := 0; ; pages++ {
				page, err := query.Of(s.store).Dead(c.q)
				if err != nil {
					t.Fatal(err)
				}
				for _, it := range page.Items {
					got = append(got, it.ID)
				}
				if c.q.Cursor = page.NextCursor; c.q.Cursor == "" {
					break
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, %d a page: got %d items, want %d\n%v\n%v", name, limit, len(got), len(want), got, want)
			}
		}
		if name != "none" && len(want) == 0 {
			t.Errorf("%s: there are none, so this tests nothing", name)
		}
	}
}

// What the term index knows is found among the dead without a look at them all.
func TestThePriceOfADeadPage(t *testing.T) {
	s := deaths(t, 300)
	for _, q := range []wire.List{{Tenant: "nobody"}, {Error: "nothing like it"}, {Label: "a=b"}, {Error: "space", Tenant: "nobody"}, {Q: "tenant-9"}} {
		var steps int
		err := s.store.Snapshot(func(v layout.View) error {
			page, n, err := query.Dead(v, wire.Selection{List: q})
			if len(page.Items) > 0 || page.NextCursor != "" {
				t.Errorf("%+v finds %+v", q, page)
			}
			steps = n
			return err
		})
		if err != nil || steps == 0 || steps > 10 {
			t.Errorf("%+v takes %d steps, %v", q, steps, err)
		}
	}
}

func TestDeadRefuses(t *testing.T) {
	s := deaths(t, 3)
	for _, q := range []wire.Selection{{List: wire.List{State: "queued"}}, {List: wire.List{Limit: 5000}}, {Cause: strings.Repeat("x", 300)}, {List: wire.List{Cursor: "x"}}} {
		var refused *events.Error
		if _, err := query.Of(s.store).Dead(q); !errors.As(err, &refused) {
			t.Errorf("%+v: %v", q, err)
		}
	}
	if _, err := query.Of(s.store).Select(wire.Selection{List: wire.List{State: "queued"}, Cause: "x"}); events.CodeOf(err) != events.CodeBadRequest {
		t.Errorf("a cause of what is queued: %v", err)
	}
	for _, q := range []wire.CausesQuery{{Sort: "size"}, {Limit: -1}} {
		if _, err := query.Of(s.store).Causes(q); events.CodeOf(err) != events.CodeBadRequest {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

func TestSelectLooksAtTheStatesThatItIsFor(t *testing.T) {
	s := newSim(t, 3, openMem(t))
	s.run(600, 50)
	page, err := query.Of(s.store).Select(wire.Selection{List: wire.List{Limit: 1000}}, events.StateQueued, events.StateCompleted)
	if err != nil {
		t.Fatal(err)
	}
	want := 0
	for _, it := range s.items() {
		if it.State == events.StateQueued || it.State == events.StateCompleted {
			want++
		}
	}
	for _, it := range page.Items {
		if it.State != events.StateQueued && it.State != events.StateCompleted {
			t.Errorf("%s is %s", it.ID, it.State)
		}
	}
	if len(page.Items) != want || want == 0 {
		t.Errorf("%d items, want %d", len(page.Items), want)
	}
}

func TestCauses(t *testing.T) {
	s := deaths(t, 300)
	count := map[string]int64{}
	for _, it := range s.items() {
		if it.State == events.StateDead {
			count[it.Cause]++
		}
	}
	reply, err := query.Of(s.store).Causes(wire.CausesQuery{Sort: "dead"})
	if err != nil || reply.Total != len(count) {
		t.Fatalf("%d causes, want %d, %v", reply.Total, len(count), err)
	}
	for i, c := range reply.Causes {
		if c.Dead != count[c.Cause] || c.Count < c.Dead || c.Example == "" || i > 0 && c.Dead > reply.Causes[i-1].Dead {
			t.Errorf("%+v, want %d dead", c, count[c.Cause])
		}
	}
	reply, err = query.Of(s.store).Causes(wire.CausesQuery{Type: "email", Code: "io", Limit: 1})
	if err != nil || len(reply.Causes) != 1 || reply.Causes[0].Type != "email" || reply.Causes[0].Code != "io" || reply.Total < 1 {
		t.Errorf("%+v, %v", reply, err)
	}
}

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

func TestRejectedIsListedAndFound(t *testing.T) {
	s := newSim(t, 1, openMem(t))
	id := s.submit(core.Submit{Type: "email"})
	for i := range uint64(30) {
		s.do(core.Reject{Type: "email", Rejected: events.Rejected{Code: []string{"bad_params", "bad_header"}[i%2], Message: "no", Text: "{", Intake: events.Intake{Seq: i + 1}}})
	}
	s.do(core.Reject{Type: "email", Rejected: events.Rejected{Code: "duplicate", Of: id, Intake: events.Intake{Seq: 31}}})
	s.project()
	var seqs []events.Seq
	q := wire.ListRejected{Code: "bad_header", Limit: 4}
	for {
		page, err := query.Of(s.store).Rejected(q)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Rejected {
			if seqs = append(seqs, r.Seq); r.Code != "bad_header" || r.Text != "" {
				t.Errorf("%+v", r)
			}
		}
		if q.Cursor = page.NextCursor; q.Cursor == "" {
			break
		}
	}
	if len(seqs) != 15 || !slices.IsSortedFunc(seqs, func(a, b events.Seq) int { return int(b) - int(a) }) {
		t.Errorf("listed %v", seqs)
	}
	if _, of, found, err := query.Of(s.store).Answer(31); err != nil || !found || of != id {
		t.Errorf("the duplicate repeats %s, %v, %v", of, found, err)
	}
	seq, of, found, err := query.Of(s.store).Answer(30)
	if err != nil || !found || !of.IsZero() || seq != seqs[0] {
		t.Errorf("message 30: event %d, %s, %v, %v", seq, of, found, err)
	}
	s.do(core.PurgeRejected{Seq: seq})
	s.project()
	if _, found, err := query.Of(s.store).RejectedOf(seq); found || err != nil {
		t.Errorf("it was purged: %v, %v", found, err)
	}
	if page, err := query.Of(s.store).Rejected(wire.ListRejected{Type: "email"}); err != nil || len(page.Rejected) != 29 {
		t.Errorf("%d are left, %v", len(page.Rejected), err)
	}
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

func TestItemAtATimeAndBeforeItWasThere(t *testing.T) {
	s := newSim(t, 1, openMem(t))
	s.do(core.Own{Owner: "me"})
	s.now = s.now.Add(time.Minute)
	id := s.submit(core.Submit{Type: "email", Params: json.RawMessage(`{"v":1}`)})
	born := s.now
	s.now = s.now.Add(time.Minute)
	s.do(core.Cancel{ID: id})
	s.now = s.now.Add(time.Minute)
	s.do(core.Replay{ID: id, Params: json.RawMessage(`{"v":2}`)})
	s.project()
	if _, found, err := query.Of(s.store).ItemAt(id, 1, time.Time{}); found || err != nil {
		t.Errorf("before it was there: %v %v", found, err)
	}
	it, found, err := query.Of(s.store).ItemAt(id, 0, born.Add(time.Second))
	if err != nil || !found || it.State != events.StateQueued || it.Params != nil || len(it.Notes) != 1 || it.AsOf.Latest {
		t.Errorf("%+v %v %v", it, found, err)
	}
	it, found, err = query.Of(s.store).ItemAt(id, 0, s.now)
	if err != nil || !found || string(it.Params) != `{"v":2}` || len(it.Notes) != 0 || !it.AsOf.Latest {
		t.Errorf("%+v %v %v", it, found, err)
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
