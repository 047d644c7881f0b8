package acceptance

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// pidIn waits for a file with a process's number in it.
func pidIn(t *testing.T, file string) int {
	t.Helper()
	pid := 0
	eventually(t, "a child has written "+filepath.Base(file), func() bool {
		b, err := os.ReadFile(file)
		if err != nil || !strings.HasSuffix(string(b), "\n") {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(b)))
		return err == nil
	})
	return pid
}

// alive reports whether a process runs; one that nobody has reaped yet does
// not.
func alive(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

// A type with a command needs no worker: the engine runs a child for each item.
func TestExecTypes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := serve(t, fmt.Sprintf(`
[defaults]
max_attempts = 2
backoff = {initial = "10ms", max = "20ms"}
[types.sum]
exec = ["sha256sum"]
[types.env]
exec = ["sh", "-c", 'echo "working on $WORK_TYPE" >&2; echo "{\"id\":\"$WORK_ID\",\"attempt\":$WORK_ATTEMPT}"']
[types.exit]
exec = ["sh", "-c", 'read code; echo "about to exit $code" >&2; exit $code']
[types.hang]
capacity = 2
[types.hang.exec]
command = ["sh", "-c", 'read f; f=$(echo $f | tr -d "\""); sleep 1000 & echo $! > %[1]s/$f.child; echo $$ > %[1]s/$f; wait']
grace = "100ms"
`, dir))

	if it := s.wait(s.submit(streamwright.Item{Type: "sum", Params: "x"}), events.StateCompleted); !contains(string(it.Result), "-") || len(it.Result) < 64 {
		t.Errorf("sha256sum gave %s", it.Result)
	}
	id := s.submit(streamwright.Item{Type: "env"})
	it := s.wait(id, events.StateCompleted)
	if want := fmt.Sprintf(`{"id":%q,"attempt":1}`, id); string(it.Result) != want {
		t.Errorf("got %s, want %s", it.Result, want)
	}
	cli(t, s.url(), "logs", id).wants(t, 0, "working on env")

	// Exit codes.
	for code, want := range map[int]struct {
		attempts int
		code     string
	}{0: {1, ""}, 65: {1, "data_error"}, 75: {2, "tempfail"}, 3: {2, "exit_3"}} {
		it := must(s.c.Wait(s.ctx, s.submit(streamwright.Item{Type: "exit", Params: code})))(t)
		got := ""
		if it.Error != nil {
			got = it.Error.Code
		}
		if it.Attempt != want.attempts || got != want.code || (it.State == events.StateCompleted) != (code == 0) {
			t.Errorf("exit %d: %s after %d attempts, code %q; want %+v", code, it.State, it.Attempt, got, want)
		}
		if code != 0 && !contains(it.Error.Message, fmt.Sprintf("about to exit %d", code)) {
			t.Errorf("exit %d: the error does not have the last words: %s", code, it.Error.Message)
		}
	}

	// Cancel kills the whole group.
	id = s.submit(streamwright.Item{Type: "hang", Params: "cancelled"})
	shell, child := pidIn(t, filepath.Join(dir, "cancelled")), pidIn(t, filepath.Join(dir, "cancelled.child"))
	cli(t, s.url(), "cancel", id, "--reason", "enough").wants(t, 0, "cancelled (its worker is being told to stop)")
	eventually(t, "the cancelled child and its own are dead", func() bool { return !alive(shell) && !alive(child) })
	if it := s.get(id); it.State != events.StateCancelled || it.Reason != "enough" {
		t.Errorf("got %+v", it)
	}

	// So does a timeout.
	id = s.submit(streamwright.Item{Type: "hang", Params: "late", Timeout: 3 * time.Second, MaxAttempts: 1})
	child = pidIn(t, filepath.Join(dir, "late.child"))
	if it := s.wait(id, events.StateDead); it.Error.Code != events.FailTimeout {
		t.Errorf("got %+v", it.Error)
	}
	eventually(t, "the overdue child is dead", func() bool { return !alive(child) })

	// Killed from outside.
	id = s.submit(streamwright.Item{Type: "hang", Params: "shot", MaxAttempts: 1})
	shell = pidIn(t, filepath.Join(dir, "shot"))
	child = pidIn(t, filepath.Join(dir, "shot.child"))
	if err := syscall.Kill(shell, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if it := s.wait(id, events.StateDead); it.Error.Code != events.FailKilled {
		t.Errorf("got %+v", it.Error)
	}
	eventually(t, "what the killed child has left is dead", func() bool { return !alive(child) })

	// Stopping the engine hands back what runs, children and all.
	s.submit(streamwright.Item{Type: "hang", Params: "last"})
	child = pidIn(t, filepath.Join(dir, "last.child"))
	s.verify()
	s.p.kill()
	eventually(t, "the killed engine's children are dead", func() bool { return !alive(pidIn(t, filepath.Join(dir, "last"))) })
	_ = syscall.Kill(child, syscall.SIGKILL) // a grandchild of a killed engine is nobody's
}

// The log of an item can be followed while it runs, and ends with it.
func TestFollowLogs(t *testing.T) {
	dir := t.TempDir()
	s := serve(t, fmt.Sprintf(`
[types.talk]
exec = ["sh", "-c", 'echo first >&2; echo $$ > %[1]s/talking; while [ ! -e %[1]s/go ]; do sleep 0.02; done; echo last >&2']
`, dir))
	id := s.submit(streamwright.Item{Type: "talk"})
	pidIn(t, filepath.Join(dir, "talking"))
	f := begin(t, s.url(), "logs", id, "--follow")
	eventually(t, "the first line is followed", func() bool { return contains(f.log.String(), "first") })
	if contains(f.log.String(), "last") {
		t.Error("the last line came before it was written")
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code := f.ended(); code != 0 || !contains(f.log.String(), "last") {
		t.Errorf("exit code %d, said %s", code, f.log)
	}
}

// A worker that is killed in mid-run is found out by its lease.
func TestKilledWorker(t *testing.T) {
	const lease = time.Second
	dir := t.TempDir()
	s := serve(t, fmt.Sprintf("[types.job]\nlease = %q\n", lease))
	victim := begin(t, s.url(), "work", "job", "--id", "victim", "--", "sh", "-c", "echo $$ > "+dir+"/child; sleep 1000")
	id := s.submit(streamwright.Item{Type: "job"})
	child := pidIn(t, filepath.Join(dir, "child"))
	if it := s.until(id, events.StateRunning); it.Worker != "victim" {
		t.Fatalf("got %+v", it)
	}
	killed := time.Now()
	victim.kill()
	eventually(t, "the dead worker's child is dead", func() bool { return !alive(child) })
	begin(t, s.url(), "work", "job", "--id", "heir", "--", "cat")
	it := s.wait(id, events.StateCompleted)
	if it.Worker != "heir" || it.Attempt != 2 {
		t.Errorf("got %+v", it)
	}
	took := it.ClaimedAt.Sub(killed)
	t.Logf("claimed by another %v after the kill, the lease being %v", took, lease)
	if took > lease+30*time.Second { // half of the time between two sweeps, which would find it too
		t.Errorf("it took %v, the lease is %v", took, lease)
	}
	if ev := s.first(id, events.KindFailed); !contains(string(ev.Data), events.FailLeaseExpired) {
		t.Errorf("got %s", ev.Data)
	}
	s.verify()
}

// What a worker says after it has lost its lease is refused.
func TestLateCompletion(t *testing.T) {
	t.Parallel()
	s := inMemory(t, "[types.job]\nlease = \"3s\"\n")
	id := s.submit(streamwright.Item{Type: "job"})
	p := newProtocolWorker(s, "late", "job")
	m := p.receive()
	receivedAt := time.Now()
	if got := p.start(m); !got.OK {
		t.Fatalf("got %+v", got)
	}
	heir := newProtocolWorker(s, "heir", "job")
	n := heir.receive()
	t.Logf("with the next worker %v after the first, the lease being 3s", time.Since(receivedAt))
	if n.ID != id || n.Token == m.Token || n.Attempt != 2 {
		t.Fatalf("got %+v", n)
	}
	late := p.report(m, wire.ReportComplete)
	late.Result = []byte(`"late"`)
	refused := func() {
		t.Helper()
		if got := p.send(late); got.Error == nil || got.Error.Code != events.CodeStaleToken && got.Error.Code != events.CodeWrongState {
			t.Errorf("got %+v", got)
		}
	}
	refused()
	if got := heir.start(n); !got.OK || got.Attempt != 2 {
		t.Fatalf("got %+v", got)
	}
	refused()
	rep := heir.report(n, wire.ReportComplete)
	rep.Result = []byte(`"in time"`)
	if got := heir.send(rep); !got.OK {
		t.Fatalf("got %+v", got)
	}
	refused()
	if it := s.wait(id, events.StateCompleted); string(it.Result) != `"in time"` {
		t.Errorf("got %+v", it)
	}
	s.completedOnce([]string{id})
	s.verify()
}
