package eventlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// send publishes one message with the expectations of p, and returns the
// server's refusal.
func send(t *testing.T, nc *nats.Conn, p publish) *apiError {
	t.Helper()
	m := nats.NewMsg(p.subject)
	m.Data = p.data
	m.Header.Set(nats.MsgIdHdr, p.id)
	if p.expectSeq != nil {
		m.Header.Set(nats.ExpectedLastSeqHdr, strconv.FormatUint(uint64(*p.expectSeq), 10))
	}
	if p.expectID != "" {
		m.Header.Set(nats.ExpectedLastMsgIdHdr, p.expectID)
	}
	resp, err := nc.RequestMsg(m, testTimeout)
	if err != nil {
		t.Fatal(err)
	}
	a, err := parseAck(resp)
	if err != nil {
		t.Fatal(err)
	}
	return a.Error
}

// chainOf are the messages of an append behind a position.
func chainOf(t *testing.T, after events.Seq, mark string, n int) []publish {
	t.Helper()
	m := NewMemoryStream(0).Open()
	if err := m.enc.encode(decision(n, mark), 1<<20); err != nil {
		t.Fatal(err)
	}
	return m.publishes(after, n)
}

// TestPositionsAloneMakeAHole is the experiment behind the append's form: of
// a chain in which each message states only the position that it expects, the
// second fits behind a rival's event that took the place of the first. With
// lineage it does not.
func TestPositionsAloneMakeAHole(t *testing.T) {
	f := newServerFixture(false)(t).(*serverFixture)
	l := f.open(t, false, nil)
	after := mustAppend(t, l, 0, singles(1, "seed"))

	byPosition := chainOf(t, after, "ours", 2)
	second := after + 1
	byPosition[1].expectSeq, byPosition[1].expectID = &second, ""
	mustAppend(t, f.open(t, false, nil), after, singles(1, "rival"))
	if err := send(t, f.nc, byPosition[0]); err == nil || err.Code != codeWrongLastSeq {
		t.Fatalf("our first: %v, want it refused", err)
	}
	if err := send(t, f.nc, byPosition[1]); err != nil {
		t.Fatalf("our second: %v; the experiment wants it stored", err)
	}
	if err := l.Read(testContext(t), 1, 3, func(Group) error { return nil }); !errors.Is(err, events.ErrCorrupt) {
		t.Fatalf("a log with a hole reads as %v", err)
	}

	after = 3
	byLineage := chainOf(t, after, "ours", 2)
	mustAppend(t, f.open(t, false, nil), after, singles(1, "rival"))
	if err := send(t, f.nc, byLineage[0]); err == nil || err.Code != codeWrongLastSeq || err.found() != 4 {
		t.Fatalf("our first: %v, want it refused", err)
	}
	if err := send(t, f.nc, byLineage[1]); err == nil || err.Code != codeWrongLastMsgID {
		t.Fatalf("our second: %v, want it refused", err)
	}
}

// TestInterleavings sends the messages of two appends in every order that
// keeps each one's own: one of them is stored whole and the other not at all,
// or the first to begin is cut off by nothing of the other.
func TestInterleavings(t *testing.T) {
	const n = 3
	var orders []string
	var grow func(s string, a, b int)
	grow = func(s string, a, b int) {
		if a+b == 0 {
			orders = append(orders, s)
		}
		if a > 0 {
			grow(s+"a", a-1, b)
		}
		if b > 0 {
			grow(s+"b", a, b-1)
		}
	}
	grow("", n, n)

	f := newServerFixture(false)(t).(*serverFixture)
	l := f.open(t, false, nil)
	mem := NewMemoryStream(0)
	var after events.Seq
	for _, order := range orders {
		chains := map[rune][]publish{'a': chainOf(t, after, "a", n), 'b': chainOf(t, after, "b", n)}
		refused := map[rune]int{}
		for _, w := range order {
			p := chains[w][0]
			chains[w] = chains[w][1:]
			err := send(t, f.nc, p)
			mem.mu.Lock()
			_, merr := mem.store(p)
			mem.mu.Unlock()
			if (err == nil) != (merr == nil) || err != nil && err.Code != merr.Code {
				t.Fatalf("%s: the server says %v, the twin %v", order, err, merr)
			}
			if err != nil {
				refused[w]++
			}
		}
		winner, loser := rune(order[0]), 'a'+'b'-rune(order[0])
		if refused[winner] != 0 || refused[loser] != n {
			t.Fatalf("%s: refused %v", order, refused)
		}
		after += n
		if c := readAll(t, l); c.through != after || c.skipped != 0 || c.marks[len(c.marks)-1] != string(winner) {
			t.Fatalf("%s: read %+v", order, c)
		}
	}
}

// TestTwoWriters lets two writers append and settle against each other.
func TestTwoWriters(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		if _, model := f.(*replicasFixture); model {
			t.Skip("the model of a replicated stream is for one goroutine")
		}
		type result struct {
			marks []string
			err   error
		}
		results := make(chan result, 2)
		for _, name := range []string{"a", "b"} {
			l := f.open(t, false, nil)
			go func() {
				marks, err := compete(testContext(t), l, name)
				results <- result{marks, err}
			}()
		}
		var own []string
		for range 2 {
			r := <-results
			if r.err != nil {
				t.Fatal(r.err)
			}
			own = append(own, r.marks...)
		}
		var logged []string
		for _, m := range readAll(t, f.open(t, false, nil)).marks {
			if !strings.HasPrefix(m, "owned:") {
				logged = append(logged, m)
			}
		}
		slices.Sort(own)
		slices.Sort(logged)
		if !slices.Equal(own, logged) {
			t.Fatalf("acknowledged %v, in the log %v", own, logged)
		}
	})
}

// compete appends 20 decisions against a rival, and returns the marks of those
// that it was told are stored.
func compete(ctx context.Context, l Log, name string) (marks []string, err error) {
	var through events.Seq
	settle := func() error {
		_, err := Settle(ctx, l, through, ownedBarrier(name), func(g Group) error { through = g.Through; return nil })
		return err
	}
	if err := settle(); err != nil {
		return nil, err
	}
	for i := 0; i < 20; {
		evs := decision(1+i%4, fmt.Sprintf("%s%d", name, i))
		done, err := l.Append(ctx, through, evs)
		switch {
		case err == nil:
			through = done.Last
			marks = append(marks, marksOf(evs)...)
			i++
		case errors.Is(err, ErrFenced):
			if err := settle(); err != nil {
				return nil, err
			}
		default:
			return nil, err
		}
	}
	return marks, nil
}

// TestFull fills a stream's limit: by one event, by a chain of which a part
// fits, and by a batch.
func TestFull(t *testing.T) {
	const limit = 40_000
	for _, path := range paths[1:] {
		t.Run(path.name, func(t *testing.T) {
			s := startServer(t, t.TempDir(), nil)
			l := openLog(t, Config{Connect: inProcess(s), MaxBytes: limit})
			l.path = func(n int) bool { return path.atomic && n > 1 }
			ctx := testContext(t)
			var last events.Seq
			for {
				done, err := l.Append(ctx, last, decision(20, "a"))
				if err == nil {
					last = done.Last
					continue
				}
				if !errors.Is(err, ErrFull) || errors.Is(err, ErrFenced) || errors.Is(err, ErrAmbiguous) == path.atomic {
					t.Fatalf("append: %v, want ErrFull", err)
				}
				break
			}
			// A prefix was stored of a chain; settling needs room for a barrier.
			_, err := Settle(ctx, l, last, ownedBarrier("me"), func(Group) error { return nil })
			for n := 0; err == nil; n++ {
				tip, lerr := l.Last(ctx)
				if lerr != nil || n > limit {
					t.Fatal(lerr, n)
				}
				_, err = l.Append(ctx, tip.Seq, singles(1, "b"))
			}
			if !errors.Is(err, ErrFull) || errors.Is(err, ErrAmbiguous) {
				t.Fatalf("append: %v, want ErrFull with nothing stored", err)
			}
			for _, m := range readAll(t, l).marks {
				if m != "a" && m != "b" && m != "owned:me" {
					t.Fatal(m)
				}
			}
			// Room again: the same log goes on, with a higher limit.
			l2 := openLog(t, Config{Connect: inProcess(s), MaxBytes: 2 * limit})
			tip, err := l2.Last(ctx)
			if err != nil {
				t.Fatal(err)
			}
			mustAppend(t, l2, tip.Seq, decision(20, "c"))
		})
	}
}

func TestTooLarge(t *testing.T) {
	s := startServer(t, t.TempDir(), func(o *server.Options) { o.MaxPayload = 64 << 10 })
	l := openLog(t, Config{Connect: inProcess(s)})
	evs := decision(2, strings.Repeat("x", 64<<10))
	if _, err := l.Append(testContext(t), 0, evs); !errors.Is(err, ErrTooLarge) {
		t.Fatal(err)
	}
	mustAppend(t, l, 0, decision(2, "a"))
}

// TestLargeAppend is larger than what is sent without waiting.
func TestLargeAppend(t *testing.T) {
	for _, atomic := range []bool{false, true} {
		t.Run(fmt.Sprint(atomic), func(t *testing.T) {
			s := startServer(t, t.TempDir(), nil)
			l := openLog(t, Config{Connect: inProcess(s)})
			l.path = func(n int) bool { return atomic && n > 1 }
			evs := decision(40, strings.Repeat("x", windowBytes/16))
			last := mustAppend(t, l, 0, evs)
			if c := readAll(t, l); len(c.marks) != 40 || c.through != last {
				t.Fatal(len(c.marks), c.through)
			}
		})
	}
}

// TestServerRestart: what was acknowledged is there, a chain fits behind what
// an earlier server stored, and a connection that broke is ambiguous.
func TestServerRestart(t *testing.T) {
	dir := t.TempDir()
	s := startServer(t, dir, nil)
	for _, atomic := range []bool{false, true} {
		current := s
		connect := func() (*nats.Conn, error) { return inProcess(current)() }
		l := openLog(t, Config{Connect: connect})
		l.path = func(n int) bool { return atomic && n > 1 }
		tip, err := l.Last(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		created := tip.Created
		last := mustAppend(t, l, tip.Seq, decision(3, "before"))
		stopServer(s)
		if _, err := l.Append(testContext(t), last, decision(2, "lost")); !errors.Is(err, ErrAmbiguous) {
			t.Fatalf("append to a stopped server: %v", err)
		}
		if _, err := l.Last(testContext(t)); !errors.Is(err, ErrUnreachable) {
			t.Fatalf("last of a stopped server: %v", err)
		}
		s = startServer(t, dir, nil)
		current = s
		got := last
		last, err = Settle(testContext(t), l, last, ownedBarrier("me"), func(g Group) error { got = g.Through; return nil })
		if err != nil || got != last {
			t.Fatal(got, last, err)
		}
		mustAppend(t, l, last, decision(3, "after"))
		if tip, err = l.Last(testContext(t)); err != nil || !tip.Created.Equal(created) {
			t.Fatalf("created %v, now %v, %v", created, tip.Created, err)
		}
		if c := readAll(t, l); slices.Contains(c.marks, "lost") {
			t.Fatal(c)
		}
		_ = l.Close()
	}
}

// TestSettleWaitsForTheServer settles while the server is away.
func TestSettleWaitsForTheServer(t *testing.T) {
	dir := t.TempDir()
	s := startServer(t, dir, nil)
	tried := make(chan struct{}, 1000)
	servers := make(chan *server.Server, 1)
	current := s
	l := openLog(t, Config{Connect: func() (*nats.Conn, error) {
		tried <- struct{}{}
		select {
		case current = <-servers:
		default:
		}
		return inProcess(current)()
	}})
	mustAppend(t, l, 0, decision(2, "a"))
	stopServer(s)
	settled := make(chan error, 1)
	for len(tried) > 0 {
		<-tried
	}
	go func() {
		_, err := Settle(testContext(t), l, 0, ownedBarrier("me"), func(Group) error { return nil })
		settled <- err
	}()
	<-tried
	<-tried // one attempt has failed
	servers <- startServer(t, dir, nil)
	if err := <-settled; err != nil {
		t.Fatal(err)
	}

	stopServer(current)
	ctx, cancel := context.WithCancel(testContext(t))
	cancel()
	if _, err := Settle(ctx, l, 0, ownedBarrier("me"), func(Group) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestCloseEndsARunningAppend(t *testing.T) {
	f := newServerFixture(false)(t).(*serverFixture)
	l := f.open(t, false, nil)
	f.fault(l, Fault{Kind: FaultConflict, N: 1, Rival: nil}, 2)
	p := f.proxies[l]
	p.armed.rival = func() { _ = l.Close() }
	if _, err := l.Append(testContext(t), 0, decision(2, "a")); !errors.Is(err, ErrAmbiguous) {
		t.Fatal(err)
	}
}

func TestOpenChecksTheStream(t *testing.T) {
	s := startServer(t, t.TempDir(), nil)
	nc, err := inProcess(s)()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx := testContext(t)
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: "BAD_EVENTS_0", Subjects: []string{"bad.event.0.>"}, MaxMsgs: 5, Discard: jetstream.DiscardOld})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Open(ctx, Config{Connect: inProcess(s), Names: wire.WithPrefix("bad")})
	for _, want := range []string{"BAD_EVENTS_0", "subjects", "max_msgs", "discard"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("open: %v, it should name %s", err, want)
		}
	}
	if _, err := Open(ctx, Config{Partition: -1, Replicas: 7}); err == nil || !strings.Contains(err.Error(), "Connect") || !strings.Contains(err.Error(), "Replicas") {
		t.Errorf("open: %v", err)
	}
	openLog(t, Config{Connect: inProcess(s)})
	if _, err := Open(ctx, Config{Connect: inProcess(s), Memory: true}); err == nil || !strings.Contains(err.Error(), "storage") {
		t.Errorf("open in memory: %v", err)
	}
	st, err := js.Stream(ctx, "WORK_EVENTS_0")
	if err != nil {
		t.Fatal(err)
	}
	c := st.CachedInfo().Config
	if c.Duplicates != duplicateWindow || !c.AllowAtomicPublish || !c.AllowDirect || c.Discard != jetstream.DiscardNew || c.Storage != jetstream.FileStorage || c.Compression != jetstream.NoCompression {
		t.Errorf("the stream's settings: %+v", c)
	}
	c.Compression = jetstream.S2Compression // as an older engine made it
	if _, err := js.UpdateStream(ctx, c); err != nil {
		t.Fatal(err)
	}
	openLog(t, Config{Connect: inProcess(s), MaxBytes: 1 << 20})
	if st, err = js.Stream(ctx, "WORK_EVENTS_0"); err != nil || st.CachedInfo().Config.MaxBytes != 1<<20 || st.CachedInfo().Config.Compression != jetstream.NoCompression {
		t.Errorf("limit and compression were not adjusted: %+v, %v", st.CachedInfo().Config, err)
	}
}
