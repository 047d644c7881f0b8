package acceptance

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/workers"
)

// someLife gives the engine items in all states, keys, a schedule and a pause,
// and returns the items by a name.
func someLife(t *testing.T, r *rig) map[string]string {
	t.Helper()
	ids := map[string]string{}
	g := newGate()
	r.worker(workers.Config{Concurrency: 1}, "slow", g.run)
	ids["running"] = r.submit(streamwright.Item{Type: "slow", Params: "held"})
	recv(t, "an item runs", g.begun)
	r.worker(workers.Config{Concurrency: 4}, "job", func(_ context.Context, it *workers.RawItem) (any, error) {
		if string(it.Raw) == `"bad"` {
			return nil, workers.Permanent(fmt.Errorf("no good"))
		}
		return map[string]string{"did": string(it.Raw)}, nil
	})
	for i := range 200 {
		ids[fmt.Sprint("done", i)] = r.submit(streamwright.Item{Type: "job", Params: i, DedupKey: fmt.Sprint("once", i)})
	}
	ids["dead"] = r.submit(streamwright.Item{Type: "job", Params: "bad"})
	ids["later"] = r.submit(streamwright.Item{Type: "job", Params: "later", Delay: time.Hour, DedupKey: "later", Labels: map[string]string{"a": "b"}})
	ids["queued"] = r.submit(streamwright.Item{Type: "idle", Params: "queued"})
	ids["cancelled"] = r.submit(streamwright.Item{Type: "idle", Params: "cancelled"})
	if _, _, err := r.c.Cancel(r.ctx, ids["cancelled"], ""); err != nil {
		t.Fatal(err)
	}
	must(r.c.Types().Pause(r.ctx, "idle", streamwright.PauseOptions{Reason: "a look at it"}))(t)
	must(r.c.Schedules().Set(r.ctx, streamwright.Schedule{Name: "yearly", Cron: "0 0 1 1 *", Type: "job"}))(t)
	for i := range 200 {
		r.wait(ids[fmt.Sprint("done", i)], events.StateCompleted)
	}
	r.wait(ids["dead"], events.StateDead)
	return ids
}

// picture is what can be seen of the items, and of what belongs to none.
func (r *rig) picture(ids map[string]string) map[string]string {
	r.t.Helper()
	out := map[string]string{}
	see := func(name string, v any) {
		out[name] = string(must(json.Marshal(v))(r.t))
	}
	for name, id := range ids {
		if name == "running" {
			continue // its lease is lost
		}
		see("item "+name, r.get(id))
		see("history "+name, must(r.c.History(r.ctx, id))(r.t))
	}
	see("schedules", must(r.c.Schedules().List(r.ctx))(r.t))
	return out
}

// tree is a checksum of each file of a folder.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		out[must(filepath.Rel(dir, path))(t)] = fmt.Sprintf("%x", sha256.Sum256(data))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// loseLog removes the event stream from a data folder.
func loseLog(t *testing.T, dir string) {
	t.Helper()
	found := must(filepath.Glob(filepath.Join(dir, "jetstream", "*", "streams", "WORK_EVENTS_0")))(t)
	if len(found) != 1 {
		t.Fatalf("event streams in the data folder: %v", found)
	}
	if err := os.RemoveAll(found[0]); err != nil {
		t.Fatal(err)
	}
}

func aside(t *testing.T, dir string) []string {
	t.Helper()
	return must(filepath.Glob(filepath.Join(dir, "store-set-aside-*")))(t)
}

// The event stream is gone. The engine refuses to begin with nothing, the store
// stays, and a salvage makes a log of it from which everything goes on.
func TestSalvage(t *testing.T) {
	t.Parallel()
	r := onDisk(t, "[types.slow]\nlease = \"2s\"\n")
	ids := someLife(t, r)
	before := r.picture(ids)
	dir := r.eng.Dir()
	r.stop()
	loseLog(t, dir)

	for range 2 { // the first must have left no empty log
		_, err := embedded.Start(r.ctx, r.opt)
		wantCode(t, err, events.CodeLogLost, "engine salvage", "--set-store-aside")
	}
	cli(t, "", "serve", "--dir", dir, "--nats-listen", "off", "--http", "off").wants(t, 1, "engine salvage", "(log_lost)")
	cli(t, "", "salvage", "--dir", dir, "--dry-run").wants(t, 0, "205 items of 3 types, 1 schedule,", "completed  200", "nothing was written")
	if len(aside(t, dir)) != 0 {
		t.Errorf("set aside by refused starts: %v", aside(t, dir))
	}
	store := tree(t, filepath.Join(dir, "store"))
	cli(t, "no\n", "salvage", "--dir", dir).wants(t, 1, "205 items of 3 types", "nothing was written")
	cli(t, "", "salvage", "--dir", dir, "--yes").wants(t, 0, "written: events", "store-set-aside-")
	kept := aside(t, dir)
	if len(kept) != 1 {
		t.Fatalf("set aside: %v", kept)
	}
	if now := tree(t, kept[0]); !maps.Equal(now, store) {
		t.Errorf("the salvage has changed the store:\n%v\n%v", store, now)
	}
	cli(t, "", "salvage", "--dir", dir, "--yes").wants(t, 1, "there is no store")
	cli(t, "", "salvage", "--dir", dir, "--store", kept[0], "--yes").wants(t, 1, "holds events", "nothing was changed")

	r.start()
	after := r.picture(ids)
	for _, name := range sortedKeys(before) {
		if before[name] != after[name] {
			t.Errorf("%s was\n%s\nand is\n%s", name, before[name], after[name])
		}
	}
	r.verify()
	if s := must(r.c.Submit(r.ctx, streamwright.Item{Type: "job", DedupKey: "later"}))(t); s.MergedInto != ids["later"] {
		t.Errorf("the dedup key of a queued item is not held: %+v", s)
	}
	r.worker(workers.Config{}, "slow", done)
	r.worker(workers.Config{}, "idle", done)
	r.wait(ids["running"], events.StateCompleted)
	if st := r.get(ids["queued"]).State; st != events.StateQueued {
		t.Errorf("an item of a paused type is %s", st)
	}
	must(r.c.Types().Resume(r.ctx, "idle"))(t)
	r.wait(ids["queued"], events.StateCompleted)
	r.verify()
	r.stop()
	r.start() // from the store this time
	r.verify()
}

// Whoever knows that the log is right can have it: the store is set aside then,
// and can still be salvaged elsewhere.
func TestSetStoreAside(t *testing.T) {
	t.Parallel()
	r := onDisk(t, "")
	id := r.submit(streamwright.Item{Type: "job"})
	dir := r.eng.Dir()
	r.stop()
	loseLog(t, dir)
	r.opt.SetStoreAside = true
	r.start()
	if _, err := r.c.Get(r.ctx, id); events.CodeOf(err) != events.CodeNotFound {
		t.Errorf("an item of the lost log: %v", err)
	}
	r.submit(streamwright.Item{Type: "job"})
	r.verify()
	kept := aside(t, dir)
	if len(kept) != 1 {
		t.Fatalf("set aside: %v", kept)
	}
	r.stop()
	other := filepath.Join(t.TempDir(), "other")
	cli(t, "", "salvage", "--dir", other, "--store", kept[0], "--yes").wants(t, 0, "1 item of 1 type", "written")
	r.opt.Dir, r.opt.SetStoreAside = other, false
	r.start()
	r.get(id)
	r.verify()
}

// The event stream is deleted while the engine runs, and perhaps made anew, by
// somebody who may. The engine makes no empty one, and keeps the store; a salvage
// brings everything back.
func TestLogDeletedInRun(t *testing.T) {
	t.Parallel()
	for name, recreate := range map[string]bool{"deleted": false, "recreated": true} {
		t.Run(name, func(t *testing.T) { logDeletedInRun(t, recreate) })
	}
}

func logDeletedInRun(t *testing.T, recreate bool) {
	ns := must(natsserver.NewServer(&natsserver.Options{
		Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), MaxPayload: 4 << 20, NoSigs: true, NoLog: true,
	}))(t)
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	r := newRig(t, embedded.Options{
		Dir: filepath.Join(t.TempDir(), "data"), NATSURL: ns.ClientURL(), Config: parse(t, "[server]\nhttp = \"off\"\n"),
	})
	js := must(jetstream.New(must(nats.Connect(ns.ClientURL()))(t)))(t)
	t.Cleanup(js.Conn().Close)
	id := r.submit(streamwright.Item{Type: "job"})
	r.get(id)
	cfg := must(js.Stream(r.ctx, "WORK_EVENTS_0"))(t).CachedInfo().Config
	if err := js.DeleteStream(r.ctx, "WORK_EVENTS_0"); err != nil {
		t.Fatal(err)
	}
	if recreate {
		must(js.CreateStream(r.ctx, cfg))(t)
	}
	_, _ = r.nc.Request("work.api.pause", []byte(`{"type":"job"}`), time.Second) // an append, which fails
	dir := r.eng.Dir()
	if recreate {
		recv(t, "the engine ends by itself", r.eng.Done())
	} else {
		eventually(t, "the log says so", func() bool { return contains(r.log.String(), "run engine salvage") })
		if _, err := js.Stream(r.ctx, "WORK_EVENTS_0"); !errors.Is(err, jetstream.ErrStreamNotFound) {
			t.Errorf("the event stream: %v", err)
		}
	}
	r.c.Close()
	r.nc.Close()
	_ = r.eng.Stop(r.ctx) // it says why the engine has ended
	r.eng = nil
	_, err := embedded.Start(r.ctx, r.opt)
	wantCode(t, err, events.CodeLogLost, "engine salvage")
	if len(aside(t, dir)) > 0 {
		t.Errorf("set aside: %v", aside(t, dir))
	}
	cli(t, "", "salvage", "--dir", dir, "--nats-url", ns.ClientURL(), "--yes").wants(t, 0, "1 item of 1 type", "written")
	r.start()
	if it := r.get(id); it.State != events.StateQueued {
		t.Errorf("the item is %s", it.State)
	}
	r.verify()
}
