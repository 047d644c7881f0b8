package clustertest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
)

const (
	finishWithin = 90 * time.Second // what was accepted, once nothing fails any more
	checkWithin  = 2 * time.Minute  // the history
)

// check ends the load and checks everything.
func (l *load) check() {
	l.t.Helper()
	l.stop()
	c, err := streamwright.New(l.c.connect())
	if err != nil {
		l.t.Fatal(err)
	}
	defer func() { c.Close(); c.Conn().Close() }()
	book := l.readLog(c)
	l.explain(book)
	l.finalGets()
	l.end()
	l.wg.Wait()
	l.verdict(book)
	l.history()
	l.verify()
	l.mu.Lock()
	defer l.mu.Unlock()
	twice := 0
	for token, given := range l.sent {
		if len(given) < 2 {
			continue
		}
		if twice++; twice <= 3 {
			l.t.Errorf("the dispatch %s was given to workers at %q; the item's events: %v", token, given, book.of(token))
		}
	}
	if twice > 3 {
		l.t.Errorf("%d of %d dispatches were given to workers more than once", twice, len(l.sent))
	}
	for _, err := range l.libErrs {
		l.t.Errorf("the root client's submission failed: %v", err)
	}
	l.t.Logf("%d operations, %d items accepted, %d runs, %d events; the root client's slowest submission took %s", len(l.ops), len(l.accepted), l.runs.Load(), book.events, l.slowest.Round(time.Millisecond))
}

// logBook is what the log says of each item.
type logBook struct {
	events int
	last   events.Seq
	items  map[string]*life
	faults []string
	owners int
}

// life is one item's, as its events tell it.
type life struct {
	kinds     []string
	ended     bool
	completed int
	running   string // the token of the run under way
}

// readLog follows the log from its beginning until everything that was accepted
// has ended, or for so long that the rest is stuck.
func (l *load) readLog(c *streamwright.Client) *logBook {
	l.t.Helper()
	book := &logBook{items: map[string]*life{}}
	end := time.Now().Add(finishWithin)
	for open := 1; open > 0 && time.Now().Before(end); {
		ctx, cancel := context.WithTimeout(l.t.Context(), time.Second)
		err := c.Tail(ctx, streamwright.TailOptions{FromSeq: book.last + 1}, func(ev streamwright.Event) error {
			book.add(ev)
			return nil
		})
		cancel()
		if err != nil && ctx.Err() == nil {
			l.t.Logf("read the log: %v", err)
			pause(l.t.Context(), time.Second)
		}
		open = len(l.open(book))
	}
	return book
}

// open returns the accepted items that the log has not ended.
func (l *load) open(book *logBook) (ids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range l.accepted {
		if it := book.items[id]; it == nil || !it.ended {
			ids = append(ids, id)
		}
	}
	return ids
}

// of returns the events of the item of a dispatch, which begins with its id if the root
// client submitted it.
func (b *logBook) of(dispatch string) []string {
	id, _, _ := strings.Cut(dispatch, " ")
	if it := b.items[id]; it != nil {
		return it.kinds
	}
	return nil
}

// add judges one event by the item's earlier ones.
func (b *logBook) add(ev streamwright.Event) {
	if ev.Seq <= b.last {
		b.faults = append(b.faults, fmt.Sprintf("the tail shows event %d after %d", ev.Seq, b.last))
		return
	}
	b.last = ev.Seq
	b.events++
	if ev.Kind == events.KindOwned {
		b.owners++
	}
	if ev.ID == "" {
		return
	}
	it := b.items[ev.ID]
	if it == nil {
		it = &life{}
		b.items[ev.ID] = it
	}
	fault := func(format string, args ...any) {
		b.faults = append(b.faults, fmt.Sprintf("item %s, event %d: %s; its events: %v", ev.ID, ev.Seq, fmt.Sprintf(format, args...), it.kinds))
	}
	it.kinds = append(it.kinds, fmt.Sprintf("%d %s %s", ev.Seq, ev.Kind, ev.At.UTC().Format("15:04:05.000")))
	if it.ended && ev.Kind != events.KindProgressed {
		fault("%s after its end", ev.Kind)
	}
	switch ev.Kind {
	case events.KindClaimed:
		var body struct{ Token json.Number }
		_ = json.Unmarshal(ev.Data, &body)
		if it.running != "" {
			fault("claimed under token %s while token %s runs", body.Token, it.running)
		}
		it.running = "unknown"
		if body.Token != "" {
			it.running = body.Token.String()
		}
	case events.KindCompleted:
		if it.completed++; it.completed > 1 {
			fault("completed %d times", it.completed)
		}
		if it.running == "" {
			fault("completed without a run")
		}
		it.running, it.ended = "", true
	case events.KindFailed, events.KindReleased, events.KindSnoozed, events.KindParked, events.KindSpawned:
		it.running = ""
	case events.KindCancelled, events.KindDead, events.KindMerged:
		it.running, it.ended = "", true
	}
}

// explain has the engine say why what is stuck does not run.
func (l *load) explain(book *logBook) {
	stuck := l.open(book)
	if len(stuck) == 0 {
		return
	}
	asks := [][]string{{"status"}, {"workers"}}
	for _, id := range stuck[:min(3, len(stuck))] {
		asks = append(asks, []string{"why", id})
	}
	for _, ask := range asks {
		out, _ := l.c.cli(l.c.servers[0], ask...)
		l.t.Logf("engine %v:\n%s", ask, out)
	}
}

// verdict reports what the log says against the invariants.
func (l *load) verdict(book *logBook) {
	l.t.Helper()
	for i, f := range book.faults {
		if l.t.Errorf("the log: %s", f); i == 10 {
			l.t.Errorf("and %d more", len(book.faults)-i)
			break
		}
	}
	stuck := l.open(book)
	for i, id := range stuck {
		if i == 10 {
			break
		}
		what := "lost: accepted, but not in the log"
		if it := book.items[id]; it != nil {
			what = fmt.Sprintf("stuck: its events are %v", it.kinds)
		}
		l.t.Errorf("item %s of type %s is %s", id, l.types[id], what)
	}
	if len(stuck) > 0 {
		l.t.Errorf("%d of %d accepted items have not ended", len(stuck), len(l.accepted))
	}
	l.t.Logf("the log changed hands %d times", book.owners)
}

// finalGets reads every raw item once more, now that all is quiet.
func (l *load) finalGets() {
	l.mu.Lock()
	var ids []string
	for id, typ := range l.types {
		if typ == "raw" {
			ids = append(ids, id)
		}
	}
	l.mu.Unlock()
	c := l.client(99)
	defer c.nc.Close()
	for _, id := range ids {
		c.get(id)
	}
}

// history has porcupine check what the clients were told.
func (l *load) history() {
	l.t.Helper()
	l.mu.Lock()
	ops := l.ops
	l.mu.Unlock()
	result, info := porcupine.CheckOperationsVerbose(model, ops, checkWithin)
	switch result {
	case porcupine.Ok:
		return
	case porcupine.Unknown:
		l.t.Logf("the history was not checked to its end within %s", checkWithin)
		return
	}
	for _, part := range model.Partition(ops) {
		if porcupine.CheckOperationsTimeout(model, part, checkWithin) != porcupine.Illegal {
			continue
		}
		l.t.Errorf("the history of %q is not linearizable:", part[0].Input.(input).part)
		for i, op := range part {
			if i == 60 {
				l.t.Logf("  and %d more", len(part)-i)
				break
			}
			ret := "never"
			if op.Return != never {
				ret = strconv.FormatInt(op.Return/1e6, 10)
			}
			l.t.Logf("  %d..%s ms, client %d: %s", op.Call/1e6, ret, op.ClientId, describe(op.Input.(input), op.Output.(output)))
		}
		break
	}
	file := filepath.Join(os.TempDir(), fmt.Sprintf("clustertest-%d.html", l.seed))
	if err := porcupine.VisualizePath(model, info, file); err == nil {
		l.t.Logf("porcupine's picture of it is %s", file)
	}
}

// verify has each engine that serves verify its store.
func (l *load) verify() {
	l.t.Helper()
	for _, n := range l.c.verifiable() {
		l.t.Run("verify "+n, func(t *testing.T) {
			var out string
			var err error
			need.Eventually(t, "an answer, now that the cluster is whole again", func() bool {
				out, err = l.c.cli(n, "verify", "--json")
				return !strings.Contains(out, `"code":"unavailable"`)
			})
			if err != nil {
				t.Errorf("engine verify --server %s: %v\n%s", n, err, out)
			}
		})
	}
}
