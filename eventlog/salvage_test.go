package eventlog_test

import (
	"errors"
	"testing"

	. "github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/eventlog/logtest"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// A log that is made anew begins where it is told to, is refused until it is finished, and
// replaces nothing that holds events.
func TestCreate(t *testing.T) {
	ctx := logtest.Context(t)
	s := startServer(t, t.TempDir(), nil)
	cfg := Config{Connect: inProcess(s)}
	create := func(first uint64) *JetStream {
		t.Helper()
		l, err := Create(ctx, cfg, first)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	if _, err := Open(ctx, Config{Connect: inProcess(s), Existing: true}); !errors.Is(err, ErrNoLog) {
		t.Fatalf("open what is not there: %v, want ErrNoLog", err)
	}
	half := create(50)
	mustAppend(t, half, 49, logtest.Decision(2, "half"))
	if _, err := Open(ctx, cfg); !errors.Is(err, ErrUnfinished) {
		t.Fatalf("open an unfinished log: %v, want ErrUnfinished", err)
	}
	l := create(100) // begins anew
	if tip, err := l.Last(ctx); err != nil || tip.Seq != 99 || tip.First != 100 {
		t.Fatalf("the new log: %+v, %v", tip, err)
	}
	last := mustAppend(t, l, 99, logtest.Decision(2, "a"))
	if err := l.Finish(ctx); err != nil {
		t.Fatal(err)
	}
	opened := openLog(t, cfg)
	if c := readAll(t, opened); len(c.marks) != 2 || c.frames[0] != 100 {
		t.Fatalf("read %+v", c)
	}
	mustAppend(t, opened, last, logtest.Decision(1, "b"))
	if end, err := opened.End(ctx); err != nil || end.Last != events.SeqOf(101, 0) {
		t.Fatalf("the log ends at %+v, %v", end, err)
	}
	if _, err := Create(ctx, cfg, 1); !errors.Is(err, ErrNotEmpty) {
		t.Fatalf("create over a log with events: %v, want ErrNotEmpty", err)
	}
}

// A log whose restore was interrupted is refused.
func TestUnfinishedRestore(t *testing.T) {
	ctx := logtest.Context(t)
	s := startServer(t, t.TempDir(), nil)
	l := openLog(t, Config{Connect: inProcess(s)})
	js, err := l.JS()
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(ctx, wire.Default.EventStream(0))
	if err != nil {
		t.Fatal(err)
	}
	c := stream.CachedInfo().Config
	c.Metadata = map[string]string{RestoreKey: RestoreUnfinished + " since then"}
	if _, err := js.UpdateStream(ctx, c); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(ctx, Config{Connect: inProcess(s)}); !errors.Is(err, ErrUnrestored) {
		t.Fatalf("open: %v, want ErrUnrestored", err)
	}
}
