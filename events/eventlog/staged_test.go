package eventlog

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/eventlog/staging"
)

// stagedStream starts a server on dir that syncs every write and stages the log's
// appends in memory.
func stagedStream(t testing.TB, dir string) (s *server.Server, stream string, f *staging.Folder) {
	t.Helper()
	s = startServer(t, dir, func(o *server.Options) { o.SyncAlways = true })
	stream = filepath.Join(s.StoreDir(), "$G", "streams", "WORK_EVENTS_0")
	f = staging.Open(stream, func(string) (uint64, error) { return 1 << 30, nil }, slog.New(slog.DiscardHandler))
	if f == nil {
		t.Skip("there is no file system in memory here")
	}
	t.Cleanup(func() {
		stopServer(s)
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, stream, f
}

// TestStagedAppend appends batches that are staged in memory, with a restart of the
// server between, which takes the link away.
func TestStagedAppend(t *testing.T) {
	dir := t.TempDir()
	s, stream, f := stagedStream(t, dir)
	cfg := Config{Connect: inProcess(s), SyncAlways: true, Staged: f.Ready}
	after := mustAppend(t, openLog(t, cfg), 0, decision(5, "a"))
	staged := func() {
		t.Helper()
		to, err := os.Readlink(filepath.Join(stream, "batches"))
		if err != nil {
			t.Fatalf("appends are not staged in memory: %v", err)
		}
		if left, err := os.ReadDir(to); err != nil || len(left) > 0 {
			t.Errorf("the folder in memory has %v, %v; want it empty", left, err)
		}
	}
	staged()
	stopServer(s)

	s = startServer(t, dir, func(o *server.Options) { o.SyncAlways = true })
	cfg.Connect = inProcess(s)
	l := openLog(t, cfg)
	mustAppend(t, l, after, decision(5, "b"))
	staged()
	if got := len(readAll(t, l).marks); got != 10 {
		t.Errorf("the log has %d events, want 10", got)
	}
}

// TestPowerLossInAStagedAppend leaves a part of an append on disk and removes its staged
// copy, as a power loss does. The log must go on after that part.
func TestPowerLossInAStagedAppend(t *testing.T) {
	dir := t.TempDir()
	s, stream, f := stagedStream(t, dir)
	cfg := Config{Connect: inProcess(s), SyncAlways: true, Staged: f.Ready}
	mustAppend(t, openLog(t, cfg), 0, singles(20, "a"))
	stopServer(s)
	blocks, err := filepath.Glob(filepath.Join(stream, "msgs", "*.blk"))
	if err != nil || len(blocks) != 1 {
		t.Fatalf("the stream has the blocks %v, %v; want one", blocks, err)
	}
	info, err := os.Stat(blocks[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.Truncate(blocks[0], info.Size()/2), // in the middle of an event
		os.Remove(filepath.Join(stream, "msgs", "index.db")),
		f.Close(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}

	s, _, f = stagedStream(t, dir)
	cfg.Connect, cfg.Staged = inProcess(s), f.Ready
	l := openLog(t, cfg)
	tip, err := l.Last(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	if tip.Seq == 0 || tip.Seq >= 20 {
		t.Fatalf("the log ends at %d, want a part of the append", tip.Seq)
	}
	mustAppend(t, l, tip.Seq, decision(5, "b"))
	if got := events.Seq(len(readAll(t, l).marks)); got != tip.Seq+5 {
		t.Errorf("the log has %d events, want %d", got, tip.Seq+5)
	}
}
