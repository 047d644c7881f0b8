package query_test

import (
	"cmp"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector"
	"github.com/streamwright/streamwright/projector/query"
	"github.com/streamwright/streamwright/wire"
)

// Through the pages of a listing, an item that nobody touches comes exactly
// once, and one that is touched at most once, in order.
func TestListPagesWhileItemsMove(t *testing.T) {
	slow(t)
	rapid.Check(t, func(rt *rapid.T) {
		live, err := projector.Open("", projector.Options{InMemory: true})
		if err != nil {
			rt.Fatal(err)
		}
		defer live.Close()
		s := newSim(t, rapid.Uint64().Draw(rt, "seed"), live)
		s.run(rapid.IntRange(10, 250).Draw(rt, "steps"), 10)
		q := wire.List{
			State: rapid.SampledFrom([]string{"", "queued", "completed", "running"}).Draw(rt, "state"),
			Type:  rapid.SampledFrom([]string{"", "email", "email-bulk", "nosuch"}).Draw(rt, "type"),
			Limit: rapid.IntRange(1, 9).Draw(rt, "limit"),
		}
		switch rapid.IntRange(0, 4).Draw(rt, "filter") {
		case 0:
			q.Tenant = "tenant-1"
		case 1:
			q.Label = "team=2"
		case 2:
			q.CreatedAfter = s.now.Add(-time.Minute)
			q.CreatedBefore = s.now.Add(-time.Second)
		}
		before := s.items()
		start := live.Applied()
		var got []wire.Item
		for {
			page, err := query.Of(live).List(q)
			if err != nil {
				rt.Fatal(err)
			}
			got = append(got, page.Items...)
			if page.NextCursor == "" {
				break
			}
			q.Cursor = page.NextCursor
			s.run(rapid.IntRange(0, 6).Draw(rt, "meanwhile"), 2)
		}
		checkListed(rt, q, got, before, s.items(), start)
	})
}

func checkListed(t *rapid.T, q wire.List, got []wire.Item, before, now map[events.ID]*events.Item, start events.Seq) {
	seen := map[string]bool{}
	last := events.Seq(1 << 62)
	for _, it := range got {
		seq, err := events.ParseSeq(string(it.Position))
		if err != nil || seq > last || seen[it.ID] {
			t.Fatalf("%s comes at %s behind %d, seen before: %v", it.ID, it.Position, last, seen[it.ID])
		}
		last, seen[it.ID] = seq, true
	}
	for id, it := range before {
		if now[id].Seq > start { // touched meanwhile
			continue
		}
		want := model(q, it)
		if seen[id.String()] != want {
			t.Fatalf("%s (%s %s) is listed: %v, want %v", id, it.Type, it.State, seen[id.String()], want)
		}
	}
}

// A page that finds nothing in what it may read is empty and has a cursor.
func TestListReadsABoundedNumber(t *testing.T) {
	live := openMem(t)
	s := newSim(t, 1, live)
	const items = query.MaxListScan + 500
	before := s.now.Add(time.Nanosecond)
	for i := range items {
		s.submit(core.Submit{Type: simTypes[i%3]})
		if i == 0 {
			s.now = s.now.Add(time.Second)
		}
		if i%1000 == 999 {
			s.project()
		}
	}
	s.project()
	page, err := query.Of(live).List(wire.List{CreatedBefore: before})
	if err != nil || len(page.Items) != 0 || page.NextCursor == "" {
		t.Fatalf("%d items, cursor %q, %v", len(page.Items), page.NextCursor, err)
	}
	page, err = query.Of(live).List(wire.List{CreatedBefore: before, Cursor: page.NextCursor})
	if err != nil || len(page.Items) != 1 || page.NextCursor != "" {
		t.Fatalf("%d items, cursor %q, %v", len(page.Items), page.NextCursor, err)
	}
	page, err = query.Of(live).List(wire.List{Limit: query.MaxListLimit})
	if err != nil || len(page.Items) != query.MaxListLimit || page.NextCursor == "" {
		t.Fatalf("%d items, cursor %q, %v", len(page.Items), page.NextCursor, err)
	}
}

func TestListRefuses(t *testing.T) {
	live := openMem(t)
	s := newSim(t, 1, live)
	s.run(100, 10)
	page, err := query.Of(live).List(wire.List{Limit: 1})
	if err != nil || page.NextCursor == "" {
		t.Fatalf("%+v, %v", page, err)
	}
	for name, q := range map[string]wire.List{
		"state":         {State: "lost"},
		"type":          {Type: "No Type"},
		"label":         {Label: "novalue"},
		"limit":         {Limit: query.MaxListLimit + 1},
		"negative":      {Limit: -1},
		"cursor":        {Cursor: "!!"},
		"no word":       {Error: "- ! x"},
		"long error":    {Error: strings.Repeat("x", query.MaxQueryBytes+1)},
		"long question": {Q: strings.Repeat("x", query.MaxQueryBytes+1)},
		"short cursor":  {Cursor: "AAAA"},
		"other filters": {State: "queued", Cursor: page.NextCursor},
	} {
		_, err := query.Of(live).List(q)
		var refused *events.Error
		if !errors.As(err, &refused) || cmp.Compare(len(refused.Message), 20) < 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
