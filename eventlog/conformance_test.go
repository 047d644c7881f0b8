package eventlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
)

// subject under test: a stream, and writers on it whose appends can be made to
// fail. Both implementations of Log pass the same suite.
type fixture interface {
	// open makes a writer, whose appends of several events are atomic or not.
	open(t *testing.T, atomic bool, foreign ForeignFunc) Log
	// fault strikes the next append of l, of count events.
	fault(l Log, f Fault, count int)
	// land lets what is late arrive.
	land()
	// inject stores a message that is none of ours.
	inject(t *testing.T, subject, msgID string, data []byte)
	// trim cuts the log.
	trim(t *testing.T, first events.Seq)
}

// hooked lets late messages land behind a Last or a Read.
type hooked struct {
	Log
	afterLast, afterRead func()
}

func (h *hooked) Last(ctx context.Context) (Tip, error) {
	tip, err := h.Log.Last(ctx)
	if h.afterLast != nil {
		h.afterLast()
	}
	return tip, err
}

func (h *hooked) Read(ctx context.Context, from, to events.Seq, fn func(Group) error) error {
	err := h.Log.Read(ctx, from, to, fn)
	if h.afterRead != nil {
		h.afterRead()
	}
	return err
}

func landing(l Log, at Landing, land func()) Log {
	switch at {
	case LandAfterLast:
		return &hooked{Log: l, afterLast: land}
	case LandAfterRead:
		return &hooked{Log: l, afterRead: land}
	}
	return l
}

type memoryFixture struct{ s *MemoryStream }

func newMemoryFixture(*testing.T) fixture { return &memoryFixture{NewMemoryStream(0)} }

func (f *memoryFixture) open(t *testing.T, atomic bool, foreign ForeignFunc) Log {
	m := f.s.Open()
	m.Atomic, m.OnForeign = atomic, foreign
	t.Cleanup(func() { _ = m.Close() })
	return m
}

func (f *memoryFixture) fault(l Log, ft Fault, _ int) {
	// The rival is another writer, who appends by the rules: see rivals for why
	// it comes with no expectations here.
	l.(*Memory).Script(ft)
}

func (f *memoryFixture) land() { f.s.Land() }

func (f *memoryFixture) inject(_ *testing.T, subject, msgID string, data []byte) {
	f.s.Inject(subject, msgID, data)
}

func (f *memoryFixture) trim(_ *testing.T, first events.Seq) { f.s.Trim(first) }

type serverFixture struct {
	s       *server.Server
	nc      *nats.Conn
	proxies map[Log]*proxy
	memory  bool
	bulk    bool // everything is read in bulk
}

func newBulkFixture(t *testing.T) fixture {
	f := newServerFixture(false)(t).(*serverFixture)
	f.bulk = true
	return f
}

func newServerFixture(memory bool) func(*testing.T) fixture {
	return func(t *testing.T) fixture {
		s := startServer(t, t.TempDir(), nil)
		nc, err := inProcess(s)()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return &serverFixture{s: s, nc: nc, proxies: map[Log]*proxy{}, memory: memory}
	}
}

func (f *serverFixture) open(t *testing.T, atomic bool, foreign ForeignFunc) Log {
	p := newProxy(t, f.s, f.drain)
	l := openLog(t, Config{Connect: dialURL(p.url()), OnForeign: foreign, Memory: f.memory})
	l.path = func(n int) bool { return atomic && n > 1 }
	if f.bulk {
		l.bulkLeast = 0
	}
	f.proxies[l] = p
	return l
}

// drain waits until the stream has dealt with everything before: its messages
// go through one queue.
func (f *serverFixture) drain() {
	m := nats.NewMsg("work.event.0._.owned")
	m.Header.Set(nats.ExpectedLastSeqHdr, "18446744073709551615")
	if _, err := f.nc.RequestMsg(m, testTimeout); err != nil {
		panic(err)
	}
}

func (f *serverFixture) fault(l Log, ft Fault, count int) {
	f.proxies[l].arm(ft, count, func() {
		for _, p := range rivals(0, ft.Rival) {
			f.publish(p)
		}
	})
}

func (f *serverFixture) publish(p publish) {
	m := nats.NewMsg(p.subject)
	m.Data = p.data
	if p.id != "" {
		m.Header.Set(nats.MsgIdHdr, p.id)
	}
	if _, err := f.nc.RequestMsg(m, testTimeout); err != nil {
		panic(err)
	}
}

func (f *serverFixture) land() {
	for _, p := range f.proxies {
		p.land()
	}
}

func (f *serverFixture) inject(_ *testing.T, subject, msgID string, data []byte) {
	f.publish(publish{message: message{subject: subject, id: msgID, data: data}})
}

func (f *serverFixture) trim(t *testing.T, first events.Seq) {
	resp, err := f.nc.Request("$JS.API.STREAM.PURGE.WORK_EVENTS_0", fmt.Appendf(nil, `{"seq":%d}`, first), testTimeout)
	if err != nil || !strings.Contains(string(resp.Data), `"success":true`) {
		t.Fatal(err, string(resp.Data))
	}
}

// each runs a test against every implementation.
func each(t *testing.T, run func(t *testing.T, f fixture)) {
	for name, make := range map[string]func(*testing.T) fixture{
		"memory": newMemoryFixture, "replicas": newReplicasFixture, "server": newServerFixture(false), "server_memory": newServerFixture(true),
		"server_bulk": newBulkFixture,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, make(t))
		})
	}
}

// paths are the ways an append can take, with an append for each: its events,
// and for each number of its events stored, how many are decided.
var paths = []struct {
	name   string
	atomic bool
	evs    []events.Event
	whole  []int
}{
	{"single", false, decision(1, "a"), []int{0, 1}},
	{"pipelined", false, slices.Concat(decision(2, "a"), decision(1, "b"), decision(3, "c")), []int{0, 0, 2, 3, 3, 3, 6}},
	{"atomic", true, slices.Concat(decision(2, "a"), decision(1, "b"), decision(3, "c")), []int{0, 0, 2, 3, 3, 3, 6}},
}

func marksOf(evs []events.Event) (out []string) {
	for _, ev := range evs {
		out = append(out, markOf(ev))
	}
	return out
}

func mustAppend(t *testing.T, l Log, after events.Seq, evs []events.Event) events.Seq {
	t.Helper()
	done, err := l.Append(testContext(t), after, evs)
	if err != nil {
		t.Fatal(err)
	}
	if want := after + events.Seq(len(evs)); done.Last != want {
		t.Fatalf("appended through %d, want %d", done.Last, want)
	}
	if sum, err := l.Checksum(testContext(t), done.Last); err != nil || sum != done.Checksum {
		t.Fatalf("checksum %x, %v; the append said %x", sum, err, done.Checksum)
	}
	return done.Last
}

func TestAppendAndRead(t *testing.T) {
	for _, path := range paths {
		t.Run(path.name, func(t *testing.T) {
			each(t, func(t *testing.T, f fixture) {
				l := f.open(t, path.atomic, nil)
				if tip, err := l.Last(testContext(t)); err != nil || tip.Seq != 0 || tip.First != 1 || time.Since(tip.Time).Abs() > time.Hour || tip.Created.IsZero() {
					t.Fatalf("the empty log: %+v, %v", tip, err)
				}
				var want []string
				var after events.Seq
				for range 3 {
					after = mustAppend(t, l, after, path.evs)
					want = append(want, marksOf(path.evs)...)
				}
				got := readAll(t, f.open(t, path.atomic, nil))
				if !slices.Equal(got.marks, want) || got.skipped != 0 || got.through != after {
					t.Fatalf("read %+v, want %v", got, want)
				}
				if tip, err := l.Last(testContext(t)); err != nil || tip.Seq != after || tip.Bytes == 0 {
					t.Fatalf("the log: %+v, %v", tip, err)
				}
			})
		})
	}
}

// TestRivalAtEveryPoint lets a rival in between every two messages of an
// append: it is fenced, and the log has neither hole nor fork.
func TestRivalAtEveryPoint(t *testing.T) {
	for _, path := range paths {
		for n := range len(path.evs) {
			t.Run(fmt.Sprintf("%s/%d", path.name, n), func(t *testing.T) {
				each(t, func(t *testing.T, f fixture) {
					l := f.open(t, path.atomic, nil)
					after := mustAppend(t, l, 0, singles(2, "seed"))
					f.fault(l, Fault{Kind: FaultConflict, N: n, Rival: singles(1, "rival")}, len(path.evs))
					_, err := l.Append(testContext(t), after, path.evs)
					var fenced *FencedError
					if !errors.As(err, &fenced) || !errors.Is(err, ErrFenced) || errors.Is(err, ErrAmbiguous) || fenced.Expected != after {
						t.Fatalf("append: %v, want ErrFenced", err)
					}
					stored := n
					if path.atomic {
						stored = 0
					}
					want := slices.Concat([]string{"seed", "seed"}, marksOf(path.evs[:path.whole[stored]]), []string{"rival"})
					got := readAll(t, l)
					if !slices.Equal(got.marks, want) || got.skipped != stored-path.whole[stored] {
						t.Fatalf("read %+v, want %v", got, want)
					}
					// A fenced writer is not broken: it may settle and go on.
					settleAndCheck(t, f, l, want)
				})
			})
		}
	}
}

// TestFaults strikes appends with every fault, at every message, and recovers.
func TestFaults(t *testing.T) {
	for _, path := range paths {
		for _, ft := range everyFault(len(path.evs)) {
			t.Run(fmt.Sprintf("%s/%d_%d_%d", path.name, ft.Kind, ft.N, ft.Land), func(t *testing.T) {
				each(t, func(t *testing.T, f fixture) {
					testFault(t, f, path.atomic, path.evs, path.whole, ft)
				})
			})
		}
	}
}

func everyFault(n int) []Fault {
	fs := []Fault{{Kind: FaultLost}, {Kind: FaultAckLost}}
	for i := range n {
		fs = append(fs, Fault{Kind: FaultPrefix, N: i})
		for _, at := range []Landing{LandOnDemand, LandAfterLast, LandAfterRead} {
			fs = append(fs, Fault{Kind: FaultLate, N: i, Land: at})
		}
	}
	return fs
}

func testFault(t *testing.T, f fixture, atomic bool, evs []events.Event, whole []int, ft Fault) {
	raw := f.open(t, atomic, nil)
	l := raw
	if _, ok := f.(*memoryFixture); !ok && ft.Kind == FaultLate {
		l = landing(raw, ft.Land, f.land)
	}
	after := mustAppend(t, l, 0, singles(2, "seed"))
	f.fault(raw, ft, len(evs))
	_, err := l.Append(testContext(t), after, evs)
	if !errors.Is(err, ErrAmbiguous) || errors.Is(err, ErrFenced) {
		t.Fatalf("append: %v, want ErrAmbiguous", err)
	}
	if _, err := l.Append(testContext(t), after, evs); !errors.Is(err, ErrAmbiguous) {
		t.Fatalf("append before reset: %v, want ErrAmbiguous", err)
	}
	stored := ft.N
	switch {
	case ft.Kind == FaultLost, ft.Kind == FaultPrefix && atomic:
		stored = 0
	case ft.Kind == FaultAckLost:
		stored = len(evs)
	case ft.Kind == FaultLate && ft.Land != LandOnDemand:
		stored = len(evs) // all have landed before the barrier
	case ft.Kind == FaultLate && atomic:
		stored = 0
	}
	want := slices.Concat([]string{"seed", "seed"}, marksOf(evs[:whole[stored]]))
	settleAndCheck(t, f, l, want)
}

// settleAndCheck settles, and checks that what was applied is want and what a
// fresh reader sees, that nothing lands any more, and that appends go on.
func settleAndCheck(t *testing.T, f fixture, l Log, want []string) {
	t.Helper()
	ctx := testContext(t)
	var got []string
	last, err := Settle(ctx, l, 0, ownedBarrier("me"), func(g Group) error {
		got = append(got, marksOf(g.Events)...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := append(slices.Clone(want), "owned:me"); !slices.Equal(got, want) {
		t.Fatalf("settled on %v, want %v", got, want)
	}
	f.land()
	if tip, err := l.Last(ctx); err != nil || tip.Seq != last {
		t.Fatalf("something has landed behind the barrier at %d: %+v, %v", last, tip, err)
	}
	mustAppend(t, l, last, decision(3, "next"))
	want = append(got, "next", "next", "next")
	if c := readAll(t, f.open(t, false, nil)); !slices.Equal(c.marks, want) {
		t.Fatalf("a fresh reader sees %v, want %v", c.marks, want)
	}
}

func TestForeignMessages(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		var told []string
		foreign := func(seq events.Seq, subject, reason string) {
			told = append(told, fmt.Sprintf("%d %s %s", seq, subject, reason))
		}
		l := f.open(t, false, foreign)
		after := mustAppend(t, l, 0, decision(2, "a"))
		id := string(appendID(nil, newWriter(), 1, 1))
		good, err := decision(1, "intruder")[0].AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		f.inject(t, "work.event.0.email.queued", "", good)               // 3: no append id
		f.inject(t, "work.event.0.email.queued", "somebody's-id", good)  // 4: one of another form
		f.inject(t, "work.event.0.email.queued", id, good)               // 5: the subject of another event
		f.inject(t, "work.event.0.email.queued", "", []byte("no event")) // 6: nothing at all
		done, err := l.Append(testContext(t), after, decision(1, "b"))
		if err != nil || done.Last != 7 {
			t.Fatalf("append behind foreign messages: %+v, %v", done, err)
		}
		f.inject(t, "work.event.0.email.queued", "", nil) // 8: at the end
		c := readAll(t, l)
		if !slices.Equal(c.marks, []string{"a", "a", "b"}) || c.skipped != 5 || c.through != 8 {
			t.Fatalf("read %+v", c)
		}
		if len(told) != 5 || !strings.HasPrefix(told[0], "3 work.event.0.email.queued ") || !strings.Contains(told[2], "subject") {
			t.Fatalf("told of %q", told)
		}
	})
}

func TestCorruption(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		l := f.open(t, false, nil)
		mustAppend(t, l, 0, decision(2, "a"))
		f.inject(t, "work.event.0.email.queued", string(appendID(nil, newWriter(), 1, 1)), []byte(`{"v":1,"kind":"queued"`))
		n := 0
		err := l.Read(testContext(t), 1, 3, func(g Group) error { n += len(g.Events); return nil })
		var corrupt *CorruptError
		if !errors.Is(err, events.ErrCorrupt) || !errors.As(err, &corrupt) || corrupt.Seq != 3 || n != 2 {
			t.Fatalf("read %d events: %v, want ErrCorrupt at 3", n, err)
		}
		_, err = Settle(testContext(t), l, 0, ownedBarrier("me"), func(Group) error { return nil })
		if !errors.Is(err, events.ErrCorrupt) {
			t.Fatalf("settle: %v, want ErrCorrupt", err)
		}
	})
}

func TestCutGroupAtTheEnd(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		l := f.open(t, false, nil)
		after := mustAppend(t, l, 0, decision(1, "a"))
		f.fault(l, Fault{Kind: FaultPrefix, N: 2}, 3)
		if _, err := l.Append(testContext(t), after, decision(3, "cut")); !errors.Is(err, ErrAmbiguous) {
			t.Fatal(err)
		}
		// Still undecided: not handed over, not counted.
		if c := readAll(t, l); !slices.Equal(c.marks, []string{"a"}) || c.skipped != 0 || c.through != 1 {
			t.Fatalf("read %+v", c)
		}
		settleAndCheck(t, f, l, []string{"a"})
		if c := readAll(t, l); c.skipped != 2 {
			t.Fatalf("read %+v", c)
		}
	})
}

func TestTrimmedAndBehind(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		ctx := testContext(t)
		l := f.open(t, false, nil)
		last := mustAppend(t, l, 0, singles(10, "a"))
		f.trim(t, 5)
		none := func(Group) error { return nil }
		var trimmed *TrimmedError
		if err := l.Read(ctx, 4, last, none); !errors.As(err, &trimmed) || trimmed.First != 5 || !errors.Is(err, ErrTrimmed) {
			t.Fatalf("read: %v, want ErrTrimmed", err)
		}
		if _, err := l.Checksum(ctx, 4); !errors.Is(err, ErrTrimmed) {
			t.Fatalf("checksum: %v, want ErrTrimmed", err)
		}
		if c := readAll(t, l); len(c.marks) != 6 {
			t.Fatalf("read %+v", c)
		}
		if err := l.Read(ctx, 5, last+1, none); !errors.Is(err, ErrBehind) {
			t.Fatalf("read: %v, want ErrBehind", err)
		}
		if _, err := l.Checksum(ctx, last+1); !errors.Is(err, ErrBehind) {
			t.Fatalf("checksum: %v, want ErrBehind", err)
		}
		if _, err := Settle(ctx, l, last+1, ownedBarrier("me"), none); !errors.Is(err, ErrBehind) {
			t.Fatalf("settle: %v, want ErrBehind", err)
		}
		f.trim(t, last+1)
		if tip, err := l.Last(ctx); err != nil || tip.Seq != last || tip.First != last+1 {
			t.Fatalf("last of an emptied log: %+v, %v", tip, err)
		}
		mustAppend(t, l, last, decision(2, "b"))
	})
}

func TestReadStopsWithTheCallersError(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		l := f.open(t, false, nil)
		var last events.Seq
		for range 5 {
			last = mustAppend(t, l, last, singles(MaxAppend, "a"))
		}
		stop := errors.New("stop")
		if err := l.Read(testContext(t), 1, last, func(Group) error { return stop }); err != stop {
			t.Fatal(err)
		}
		if _, err := Settle(testContext(t), l, 0, ownedBarrier("me"), func(Group) error { return stop }); err != stop {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(testContext(t))
		if err := l.Read(ctx, 1, last, func(Group) error { cancel(); return nil }); err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	})
}

func TestAppendBounds(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		l := f.open(t, false, nil)
		for _, n := range []int{0, MaxAppend + 1} {
			if _, err := l.Append(testContext(t), 0, singles(n, "a")); err == nil || errors.Is(err, ErrAmbiguous) {
				t.Fatalf("append of %d events: %v", n, err)
			}
		}
		ctx, cancel := context.WithCancel(testContext(t))
		cancel()
		if _, err := l.Append(ctx, 0, singles(1, "a")); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		mustAppend(t, l, 0, singles(MaxAppend, "a"))
		_ = l.Close()
		_ = l.Close()
		if _, err := l.Append(testContext(t), MaxAppend, singles(1, "a")); !errors.Is(err, ErrClosed) {
			t.Fatal(err)
		}
		if err := l.Reset(testContext(t)); !errors.Is(err, ErrClosed) {
			t.Fatal(err)
		}
		if _, err := l.Last(testContext(t)); !errors.Is(err, ErrClosed) {
			t.Fatal(err)
		}
	})
}
