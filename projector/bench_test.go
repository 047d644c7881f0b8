package projector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector/query"
	"github.com/streamwright/streamwright/projector/ready"
	"github.com/streamwright/streamwright/wire"
)

var benchParams = json.RawMessage(`{"to":"someone@example.com","pad":"` + strings.Repeat("x", 200) + `"}`)

// benchLog is a log of items with five events each, decoded or not.
func benchLog(b *testing.B, items int) *memLog {
	b.Helper()
	s := newSim(b, 1, nil)
	s.per = 100
	const open = 100 // items in flight at once
	for i := 0; i < items; i += open {
		var ids []events.ID
		for range min(open, items-i) {
			ids = append(ids, s.submit(core.Submit{Type: "email", Params: benchParams}))
		}
		for _, id := range ids {
			s.now = s.now.Add(50 * time.Microsecond)
			tok := s.token()
			s.do(core.Claim{ID: id, Token: tok, Worker: "worker-1", Start: true})
			s.do(core.Complete{Run: core.Run{ID: id, Token: tok, Worker: "worker-1"}, Result: json.RawMessage(`{"ok":true}`)})
		}
		s.take()
		if i%10_000 == 0 {
			s.ids = s.ids[:0]
		}
	}
	return s.log
}

// decodedLog hands out events that are decoded already: what a Log that
// decodes in parallel costs the reader.
type decodedLog struct {
	*memLog
	frames []eventlog.Frame
}

func decoded(b *testing.B, l *memLog) decodedLog {
	b.Helper()
	d := decodedLog{memLog: l}
	err := l.Read(context.Background(), 1, l.last().Frame(), func(f eventlog.Frame) error {
		d.frames = append(d.frames, f)
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	return d
}

func (l decodedLog) Read(ctx context.Context, from, to uint64, fn func(eventlog.Frame) error) error {
	for _, f := range l.frames {
		if f.Seq >= from && f.Seq <= to {
			if err := fn(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// BenchmarkRebuild replays 40,000 items, 200,000 events.
func BenchmarkRebuild(b *testing.B) {
	l := benchLog(b, 40_000)
	for name, log := range map[string]Log{"decode": l, "decoded": decoded(b, l)} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				dir := b.TempDir()
				s, err := Open(dir, Options{bulk: true})
				if err != nil {
					b.Fatal(err)
				}
				if err := errors.Join(fill(b.Context(), s, log, moment{through: l.last()}, nil), s.Close()); err != nil {
					b.Fatal(err)
				}
				if s, err = Open(dir, Options{}); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				b.ReportMetric(float64(s.DiskBytes())/float64(l.count()), "disk-bytes/event")
				s.Close()
				b.StartTimer()
			}
			b.ReportMetric(float64(l.count())*float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// BenchmarkCommit writes the changes of items' lives, a transition at a time,
// in batches of n item changes.
func BenchmarkCommit(b *testing.B) {
	for _, n := range []int{1, 8, 64, 512} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			live, err := Open(b.TempDir(), Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer live.Close()
			changes := benchChanges(b, n, 60_000)
			b.ReportAllocs()
			var items int
			i := 0
			for b.Loop() {
				if i == len(changes) {
					b.Skip("the prepared changes are used up")
				}
				items += len(changes[i].Items)
				if err := live.Commit(changes[i]); err != nil {
					b.Fatal(err)
				}
				i++
			}
			b.ReportMetric(float64(items)/b.Elapsed().Seconds(), "items/s")
		})
	}
}

// benchChanges prepares batches of about n item changes; each item is queued,
// claimed and started, and completed in batches of their own.
func benchChanges(b *testing.B, n, items int) (all []*core.Changes) {
	b.Helper()
	s := newSim(b, 1, nil)
	take := func() {
		all = append(all, s.take())
	}
	for range items / n {
		ids := make([]events.ID, n)
		runs := make([]core.Run, n)
		for i := range ids {
			ids[i] = s.submit(core.Submit{Type: "email", Params: benchParams})
		}
		take()
		for i, id := range ids {
			tok := s.token()
			s.do(core.Claim{ID: id, Token: tok, Worker: "worker-1", Start: true})
			runs[i] = core.Run{ID: id, Token: tok, Worker: "worker-1"}
		}
		take()
		for _, r := range runs {
			s.do(core.Complete{Run: r, Result: json.RawMessage(`{"ok":true}`)})
		}
		take()
		s.now = s.now.Add(time.Millisecond)
	}
	return all
}

// queued is a store with a backlog.
func queued(b *testing.B, items int) (*Store, *sim) {
	b.Helper()
	live, err := Open(b.TempDir(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { live.Close() })
	s := newSim(b, 1, live)
	for i := range items {
		s.submit(core.Submit{Type: "email", Params: benchParams, Tenant: fmt.Sprint(i % 100)})
		s.now = s.now.Add(time.Microsecond)
		if i%1000 == 999 {
			s.project()
		}
	}
	s.project()
	if err := live.Flush(); err != nil {
		b.Fatal(err)
	}
	return live, s
}

func BenchmarkReadyPage(b *testing.B) {
	live, _ := queued(b, 100_000)
	var behind ready.Key
	n := 0
	for b.Loop() {
		page, err := readyPage(live, ready.Queue{Type: "email", Lane: "", Priority: events.PriorityDefault}, "", behind, 1000)
		if err != nil {
			b.Fatal(err)
		}
		n += len(page)
		behind = ready.Key{}
		if len(page) > 0 {
			behind = page[len(page)-1].Key
		}
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "entries/s")
}

func BenchmarkList(b *testing.B) {
	live, _ := queued(b, 100_000)
	for name, q := range map[string]wire.List{
		"all":    {},
		"state":  {State: "queued"},
		"both":   {State: "queued", Type: "email"},
		"tenant": {Tenant: "7"},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := query.Of(live).List(q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkSelectiveList reads a page of a hundred items out of many: the cost
// must not follow the number of the others.
func BenchmarkSelectiveList(b *testing.B) {
	for _, items := range []int{10_000, 100_000} {
		live, err := Open(b.TempDir(), Options{})
		if err != nil {
			b.Fatal(err)
		}
		s := newSim(b, 1, live)
		for i := range items {
			c := core.Submit{Type: "email", Tenant: fmt.Sprint(i % 3), Labels: map[string]string{"region": "eu"}}
			if i%(items/100) == 0 {
				c.Labels["customer"] = "rare"
			}
			s.submit(c)
			if s.now = s.now.Add(time.Microsecond); i%1000 == 999 {
				s.project()
			}
		}
		s.project()
		if err := live.Flush(); err != nil {
			b.Fatal(err)
		}
		for name, q := range map[string]wire.List{
			"label":        {Label: "customer=rare"},
			"intersection": {Label: "customer=rare", Tenant: "1", State: "queued", Type: "email"},
			"unselective":  {Label: "region=eu", State: "queued", Type: "email"},
			"q":            {Q: "rare"},
		} {
			b.Run(fmt.Sprintf("%s/%d", name, items), func(b *testing.B) {
				for b.Loop() {
					page, err := query.Of(live).List(q)
					if err != nil || len(page.Items) < 30 {
						b.Fatalf("%d items, %v", len(page.Items), err)
					}
				}
			})
		}
		live.Close()
	}
}

// BenchmarkTerms is BenchmarkCommit for items with labels and a tenant, and for
// items that fail: what the term index costs.
func BenchmarkTerms(b *testing.B) {
	const n = 64
	for name, c := range map[string]struct {
		submit core.Submit
		fail   string
	}{
		"none":   {submit: core.Submit{Type: "email", Params: benchParams}},
		"labels": {submit: core.Submit{Type: "email", Params: benchParams, Tenant: "acme", Labels: map[string]string{"region": "eu", "team": "billing", "customer": "4711"}}},
		"errors": {submit: core.Submit{Type: "email", Params: benchParams, MaxAttempts: 2}, fail: "dial tcp 10.0.0.7:5432: connect: connection refused while sending mail to the relay of region eu"},
	} {
		b.Run(name, func(b *testing.B) {
			live, err := Open(b.TempDir(), Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer live.Close()
			s := newSim(b, 1, live)
			var took time.Duration
			var written int
			commit := func() {
				changes := s.take()
				at := time.Now()
				if err := live.Commit(changes); err != nil {
					b.Fatal(err)
				}
				took += time.Since(at)
				written += len(changes.Items)
				s.state.Projected(changes.Meta.Applied)
			}
			for b.Loop() {
				clear(s.log.frames) // their number stays: it is the next frame's
				s.ids = s.ids[:0]
				lives(s, n, c.submit, c.fail, commit)
			}
			b.ReportMetric(float64(took.Nanoseconds())/float64(written), "commit-ns/change")
		})
	}
}

// lives takes n items through their lives, a transition of all of them a commit.
func lives(s *sim, n int, c core.Submit, fail string, commit func()) {
	ids, runs := make([]events.ID, n), make([]core.Run, n)
	for i := range ids {
		ids[i] = s.submit(c)
	}
	commit()
	for attempt := range 2 {
		for i, id := range ids {
			tok := s.token()
			s.do(core.Claim{ID: id, Token: tok, Worker: "worker-1", Start: true})
			runs[i] = core.Run{ID: id, Token: tok, Worker: "worker-1"}
		}
		commit()
		for _, r := range runs {
			if fail != "" && attempt == 0 {
				s.do(core.Fail{Run: r, Error: fail, Code: "io", Retryable: true})
			} else {
				s.do(core.Complete{Run: r, Result: json.RawMessage(`{"ok":true}`)})
			}
		}
		commit()
		if fail == "" {
			return
		}
		s.now = s.now.Add(time.Minute)
	}
}

func BenchmarkGet(b *testing.B) {
	live, s := queued(b, 100_000)
	b.Run("item", func(b *testing.B) {
		i := 0
		for b.Loop() {
			i = (i + 7919) % len(s.ids)
			if _, err := live.Item(s.ids[i]); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("absent", func(b *testing.B) {
		id := s.newID()
		for b.Loop() {
			id[15]++
			if _, err := live.Item(id); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkDigest(b *testing.B) {
	live, _ := queued(b, 100_000)
	for b.Loop() {
		digestOf(b, live)
	}
	b.ReportMetric(100_000*float64(b.N)/b.Elapsed().Seconds(), "items/s")
}
