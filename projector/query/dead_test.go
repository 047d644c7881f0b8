package query_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

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
	first, err := query.Of(s.store).Dead(wire.Selection{Cause: mid.Cause, List: wire.List{Limit: 1}})
	if err != nil || first.NextCursor == "" {
		t.Fatalf("%+v, %v", first, err)
	}
	var refused *events.Error
	if _, err := query.Of(s.store).Dead(wire.Selection{List: wire.List{Limit: 1, Cursor: first.NextCursor}}); !errors.As(err, &refused) {
		t.Errorf("a cursor of a cause, without it: %v", err)
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
