package backup_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/backup"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/natscluster"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

// Each file in turn is changed, cut short, or missing, and the manifest is another
// backup's: it is refused by name, and nothing is restored.
func TestADamagedBackup(t *testing.T) {
	need.Seconds(t)
	t.Parallel()
	e := start(t, t.TempDir())
	c := client(t, e)
	work(t, c, "job", func(_ context.Context, it *workers.RawItem) (any, error) {
		it.Log("info", "seen")
		return nil, nil
	})
	if _, err := c.Submit(testContext(t), streamwright.Item{Type: "large", Params: big(t)}); err != nil {
		t.Fatal(err)
	}
	ids := submit(t, c, "job", 100)
	for _, id := range ids {
		if _, err := c.Wait(testContext(t), id); err != nil {
			t.Fatal(err)
		}
	}
	need.Eventually(t, "a log", func() bool {
		recs, err := c.Logs(testContext(t), ids[99], 0)
		return err == nil && len(recs) > 0
	})
	dir := filepath.Join(t.TempDir(), "b")
	done := take(t, c, dir, func(o *backup.Options) { o.SegmentBytes = 16 << 10 })
	files := []string{"manifest.json"}
	seen := map[string]bool{}
	for _, s := range done.Manifest.Streams {
		for _, seg := range s.Segments {
			files = append(files, seg.File)
			seen[s.Kind] = true
		}
	}
	if len(files) < 6 || !seen[backup.Events] || !seen[backup.Logs] || !seen[backup.Documents] {
		t.Fatalf("the backup has only %q", files)
	}
	refused := func(what, path, name string) {
		t.Helper()
		b, err := backup.Open(path)
		if err == nil {
			_, err = b.Verify(testContext(t), nil)
			_ = b.Close()
		}
		if !errors.Is(err, backup.ErrDamaged) && !errors.Is(err, backup.ErrNotABackup) || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "backup") {
			t.Errorf("%s: verify says %v", what, err)
		}
		into := filepath.Join(t.TempDir(), "r")
		if _, rerr := tryRestore(testContext(t), into, path); rerr == nil || !strings.Contains(rerr.Error(), name) {
			t.Errorf("%s: restore says %v", what, rerr)
		}
		if streams, _ := filepath.Glob(filepath.Join(into, "jetstream", "*", "streams", "WORK_*")); len(streams) > 0 {
			t.Errorf("%s: it has restored %q", what, streams)
		}
	}
	for _, name := range files {
		file := filepath.Join(dir, name)
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		write := func(b []byte) {
			if err := os.WriteFile(file, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, at := range []int{0, len(data) / 2, len(data) - 2} {
			bad := append([]byte(nil), data...)
			bad[at] ^= 0x10
			write(bad)
			refused(fmt.Sprintf("%s with byte %d changed", name, at), dir, name)
		}
		write(data[:len(data)*2/3])
		refused(name+" cut short", dir, name)
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		refused(name+" missing", dir, name)
		write(data)
	}
	check(t, dir)

	other := filepath.Join(t.TempDir(), "other")
	take(t, client(t, start(t, t.TempDir())), other)
	manifest, err := os.ReadFile(filepath.Join(other, "manifest.json"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "manifest.json"), manifest, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	refused("the manifest of another backup", dir, "events-")

	file := filepath.Join(t.TempDir(), "b.tar")
	take(t, c, file)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/3] ^= 1
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	refused("a tar file with a byte changed", file, "b.tar")
	if err := os.WriteFile(file, data[:len(data)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	refused("a tar file cut short", file, "b.tar")
}

// An interrupted restore is refused by the engine, and begins anew.
func TestAnInterruptedRestore(t *testing.T) {
	need.Seconds(t)
	t.Parallel()
	c := client(t, start(t, t.TempDir()))
	ids := submit(t, c, "job", 600)
	for range 40 { // a frame each
		ids = append(ids, submit(t, c, "job", 1)...)
	}
	dir, into := filepath.Join(t.TempDir(), "b"), filepath.Join(t.TempDir(), "r")
	take(t, c, dir)
	for _, when := range []string{"check events", "restore events", "compare events", "replay events"} {
		ctx, cancel := context.WithCancel(testContext(t))
		_, err := tryRestore(ctx, into, dir, func(o *embedded.RestoreOptions) {
			o.Progress = func(what string, _, _ int64) {
				if what == when {
					cancel()
				}
			}
		})
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("interrupted at %q: %v", when, err)
		}
		_, err = embedded.Start(testContext(t), embedded.Options{Dir: into, NATSListen: config.Off, HTTP: config.Off})
		if !errors.Is(err, embedded.ErrUnrestored) || !strings.Contains(err.Error(), "engine restore") {
			t.Errorf("interrupted at %q, it starts: %v", when, err)
		}
	}
	r, err := tryRestore(testContext(t), into, dir)
	if err != nil || r.Items != int64(len(ids)) {
		t.Fatalf("restored: %+v, %v", r, err)
	}
	verify(t, client(t, start(t, into)))
	if _, err := tryRestore(testContext(t), into, dir); !errors.Is(err, backup.ErrExists) {
		t.Errorf("it restores over a folder with data: %v", err)
	}
	kept := t.TempDir()
	if err := os.WriteFile(filepath.Join(kept, "precious"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := tryRestore(testContext(t), kept, dir); !errors.Is(err, backup.ErrExists) {
		t.Errorf("it restores into a folder with other things: %v", err)
	}
}

// An engine that syncs each message begins with a backup where there is no log: in a folder
// that does not exist, or that an interrupted restore has left. Later it goes on with what it
// has; a folder with another log is refused.
func TestStartFromABackup(t *testing.T) {
	need.Seconds(t)
	t.Parallel()
	c := client(t, start(t, t.TempDir()))
	submit(t, c, "job", 300)
	dir, into := filepath.Join(t.TempDir(), "b"), filepath.Join(t.TempDir(), "r")
	take(t, c, dir)
	ctx, cancel := context.WithCancel(testContext(t))
	if _, err := tryRestore(ctx, into, dir, func(o *embedded.RestoreOptions) { o.Progress = func(string, int64, int64) { cancel() } }); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	from := func(o *embedded.Options) { o.RestoreFrom, o.Durability = dir, config.Always }
	for _, folder := range []string{into, filepath.Join(t.TempDir(), "new")} {
		for range 2 { // the second time there is a log
			e := start(t, folder, from)
			at := client(t, e)
			if s, err := at.Engine().Stats(testContext(t)); err != nil || s.States["queued"] != 300 {
				t.Errorf("%+v, %v", s.States, err)
			}
			verify(t, at)
			stop(t, e)
		}
	}
	other := t.TempDir()
	e := start(t, other)
	submit(t, client(t, e), "job", 1)
	stop(t, e)
	if _, err := embedded.Start(testContext(t), embedded.Options{Dir: other, NATSListen: config.Off, HTTP: config.Off, RestoreFrom: dir}); !errors.Is(err, backup.ErrExists) {
		t.Errorf("it begins with a backup where there is another log: %v", err)
	}
}

// into restores into a NATS server by a connection.
func into(ctx context.Context, nc *nats.Conn, from string, change ...func(*backup.RestoreOptions)) (backup.Restored, error) {
	b, err := backup.Open(from)
	if err != nil {
		return backup.Restored{}, err
	}
	defer b.Close()
	o := backup.RestoreOptions{Conn: nc, Names: wire.Default}
	for _, fn := range change {
		fn(&o)
	}
	return b.Restore(ctx, o)
}

// On an existing NATS: what was interrupted is refused by an engine and begun anew; a log that
// was restored from this very backup is taken as it is, and any other is left alone.
func TestRestoreIntoNATS(t *testing.T) {
	need.Seconds(t)
	t.Parallel()
	c := client(t, start(t, t.TempDir()))
	ids := submit(t, c, "job", 600)
	for range 40 { // a frame each
		ids = append(ids, submit(t, c, "job", 1)...)
	}
	dir, later := filepath.Join(t.TempDir(), "b"), filepath.Join(t.TempDir(), "b2")
	take(t, c, dir)
	submit(t, c, "job", 5)
	take(t, c, later)

	s := natsServer(t)
	nc := dial(t, s.ClientURL())
	for _, when := range []string{"restore events", "compare events"} {
		ctx, cancel := context.WithCancel(testContext(t))
		_, err := into(ctx, nc, dir, func(o *backup.RestoreOptions) {
			o.Progress = func(what string, _, _ int64) {
				if what == when {
					cancel()
				}
			}
		})
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("interrupted at %q: %v", when, err)
		}
		if when == "restore events" {
			continue // the server gives up by itself, or the next one clears it away
		}
		_, err = embedded.Start(testContext(t), embedded.Options{Dir: t.TempDir(), NATSURL: s.ClientURL(), HTTP: config.Off})
		if !errors.Is(err, eventlog.ErrUnrestored) || !strings.Contains(err.Error(), "engine restore") {
			t.Errorf("interrupted at %q, an engine starts: %v", when, err)
		}
	}
	r, err := into(testContext(t), nc, dir)
	if err != nil || r.Already || r.Events == 0 {
		t.Fatalf("restored: %+v, %v", r, err)
	}
	if again, err := into(testContext(t), nc, dir); err != nil || !again.Already || again.Last != r.Last {
		t.Errorf("again: %+v, %v", again, err)
	}
	if _, err := into(testContext(t), nc, later); !errors.Is(err, backup.ErrExists) {
		t.Errorf("another backup over it: %v", err)
	}
	if _, err := into(testContext(t), nc, dir, func(o *backup.RestoreOptions) { o.To = events.SeqOf(4, 0) }); !errors.Is(err, backup.ErrExists) {
		t.Errorf("another moment over it: %v", err)
	}
	e := start(t, t.TempDir(), onNATS(s.ClientURL()))
	c2 := client(t, e)
	if got := states(t, c2); len(got) != len(ids) {
		t.Errorf("%d items, not %d", len(got), len(ids))
	}
	verify(t, c2)
	submit(t, c2, "job", 1)
	stop(t, e)
	// It goes on from there, and is still the one that was restored: a node that comes late
	// goes on without a restore.
	if again, err := into(testContext(t), nc, dir); err != nil || !again.Already {
		t.Errorf("again, when an engine has worked on it: %+v, %v", again, err)
	}
}

// Submissions that no engine has decided are in the backup; one that is decided while it is
// made is decided once. A restore to an earlier moment has none of them.
func TestUndecidedSubmissions(t *testing.T) {
	need.Seconds(t)
	t.Parallel()
	s := natsServer(t)
	nc := dial(t, s.ClientURL())
	e := start(t, t.TempDir(), onNATS(s.ClientURL()))
	c := client(t, e)
	before := submit(t, c, "job", 10)
	earlier := originalOf(t, s.ClientURL()).end.Last
	stop(t, e)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	publish := func(n int) {
		t.Helper()
		for i := range n {
			if _, err := js.PublishMsg(testContext(t), &nats.Msg{Subject: "work.submit.job", Data: []byte(strconv.Itoa(i))}); err != nil {
				t.Fatal(err)
			}
		}
	}
	publish(7)
	undecided := filepath.Join(t.TempDir(), "undecided")
	done := tookBy(t, nc, undecided, nil)
	if done.Added[backup.Intake] != 7 {
		t.Fatalf("backed up: %+v", done.Added)
	}
	// Now an engine decides them between the reading of the intake and that of the log.
	both := filepath.Join(t.TempDir(), "both")
	tookBy(t, nc, both, func() {
		e2 := start(t, t.TempDir(), onNATS(s.ClientURL()))
		c2 := client(t, e2)
		need.Eventually(t, "decided submissions", func() bool { return len(states(t, c2)) == len(before)+7 })
		stop(t, e2)
	})
	if got := check(t, both); got.Intake != 7 {
		t.Errorf("the test shows nothing: %+v", got)
	}
	for name, from := range map[string]string{"undecided": undecided, "decided meanwhile": both} {
		r := restore(t, from)
		c2 := client(t, start(t, r.Dir))
		need.Eventually(t, name+": all items", func() bool { return len(states(t, c2)) >= len(before)+7 })
		if _, err := c2.Publish(testContext(t), streamwright.Item{Type: "job"}); err != nil {
			t.Fatal(err)
		}
		need.Eventually(t, name+": one more item", func() bool { return len(states(t, c2)) > len(before)+7 })
		if got := states(t, c2); len(got) != len(before)+8 {
			t.Errorf("%s: %d items, not %d", name, len(got), len(before)+8)
		}
		verify(t, c2)
	}
	r := restore(t, both, func(o *embedded.RestoreOptions) { o.To = earlier })
	if r.End || r.Intake != 0 {
		t.Errorf("to an earlier moment: %+v", r)
	}
	c3 := client(t, start(t, r.Dir))
	pub, err := c3.Publish(testContext(t), streamwright.Item{Type: "job"})
	if err != nil {
		t.Fatal(err)
	}
	need.Eventually(t, "the new item", func() bool {
		_, err := c3.Get(testContext(t), pub.ID)
		return err == nil
	})
	if got := states(t, c3); len(got) != len(before)+1 {
		t.Errorf("to an earlier moment: %d items, not %d", len(got), len(before)+1)
	}
	verify(t, c3)
}

// tookBy backs up without an engine; between is called when the intake has been read.
func tookBy(t testing.TB, nc *nats.Conn, target string, between func()) backup.Taken {
	t.Helper()
	done, err := backup.Take(testContext(t), backup.Options{Conn: nc, Names: wire.Default, Target: target, Engine: func(context.Context) (backup.Source, error) {
		if between != nil {
			between()
		}
		return backup.Source{}, errors.New("there is none")
	}})
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// Messages in the log that no engine wrote keep their positions.
func TestForeignMessages(t *testing.T) {
	t.Parallel()
	s := natsServer(t)
	nc := dial(t, s.ClientURL())
	e := start(t, t.TempDir(), onNATS(s.ClientURL()))
	c := client(t, e)
	for i := range 5 {
		submit(t, c, "job", 5)
		for _, m := range []*nats.Msg{
			{Subject: "work.frame.0", Data: []byte("not an event")},
			{Subject: "work.frame.0", Header: nats.Header{"Nats-Msg-Id": {"mine" + strconv.Itoa(i)}, "X": {"a", "b"}}},
		} {
			if _, err := nc.RequestMsg(m, patience); err != nil {
				t.Fatal(err)
			}
		}
	}
	submit(t, c, "job", 1)
	dir := filepath.Join(t.TempDir(), "b")
	take(t, c, dir)
	if got := check(t, dir); got.Foreign != 10 {
		t.Errorf("%d foreign messages, not 10", got.Foreign)
	}
	r := restore(t, dir)
	if want, at := originalOf(t, s.ClientURL()).asOf(t, r.Last, time.Time{}); r.Digest != want || r.Last != at {
		t.Errorf("restored to %d, %s; it was %d, %s", r.Last, r.Digest, at, want)
	}
	c2 := client(t, start(t, r.Dir))
	verify(t, c2)
	was, err := c.List(testContext(t), streamwright.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	is, err := c2.List(testContext(t), streamwright.Filter{})
	if err != nil || string(must(json.Marshal(is.Items))) != string(must(json.Marshal(was.Items))) {
		t.Errorf("the items are not the same: %v", err)
	}
}

// Restored into three servers with three replicas, the log survives the loss of the one
// that restored it.
func TestRestoreIntoACluster(t *testing.T) {
	need.Seconds(t)
	c := client(t, start(t, t.TempDir()))
	ids := submit(t, c, "job", 2000)
	doc := big(t)
	large, err := c.Submit(testContext(t), streamwright.Item{Type: "large", Params: doc})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "b")
	take(t, c, dir)

	servers := natscluster.Start(t)
	nc := dial(t, servers[0].ClientURL())
	begun := time.Now()
	r, err := into(testContext(t), nc, dir, func(o *backup.RestoreOptions) { o.Replicas = 3 })
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("restored %d messages into three servers in %s", r.Events, time.Since(begun))
	leader := -1
	for i, s := range servers {
		if s.JetStreamIsStreamLeader(server.DEFAULT_GLOBAL_ACCOUNT, wire.Default.EventStream(0)) {
			leader = i
		}
	}
	if leader < 0 {
		t.Fatal("the log has no leader")
	}
	servers[leader].Shutdown()
	other := servers[(leader+1)%3].ClientURL()
	want := restore(t, dir)
	if got, err := originalOf(t, other).store.Digest(testContext(t)); err != nil || got != want.Digest {
		t.Errorf("the state is %s, not %s: %v", got, want.Digest, err)
	}
	// A backup of the replicated log, without an engine, has the same in it.
	back := filepath.Join(t.TempDir(), "back")
	tookBy(t, dial(t, other), back, nil)
	got := restore(t, back)
	if got.Digest != want.Digest || got.Documents != want.Documents || got.Items != int64(len(ids))+1 {
		t.Errorf("restored: %+v, not %+v", got, want)
	}
	c2 := client(t, start(t, got.Dir))
	it, err := c2.Get(testContext(t), large.ID)
	if err != nil {
		t.Fatal(err)
	}
	if params, err := c2.Params(testContext(t), it); err != nil || string(params) != string(doc) {
		t.Errorf("its document: %d bytes, %v", len(params), err)
	}
}

// STREAMWRIGHT_BACKUP_EVENTS=1000000 measures a backup and a restore of as many events.
func TestSpeed(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("STREAMWRIGHT_BACKUP_EVENTS"))
	if n == 0 {
		t.Skip("set STREAMWRIGHT_BACKUP_EVENTS to a number of events")
	}
	c := client(t, start(t, t.TempDir()))
	for done := 0; done < n/2; done += 10_000 {
		submit(t, c, "job", min(10_000, n/2-done))
	}
	dir := filepath.Join(t.TempDir(), "b")
	done := take(t, c, dir)
	t.Logf("backed up %d messages in %s: %.0f/s", done.Added[backup.Events], done.Elapsed, float64(done.Added[backup.Events])/done.Elapsed.Seconds())
	begun := time.Now()
	got := check(t, dir)
	t.Logf("verified %d bytes in %s", got.Bytes, time.Since(begun))
	begun = time.Now()
	r := restore(t, dir)
	t.Logf("restored %d items in %s: %.0f messages/s", r.Items, time.Since(begun), float64(r.Events)/time.Since(begun).Seconds())
}
