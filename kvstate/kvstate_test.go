package kvstate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"pgregory.net/rapid"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/internal/leaks"
	"github.com/streamwright/streamwright/wire"
)

func TestMain(m *testing.M) { leaks.Check(m) }

const (
	testTimeout = 2 * time.Minute
	// settle is enough for a deletion on a machine that runs the race
	// detector, and less than the default.
	settle = 200 * time.Millisecond
)

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

func serve(t testing.TB) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	return serveUser(t, nil)
}

// serveUser is serve for one who has these permissions; nil: all.
func serveUser(t testing.TB, may *natsserver.Permissions) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	s, err := natsserver.NewServer(&natsserver.Options{DontListen: true, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir(),
		Users: []*natsserver.User{{Username: "mirror", Password: "secret", Permissions: may}}})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	nc, err := nats.Connect("", nats.InProcessServer(s), nats.UserInfo("mirror", "secret"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close(); s.Shutdown(); s.WaitForShutdown() })
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return nc, js
}

// projection stands in for the store: the held keys as of a position.
type projection struct {
	mu   sync.Mutex
	at   events.Seq
	held map[events.KeyRef]DedupEntry
	fail error // of the next snapshot
	n    int   // snapshots taken
}

func newProjection() *projection { return &projection{held: map[events.KeyRef]DedupEntry{}} }

func (p *projection) snapshot(_ context.Context, yield func(DedupHeld) error) (events.Seq, error) {
	p.mu.Lock()
	at, held, fail := p.at, maps.Clone(p.held), p.fail
	p.fail = nil
	p.n++
	p.mu.Unlock()
	if fail != nil {
		return 0, fail
	}
	for ref, e := range held {
		if err := yield(DedupHeld{Type: ref.Type, Key: ref.Key, DedupEntry: e}); err != nil {
			return 0, err
		}
	}
	return at, nil
}

// commit sets a key's holder (zero: free) and returns the changes.
func (p *projection) commit(t events.Type, key string, e DedupEntry) *core.Changes {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at++
	ref := events.KeyRef{Kind: events.KeyDedup, Type: t, Key: key}
	was, had := p.held[ref]
	c := &core.Changes{Meta: events.Meta{Applied: p.at}}
	item := func(e DedupEntry) *events.Item {
		return &events.Item{ID: e.ID, Type: t, DedupKey: key, HoldsKey: true, State: e.State}
	}
	if had && was.ID != e.ID {
		c.Items = append(c.Items, core.ItemChange{Old: item(was), New: item(DedupEntry{ID: was.ID, State: events.StateCompleted})})
	}
	if e.ID.IsZero() {
		delete(p.held, ref)
		return c
	}
	p.held[ref] = e
	ic := core.ItemChange{New: item(e)}
	if had && was.ID == e.ID {
		ic.Old = item(was)
	}
	c.Items = append(c.Items, ic)
	return c
}

func (p *projection) want() map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := map[string]string{}
	for ref, e := range p.held {
		m[DedupKey(ref.Type, ref.Key)] = fmt.Sprintf(`{"id":"%s","state":"%s"}`, e.ID, e.State)
	}
	return m
}

func mirror(t testing.TB, nc *nats.Conn, p *projection, change func(*DedupOptions)) *Dedup {
	t.Helper()
	o := DedupOptions{Conn: nc, Names: wire.Default, Snapshot: p.snapshot, Log: slog.New(slog.DiscardHandler), Lag: time.Millisecond, RecreateAfter: settle}
	if change != nil {
		change(&o)
	}
	d, err := NewDedup(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Start(p.at); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopMirror(t, d) })
	return d
}

func stopMirror(t testing.TB, d *Dedup) {
	t.Helper()
	if err := d.Stop(testContext(t)); err != nil {
		t.Error(err)
	}
}

// contents are the live entries without the position; none without a bucket.
func contents(t testing.TB, js jetstream.JetStream) map[string]string {
	t.Helper()
	m := map[string]string{}
	st, err := js.Stream(testContext(t), "KV_work_dedup")
	if err == nil {
		b := bucket{js: js, name: "work_dedup"}
		err = b.scan(testContext(t), st, st.CachedInfo().State.LastSeq+1, func(key string, value []byte) error {
			if key != positionKey {
				m[key] = string(value)
			}
			return nil
		})
	}
	if err != nil && !isGone(err) {
		t.Fatal(err)
	}
	return m
}

func check(t testing.TB, js jetstream.JetStream, d *Dedup, p *projection) {
	t.Helper()
	if err := d.Await(testContext(t), p.at); err != nil {
		t.Fatal(err)
	}
	if got, want := contents(t, js), p.want(); !maps.Equal(got, want) {
		t.Fatalf("bucket %v\nwant %v", got, want)
	}
}

func entry(n byte, s events.ItemState) DedupEntry { return DedupEntry{ID: events.ID{n}, State: s} }

func TestDedupFollows(t *testing.T) {
	nc, js := serve(t)
	p := newProjection()
	d := mirror(t, nc, p, nil)
	check(t, js, d, p)
	steps := []struct {
		key string
		e   DedupEntry
	}{
		{"a", entry(1, events.StateQueued)},
		{"a", entry(1, events.StateRunning)},
		{"any bytes: \x00 ü .*>", entry(2, events.StateQueued)},
		{"a", DedupEntry{}},
		{"a", entry(3, events.StateWaiting)}, // taken by another
		{"a", entry(4, events.StateQueued)},  // let go and taken in one commit
		{"a", DedupEntry{}},
		{"b", entry(5, events.StateQueued)},
		{"b", DedupEntry{}},
	}
	for _, s := range steps {
		d.Feed(p.commit("email", s.key, s.e))
		check(t, js, d, p)
	}
	for _, s := range steps { // again, unobserved in between
		d.Feed(p.commit("email", s.key, s.e))
	}
	check(t, js, d, p)
}

// What comes and goes between two writes is never written.
func TestDedupCoalesces(t *testing.T) {
	nc, js := serve(t)
	p := newProjection()
	d := mirror(t, nc, p, nil)
	check(t, js, d, p)
	info := func() uint64 {
		st, err := js.Stream(testContext(t), "KV_work_dedup")
		if err != nil {
			t.Fatal(err)
		}
		return st.CachedInfo().State.LastSeq
	}
	before := info()
	d.mu.Lock() // nothing is written until it has all been fed
	for i := range 500 {
		for _, e := range []DedupEntry{entry(1, events.StateQueued), {}} {
			d.feed(p.commit("email", fmt.Sprint(i), e))
		}
	}
	d.mu.Unlock()
	check(t, js, d, p)
	if n := info() - before; n != 1 {
		t.Fatalf("%d writes, want the position alone", n)
	}
}

// A restart goes on where the bucket is; one that is elsewhere is written
// afresh, and what it had too much is gone.
func TestDedupRestart(t *testing.T) {
	nc, js := serve(t)
	p := newProjection()
	d := mirror(t, nc, p, nil)
	for i := range 50 {
		d.Feed(p.commit("email", fmt.Sprint(i), entry(byte(i+1), events.StateQueued)))
	}
	check(t, js, d, p)
	snapshots := p.n
	stopMirror(t, d)
	stopMirror(t, d)

	d = mirror(t, nc, p, nil)
	d.Feed(p.commit("email", "new", entry(99, events.StateQueued)))
	check(t, js, d, p)
	if p.n != snapshots {
		t.Error("a snapshot was taken though the bucket was where the feed begins")
	}
	stopMirror(t, d)

	for i := range 40 { // missed by the mirror
		p.commit("email", fmt.Sprint(i), DedupEntry{})
	}
	p.commit("email", "45", entry(46, events.StateRunning))
	d = mirror(t, nc, p, nil)
	check(t, js, d, p)
	if p.n != snapshots+1 {
		t.Errorf("%d snapshots, want 1", p.n-snapshots)
	}
}

// The bucket deleted while running comes back, with no change to prompt it.
func TestDedupBucketDeleted(t *testing.T) {
	nc, js := serve(t)
	p := newProjection()
	d := mirror(t, nc, p, func(o *DedupOptions) { o.LookEvery = 100 * time.Millisecond })
	for i := range 20 {
		d.Feed(p.commit("email", fmt.Sprint(i), entry(byte(i+1), events.StateQueued)))
	}
	check(t, js, d, p)
	p.mu.Lock()
	p.fail = errors.New("the store is busy")
	p.mu.Unlock()
	if err := js.DeleteStream(testContext(t), "KV_work_dedup"); err != nil {
		t.Fatal(err)
	}
	awaitEntries(t, js, 20)
	d.Feed(p.commit("email", "3", DedupEntry{}))
	check(t, js, d, p)
}

// So it does if the server does not tell, and if somebody has made another.
func TestDedupBucketDeletedUnannounced(t *testing.T) {
	nc, js := serveUser(t, &natsserver.Permissions{Subscribe: &natsserver.SubjectPermission{Deny: []string{"$JS.EVENT.>"}}})
	p := newProjection()
	d := mirror(t, nc, p, func(o *DedupOptions) { o.LookEvery = 20 * time.Millisecond })
	d.Feed(p.commit("email", "k", entry(1, events.StateQueued)))
	check(t, js, d, p)
	st, err := js.Stream(testContext(t), "KV_work_dedup")
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(testContext(t), "KV_work_dedup"); err != nil {
		t.Fatal(err)
	}
	awaitEntries(t, js, 1)
	check(t, js, d, p)
	if err := js.DeleteStream(testContext(t), "KV_work_dedup"); err != nil {
		t.Fatal(err)
	}
	for {
		_, err := js.CreateOrUpdateStream(testContext(t), st.CachedInfo().Config)
		if err == nil {
			break
		}
		// A stream made meanwhile may lose its folder to the deletion: see bucket.create.
		var api *jetstream.APIError
		if !errors.As(err, &api) || api.ErrorCode != 10049 {
			t.Fatal(err)
		}
	}
	awaitEntries(t, js, 1)
	check(t, js, d, p)
}

// What somebody else writes does not stay, whether there is something to write or not.
func TestDedupWrittenByAnother(t *testing.T) {
	nc, js := serve(t)
	p := newProjection()
	d := mirror(t, nc, p, func(o *DedupOptions) { o.LookEvery = 50 * time.Millisecond })
	d.Feed(p.commit("email", "a", entry(1, events.StateQueued)))
	check(t, js, d, p)
	other := func(key string) {
		if _, err := js.Publish(testContext(t), wire.Default.Entries(wire.DedupBucket)+DedupKey("email", key), []byte(`{}`)); err != nil {
			t.Fatal(err)
		}
	}
	other("a")
	awaitSame(t, js, p)
	other("b")
	d.Feed(p.commit("email", "c", entry(2, events.StateQueued)))
	awaitSame(t, js, p)
	if err := d.Await(testContext(t), p.at); err != nil {
		t.Error(err)
	}
}

// awaitEntries returns once the bucket holds n keys and the position.
func awaitEntries(t *testing.T, js jetstream.JetStream, n uint64) {
	t.Helper()
	ctx := testContext(t)
	for {
		st, err := js.Stream(ctx, "KV_work_dedup")
		if err == nil && st.CachedInfo().State.Msgs == n+1 {
			return
		}
		if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			t.Fatal(err)
		}
	}
}

// More changes than the bound are let go, and a snapshot replaces them.
func TestDedupOverflow(t *testing.T) {
	nc, js := serve(t)
	p := newProjection()
	d := mirror(t, nc, p, func(o *DedupOptions) { o.MaxPending, o.Lag = 10, time.Hour })
	check(t, js, d, p)
	for i := range 100 {
		d.Feed(p.commit("email", fmt.Sprint(i), entry(byte(i+1), events.StateQueued)))
	}
	d.mu.Lock()
	pending, stale := len(d.pending), d.stale
	d.mu.Unlock()
	if pending > 10 || !stale {
		t.Fatalf("%d pending, stale %v", pending, stale)
	}
	stopMirror(t, d)
	d = mirror(t, nc, p, nil)
	check(t, js, d, p)
}

func TestDedupLifecycle(t *testing.T) {
	nc, _ := serve(t)
	p := newProjection()
	d := mirror(t, nc, p, nil)
	if err := d.Start(0); err == nil {
		t.Error("started twice")
	}
	unstarted, err := NewDedup(DedupOptions{Conn: nc, Names: wire.Default, Snapshot: p.snapshot, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	stopMirror(t, unstarted)
	if err := unstarted.Start(0); err == nil {
		t.Error("started after Stop")
	}
}

// Whatever happens, in whatever order, the bucket ends as the projection. It is
// not deleted here: server 2.15.2 races with itself when a stream is deleted
// under writes, says the race detector.
func TestDedupProperty(t *testing.T) {
	nc, js := serve(t)
	logs := 0
	rapid.Check(t, func(rt *rapid.T) {
		logs++
		p := newProjection()
		o := DedupOptions{Conn: nc, Names: wire.Default, Identity: fmt.Sprint(logs), Memory: true, Snapshot: p.snapshot, Log: slog.New(slog.DiscardHandler), Lag: time.Microsecond, RecreateAfter: settle, MaxPending: 3}
		var d *Dedup
		start := func() {
			var err error
			if d, err = NewDedup(o); err != nil {
				rt.Fatal(err)
			}
			if err := d.Start(p.at); err != nil {
				rt.Fatal(err)
			}
		}
		start()
		defer func() { stopMirror(t, d) }()
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			switch rapid.IntRange(0, 12).Draw(rt, "step") {
			case 0:
				stopMirror(t, d)
				start()
			case 1:
				d.setStale() // as an overflow does
				d.poke()
			case 2:
				stopMirror(t, d)
				p.commit("t", rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(rt, "missed"), DedupEntry{})
				start()
			default:
				var e DedupEntry
				if n := rapid.IntRange(0, 3).Draw(rt, "holder"); n > 0 {
					e = entry(byte(n), events.StateQueued)
				}
				d.Feed(p.commit("t", rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(rt, "key"), e))
			}
		}
		d.Feed(p.commit("t", "last", entry(9, events.StateQueued)))
		awaitSame(t, js, p)
	})
}

func awaitSame(t *testing.T, js jetstream.JetStream, p *projection) {
	t.Helper()
	ctx := testContext(t)
	for ctx.Err() == nil {
		if maps.Equal(contents(t, js), p.want()) {
			return
		}
	}
	t.Fatalf("bucket %v\nwant %v", contents(t, js), p.want())
}

func TestWorkers(t *testing.T) {
	_, js := serve(t)
	w := NewWorkers(js, wire.Default, 0)
	ctx := testContext(t)
	ids := []string{"a", "host.1", "odd..id", "odd...id"}
	for round := range 2 {
		for _, id := range ids {
			if err := w.Put(ctx, wire.WorkerInfo{Worker: id, Slots: 3 + round, Types: []string{"email"}}); err != nil {
				t.Fatal(err)
			}
		}
		list, err := w.List(ctx)
		if err != nil || len(list) != 4 || list[0].Worker != "a" || list[0].Slots != 3+round {
			t.Fatalf("list %+v, %v", list, err)
		}
		if err := w.Delete(ctx, "odd..id"); err != nil {
			t.Fatal(err)
		}
		if list, err = w.List(ctx); err != nil || len(list) != 3 {
			t.Fatalf("list %+v, %v", list, err)
		}
		// Gone while running.
		if err := js.DeleteKeyValue(ctx, "work_workers"); err != nil {
			t.Fatal(err)
		}
		if list, err = w.List(ctx); err != nil || len(list) != 0 {
			t.Fatalf("list of a deleted bucket %+v, %v", list, err)
		}
	}
	if err := js.DeleteKeyValue(ctx, "work_workers"); err != nil {
		t.Fatal(err)
	}
	if err := w.Delete(ctx, "absent"); err != nil {
		t.Errorf("delete from a deleted bucket: %v", err)
	}
}

// An entry without news expires, as the server's own clock has it.
func TestWorkersExpire(t *testing.T) {
	_, js := serve(t)
	w := NewWorkers(js, wire.Default, time.Second)
	ctx := testContext(t)
	if err := w.Put(ctx, wire.WorkerInfo{Worker: "a"}); err != nil {
		t.Fatal(err)
	}
	for {
		list, err := w.List(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 0 {
			return
		}
	}
}

func TestPartitions(t *testing.T) {
	_, js := serve(t)
	p := NewPartitions(js, wire.Default, 0)
	ctx := testContext(t)
	if _, found, err := p.Get(ctx, 0); found || err != nil {
		t.Fatalf("owner of nothing: %v, %v", found, err)
	}
	want := Owner{Owner: "engine-1", Epoch: 4, At: time.Now().UTC()}
	for range 2 {
		if err := p.Put(ctx, 0, want); err != nil {
			t.Fatal(err)
		}
		got, found, err := p.Get(ctx, 0)
		if err != nil || !found || got != want {
			t.Fatalf("got %+v, %v, %v", got, found, err)
		}
		if err := js.DeleteKeyValue(ctx, "work_partitions"); err != nil {
			t.Fatal(err)
		}
	}
}

// Keys written per second, as bulk submissions with dedup keys cause them.
// A second engine that asks for more replicas than the servers allow leaves the bucket, and the
// lease in it, as they are.
func TestMoreReplicasThanServers(t *testing.T) {
	_, js := serve(t)
	ctx := testContext(t)
	first, me := NewPartitions(js, wire.Default, time.Minute), Owner{Owner: "n1", Node: "N1"}
	if _, err := first.Lease(ctx, 0, me, 0, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := NewPartitions(js, wire.Default, time.Minute).Replicate(3, nil).Make(ctx); err == nil {
		t.Error("one server has taken a bucket with three replicas")
	}
	var held *HeldError
	if _, err := NewPartitions(js, wire.Default, time.Minute).Lease(ctx, 0, Owner{Owner: "n2", Node: "N2"}, 0, ""); !errors.As(err, &held) {
		t.Errorf("the lease of the first is gone: %v", err)
	}
}

func BenchmarkDedup(b *testing.B) {
	nc, _ := serve(b)
	p := newProjection()
	d := mirror(b, nc, p, nil)
	n := 0
	for b.Loop() {
		n++
		d.Feed(p.commit("email", fmt.Sprint(n), entry(1, events.StateQueued)))
		if n%10_000 == 0 {
			if err := d.Await(testContext(b), p.at); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := d.Await(testContext(b), p.at); err != nil {
		b.Fatal(err)
	}
}
