package acceptance

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/workers"
)

// load submits items without end, with a rest between them, and remembers those
// that were accepted.
type load struct {
	stop chan struct{}
	wg   sync.WaitGroup

	mu  sync.Mutex // guards what follows
	ids []string
	err error
}

func (r *rig) load(typ string, rest time.Duration) *load {
	l := &load{stop: make(chan struct{})}
	c := r.c
	l.wg.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-l.stop:
				return
			case <-time.After(rest):
			}
			s, err := c.Submit(r.ctx, streamwright.Item{Type: typ, Params: n})
			l.mu.Lock()
			l.err = errors.Join(l.err, err)
			if err == nil {
				l.ids = append(l.ids, s.ID)
			}
			failed := l.err != nil
			l.mu.Unlock()
			if failed {
				return
			}
		}
	})
	return l
}

func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.ids)
}

// more waits for so many further items.
func (l *load) more(t *testing.T, n int) {
	t.Helper()
	want := l.count() + n
	eventually(t, "more items are accepted", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.err != nil {
			t.Fatal(l.err)
		}
		return len(l.ids) >= want
	})
}

// end stops the load and returns what was accepted.
func (l *load) end(t *testing.T) []string {
	t.Helper()
	close(l.stop)
	l.wg.Wait()
	if l.err != nil {
		t.Fatal(l.err)
	}
	return l.ids
}

func TestStoreDeletedBetweenRuns(t *testing.T) {
	r := onDisk(t, "")
	w := r.worker(workers.Config{}, "job", done)
	for range 50 {
		r.wait(r.submit(streamwright.Item{Type: "job", DedupKey: "k", IdempotencyKey: ""}), events.StateCompleted)
	}
	if err := w.Stop(r.ctx); err != nil {
		t.Fatal(err)
	}
	open := r.submit(streamwright.Item{Type: "job", DedupKey: "open"})
	later := r.submit(streamwright.Item{Type: "job", Delay: time.Hour})
	gone := r.submit(streamwright.Item{Type: "job"})
	if _, _, err := r.c.Cancel(r.ctx, gone, "no"); err != nil {
		t.Fatal(err)
	}
	r.verify()
	before := map[string]string{}
	for it, err := range r.c.All(r.ctx, streamwright.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		before[it.ID] = string(mustJSON(t, r.get(it.ID)))
	}
	r.stop()
	if err := os.RemoveAll(filepath.Join(r.opt.Dir, "store")); err != nil {
		t.Fatal(err)
	}
	r.start()
	r.verify()
	n := 0
	for it, err := range r.c.All(r.ctx, streamwright.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		if got := string(mustJSON(t, r.get(it.ID))); got != before[it.ID] {
			t.Errorf("item %s was\n%s and is\n%s", it.ID, before[it.ID], got)
		}
	}
	if n != len(before) {
		t.Errorf("%d items of %d", n, len(before))
	}
	if s := must(r.c.Submit(r.ctx, streamwright.Item{Type: "job", DedupKey: "open"}))(t); s.MergedInto != open {
		t.Errorf("the dedup key of %s is forgotten: %+v", open, s)
	}
	r.worker(workers.Config{}, "job", done)
	r.wait(open, events.StateCompleted)
	if it := r.get(later); it.State != events.StateQueued {
		t.Errorf("got %+v", it)
	}
	r.verify()
}

// A store that is damaged is made anew.
func TestStoreDamagedBetweenRuns(t *testing.T) {
	r := onDisk(t, "")
	id := r.submit(streamwright.Item{Type: "job"})
	r.stop()
	files := must(filepath.Glob(filepath.Join(r.opt.Dir, "store", "*")))(t)
	for _, f := range files {
		if info, err := os.Stat(f); err == nil && info.Mode().IsRegular() {
			if err := os.WriteFile(f, []byte("garbage"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	r.start()
	r.worker(workers.Config{}, "job", done)
	r.wait(id, events.StateCompleted)
	r.verify()
}

// What is derived may be deleted while the engine runs, under load: nothing is lost, nothing done twice, and what it held comes back.
func TestDerivedStreamsDeletedUnderLoad(t *testing.T) {
	t.Parallel()
	r := onDisk(t, "[defaults]\nlease = \"2s\"\nmax_attempts = 50\nbackoff = {initial = \"10ms\", max = \"50ms\"}\n")
	r.worker(workers.Config{ID: "w1", Concurrency: 8}, "job", func(ctx context.Context, _ *workers.RawItem) (any, error) {
		select {
		case <-time.After(2 * time.Millisecond):
			return "done", nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	})
	held := r.submit(streamwright.Item{Type: "kept", DedupKey: "held"})
	l := r.load("job", 0)
	for _, name := range []string{"KV_work_dedup", "KV_work_workers", "KV_work_partitions"} {
		at := time.Now()
		l.more(t, 200)
		t.Logf("200 more items in %v, then delete %s", time.Since(at), name)
		if err := r.admin().DeleteStream(r.ctx, name); err != nil {
			t.Fatalf("delete %s: %v", name, err)
		}
	}
	l.more(t, 200)
	ids := l.end(t)
	begin := time.Now()
	for _, id := range ids {
		if it := r.wait(id, events.StateCompleted); time.Since(begin) > time.Second {
			t.Logf("item %s took until %v after the load: attempt %d, %v", id, time.Since(begin), it.Attempt, r.kinds(id))
			begin = time.Now()
		}
	}
	r.completedOnce(ids)
	r.verify()
	t.Logf("%d items", len(ids))

	r.hasKeys("work_dedup", 2) // the held key, and its position in the log
	r.hasKeys("work_partitions", 1)
	r.hasKeys("work_workers", 1)
	if it := r.get(held); it.State != events.StateQueued {
		t.Errorf("got %+v", it)
	}
	// And after that leases still expire.
	p := newProtocolWorker(r, "raw", "kept")
	t.Logf("the buckets are back after %v", time.Since(begin))
	m := p.receive()
	t.Logf("received after %v", time.Since(begin))
	if got := p.start(m); !got.OK {
		t.Fatalf("got %+v", got)
	}
	r.worker(workers.Config{ID: "w2"}, "kept", done)
	if it := r.wait(held, events.StateCompleted); it.Attempt != 2 || it.Worker == "raw" {
		t.Errorf("got %+v", it)
	}
	r.verify()
}

// hasKeys waits for a bucket to have so many keys.
func (r *rig) hasKeys(bucket string, n int) {
	r.t.Helper()
	var last error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		var keys []string
		kv, err := r.admin().KeyValue(r.ctx, bucket)
		if err == nil {
			keys, err = kv.Keys(r.ctx)
		}
		if last = err; len(keys) == n {
			return
		}
	}
	r.t.Errorf("bucket %s never has %d keys: %v", bucket, n, last)
}
