package backup_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/backup"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/workers"
)

// A backup is taken while items are submitted, published and completed, and is restored:
// its store is what its log says; all that was accepted before the backup began is there;
// what was completed does not run again, and what was in flight does.
func TestUnderLoad(t *testing.T) {
	need.Seconds(t)
	t.Parallel()
	e := start(t, t.TempDir())
	c := client(t, e)

	// One item is held by its handler.
	held, running := make(chan struct{}), make(chan struct{}, 1)
	endHeld := work(t, client(t, e), "held", func(ctx context.Context, it *workers.RawItem) (any, error) {
		select {
		case running <- struct{}{}:
		default: // it runs again, since the machine was too busy for its heartbeats
		}
		<-held
		return nil, nil
	})
	heldID := submit(t, c, "held", 1)[0]
	<-running

	var mu sync.Mutex // guards accepted
	accepted := map[string]bool{}
	var begun, halt atomic.Bool
	accept := func(id string) {
		mu.Lock()
		defer mu.Unlock()
		if !begun.Load() {
			accepted[id] = true
		}
	}
	endWork := work(t, client(t, e), "mail", func(context.Context, *workers.RawItem) (any, error) { return "sent", nil })
	var load sync.WaitGroup
	for i := range 4 {
		load.Go(func() {
			lc := client(t, e)
			for !halt.Load() {
				if i%2 == 0 {
					sub, err := lc.Submit(testContext(t), streamwright.Item{Type: "mail", Params: map[string]string{"to": "ada"}})
					if err != nil {
						t.Error(err)
						return
					}
					accept(sub.ID)
					continue
				}
				pub, err := lc.Publish(testContext(t), streamwright.Item{Type: "mail", Params: map[string]string{"to": "grace"}})
				if err != nil {
					t.Error(err)
					return
				}
				accept(pub.ID)
			}
		})
	}
	need.Eventually(t, "some items completed", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(accepted) > 300
	})
	mu.Lock()
	begun.Store(true)
	mu.Unlock()
	dir := filepath.Join(t.TempDir(), "b")
	done := take(t, c, dir)
	again := take(t, c, dir)
	halt.Store(true)
	load.Wait()
	close(held)
	endHeld()
	endWork()
	stop(t, e)
	if done.Manifest.Last < 600 || again.Manifest.Last <= done.Manifest.Last || !again.Continued {
		t.Errorf("backed up to %d, then to %d", done.Manifest.Last, again.Manifest.Last)
	}

	check(t, dir)
	r := restore(t, dir)
	if r.InFlight == 0 || !r.End || r.Last != again.Manifest.Last {
		t.Errorf("restored: %+v", r)
	}
	e2 := start(t, r.Dir)
	c2 := client(t, e2)
	verify(t, c2)
	for id := range accepted {
		need.Eventually(t, "item "+id, func() bool {
			_, err := c2.Get(testContext(t), id)
			return err == nil
		})
	}
	was := states(t, c2)
	var ran sync.Map
	work(t, c2, "mail", func(_ context.Context, it *workers.RawItem) (any, error) {
		ran.Store(it.ID.String(), true)
		return nil, nil
	})
	work(t, c2, "held", func(_ context.Context, it *workers.RawItem) (any, error) {
		ran.Store(it.ID.String(), true)
		return nil, nil
	})
	need.Eventually(t, "every item completed", func() bool {
		for _, st := range states(t, c2) {
			if st != events.StateCompleted {
				return false
			}
		}
		return true
	})
	completed := 0
	for id, st := range was {
		if _, again := ran.Load(id); again && st == events.StateCompleted {
			t.Errorf("%s was completed, and has run again", id)
		}
		if st == events.StateCompleted {
			completed++
		}
	}
	if completed == 0 {
		t.Error("nothing was completed: the test shows nothing")
	}
	if _, ok := ran.Load(heldID); !ok {
		t.Error("the item that was running did not run again")
	}
	history, err := c2.History(testContext(t), heldID)
	if err != nil {
		t.Fatal(err)
	}
	lost := false
	for _, ev := range history {
		lost = lost || strings.Contains(string(must(json.Marshal(ev))), "lease_expired")
	}
	if !lost {
		t.Errorf("the run that was in flight did not count as lost: %+v", history)
	}
	verify(t, c2)
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

// A backup that was added to restores to the same as one made at once, and documents and
// items' logs come with both.
func TestAddedToEqualsWhole(t *testing.T) {
	t.Parallel()
	e := start(t, t.TempDir())
	c := client(t, e)
	work(t, c, "job", func(_ context.Context, it *workers.RawItem) (any, error) {
		it.Log("info", "seen "+it.ID.String())
		return nil, nil
	})
	doc := big(t)
	large, err := c.Submit(testContext(t), streamwright.Item{Type: "large", Params: doc})
	if err != nil {
		t.Fatal(err)
	}
	small := func(o *backup.Options) { o.SegmentBytes = 16 << 10 }
	dir, ids := filepath.Join(t.TempDir(), "b"), []string(nil)
	var last backup.Taken
	for range 3 {
		ids = append(ids, submit(t, c, "job", 100)...)
		for _, id := range ids {
			if _, err := c.Wait(testContext(t), id); err != nil {
				t.Fatal(err)
			}
		}
		need.Eventually(t, "the log of the last item", func() bool {
			recs, err := c.Logs(testContext(t), ids[len(ids)-1], 0)
			return err == nil && len(recs) > 0
		})
		last = take(t, c, dir, small)
	}
	events := last.Manifest.Stream(backup.Events)
	if !last.Continued || len(events.Segments) < 3 || last.Added[backup.Events] >= events.Records() {
		t.Errorf("it did not add to what was there: %+v of %d", last.Added, events.Records())
	}
	file := filepath.Join(t.TempDir(), "b.tar")
	whole := take(t, c, file)
	if whole.Manifest.Last != last.Manifest.Last {
		t.Fatalf("the log has grown meanwhile: %d, %d", last.Manifest.Last, whole.Manifest.Last)
	}
	if a, b := check(t, dir), check(t, file); a.Events != b.Events || a.Logs != b.Logs || a.Documents != b.Documents || a.Documents == 0 || a.Logs == 0 {
		t.Errorf("added to: %+v; at once: %+v", a, b)
	}
	ra, rb := restore(t, dir), restore(t, file)
	if ra.Digest != rb.Digest || ra.Items != int64(len(ids))+1 {
		t.Errorf("restored: %+v and %+v", ra, rb)
	}
	c2 := client(t, start(t, ra.Dir))
	got, err := c2.Get(testContext(t), large.ID)
	if err != nil {
		t.Fatal(err)
	}
	if params, err := c2.Params(testContext(t), got); err != nil || string(params) != string(doc) {
		t.Errorf("its document: %d bytes, %v", len(params), err)
	}
	for _, id := range []string{ids[0], ids[len(ids)-1]} {
		was, err := c.Logs(testContext(t), id, 0)
		if err != nil {
			t.Fatal(err)
		}
		is, err := c2.Logs(testContext(t), id, 0)
		if err != nil || len(is) != len(was) || is[0] != was[0] {
			t.Errorf("its log: %+v, %v; it was %+v", is, err, was)
		}
	}
	verify(t, c2)
}

// A log restored to a position, or to a time between two events, has the state of then.
func TestAMomentIsExactlyThatOfThen(t *testing.T) {
	t.Parallel()
	e := start(t, t.TempDir())
	c := client(t, e)
	work(t, c, "job", func(context.Context, *workers.RawItem) (any, error) { return nil, nil })
	for _, id := range submit(t, c, "job", 20) {
		if _, err := c.Wait(testContext(t), id); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(t.TempDir(), "b")
	take(t, c, dir)
	o := originalOf(t, e.URL())
	evs := o.all(t)
	within, between := 0, 0
	for i := 3; i < len(evs); i += 7 {
		ev := evs[i]
		want, at := o.asOf(t, ev.Seq, time.Time{})
		got := restore(t, dir, func(o *embedded.RestoreOptions) { o.To = ev.Seq })
		if got.Digest != want || got.Last != at {
			t.Errorf("to position %d (%s): restored to %d, %s; it was %d, %s", ev.Seq, ev.Kind, got.Last, got.Digest, at, want)
		}
		if i+1 < len(evs) && evs[i+1].Seq.Frame() == ev.Seq.Frame() {
			within++
		}
		if next := evs[i-1]; next.At.Before(ev.At) {
			between++
			moment := next.At.Add(ev.At.Sub(next.At) / 2)
			want, at := o.asOf(t, o.end.Last, moment)
			got := restore(t, dir, func(o *embedded.RestoreOptions) { o.At = moment })
			if got.Digest != want || got.Last != at {
				t.Errorf("to %s: restored to %d, %s; it was %d, %s", moment, got.Last, got.Digest, at, want)
			}
		}
	}
	if within == 0 || between == 0 {
		t.Errorf("%d positions within a frame and %d times between two events: the test shows nothing", within, between)
	}
	// It goes on from there.
	mid := evs[len(evs)/2].Seq
	c2 := client(t, start(t, restore(t, dir, func(o *embedded.RestoreOptions) { o.To = mid }).Dir))
	submit(t, c2, "job", 3)
	verify(t, c2)
	for says, at := range map[string]func(*embedded.RestoreOptions){
		"ends at position": func(o *embedded.RestoreOptions) { o.To = 1 << 60 },
		"first event":      func(o *embedded.RestoreOptions) { o.At = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) },
	} {
		if _, err := tryRestore(testContext(t), t.TempDir(), dir, at); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("it does not say %q: %v", says, err)
		}
	}
}

// The log is cut while it is copied, and behind an earlier backup.
func TestTheLogIsCutMeanwhile(t *testing.T) {
	t.Parallel()
	e := start(t, t.TempDir())
	c := client(t, e)
	work(t, c, "job", func(context.Context, *workers.RawItem) (any, error) { return nil, nil })
	wait := func(ids []string) {
		for _, id := range ids {
			if _, err := c.Wait(testContext(t), id); err != nil {
				t.Fatal(err)
			}
		}
	}
	ids := submit(t, c, "job", 400)
	wait(ids)
	first := func() events.Seq {
		info, err := c.Engine().Info(testContext(t))
		if err != nil || info.Retention == nil {
			return 0
		}
		seq, _ := info.Retention.LogFirst.Seq()
		return seq
	}
	cut := func() {
		was := first()
		if _, err := c.Engine().Cut(testContext(t)); err != nil {
			t.Error(err)
		}
		need.Eventually(t, "a cut log", func() bool { return first() > was })
	}
	dir := filepath.Join(t.TempDir(), "b")
	var once sync.Once
	done := take(t, c, dir, func(o *backup.Options) {
		o.SegmentBytes = 8 << 10
		o.Progress = func(what string, n, _ int64) {
			if what == backup.Events {
				once.Do(cut)
			}
		}
	})
	if done.Manifest.First == 1 || done.Manifest.First > done.Manifest.Last {
		t.Fatalf("the log was not cut: %d to %d", done.Manifest.First, done.Manifest.Last)
	}
	check(t, dir)
	r := restore(t, dir)
	if want, _ := originalOf(t, e.URL()).asOf(t, r.Last, time.Time{}); r.Digest != want {
		t.Errorf("restored %s, it was %s", r.Digest, want)
	}

	ids = append(ids, submit(t, c, "job", 100)...)
	wait(ids)
	cut()
	again := take(t, c, dir)
	if again.Manifest.First <= done.Manifest.First || check(t, dir).First != again.Manifest.First {
		t.Errorf("what the log has dropped is still there: it begins with %d", again.Manifest.First)
	}
	if r = restore(t, dir); r.Items != int64(len(ids)) {
		t.Errorf("restored: %+v", r)
	}
	verify(t, client(t, start(t, r.Dir)))
	// A moment in the round that re-states what is kept is no whole state.
	_, err := tryRestore(testContext(t), t.TempDir(), dir, func(o *embedded.RestoreOptions) { o.To = again.Manifest.First })
	if err == nil || !strings.Contains(err.Error(), "whole state") {
		t.Errorf("to the middle of a round: %v", err)
	}
}

// With users, an operator in an account of its own makes the backup, and nobody else can.
func TestUsers(t *testing.T) {
	t.Parallel()
	const password = "correct horse battery"
	e := start(t, t.TempDir(), func(o *embedded.Options) {
		for _, r := range []access.Role{access.Submit, access.Read, access.Operate} {
			o.Config.NATS.Users = append(o.Config.NATS.Users, config.NATSUser{Name: r.String(), Password: password, Roles: access.InDefault(access.RolesOf(r))})
		}
	})
	as := func(user string) *streamwright.Client {
		t.Helper()
		c, err := streamwright.Connect(testContext(t), e.URL(), streamwright.WithNATS(nats.UserInfo(user, password), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	ids := submit(t, as("submit"), "job", 50)
	if _, err := as("submit").Submit(testContext(t), streamwright.Item{Type: "large", Params: big(t)}); err != nil {
		t.Fatal(err)
	}
	found := func(c *streamwright.Client) func(*backup.Options) {
		return func(o *backup.Options) { o.Names = connect.NewFinder(c.Conn(), c.Names()).Names(testContext(t)) }
	}
	ops := as("operate")
	dir := filepath.Join(t.TempDir(), "b")
	take(t, ops, dir, found(ops))
	if got := check(t, dir); got.Documents == 0 {
		t.Errorf("no documents: %+v", got)
	}
	if r := restore(t, dir); r.Items != int64(len(ids))+1 {
		t.Errorf("restored: %+v", r)
	}
	reader := as("read")
	_, err := tryTake(testContext(t), reader, filepath.Join(t.TempDir(), "c"), found(reader))
	if err == nil || !strings.Contains(err.Error(), "operate") {
		t.Errorf("a reader makes a backup, or is not told what it lacks: %v", err)
	}
}

// An interrupted run is no backup, and the next one goes on with what it has copied.
func TestAnInterruptedRun(t *testing.T) {
	t.Parallel()
	c := client(t, start(t, t.TempDir()))
	submit(t, c, "job", 1000)
	dir := filepath.Join(t.TempDir(), "b")
	interrupted := func() {
		t.Helper()
		ctx, cancel := context.WithCancel(testContext(t))
		_, err := tryTake(ctx, c, dir, func(o *backup.Options) {
			o.SegmentBytes = 64 << 10
			o.Progress = func(what string, done, total int64) {
				if what == backup.Events && done > total/2 {
					cancel()
				}
			}
		})
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("interrupted: %v", err)
		}
	}
	interrupted()
	if _, err := backup.Open(dir); !errors.Is(err, backup.ErrNotABackup) {
		t.Errorf("what an interrupted run has left is opened: %v", err)
	}
	small := func(o *backup.Options) { o.SegmentBytes = 64 << 10 }
	done := take(t, c, dir, small)
	if records := done.Manifest.Stream(backup.Events).Records(); !done.Resumed || done.Added[backup.Events] >= records {
		t.Errorf("it has not gone on: %+v of %d", done.Added, records)
	}
	check(t, dir)
	was := restore(t, dir)

	// The backup before stays as it was until the next one is whole.
	submit(t, c, "job", 1000)
	interrupted()
	if got := check(t, dir); got.Last != done.Manifest.Last {
		t.Errorf("the backup is another one now: %+v", got)
	}
	if r := restore(t, dir); r.Digest != was.Digest {
		t.Errorf("restored %s, then %s", was.Digest, r.Digest)
	}
	if done = take(t, c, dir, small); !done.Resumed || !done.Continued || check(t, dir).Last != done.Manifest.Last {
		t.Errorf("it has not gone on: %+v", done)
	}
	// And from the beginning, if told so.
	if done = take(t, c, dir, func(o *backup.Options) { o.Full = true }); done.Continued || len(done.Manifest.Stream(backup.Events).Segments) != 1 {
		t.Errorf("it has not begun anew: %+v", done.Manifest)
	}
	check(t, dir)
}

// A log that has lost its end since, as in a power cut, has other messages there: neither a
// backup nor an interrupted run is gone on with.
func TestALogThatLostItsEnd(t *testing.T) {
	t.Parallel()
	data, before := t.TempDir(), t.TempDir()
	e := start(t, data)
	submit(t, client(t, e), "job", 10)
	stop(t, e)
	if err := os.CopyFS(before, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	e = start(t, data)
	c := client(t, e)
	submit(t, c, "job", 1000)
	whole, interrupted := filepath.Join(t.TempDir(), "b"), filepath.Join(t.TempDir(), "b")
	take(t, c, whole)
	ctx, cancel := context.WithCancel(testContext(t))
	if _, err := tryTake(ctx, c, interrupted, func(o *backup.Options) {
		o.SegmentBytes = 64 << 10
		o.Progress = func(string, int64, int64) { cancel() }
	}); !errors.Is(err, context.Canceled) {
		t.Fatalf("interrupted: %v", err)
	}
	stop(t, e)

	c = client(t, start(t, before))
	for range 40 { // the log is longer than it was then
		submit(t, c, "job", 100)
	}
	for _, dir := range []string{whole, interrupted} {
		if _, err := tryTake(testContext(t), c, dir); !errors.Is(err, backup.ErrOtherLog) || !strings.Contains(err.Error(), "has another event") {
			t.Errorf("a backup of a log with another end is gone on with: %v", err)
		}
	}
}

// A folder takes backups of one log, and nothing else.
func TestAnotherLog(t *testing.T) {
	t.Parallel()
	a, b := client(t, start(t, t.TempDir())), client(t, start(t, t.TempDir()))
	dir := filepath.Join(t.TempDir(), "b")
	take(t, a, dir)
	if _, err := tryTake(testContext(t), b, dir); !errors.Is(err, backup.ErrOtherLog) {
		t.Errorf("the backup of another log is added to: %v", err)
	}
	if _, err := tryTake(testContext(t), a, t.TempDir()); err != nil {
		t.Errorf("an empty folder: %v", err)
	}
	if _, err := tryTake(testContext(t), a, filepath.Dir(dir)); err == nil || !strings.Contains(err.Error(), "belongs to no backup") {
		t.Errorf("a folder with other things: %v", err)
	}
	file := filepath.Join(t.TempDir(), "b.tar")
	take(t, a, file)
	if _, err := tryTake(testContext(t), a, file); err == nil {
		t.Error("a file that exists is overwritten")
	}
}
