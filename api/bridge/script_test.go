package bridge_test

import (
	"context"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

// The worker of examples/httpworker, a shell script with curl, does real work:
// it completes, fails, keeps a lease that is shorter than a run, stops what is
// cancelled, and leaves when it is drained.
func TestShellWorker(t *testing.T) {
	slow(t)
	t.Parallel()
	sh := need.Program(t, "sh")
	need.Program(t, "curl")
	const lease = 6 * time.Second // many times what a curl takes, on a slow machine too
	conf := leases(lease, "shout")
	conf.Workers.HeartbeatInterval, conf.Workers.DeadAfter = 3*time.Second, 10*time.Second
	e := startEngine(t, embedded.Options{Config: conf})
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, sh, "../../examples/httpworker/worker.sh", "http://"+e.HTTP(), "shout", sh, "-c",
		`p=$(cat); case $p in *bad*) exit 65 ;; *slow*) sleep 9 ;; *forever*) exec sleep 600 ;; *much*) printf '"'; head -c 9000000 /dev/zero | tr '\0' y; printf '"'; exit ;; esac; printf '{"heard":%s}' "$p"`)
	var out need.Log
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &out, 10*time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what it has left, if anything
		if t.Failed() {
			t.Logf("the script said:\n%s", out.String())
		}
	}()
	ends := func(id string, want events.ItemState) wire.Item {
		t.Helper()
		var it wire.Item
		need.Eventually(t, "item "+id+" is "+string(want.String()), func() bool { it = e.item(t, id); return it.State == want })
		return it
	}
	good := e.submitItem(t, wire.Submit{Type: "shout", Params: []byte(`{"say":"a \"params\": b","token":"x"}`), Labels: map[string]string{"k": "v"}})
	if it := ends(good, events.StateCompleted); string(it.Result) != `{"heard":{"say":"a \"params\": b","token":"x"}}` {
		t.Errorf("the result is %s", it.Result)
	}
	// Params of which there is but a reference, and a result that no request carries.
	up := e.upload(t, "", large("z"))
	huge := e.submitItem(t, wire.Submit{ID: up.Item, Type: "shout", Params: up.Document})
	if ends(huge, events.StateCompleted); e.document(t, huge, "result") != `{"heard":`+large("z")+`}` {
		t.Error("the large result is another")
	}
	huge = e.submit(t, "shout", `"much"`)
	if ends(huge, events.StateCompleted); e.document(t, huge, "result") != `"`+strings.Repeat("y", 9_000_000)+`"` {
		t.Error("the result that no request carries is another")
	}
	if it := ends(e.submit(t, "shout", `"bad"`), events.StateDead); it.Error == nil || it.Error.Code != "exit_65" {
		t.Errorf("the failed item is %+v", it)
	}
	slow := e.submit(t, "shout", `"slow"`)
	if it := ends(slow, events.StateCompleted); it.Attempt != 1 {
		t.Errorf("the slow item took %d attempts: %v", it.Attempt, e.kinds(t, slow))
	}
	if kinds := strings.Join(e.kinds(t, slow), " "); !strings.Contains(kinds, "progressed checkpointed completed") {
		t.Errorf("history: %s", kinds)
	}
	begun := func(id string) { // by the script: the bridge reports a start by itself
		t.Helper()
		need.Eventually(t, "the script has begun "+id, func() bool { return slices.Contains(e.kinds(t, id), "checkpointed") })
	}
	cancelled := e.submit(t, "shout", `"forever"`)
	begun(cancelled)
	if _, _, err := e.client.Cancel(testContext(t), cancelled, "not needed"); err != nil {
		t.Fatal(err)
	}
	ends(e.submit(t, "shout", `"next"`), events.StateCompleted) // its slot is free again
	// Another worker takes its id while it hangs: what it runs is stopped, and it works
	// again when that one has left.
	taken := e.submit(t, "shout", `"forever"`)
	begun(taken)
	id := e.workers(t)[0].Worker
	signal := func(sig syscall.Signal) {
		t.Helper()
		if err := syscall.Kill(-cmd.Process.Pid, sig); err != nil {
			t.Fatal(err)
		}
	}
	signal(syscall.SIGSTOP)
	need.Eventually(t, "the worker is dead", func() bool { return e.workers(t)[0].Status == wire.WorkerDead })
	var reg wire.Registered
	e.request(t, wire.APIRegister, wire.Register{Worker: id, Session: "other", Offers: true, Types: []string{"shout"}, Slots: 1}, &reg)
	signal(syscall.SIGCONT)
	need.Eventually(t, "the command is stopped", func() bool { return strings.Contains(out.String(), taken+": status 143:") })
	if _, _, err := e.client.Cancel(testContext(t), taken, "not needed"); err != nil {
		t.Fatal(err)
	}
	e.freeID(t, id)
	ends(e.submit(t, "shout", `"after"`), events.StateCompleted)
	var ok wire.OK
	e.request(t, wire.APIDrain, wire.Drain{Worker: e.workers(t)[0].Worker}, &ok)
	if err := cmd.Wait(); err != nil {
		t.Errorf("the script ended with %v", err)
	}
	if list := e.workers(t); len(list) != 0 {
		t.Errorf("workers: %+v", list)
	}
}

// The worker of examples/python runs, fails and keeps its lease, stops what is cancelled, and
// finishes what it runs on SIGTERM.
func TestPythonWorker(t *testing.T) {
	slow(t)
	t.Parallel()
	const lease = 3 * time.Second
	conf := leases(lease, "email")
	conf.Workers.HeartbeatInterval, conf.Workers.DeadAfter = time.Second, 10*time.Second
	e := startEngine(t, embedded.Options{Config: conf})
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, need.Program(t, "python3"), "../../examples/python/worker.py", "http://"+e.HTTP())
	var out need.Log
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &out, 10*time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	defer func() {
		if !ended {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		if t.Failed() {
			t.Logf("the worker said:\n%s", out.String())
		}
	}()
	ends := func(id string, want events.ItemState) (it wire.Item) {
		t.Helper()
		need.Eventually(t, "item "+id+" is "+want.String(), func() bool { it = e.item(t, id); return it.State == want })
		return it
	}
	var ids []string
	for range 20 {
		ids = append(ids, e.submit(t, "email", `{"to":"ann@example.org"}`))
	}
	for _, id := range ids {
		if it := ends(id, events.StateCompleted); string(it.Result) != `{"sent":"ann@example.org","resumed":null}` {
			t.Errorf("the result is %s", it.Result)
		}
	}
	bad := e.submitItem(t, wire.Submit{Type: "email", Params: []byte(`{}`), MaxAttempts: 1})
	if it := ends(bad, events.StateDead); it.Error == nil || it.Error.Code != "python_error" {
		t.Errorf("the failed item is %+v", it)
	}
	cancelled := e.submit(t, "email", `{"to":"bob@example.org","takes_ms":600000}`)
	ends(cancelled, events.StateRunning)
	if _, _, err := e.client.Cancel(testContext(t), cancelled, "not needed"); err != nil {
		t.Fatal(err)
	}
	need.Eventually(t, "the cancelled run is stopped", func() bool { return strings.Contains(out.String(), cancelled) })
	long := e.submit(t, "email", `{"to":"eve@example.org","takes_ms":6000}`)
	ends(long, events.StateRunning)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if it := ends(long, events.StateCompleted); it.Attempt != 1 {
		t.Errorf("the long item took %d attempts: %v", it.Attempt, e.kinds(t, long))
	}
	err := cmd.Wait()
	if ended = true; err != nil {
		t.Errorf("the worker ended with %v", err)
	}
	if list := e.workers(t); len(list) != 0 {
		t.Errorf("workers: %+v", list)
	}
}
