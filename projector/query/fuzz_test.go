package query_test

import (
	"errors"
	"testing"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/projector/query"
	"github.com/streamwright/streamwright/wire"
)

// FuzzList asks for lists with any filters and cursor. A cursor that was not
// given out for these filters is refused; the pages from a good one on hold no
// more than was asked for, no item twice, and come to an end.
func FuzzList(f *testing.F) {
	store := openMem(f)
	s := newSim(f, 1, store)
	s.run(300, 40)
	all := len(s.items())
	for _, q := range []wire.List{{Limit: 7}, {State: "queued", Limit: 1}, {Type: "email", State: "completed", Limit: 3}, {Label: "team=a"}, {Worker: "w1"}, {Q: "e"}} {
		page, err := query.Of(store).List(q)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(q.State, q.Type, q.Label, q.Worker, q.Q, q.Error, page.NextCursor, q.Limit)
	}
	f.Add("dead", "E-Mail", "=", "w 1", "\xff", "", "AAAA", -1)
	f.Fuzz(func(t *testing.T, state, typ, label, worker, q, text, cursor string, limit int) {
		asked := wire.List{State: state, Type: typ, Label: label, Worker: worker, Q: q, Error: text, Cursor: cursor, Limit: limit}
		seen := map[string]bool{}
		for pages := 0; ; pages++ {
			page, err := query.Of(store).List(asked)
			if err != nil {
				var refused *events.Error
				if !errors.As(err, &refused) || refused.Code == events.CodeInternal || len(refused.Message) > 4096 {
					t.Fatalf("%+v: %v", asked, err)
				}
				if pages > 0 {
					t.Fatalf("the cursor that the page before gave is refused: %v", err)
				}
				return
			}
			if limit > 0 && len(page.Items) > limit {
				t.Fatalf("%d items where %d were asked for", len(page.Items), limit)
			}
			for _, it := range page.Items {
				if seen[it.ID] {
					t.Fatalf("item %s comes twice", it.ID)
				}
				seen[it.ID] = true
			}
			if page.NextCursor == "" {
				return
			}
			if asked.Cursor = page.NextCursor; pages > 2*all {
				t.Fatalf("after %d pages over %d items there is one more", pages, all)
			}
		}
	})
}
