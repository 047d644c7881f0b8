package projector

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector/ready"
)

// readyGroups pages through a queue's groups, two at a time.
func readyGroups(t *testing.T, live *Store, q ready.Queue) (names []string) {
	t.Helper()
	behind, fromStart := "", true
	for {
		page, err := live.ReadyGroups(q, behind, fromStart, 2)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			return names
		}
		for _, g := range page {
			first, err := readyPage(live, q, g.Name, ready.Key{}, 1)
			if err != nil || len(first) != 1 || first[0] != g.First {
				t.Fatalf("group %q begins with %v %v, not %v", g.Name, first, err, g.First)
			}
			names = append(names, g.Name)
		}
		behind, fromStart = page[len(page)-1].Name, false
	}
}

// Groups come in order of name, whatever bytes are in it, each once, and its
// items in their own order; other queues and groups are not among them.
func TestReadyGroups(t *testing.T) {
	s, err := Open("", Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	names := []string{"", "a", "a\x00", "a\x00\xff", "a\x01", "ab", "b", "\xff"}
	c := &core.Changes{Meta: events.Meta{Applied: 1}}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	n := 0
	add := func(group string, prio events.Priority, caps ...string) {
		n++
		it := &events.Item{ID: events.ID{byte(n >> 8), byte(n)}, Type: "email", State: events.StateQueued, Priority: prio, Group: group, Capabilities: caps,
			CreatedAt: at, QueuedAt: at, OrderAt: at.Add(-time.Duration(n) * time.Second)}
		c.Items = append(c.Items, core.ItemChange{New: it})
	}
	for range 3 {
		for _, g := range names {
			add(g, 5)
		}
		add("other", 6)
		add("other", 5, "gpu")
	}
	if err := s.Commit(c); err != nil {
		t.Fatal(err)
	}
	q := ready.Queue{Type: "email", Lane: "", Priority: 5}
	if got := readyGroups(t, s, q); !slices.Equal(got, names) {
		t.Fatalf("%q, want %q", got, names)
	}
	for _, g := range names {
		page, err := readyPage(s, ready.Queue{Type: "email", Lane: "", Priority: 5}, g, ready.Key{}, 10)
		if err != nil || len(page) != 3 || !page[0].Less(page[1].Key) || !page[1].Less(page[2].Key) {
			t.Fatalf("group %q: %v %v", g, page, err)
		}
	}
	if queues := readyQueues(t, s, "email"); fmt.Sprint(queues) != "[{email  5} {email  6} {email gpu 5}]" {
		t.Fatal(queues)
	}
}

// readyQueues lists the queues of types that have entries.
func readyQueues(t *testing.T, s *Store, types ...events.Type) (queues []ready.Queue) {
	t.Helper()
	for _, typ := range types {
		err := s.ReadyLanes(typ, "", func(lane string) string {
			for p := range events.MaxPriority + 1 {
				queues = append(queues, ready.Queue{Type: typ, Lane: lane, Priority: p})
			}
			return lane + "-"
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return slices.DeleteFunc(queues, func(q ready.Queue) bool { return len(readyGroups(t, s, q)) == 0 })
}

// readyPage is up to limit entries of a group of a ready queue behind a place.
func readyPage(s *Store, q ready.Queue, group string, behind ready.Key, limit int) (page []ready.Entry, err error) {
	err = s.EachReady(q, group, behind, func(e ready.Entry) bool {
		page = append(page, e)
		return len(page) < limit
	})
	return page, err
}
