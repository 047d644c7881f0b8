package demo

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/sync/errgroup"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/sleep"
)

// run submits, makes trouble meanwhile, and proves the outcome.
func (d *demo) run(ctx context.Context) error {
	begun := time.Now()
	g, running := errgroup.WithContext(ctx)
	// On nodes each third of the items waits for its own, so that there are some in each trouble.
	d.gate = make(chan struct{}, 3)
	d.gate <- struct{}{}
	deaths := ""
	if d.Cluster {
		deaths = ", both deaths included"
		g.Go(func() error { return d.troubles(running) })
	} else {
		close(d.gate)
	}
	var ids []string
	g.Go(func() (err error) { ids, err = d.submit(running); return err })
	g.Go(func() error { return d.watch(running) })
	if err := g.Wait(); err != nil {
		return err
	}
	took := time.Since(begun)
	d.Report.Files, d.Report.ElapsedMS = len(ids), took.Milliseconds()
	fmt.Fprintf(d.Out, "done in %s, %.0f items/s%s\n\nproofs\n", since(begun), float64(len(ids))/took.Seconds(), deaths)
	return d.prove(ctx, ids)
}

func since(t time.Time) time.Duration { return time.Since(t).Round(time.Millisecond) }

// submit submits an item for each file, a chunk at a time, and each chunk twice: the second
// time each is recognised by its idempotency key. A try without an answer is repeated.
func (d *demo) submit(ctx context.Context) ([]string, error) {
	chunk, begun, part := 1000, time.Now(), 0
	if d.Cluster {
		chunk = 50
	}
	ids := make([]string, len(d.paths))
	for at := 0; at < len(ids); at += chunk {
		for ; part <= at*3/len(ids); part++ {
			select {
			case <-d.gate:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		end := min(at+chunk, len(ids))
		for round := range 2 {
			if err := d.submitChunk(ctx, ids, at, end, round == 1); err != nil {
				return nil, err
			}
		}
	}
	fmt.Fprintf(d.Out, "submitted in %s: every item is in the event log, on disk\n", since(begun))
	return ids, nil
}

func (d *demo) submitChunk(ctx context.Context, ids []string, at, end int, again bool) error {
	items := make([]streamwright.Item, 0, end-at)
	for _, p := range d.paths[at:end] {
		items = append(items, streamwright.Item{Type: workType, Params: file{Path: p}, IdempotencyKey: p, Source: "demo"})
	}
	answers, err := d.client.SubmitMany(ctx, items)
	if err != nil {
		return err
	}
	for i, a := range answers {
		switch {
		case a.Error != nil:
			return fmt.Errorf("submit %s: %w", d.paths[at+i], a.Error.Err())
		case again && a.ID != ids[at+i]:
			return fmt.Errorf("%s was submitted twice with one idempotency key and became two items", d.paths[at+i])
		}
		ids[at+i] = a.ID
	}
	return nil
}

// watch follows how many items have ended, and draws it, until all have.
func (d *demo) watch(ctx context.Context) error {
	bar := progressbar.NewOptions(len(d.paths), progressbar.OptionSetWriter(cmp.Or(d.Progress, io.Discard)), progressbar.OptionSetDescription("hashing"), progressbar.OptionShowCount(), progressbar.OptionClearOnFinish())
	defer func() { _ = bar.Finish() }()
	for {
		s, err := d.client.Engine().Stats(ctx)
		if err != nil {
			return err
		}
		var n int64
		for _, t := range s.Types {
			n += t.States["completed"] + t.States["dead"] + t.States["cancelled"]
		}
		d.ended.Store(n)
		_ = bar.Set(min(int(n), len(d.paths)))
		if int(n) >= len(d.paths) {
			return nil
		}
		if err := sleep.For(ctx, askEach); err != nil {
			return err
		}
	}
}

// prove proves the outcome.
func (d *demo) prove(ctx context.Context, ids []string) error {
	if err := d.proveResults(ctx, ids); err != nil {
		return err
	}
	if err := d.proveOnce(ctx, ids); err != nil {
		return err
	}
	for _, n := range d.nodes {
		if err := d.proveStore(ctx, "node "+n.name, n.name, "its store"); err != nil {
			return err
		}
	}
	if len(d.nodes) > 0 {
		return nil
	}
	return d.proveStore(ctx, "rebuild", "", "the live store")
}

// proveResults computes every result a second time, another way.
func (d *demo) proveResults(ctx context.Context, ids []string) error {
	var bytes, lines int64
	changed := 0 // or could not be read meanwhile
	for i, id := range ids {
		it, err := d.client.Get(ctx, id)
		if err != nil {
			return err
		}
		var got sum
		if it.Error == nil {
			if err := json.Unmarshal(it.Result, &got); err != nil {
				return fmt.Errorf("result of %s: %w", d.paths[i], err)
			}
		}
		data, err := os.ReadFile(d.paths[i])
		if err != nil {
			changed++
			continue
		}
		want := sha256.Sum256(data)
		if got.SHA256 != hex.EncodeToString(want[:]) {
			if info, err := os.Stat(d.paths[i]); err == nil && info.ModTime().After(it.CreatedAt) {
				changed++
				continue
			}
			return fmt.Errorf("%s: the worker found %s, a second computation %x", d.paths[i], got.SHA256, want)
		}
		bytes, lines = bytes+got.Bytes, lines+got.Lines
	}
	d.Report.Equal, d.Report.Bytes, d.Report.Lines = len(ids)-changed, bytes, lines
	fmt.Fprintf(d.Out, "  results    %d of %d equal to a second computation (%s, %s)", len(ids)-changed, len(ids), events.Count(bytes, "byte"), events.Count(lines, "line"))
	if changed > 0 {
		fmt.Fprintf(d.Out, "; %d changed or could not be read meanwhile", changed)
	}
	fmt.Fprintln(d.Out)
	return nil
}

// proveOnce reads every item's history: one completion, behind one claim.
func (d *demo) proveOnce(ctx context.Context, ids []string) error {
	seen := 0
	for _, id := range ids {
		h, err := d.client.History(ctx, id)
		if err != nil {
			return err
		}
		ends := 0
		for _, ev := range h {
			seen++
			if k := ev.Kind.String(); k == "completed" || k == "dead" {
				ends++
			}
		}
		if ends != 1 {
			return fmt.Errorf("item %s ended %s", id, events.Count(ends, "time"))
		}
	}
	d.Report.Events = seen
	fmt.Fprintf(d.Out, "  once       %s ended exactly once, in %s; each was submitted twice\n", events.Count(len(ids), "item"), events.Count(seen, "event"))
	return nil
}

// proveStore has a node replay the log into a second store, and compare; "" is the only one.
func (d *demo) proveStore(ctx context.Context, what, node, whose string) error {
	begun := time.Now()
	res, err := d.client.Engine().VerifyNode(ctx, node, nil)
	for err != nil && time.Since(begun) < nodeWithin && sleep.For(ctx, askEach) == nil { // a node may not be able just yet
		res, err = d.client.Engine().VerifyNode(ctx, node, nil)
	}
	if err != nil {
		return fmt.Errorf("verify %s: %w", whose, err)
	}
	if !res.Equal {
		return fmt.Errorf("%s, %s is not what the log says: %v", what, whose, res.Diff)
	}
	d.Report.Replayed, d.Report.Digest = res.Events, res.Digest
	fmt.Fprintf(d.Out, "  %-10s %s replayed in %s give %s, byte for byte\n             digest %s\n", what, events.Count(int64(res.Events), "event"), res.Elapsed.Duration, whose, res.Digest)
	return nil
}
