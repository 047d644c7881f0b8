package acceptance

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/logins"
	"github.com/streamwright/streamwright/workers"
)

// circuits are the kinds of the circuit's events so far, of the type or of the
// worker.
func (r *rig) circuits(typ, worker string) (kinds []string) {
	r.t.Helper()
	for _, ev := range r.events() {
		of := ev.Kind == events.KindCircuitOpened || ev.Kind == events.KindCircuitHalfOpened || ev.Kind == events.KindCircuitClosed
		if of && ev.Type == typ && ev.Worker == worker {
			kinds = append(kinds, ev.Kind.String())
		}
	}
	return kinds
}

func (r *rig) typeInfo(name string) streamwright.TypeInfo {
	r.t.Helper()
	for _, t := range must(r.c.Types().List(r.ctx))(r.t) {
		if t.Type == name {
			return t
		}
	}
	r.t.Fatalf("there is no type %s", name)
	return streamwright.TypeInfo{}
}

var errDown = workers.WithCode(errors.New("the provider is down"), events.FailUnavailable)

// A type breaks its circuit, its items wait, and it recovers by itself.
func TestATypeBreaksItsCircuitAndRecovers(t *testing.T) {
	t.Parallel()
	r := inMemory(t, `
[defaults]
backoff = {initial = "1ms", max = "1ms"}
[types.mail.circuit]
consecutive = 3
cooldown = "300ms"
probes = 1
`)
	var down atomic.Bool
	down.Store(true)
	var runs atomic.Int64
	r.worker(workers.Config{ID: "w", Concurrency: 1}, "mail", func(context.Context, *workers.RawItem) (any, error) {
		runs.Add(1)
		if down.Load() {
			return nil, errDown
		}
		return "sent", nil
	})
	var ids []string
	for range 5 {
		ids = append(ids, r.submit(streamwright.Item{Type: "mail"}))
	}
	eventually(t, "the circuit is open", func() bool { return len(r.circuits("mail", "")) > 0 })
	if info := r.typeInfo("mail"); info.Circuit == nil || info.Circuit.Reason != events.ReasonConsecutive && info.Circuit.Reason != events.ReasonProbe {
		t.Errorf("the type is shown with circuit %+v", info.Circuit)
	}
	// A probe fails at least once, for which the circuit stays open longer.
	eventually(t, "a probe has failed", func() bool { return len(r.circuits("mail", "")) >= 3 })
	if n := runs.Load(); n > 10 {
		t.Errorf("%d runs while the provider was down", n)
	}
	down.Store(false)
	for _, id := range ids {
		r.wait(id, events.StateCompleted)
	}
	got := r.circuits("mail", "")
	if want := []string{"circuit_opened", "circuit_half_opened", "circuit_opened"}; !slices.Equal(got[:3], want) || got[len(got)-1] != "circuit_closed" {
		t.Errorf("the circuit went %v", got)
	}
	if info := r.typeInfo("mail"); info.Circuit != nil {
		t.Errorf("the type is still shown with circuit %+v", info.Circuit)
	}
	r.verify()
}

// A worker that fails everything is left out, and its items are done by another.
func TestAWorkerThatFailsEverythingIsLeftOut(t *testing.T) {
	t.Parallel()
	r := inMemory(t, `
[worker_circuit]
consecutive = 3
cooldown = "10m"
[defaults]
max_attempts = 50
backoff = {initial = "1ms", max = "1ms"}
`)
	var failed atomic.Int64
	r.worker(workers.Config{ID: "broken", Concurrency: 2}, "sum", func(context.Context, *workers.RawItem) (any, error) {
		failed.Add(1)
		return nil, errors.New("no space left on device")
	})
	r.worker(workers.Config{ID: "sound", Concurrency: 2}, "sum", done)
	open := func() bool { return len(r.circuits("", "broken")) > 0 }
	var ids []string
	eventually(t, "the worker's circuit is open", func() bool {
		ids = append(ids, r.submit(streamwright.Item{Type: "sum"}))
		return open()
	})
	before := failed.Load()
	for range 50 {
		ids = append(ids, r.submit(streamwright.Item{Type: "sum"}))
	}
	for _, id := range ids {
		r.wait(id, events.StateCompleted)
	}
	// What it had claimed before may still have ended; nothing was granted since.
	if n := failed.Load(); n > before+2 {
		t.Errorf("the broken worker has run %d items after its circuit had opened", n-before)
	}
	shown := must(r.c.Workers().List(r.ctx))(t)
	for _, w := range shown {
		if (w.Circuit != nil) != (w.Worker == "broken") {
			t.Errorf("worker %s is shown with circuit %+v", w.Worker, w.Circuit)
		}
	}
	// An operator has repaired it: it works again at once.
	if changed := must(r.c.Workers().ResetCircuit(r.ctx, "broken"))(t); !changed {
		t.Error("the reset found a closed circuit")
	}
	eventually(t, "the worker runs items again", func() bool {
		r.submit(streamwright.Item{Type: "sum"})
		return failed.Load() > before+2
	})
}

// A paused type waits, over a restart of the engine, until it is resumed.
func TestAPauseOutlivesARestart(t *testing.T) {
	r := onDisk(t, "")
	id := r.submit(streamwright.Item{Type: "mail"})
	if changed := must(r.c.Types().Pause(r.ctx, "mail", streamwright.PauseOptions{Reason: "maintenance", By: "ops"}))(t); !changed {
		t.Error("the type was paused already")
	}
	r.stop()
	r.start()
	by := "ops"
	if secured != nil {
		by = logins.All // who asks is known then
	}
	if p := r.typeInfo("mail").Paused; p == nil || p.Reason != "maintenance" || p.By != by || p.At.IsZero() {
		t.Errorf("after the restart the pause is %+v", p)
	}
	r.worker(workers.Config{ID: "w"}, "mail", done)
	r.worker(workers.Config{ID: "w2"}, "other", done)
	// Another type's item goes through by the same loop meanwhile.
	r.wait(r.submit(streamwright.Item{Type: "other"}), events.StateCompleted)
	if it := r.get(id); it.State != events.StateQueued {
		t.Errorf("the item of the paused type is %s", it.State)
	}
	if changed := must(r.c.Types().Pause(r.ctx, "mail", streamwright.PauseOptions{Reason: "again"}))(t); changed {
		t.Error("a second pause changed something")
	}
	if changed := must(r.c.Types().Resume(r.ctx, "mail"))(t); !changed {
		t.Error("resume found no pause")
	}
	r.wait(id, events.StateCompleted)
	if _, err := r.c.Types().Resume(r.ctx, "nobody-knows"); err == nil {
		t.Error("an unknown type was resumed")
	}
}

// An item whose worker's process dies under it, three times, is poisoned.
func TestAnItemThatKillsItsWorkersIsPoisoned(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := serve(t, `
[types.bomb]
lease = "1s"
max_attempts = 10
backoff = {initial = "1ms", max = "1ms"}
`)
	id := s.submit(streamwright.Item{Type: "bomb"})
	for n := range 3 {
		file := filepath.Join(dir, fmt.Sprint(n))
		p := begin(t, s.url(), "work", "bomb", "--concurrency", "1", "--", "sh", "-c", "echo $$ > "+file+"; exec sleep 100")
		child := pidIn(t, file)
		p.kill()                                 // the worker itself: nobody is left to report
		_ = syscall.Kill(child, syscall.SIGKILL) // it may have gone with its worker
	}
	it := s.until(id, events.StateDead)
	if it.Reason != "poisoned" || it.Attempt != 3 || it.Error == nil || it.Error.Code != events.FailLeaseExpired {
		t.Errorf("the item is %+v (%+v)", it, it.Error)
	}
	cli(t, s.url(), "types", "pause", "bomb", "--reason", "defused").wants(t, 0, "bomb is paused")
	cli(t, s.url(), "types").wants(t, 0, "defused")
	cli(t, s.url(), "status").wants(t, 0, "paused")
	cli(t, s.url(), "types", "resume", "bomb").wants(t, 0, "goes on")
	cli(t, s.url(), "types", "reset", "bomb").wants(t, 0, "closed already")
	cli(t, s.url(), "workers", "reset", "nobody").wants(t, 1, "no worker nobody")
}
