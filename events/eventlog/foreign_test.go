package eventlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
)

// Foreign messages come when so many events of an append are stored: it goes on
// behind them, each decision is there once, and it says where.
func TestInterrupted(t *testing.T) {
	evs := slices.Concat(decision(2, "a"), singles(1, "b"), decision(3, "c"), singles(1, "d"))
	for n := range evs {
		for _, atomic := range []bool{false, true} {
			t.Run(fmt.Sprint(n, atomic), func(t *testing.T) {
				ctx := testContext(t)
				l := NewMemoryStream(0).Open()
				l.Atomic = atomic
				last := settleMemory(t, l)
				l.Script(Fault{Kind: FaultForeign, N: n, Foreign: 2})
				done, err := l.Append(ctx, last, evs)
				if err != nil {
					t.Fatal(err)
				}
				checkPlaces(t, l, last, done, evs)
			})
		}
	}
}

// checkPlaces reads what an append has stored.
func checkPlaces(t *testing.T, l Log, after events.Seq, done Appended, evs []events.Event) {
	t.Helper()
	var got []events.Event
	err := l.Read(testContext(t), after+1, done.Last, func(g Group) error { got = append(got, g.Events...); return nil })
	if err != nil || len(got) != len(evs) || len(done.Places) == 0 {
		t.Fatalf("read %d events of %d, %v: %+v", len(got), len(evs), err, done)
	}
	for i, ev := range got {
		if at := done.PlaceOf(after, i); ev.Seq != at || markOf(ev) != markOf(evs[i]) {
			t.Fatalf("event %d is at %d, it was said to be at %d: %+v", i, ev.Seq, at, done.Places)
		}
	}
	if sum, err := l.Checksum(testContext(t), done.Last); err != nil || sum != done.Checksum {
		t.Fatalf("checksum of %d: %x, want %x, %v", done.Last, done.Checksum, sum, err)
	}
}

func settleMemory(t *testing.T, l Log) events.Seq {
	t.Helper()
	last, err := Settle(testContext(t), l, 0, ownedBarrier("me"), func(Group) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return last
}

// An event of another engine between foreign messages fences, whole or a part of
// its decision.
func TestForeignMessagesHideNoRival(t *testing.T) {
	for _, rival := range [][]events.Event{{ownedBarrier("rival")(0)}, decision(3, "rival")[:1]} {
		for n := range 3 {
			stream := NewMemoryStream(0)
			l := stream.Open()
			last := settleMemory(t, l)
			l.Script(Fault{Kind: FaultConflict, N: n, Rival: rival})
			stream.Inject(ForeignSubject(0), "", nil)
			_, err := l.Append(testContext(t), last, decision(3, "a"))
			if n == 0 { // the foreign one came first, and nothing of ours fits
				l.Script()
			}
			if !errors.Is(err, ErrFenced) {
				t.Fatalf("%d: %v", n, err)
			}
			stream.Inject(ForeignSubject(0), "", nil)
			if alone, err := l.Foreign(testContext(t), last, stream.last()); alone || err != nil {
				t.Fatal(alone, err)
			}
		}
	}
}

// flood publishes foreign messages until the test ends, with and without waiting
// for the server.
func flood(t *testing.T, nc *nats.Conn) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			_, _ = nc.Request("work.event.0.x.y", []byte(`{"stream":"S","seq":1}`), testTimeout)
		}
	})
	return func() { cancel(); wg.Wait() }
}

// A real server stores foreign messages all the time: by every path, each
// decision is there once, and nothing else ends an append.
func TestAppendThroughAFlood(t *testing.T) {
	for _, path := range []struct {
		name   string
		atomic func(int) bool
		sync   bool
	}{{"chain", func(int) bool { return false }, false}, {"batch", func(n int) bool { return n > 1 }, false}, {"sync", nil, true}} {
		t.Run(path.name, func(t *testing.T) {
			s := startServer(t, t.TempDir(), func(o *server.Options) { o.SyncAlways = path.sync })
			l := openLog(t, Config{Connect: inProcess(s), SyncAlways: path.sync, OnForeign: func(events.Seq, string, string) {}})
			if path.atomic != nil {
				l.path = path.atomic
			}
			throughFlood(t, l, inProcess(s), 20)
		})
	}
}

func throughFlood(t *testing.T, l *JetStream, dial func() (*nats.Conn, error), rounds int) {
	t.Helper()
	nc, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	ctx := testContext(t)
	defer flood(t, nc)()
	last, err := Settle(ctx, l, 0, ownedBarrier("me"), func(Group) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	want, hits := []string{"owned:me"}, 0
	for i := range rounds {
		evs := slices.Concat(decision(1+i%5, fmt.Sprint(i, "a")), singles(1+40*(i%3), fmt.Sprint(i, "b")))
		want = append(want, marksOf(evs)...)
		done, err := l.Append(ctx, last, evs)
		if err != nil {
			t.Fatal(err)
		}
		if len(done.Places) > 0 {
			hits++
			checkPlaces(t, l, last, done, evs)
		}
		last = done.Last
	}
	if got := readAll(t, l).marks; !slices.Equal(got, want) {
		t.Fatalf("read %d marks, want %d", len(got), len(want))
	}
	if t.Logf("%d appends, interrupted %d times", rounds, hits); hits == 0 {
		t.Fatal("nothing was interrupted")
	}
}

// More foreign messages than are looked at one by one, one of which is none.
func TestManyForeignMessages(t *testing.T) {
	s := startServer(t, t.TempDir(), nil)
	l := openLog(t, Config{Connect: inProcess(s), OnForeign: func(events.Seq, string, string) {}})
	last := settle(t, l)
	nc, err := inProcess(s)()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	strangers := func(n int) {
		for range n {
			if _, err := nc.Request("work.event.0.x.y", nil, testTimeout); err != nil {
				t.Fatal(err)
			}
		}
	}
	strangers(3 * foreignGets)
	done, err := l.Append(testContext(t), last, singles(2, "a"))
	if err != nil {
		t.Fatal(err)
	}
	checkPlaces(t, l, last, done, singles(2, "a"))
	strangers(1)
	rival := openLog(t, Config{Connect: inProcess(s)})
	settle(t, rival)
	strangers(3 * foreignGets)
	if _, err = l.Append(testContext(t), done.Last, singles(2, "a")); !errors.Is(err, ErrFenced) {
		t.Fatalf("%v", err)
	}
}

// Who goes on behind foreign messages, whatever they are, is fenced by another
// owner all the same: by its owned event alone, which may lie among them.
func TestFencedAmongForeignMessages(t *testing.T) {
	for _, n := range []int{1, 3} {
		s := startServer(t, t.TempDir(), nil)
		a := openLog(t, Config{Connect: inProcess(s), OnForeign: func(events.Seq, string, string) {}})
		b := openLog(t, Config{Connect: inProcess(s), OnForeign: func(events.Seq, string, string) {}})
		nc, err := inProcess(s)()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		stranger := func(subject string) {
			if _, err := nc.Request(subject, nil, testTimeout); err != nil {
				t.Fatal(err)
			}
		}
		last := settle(t, a)
		stranger("work.event.0.x.y")
		last = mustGoOn(t, a, last, decision(n, "a"))
		stranger("work.event.0.x.y")
		last = mustGoOn(t, a, last, decision(n, "a"))
		if a.fence != 1 || a.strangers == 0 {
			t.Fatalf("it is not fenced by its owned event: %d %d", a.fence, a.strangers)
		}
		stranger("work.event.0._.owned") // the fence itself
		last = mustGoOn(t, a, last, decision(n, "a"))
		settle(t, a)
		for range 2 {
			stranger("work.event.0.x.y")
			tip, _ := a.Last(testContext(t))
			last = mustGoOn(t, a, tip.Seq-1, decision(n, "a"))
		}
		settle(t, b)
		stranger("work.event.0.x.y")
		if _, err := a.Append(testContext(t), last, decision(n, "lost")); !errors.Is(err, ErrFenced) {
			t.Fatalf("append behind another owner: %v", err)
		}
		if c := readAll(t, b); slices.Contains(c.marks, "lost") || c.skipped != 6 {
			t.Fatalf("%+v", c)
		}
	}
}

func mustGoOn(t *testing.T, l Log, after events.Seq, evs []events.Event) events.Seq {
	t.Helper()
	done, err := l.Append(testContext(t), after, evs)
	if err != nil {
		t.Fatal(err)
	}
	checkPlaces(t, l, after, done, evs)
	return done.Last
}
