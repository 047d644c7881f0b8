package projector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector/internal/layout"
	"github.com/streamwright/streamwright/projector/query"
)

// However the events are cut into batches, with restarts or without, live or
// rebuilt: the store is the same, byte for byte.
func TestBatchesLeaveNoTrace(t *testing.T) {
	slow(t)
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		every := rapid.SampledFrom([]int{1, 3, 17, 256}).Draw(rt, "batch")
		per := rapid.SampledFrom([]int{1, 5, 256}).Draw(rt, "frame")
		steps := rapid.IntRange(1, 400).Draw(rt, "steps")
		live := openMem(t)
		s := newSim(t, seed, live)
		s.per = per
		restarts := rapid.IntRange(0, 3).Draw(rt, "restarts")
		for range restarts + 1 {
			s.run(steps/(restarts+1), every)
			s.restate(live)
		}
		same(t, live, replayed(t, s.log, s.log.last()))
	})
}

// crashed opens the store that a crash would leave of a file system.
func crashed(t *testing.T, fs *vfs.MemFS) (*Store, *vfs.MemFS) {
	t.Helper()
	left := fs.CrashClone(vfs.CrashCloneCfg{})
	s, err := Open("store", Options{fs: left})
	if err != nil {
		t.Fatal(err)
	}
	return s, left
}

// replayTo replays a log through a State that the caller keeps.
func replayTo(ctx context.Context, store *Store, state *core.State, log Log, to events.Seq) error {
	r := NewReplay(ctx, store, state, nil)
	defer r.Close()
	from := state.Meta().Applied.Frame() + 1
	if from == 1 {
		from = 0
	}
	if err := log.Read(ctx, from, to.Frame(), r.Apply); err != nil {
		return err
	}
	return r.Finish()
}

func catchUp(t testing.TB, s *Store, l *memLog, to events.Seq) {
	t.Helper()
	state, err := core.NewState(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := replayTo(context.Background(), s, state, l, to); err != nil {
		t.Fatal(err)
	}
	if state.Meta().Applied != s.Applied() {
		t.Fatalf("the state is at %d, the store at %d", state.Meta().Applied, s.Applied())
	}
}

// A replay of large items makes commits below the bound in bytes, however few
// events they have.
func TestLargeItemsReplayInBoundedCommits(t *testing.T) {
	s := newSim(t, 1, nil)
	s.per = 16
	params := json.RawMessage(`"` + strings.Repeat("x", 64<<10) + `"`)
	for range 300 {
		s.submit(core.Submit{Type: "email", Params: params})
	}
	store := openMem(t)
	state, err := core.NewState(store)
	if err != nil {
		t.Fatal(err)
	}
	commits, largest := 0, 0
	r := NewReplay(t.Context(), store, state, func(c *core.Changes) { commits, largest = commits+1, max(largest, batchSize(c)) })
	defer r.Close()
	if err := errors.Join(s.log.Read(t.Context(), 0, s.log.last().Frame(), r.Apply), r.Finish()); err != nil {
		t.Fatal(err)
	}
	const frame = 16 * 68 << 10
	if bound := ReplayBytes + frame; largest > bound || commits < 4 {
		t.Errorf("%d commits, the largest of %d bytes: it must be at most %d", commits, largest, bound)
	}
	same(t, store, replayed(t, s.log, s.log.last()))
}

func TestCrashWithoutFlush(t *testing.T) {
	fs := vfs.NewCrashableMem()
	live, err := Open("store", Options{fs: fs})
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	s := newSim(t, 1, live)
	s.run(300, 7)
	if err := live.Flush(); err != nil {
		t.Fatal(err)
	}
	flushed := live.Applied()
	if events.Seq(live.flushed.Load()) != flushed {
		t.Fatalf("flushed is %d, want %d", events.Seq(live.flushed.Load()), flushed)
	}
	s.run(300, 7)
	again, _ := crashed(t, fs)
	defer again.Close()
	if at := again.Applied(); at < flushed || at >= live.Applied() {
		t.Fatalf("after the crash the store is at %d, want %d or a little later", at, flushed)
	}
	same(t, again, replayed(t, s.log, again.Applied())) // older, and whole
	catchUp(t, again, s.log, s.log.last())
	same(t, again, live)
}

func TestFlushPolicy(t *testing.T) {
	for _, o := range []Options{{FlushEvents: 100, FlushEvery: time.Hour}, {FlushEvents: 1e9, FlushEvery: time.Millisecond}} {
		o.InMemory = true
		live, err := Open("", o)
		if err != nil {
			t.Fatal(err)
		}
		s := newSim(t, 1, live)
		deadline := time.Now().Add(20 * time.Second)
		for events.Seq(live.flushed.Load()) == 0 {
			if s.run(50, 5); time.Now().After(deadline) {
				t.Fatal("nothing was flushed")
			}
		}
		if err := live.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestReopen(t *testing.T) {
	dir := t.TempDir()
	live, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := newSim(t, 3, live)
	s.run(500, 10)
	if err := live.SetIdentity("WORK_EVENTS_0 of yesterday"); err != nil {
		t.Fatal(err)
	}
	want, at := digestOf(t, live), live.Applied()
	if _, err := Open(dir, Options{}); !errors.Is(err, ErrInUse) {
		t.Fatalf("a second Open: %v", err)
	}
	if err := errors.Join(live.Close(), live.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := live.Meta(); !errors.Is(err, ErrClosed) {
		t.Fatalf("a query after Close: %v", err)
	}
	if err := live.Commit(&core.Changes{Meta: events.Meta{Applied: at + 1}}); !errors.Is(err, ErrClosed) {
		t.Fatalf("a commit after Close: %v", err)
	}
	live, err = Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	if id, err := live.Identity(); id != "WORK_EVENTS_0 of yesterday" || err != nil {
		t.Fatalf("identity %q, %v", id, err)
	}
	if digestOf(t, live) != want || live.Applied() != at {
		t.Fatal("the store has changed by being closed")
	}
	s.store = live
	s.restate(live)
	s.run(500, 10)
	same(t, live, replayed(t, s.log, s.log.last()))
}

func TestCommitRefusesThePast(t *testing.T) {
	live := openMem(t)
	s := newSim(t, 1, live)
	s.run(50, 10)
	want := digestOf(t, live)
	if err := live.Commit(&core.Changes{Meta: events.Meta{Applied: live.Applied()}}); err == nil {
		t.Fatal("a commit of what is applied already was accepted")
	}
	if err := live.Commit(nil); err != nil || digestOf(t, live) != want {
		t.Fatalf("a commit of nothing: %v", err)
	}
}

func TestAwait(t *testing.T) {
	live := openMem(t)
	s := newSim(t, 1, live)
	s.step()
	want := s.log.last()
	got := make(chan error, 2)
	go func() { got <- live.Await(context.Background(), want) }()
	go func() { got <- live.Await(context.Background(), want+1000) }()
	s.project()
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := live.Await(ctx, want+1); !errors.Is(err, context.Canceled) {
		t.Fatalf("await with an ended context: %v", err)
	}
	live.Close()
	if err := <-got; !errors.Is(err, ErrClosed) {
		t.Fatalf("await of a closed store: %v", err)
	}
}

func TestStateAt(t *testing.T) {
	live := openMem(t)
	s := newSim(t, 5, live)
	type mark struct {
		seq    events.Seq
		at     time.Time
		digest string
	}
	var marks []mark
	for range 12 {
		s.run(40, 8)
		marks = append(marks, mark{s.log.last(), s.now, digestOf(t, live)})
		s.now = s.now.Add(time.Second)
	}
	for _, m := range marks {
		for _, until := range []time.Time{{}, m.at, m.at.Add(time.Millisecond)} {
			through := m.seq
			if !until.IsZero() {
				through = s.log.last()
			}
			past, err := StateAt(context.Background(), s.log, through, until, "", Options{InMemory: true}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if d := digestOf(t, past); d != m.digest {
				t.Errorf("state at %d (%v) differs from what was there then: it is at %d", m.seq, until, past.Applied())
			}
			if err := past.CheckLog(t.Context(), "", s.log); err != nil {
				t.Error(err)
			}
			past.Close()
		}
	}
}

func TestReplayErrors(t *testing.T) {
	s := newSim(t, 5, nil)
	s.run(3000, 100)
	s.log.failAt = s.log.last().Frame() - 10
	_, err := StateAt(context.Background(), s.log, s.log.last(), time.Time{}, "", Options{InMemory: true}, nil)
	if !errors.Is(err, errLog) {
		t.Fatalf("a log that can't be read: %v", err)
	}
	s.log.failAt = 0
	ctx, cancel := context.WithCancel(context.Background())
	_, err = StateAt(ctx, s.log, s.log.last(), time.Time{}, "", Options{InMemory: true}, func(done, total uint64) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("a cancelled replay: %v", err)
	}
	s.frame()
	s.log.add(t, events.Event{Kind: events.KindCompleted, ID: s.newID(), Type: "email", At: s.now, Body: &events.Completed{}})
	_, err = StateAt(context.Background(), s.log, s.log.last(), time.Time{}, "", Options{InMemory: true}, nil)
	if !errors.Is(err, events.ErrCorrupt) {
		t.Fatalf("a log that can't have been decided: %v", err)
	}
}

func TestProgress(t *testing.T) {
	slow(t)
	s := newSim(t, 5, nil)
	s.run(8000, 100)
	var last, all uint64
	past, err := StateAt(context.Background(), s.log, s.log.last(), time.Time{}, t.TempDir(), Options{InMemory: true}, func(done, total uint64) {
		if done <= last && done != total || done > total || total != s.log.count() {
			t.Errorf("progress went from %d to %d of %d", last, done, total)
		}
		last, all = done, total
	})
	if err != nil || last != s.log.count() || all != last {
		t.Fatalf("progress ended at %d of %d, %v", last, all, err)
	}
	past.Close()
}

func TestOpenRefusesWhatItCannotRead(t *testing.T) {
	dir := t.TempDir()
	live, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, Options{}); !errors.Is(err, ErrInUse) {
		t.Errorf("a store that is open: %v", err)
	}
	if err := live.Close(); err != nil {
		t.Fatal(err)
	}
	for text, newer := range map[string]bool{currentMagic + " 99 gen-000007\n": true, "what?": false} {
		writeFile(t, dir, currentFile, text)
		if _, err := Open(dir, Options{}); err == nil || errors.Is(err, layout.ErrNewerFormat) != newer {
			t.Errorf("a store that says %q: %v", text, err)
		}
	}
}

// A store of an older format is begun anew when it is opened, and the log brings
// back what it had, with the indexes of this format.
func TestOlderFormatIsMadeAnew(t *testing.T) {
	dir := t.TempDir()
	live, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := newSim(t, 9, live)
	s.run(600, 20)
	want := digestOf(t, live)
	if err := live.Close(); err != nil {
		t.Fatal(err)
	}
	writeFile(t, dir, currentFile, fmt.Sprintf("%s %d gen-000001\n", currentMagic, FormatVersion-1))
	for range 2 { // and once it is of this format it stays
		again, err := Open(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if at := again.Applied(); at != 0 && at != s.log.last() {
			t.Fatalf("it is at event %d", at)
		}
		if again.Applied() == 0 {
			state, err := core.NewState(again)
			if err != nil {
				t.Fatal(err)
			}
			if err := replayTo(t.Context(), again, state, s.log, s.log.last()); err != nil {
				t.Fatal(err)
			}
		}
		if digestOf(t, again) != want {
			t.Error("the store differs")
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A rebuild that a crash cuts short at any moment leaves the old store, or the
// new one; what is half made is removed.
func TestRebuildCrashes(t *testing.T) {
	fs := vfs.NewCrashableMem()
	live, err := Open("store", Options{fs: fs})
	if err != nil {
		t.Fatal(err)
	}
	s := newSim(t, 9, live)
	s.run(2000, 100)
	want := digestOf(t, live)
	if err := live.Close(); err != nil {
		t.Fatal(err)
	}
	var left []*vfs.MemFS
	if live, err = Open("store", Options{fs: crashEverywhere{fs, &left}}); err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	left = nil
	if err := live.Rebuild(t.Context(), s.log, nil); err != nil {
		t.Fatal(err)
	}
	if len(left) < 5 {
		t.Fatalf("only %d moments to crash at", len(left))
	}
	for i, fs := range left {
		survivor, err := Open("store", Options{fs: fs})
		if err != nil {
			t.Fatalf("crash %d: %v", i, err)
		}
		if digestOf(t, survivor) != want {
			t.Fatalf("crash %d: the store is neither the old one nor the new one", i)
		}
		if names, _ := fs.List("store"); len(names) != 3 {
			t.Fatalf("crash %d: left behind: %v", i, names)
		}
		survivor.Close()
	}
}

// crashEverywhere keeps what a crash would leave after each operation on the
// folder structure.
type crashEverywhere struct {
	*vfs.MemFS
	left *[]*vfs.MemFS
}

func (c crashEverywhere) keep() {
	*c.left = append(*c.left, c.MemFS.CrashClone(vfs.CrashCloneCfg{}))
}

func (c crashEverywhere) Create(name string, cat vfs.DiskWriteCategory) (vfs.File, error) {
	defer c.keep()
	return c.MemFS.Create(name, cat)
}

func (c crashEverywhere) Rename(from, to string) error {
	defer c.keep()
	return c.MemFS.Rename(from, to)
}

func (c crashEverywhere) RemoveAll(name string) error {
	defer c.keep()
	return c.MemFS.RemoveAll(name)
}

func TestRebuildLive(t *testing.T) {
	slow(t)
	live, err := Open(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	if err := live.SetIdentity("this one"); err != nil {
		t.Fatal(err)
	}
	s := newSim(t, 9, live)
	s.run(3000, 100)
	tamper(t, live, layout.IDKey(layout.PrefixParams, s.ids[0]), []byte("changed"))
	last := s.submit(core.Submit{Type: "email", ID: events.ID{0: 0x7f}})
	s.project()
	at := live.Applied()
	lost := events.ID{} // as if the store had been opened without that item
	live.newest.Store(&lost)
	if err := live.Rebuild(context.Background(), s.log, nil); err != nil {
		t.Fatal(err)
	}
	if live.Applied() != at {
		t.Fatalf("the position moved from %d to %d", at, live.Applied())
	}
	same(t, live, replayed(t, s.log, s.log.last()))
	if it, err := live.Item(last); it == nil || err != nil {
		t.Fatalf("an item that the rebuild brought back: %v, %v", it, err)
	}
	if id, err := live.Identity(); id != "this one" || err != nil {
		t.Fatalf("identity %q, %v", id, err)
	}
	s.restate(live)
	s.run(500, 100)
	same(t, live, replayed(t, s.log, s.log.last()))
	if names, err := live.folder.fs.List(live.folder.dir); len(names) != 3 || err != nil {
		t.Fatalf("in the folder: %v, %v", names, err)
	}
}

// Queries and commits go on while a store is rebuilt, verified and compared.
func TestRebuildUnderLoad(t *testing.T) {
	slow(t)
	live := openMem(t)
	s := newSim(t, 9, live)
	s.run(6000, 100)
	fixed := s.log.upTo(uint64(len(s.log.frames)) + 1)
	done := make(chan error, 2)
	go func() { done <- live.Rebuild(context.Background(), fixed, nil) }()
	go func() {
		for i := range 2000 {
			if _, _, err := query.Of(live).Full(s.ids[i%100]); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	if err := errors.Join(<-done, <-done); err != nil {
		t.Fatal(err)
	}
	same(t, live, replayed(t, s.log, s.log.last()))
}

func tamper(t testing.TB, s *Store, key, value []byte) {
	t.Helper()
	err := s.lookup(func(v layout.View) error { return v.R.(*pebble.DB).Set(key, value, pebble.NoSync) })
	if err != nil {
		t.Fatal(err)
	}
}

func writeFile(t testing.TB, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
