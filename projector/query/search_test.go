package query_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"pgregory.net/rapid"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector/internal/layout"
	"github.com/streamwright/streamwright/projector/query"
	"github.com/streamwright/streamwright/wire"
)

// model is what a listing is to find, said plainly.
func model(q wire.List, it *events.Item) bool {
	says := func(text string) bool {
		has := wordsOf(it.Code + " " + it.Error)
		want := wordsOf(text)
		for i, w := range want {
			if !slices.ContainsFunc(has, func(x string) bool { return x == w || i == len(want)-1 && strings.HasPrefix(x, w) }) {
				return false
			}
		}
		return len(want) > 0
	}
	label := func(k, v string) bool { x, ok := it.Labels[k]; return ok && x == v }
	key, value, _ := strings.Cut(q.Label, "=")
	text := strings.TrimSpace(q.Q)
	return (q.State == "" || it.State.String() == q.State) && (q.Type == "" || string(it.Type) == q.Type) &&
		(q.Tenant == "" || it.Tenant == q.Tenant) && (q.Worker == "" || string(it.Worker) == q.Worker && layout.Held(it)) && (q.Label == "" || label(key, value)) &&
		(q.CreatedAfter.IsZero() || it.CreatedAt.After(q.CreatedAfter)) && (q.CreatedBefore.IsZero() || it.CreatedAt.Before(q.CreatedBefore)) &&
		(q.Code == "" || it.Code == q.Code) && (q.Reason == "" || it.Reason == q.Reason) && (q.Error == "" || says(q.Error)) &&
		(text == "" || it.ID.String() == text || string(it.Type) == text || it.Tenant == text || it.DedupKey == text ||
			slices.Contains(slices.Collect(maps.Values(it.Labels)), text) || says(text))
}

// wordsOf are the different words of a text, of which the tests use few.
func wordsOf(text string) (list []string) {
	for _, w := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if len(w) >= layout.MinWordBytes && !slices.Contains(list, w) {
			list = append(list, w)
		}
	}
	return list
}

// The pages of any listing are what a look at all items would give: each item
// once, the last touched first.
func TestListsAreWhatAModelSays(t *testing.T) {
	slow(t)
	for _, seed := range []uint64{1, 2, 3} {
		live := openMem(t)
		s := newSim(t, seed, live)
		s.run(1200, 40)
		all := slices.SortedFunc(maps.Values(s.items()), func(a, b *events.Item) int {
			return layout.ListPlace{Seq: a.Seq, ID: a.ID}.Compare(layout.ListPlace{Seq: b.Seq, ID: b.ID})
		})
		if seed == 2 {
			if err := live.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		rapid.Check(t, func(rt *rapid.T) {
			q := drawList(rt, all)
			want := []string{}
			for _, it := range all {
				if model(q, it) {
					want = append(want, it.ID.String())
				}
			}
			got := []string{}
			for pages := 0; ; pages++ {
				page, err := query.Of(live).List(q)
				if err != nil || len(page.Items) > q.Limit {
					rt.Fatalf("%d items, %v", len(page.Items), err)
				}
				for _, it := range page.Items {
					got = append(got, it.ID)
				}
				if q.Cursor = page.NextCursor; q.Cursor == "" {
					break
				}
				if len(page.Items) == 0 || pages > len(all) {
					rt.Fatalf("page %d is empty", pages)
				}
			}
			if !reflect.DeepEqual(got, want) {
				rt.Fatalf("%+v gives %d items, want %d", q, len(got), len(want))
			}
		})
	}
}

func drawList(t *rapid.T, all []*events.Item) wire.List {
	some := func(name string, of ...string) string {
		if rapid.IntRange(0, 2).Draw(t, "has "+name) > 0 {
			return ""
		}
		return rapid.SampledFrom(of).Draw(t, name)
	}
	return wire.List{
		State:  some("state", "queued", "completed", "dead", "running"),
		Type:   some("type", "email", "resize", "nosuch"),
		Tenant: some("tenant", "tenant-1", "tenant-2", "none"),
		Label:  some("label", "team=1", "a=y", "b=x", "team=none", "none=1"),
		Worker: some("worker", "w0", "w1", "w2", "none"),
		Code:   some("code", "http_503", "timeout", "lease_expired", "503"),
		Reason: some("reason", "exhausted", "not_retryable", "not wanted"),
		Error:  some("error", "connect", "refused CONN", "dial tcp 54", "broken", "time", "größe", "üb", "nothing", "lease", "zz timeout"),
		Q:      some("q", "email", " y ", "x", "tenant-1", "dedup \x00 3", "timeout", "connection re", "none", "1", all[len(all)/2].ID.String(), strings.ToUpper("connect")),
		Limit:  rapid.IntRange(1, 9).Draw(t, "limit"),
	}
}

// Two large sets that have little in common are leapt through.
func TestLeaps(t *testing.T) {
	slow(t)
	live := openMem(t)
	s := newSim(t, 1, live)
	const items = 3 * query.MaxListScan
	for i := range items {
		c := core.Submit{Type: "email", Labels: map[string]string{"half": fmt.Sprint(i * 2 / items), "third": fmt.Sprint(i * 3 / items), "all": "yes"}}
		if i == 17 {
			c.Tenant = "rare"
		}
		s.submit(c)
		if s.now = s.now.Add(time.Millisecond); i%1000 == 999 {
			s.project()
		}
	}
	s.project()
	count := func(q wire.List) (n, pages int) {
		for {
			page, err := query.Of(live).List(q)
			if err != nil {
				t.Fatal(err)
			}
			n, pages = n+len(page.Items), pages+1
			if q.Cursor = page.NextCursor; q.Cursor == "" {
				return n, pages
			}
		}
	}
	for _, c := range []struct {
		q        wire.List
		n, pages int
	}{
		{wire.List{Label: "half=0", Q: "2"}, 0, 1},
		{wire.List{Label: "all=yes", Tenant: "rare", State: "queued", Type: "email"}, 1, 1},
		{wire.List{Label: "all=yes", Tenant: "rare", State: "dead"}, 0, 1},
		{wire.List{Label: "half=0", Q: "0", Limit: query.MaxListLimit}, items / 2, items / 2 / query.MaxListLimit},
		{wire.List{Tenant: "rare", Q: "yes"}, 1, 1},
	} {
		if n, pages := count(c.q); n != c.n || pages != c.pages {
			t.Errorf("%+v: %d items on %d pages, want %d on %d", c.q, n, pages, c.n, c.pages)
		}
	}
}

// What has no index is looked at item by item, and no page looks at too many.
func TestWordsThatStandForTooMany(t *testing.T) {
	live := openMem(t)
	s := newSim(t, 1, live)
	for i := range query.MaxExpand + 50 {
		id := s.submit(core.Submit{Type: "email"})
		tok := s.token()
		s.do(core.Claim{ID: id, Token: tok, Worker: "w", Start: true})
		s.do(core.Fail{Run: core.Run{ID: id, Token: tok, Worker: "w"}, Error: fmt.Sprintf("disk ab%03d is full", i), Code: "io"})
	}
	s.project()
	for text, want := range map[string]int{"ab": query.MaxExpand + 50, "ab00": 10, "disk ab": query.MaxExpand + 50, "full ab01 ": 10, "full ab017 disk": 1} {
		for _, q := range []wire.List{{Error: text}, {Q: text}, {Error: text, State: "dead"}, {Q: text, Type: "email"}} {
			q.Limit = query.MaxListLimit
			page, err := query.Of(live).List(q)
			if err != nil || len(page.Items) != want || page.NextCursor != "" {
				t.Errorf("%+v: %d items, want %d, %v", q, len(page.Items), want, err)
			}
		}
	}
}

// What a page looks at follows from what it shows, not from how many items there
// are beside.
func TestThePriceOfAPage(t *testing.T) {
	slow(t)
	steps := func(items int) (all []int) {
		live := openMem(t)
		s := newSim(t, 1, live)
		for i := range items {
			c := core.Submit{Type: "email", Tenant: fmt.Sprint(i % 2), Labels: map[string]string{"region": "eu"}}
			if i%(items/100) == 0 {
				c.Labels["customer"] = "rare"
			}
			s.submit(c)
			if s.now = s.now.Add(time.Millisecond); i%1000 == 999 {
				s.project()
			}
		}
		s.project()
		for _, q := range []wire.List{
			{Label: "customer=rare"}, {Label: "customer=rare", Tenant: "0", State: "queued", Type: "email"}, {Q: "rare", State: "queued"},
			{Label: "region=eu", State: "queued", Tenant: "1"},
		} {
			var page wire.Listed
			var took int
			err := live.Snapshot(func(v layout.View) (err error) { page, took, err = query.List(v, q); return err })
			if err != nil || len(page.Items) < 50 {
				t.Fatalf("%+v: %d items, %v", q, len(page.Items), err)
			}
			all = append(all, took)
		}
		return all
	}
	few, many := steps(2_000), steps(20_000)
	t.Logf("steps of a page: %v of 2,000 items, %v of 20,000", few, many)
	for i := range few {
		if many[i] > 2*few[i] || many[i] > 10*query.DefaultListLimit {
			t.Errorf("listing %d: %d steps of 2,000 items, %d of 20,000", i, few[i], many[i])
		}
	}
}
