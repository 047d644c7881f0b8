package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	. "github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/eventlog/logtest"
	"github.com/streamwright/streamwright/eventlog/pages"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

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
			l := f.open(t, nil)
			go func() {
				marks, err := compete(logtest.Context(t), l, name)
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
		for _, m := range readAll(t, f.open(t, nil)).marks {
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
	var through uint64
	settle := func() (err error) {
		through, err = Settle(ctx, l, through, ownedBarrier(name), ignore)
		return err
	}
	if err := settle(); err != nil {
		return nil, err
	}
	for i := 0; i < 20; {
		evs := logtest.Decision(1+i%4, fmt.Sprintf("%s%d", name, i))
		_, err := l.Append(ctx, through, logtest.Write(evs))
		switch {
		case err == nil:
			through++
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

// A full stream takes nothing of an append, and goes on when it has room again.
func TestFull(t *testing.T) {
	const limit = 40_000
	ctx := logtest.Context(t)
	s := startServer(t, t.TempDir(), nil)
	mem := logtest.NewMemoryStream(0)
	mem.MaxBytes = limit
	for name, open := range map[string]func(limit int) Log{
		"server": func(limit int) Log { return openLog(t, Config{Connect: inProcess(s), MaxBytes: int64(limit)}) },
		"memory": func(limit int) Log { mem.MaxBytes = limit; return mem.Open() },
	} {
		t.Run(name, func(t *testing.T) {
			l := open(limit)
			last := settle(t, l)
			var want []string
			var err error
			for err == nil {
				if _, err = l.Append(ctx, last, logtest.Write(logtest.Decision(20, "a"))); err == nil {
					last++
					want = append(want, marksOf(logtest.Decision(20, "a"))...)
				}
			}
			if !errors.Is(err, ErrFull) || errors.Is(err, ErrFenced) || errors.Is(err, ErrAmbiguous) {
				t.Fatalf("append: %v, want ErrFull", err)
			}
			if _, err := l.Append(ctx, last, logtest.Write(logtest.Decision(20, "a"))); !errors.Is(err, ErrFull) {
				t.Fatalf("append once more: %v, want ErrFull", err)
			}
			if c := readAll(t, l); len(want) == 0 || !slices.Equal(c.marks[1:], want) {
				t.Fatalf("read %d events, want %d", len(c.marks)-1, len(want))
			}
			mustAppend(t, open(2*limit), last, logtest.Decision(20, "c"))
		})
	}
}

// A script can have a Memory be full once.
func TestFullOnce(t *testing.T) {
	l := logtest.NewMemoryStream(0).Open()
	l.Script(logtest.Fault{Kind: logtest.FaultFull})
	if _, err := l.Append(logtest.Context(t), 0, logtest.Write(logtest.Decision(1, "a"))); !errors.Is(err, ErrFull) || errors.Is(err, ErrAmbiguous) {
		t.Fatalf("append: %v, want ErrFull", err)
	}
	mustAppend(t, l, 0, logtest.Decision(1, "a"))
}

// A frame larger than the server takes is not sent; the largest that an owner makes is.
func TestTooLarge(t *testing.T) {
	const most = 64 << 10
	s := startServer(t, t.TempDir(), func(o *server.Options) { o.MaxPayload = most })
	l := openLog(t, Config{Connect: inProcess(s)})
	if _, err := l.Append(logtest.Context(t), 0, logtest.Write(logtest.Decision(2, strings.Repeat("x", most)))); !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "from created of "+logtest.ID(0).String()) {
		t.Fatal(err)
	}
	mustAppend(t, l, 0, logtest.Decision(2, strings.Repeat("x", FrameBytes(most)/2-200)))
}

// A log may hold messages of any size that the server takes.
func TestLargeMessages(t *testing.T) {
	const most = PullBytes + PullBytes/2
	s := startServer(t, t.TempDir(), func(o *server.Options) { o.MaxPayload = most })
	l := openLog(t, Config{Connect: inProcess(s), OnForeign: func(uint64, string) {}})
	nc := dial(t, s)
	after := mustAppend(t, l, 0, logtest.Decision(30, strings.Repeat("x", FrameBytes(most)/31)))
	if _, err := nc.Request("work.frame.0", make([]byte, most), logtest.Patience); err != nil {
		t.Fatal(err)
	}
	last := mustAppend(t, l, after+1, logtest.Decision(1, "y"))
	if c := readAll(t, l); len(c.marks) != 31 || c.skipped != 1 {
		t.Fatalf("read %d events, skipped %d messages", len(c.marks), c.skipped)
	}
	p := pages.NewReader(nc, wire.Default, func() events.Seq { return events.SeqOf(last, 0) }, nil)
	got := 0
	for q := (pages.Query{From: 1}); got < 31; {
		page, err := p.Read(logtest.Context(t), q, nil)
		if err != nil || len(page.Events) == 0 {
			t.Fatalf("pages give %d events, %v", got, err)
		}
		got, q.From = got+len(page.Events), page.Next
	}
}

// TestServerRestart: what was acknowledged is there, a frame fits behind what
// an earlier server stored, and a connection that broke is ambiguous.
func TestServerRestart(t *testing.T) {
	dir := t.TempDir()
	s := startServer(t, dir, nil)
	current := s
	l := openLog(t, Config{Connect: func() (*nats.Conn, error) { return inProcess(current)() }})
	tip, err := l.Last(logtest.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	identity := tip.Identity()
	last := mustAppend(t, l, tip.Seq, logtest.Decision(3, "before"))
	stopServer(s)
	if _, err := l.Append(logtest.Context(t), last, logtest.Write(logtest.Decision(2, "lost"))); !errors.Is(err, ErrAmbiguous) {
		t.Fatalf("append to a stopped server: %v", err)
	}
	if _, err := l.Last(logtest.Context(t)); !errors.Is(err, ErrUnreachable) {
		t.Fatalf("last of a stopped server: %v", err)
	}
	current = startServer(t, dir, nil)
	var got []string
	last, err = Settle(logtest.Context(t), l, last, ownedBarrier("me"), func(f Frame) error {
		got = append(got, marksOf(f.Events)...)
		return nil
	})
	if err != nil || !slices.Equal(got, []string{"owned:me"}) {
		t.Fatal(got, last, err)
	}
	mustAppend(t, l, last, logtest.Decision(3, "after"))
	if tip, err = l.Last(logtest.Context(t)); err != nil || tip.Identity() != identity {
		t.Fatalf("the log was %s, now it is %s, %v", identity, tip.Identity(), err)
	}
	if c := readAll(t, l); len(c.marks) != 7 || slices.Contains(c.marks, "lost") {
		t.Fatal(c)
	}
}

// A connection that breaks while nothing is under way makes the next append ambiguous,
// since the log can't know that.
func TestConnectionLost(t *testing.T) {
	f := onServer(t)
	l := f.open(t, nil)
	last := mustAppend(t, l, 0, logtest.Decision(1, "a"))
	f.proxies[l].cut()
	l.(*JetStream).AwaitDown()
	if _, err := l.Append(logtest.Context(t), last, logtest.Write(logtest.Decision(1, "lost"))); !errors.Is(err, ErrAmbiguous) || !errors.Is(err, ErrConnectionLost) {
		t.Fatalf("append: %v, want ErrAmbiguous", err)
	}
	settleAndCheck(t, f, l, []string{"a"})
}

// A message that was deleted from the stream is corruption, not a shorter log.
func TestHole(t *testing.T) {
	f := onServer(t)
	l := f.open(t, nil)
	last := appendEach(t, l, 0, "a", "b", "c", "d")
	f.api(t, "STREAM.MSG.DELETE", `{"seq":3}`)
	for name, read := range map[string]func(fn func(Frame) error) error{
		"read":   func(fn func(Frame) error) error { return l.Read(logtest.Context(t), 1, last, fn) },
		"follow": func(fn func(Frame) error) error { return l.Follow(logtest.Context(t), 1, fn) },
		"replay": func(fn func(Frame) error) error {
			return Replay(logtest.Context(t), nil, storedOf(t, l.(*JetStream), 1, 2, 4), fn)
		},
	} {
		var got []string
		err := read(func(f Frame) error { got = append(got, marksOf(f.Events)...); return nil })
		var corrupt *CorruptError
		if !errors.As(err, &corrupt) || corrupt.Frame != 3 || !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("%s gave %v, %v; want a, b, and ErrCorrupt at frame 3", name, got, err)
		}
	}
	if _, err := l.Checksum(logtest.Context(t), 3); !errors.Is(err, events.ErrCorrupt) {
		t.Errorf("checksum: %v, want ErrCorrupt", err)
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
	mustAppend(t, l, 0, logtest.Decision(2, "a"))
	stopServer(s)
	settled := make(chan error, 1)
	for len(tried) > 0 {
		<-tried
	}
	go func() {
		_, err := Settle(logtest.Context(t), l, 0, ownedBarrier("me"), ignore)
		settled <- err
	}()
	<-tried
	<-tried // one attempt has failed
	servers <- startServer(t, dir, nil)
	if err := <-settled; err != nil {
		t.Fatal(err)
	}

	stopServer(current)
	ctx, cancel := context.WithCancel(logtest.Context(t))
	cancel()
	if _, err := Settle(ctx, l, 0, ownedBarrier("me"), ignore); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestCloseEndsARunningAppend(t *testing.T) {
	f := onServer(t)
	l := f.open(t, nil)
	f.proxies[l].arm(logtest.Fault{Kind: logtest.FaultForeign}, func() { _ = l.Close() })
	if _, err := l.Append(logtest.Context(t), 0, logtest.Write(logtest.Decision(2, "a"))); !errors.Is(err, ErrAmbiguous) {
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
	ctx := logtest.Context(t)
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
	if c.Duplicates != DuplicateWindow || c.AllowAtomicPublish || !c.AllowDirect || c.Discard != jetstream.DiscardNew || c.Storage != jetstream.FileStorage || c.Compression != jetstream.NoCompression {
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
