//go:build linux || darwin

package process

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/workers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ran is what one child led to.
type ran struct {
	workers.Outcome
	mu  sync.Mutex
	log []string
}

func newItem(params string, r *ran) *workers.RawItem {
	id, _ := events.ParseID("01JD3V6YB2M4C9W8ZK5T7QXRNE")
	return &workers.RawItem{ID: id, Type: "exec", Attempt: 2, Raw: []byte(params), Sink: func(_ time.Time, _, m string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.log = append(r.log, m)
	}}
}

// sh runs a shell script as a handler.
func sh(ctx context.Context, script, params string, opts ...Option) *ran {
	r := &ran{}
	r.Outcome = workers.Invoke(ctx, Handler([]string{"sh", "-c", script}, opts...), newItem(params, r))
	return r
}

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		script    string
		code      string
		retryable bool
	}{
		{"exit 75", FailRetryLater, true},
		{"exit 65", FailDataError, false},
		{"exit 1", "exit_1", true},
		{"exit 200", "exit_200", true},
		{"kill -KILL $$", events.FailKilled, true},
		{"kill -TERM $$", events.FailKilled, true},
	} {
		got := sh(t.Context(), "echo why >&2; "+c.script, "{}")
		if got.Err == nil || got.Code != c.code || got.Retryable != c.retryable {
			t.Errorf("%s: %+v", c.script, got.Outcome)
		} else if !strings.HasSuffix(got.Err.Error(), ": why") {
			t.Errorf("%s: the error lacks the last line of stderr: %v", c.script, got.Err)
		}
	}
}

func TestResults(t *testing.T) {
	for _, c := range []struct{ script, want string }{
		{`cat`, `{"a":"<b>"}`},
		{`echo one; echo '{"n": 1}'; echo`, `{"n":1}`},
		{`echo one; echo two`, `"one\ntwo"`},
		{`printf 'no newline'`, `"no newline"`},
		{`true`, ``},
		{`echo 42`, `42`},
		{`printf '"\377"'`, `"\"\ufffd\""`},
		{`printf '%s %s %s [%s]' $WORK_ID $WORK_TYPE $WORK_ATTEMPT "${WORK_CHECKPOINT-unset}"`, `"01JD3V6YB2M4C9W8ZK5T7QXRNE exec 2 []"`},
		{`printf %s "$EXTRA"`, `"yes"`},
		{`head -c 300000 /dev/zero | tr '\0' x; echo; echo '{"big":false}'`, `{"big":false}`},
	} {
		got := sh(t.Context(), c.script, `{"a":"<b>"}`, Env("EXTRA=yes"))
		if got.Err != nil || string(got.Result) != c.want {
			t.Errorf("%s: got %s, %v; want %s", c.script, got.Result, got.Err, c.want)
		}
	}
}

func TestTooMuchOutput(t *testing.T) {
	for _, script := range []string{
		`head -c 5000000 /dev/zero | tr '\0' x`,
		`head -c 262140 /dev/zero | tr '\0' '"'`, // fits, but not once it is quoted
	} {
		got := sh(t.Context(), script, "{}")
		if got.Code != workers.FailBadResult || got.Retryable || !strings.Contains(got.Err.Error(), "elsewhere") {
			t.Errorf("%s: %v %s", script, got.Err, got.Code)
		}
	}
}

func TestStdin(t *testing.T) {
	params := `"` + strings.Repeat("x", events.MaxParamsBytes-2) + `"`
	if got := sh(t.Context(), "wc -c", params); strings.TrimSpace(string(got.Result)) != strconv.Itoa(len(params)) {
		t.Errorf("the child read %s of %d bytes: %v", got.Result, len(params), got.Err)
	}
	if got := sh(t.Context(), "exec 0<&-; echo 1", params); got.Err != nil || string(got.Result) != "1" {
		t.Errorf("a child that does not read its stdin: %+v", got.Outcome)
	}
}

func TestStderrIsTheLog(t *testing.T) {
	got := sh(t.Context(), `echo one >&2; echo >&2; head -c 20000 /dev/zero | tr '\0' x >&2; printf end >&2`, "{}")
	if len(got.log) != 4 || got.log[0] != "one" || len(got.log[1]) != workers.MaxLogText || !strings.HasSuffix(got.log[3], "xend") {
		t.Errorf("%d lines", len(got.log))
	}
	got = sh(t.Context(), `yes | head -n 20000 >&2`, "{}")
	if len(got.log) != MaxLogLines+1 || !strings.Contains(got.log[MaxLogLines], "dropped") {
		t.Errorf("%d lines of a child that talks too much", len(got.log))
	}
}

func TestNoSuchProgram(t *testing.T) {
	for _, cmd := range [][]string{{"no-such-program-here"}, {}, {""}} {
		got := workers.Invoke(t.Context(), Handler(cmd), newItem("{}", &ran{}))
		if got.Code != FailExec {
			t.Errorf("%q: %+v", cmd, got)
		}
	}
	got := workers.Invoke(t.Context(), Handler([]string{"true"}, Dir("/no/such/dir")), newItem("{}", &ran{}))
	if got.Code != FailExec {
		t.Errorf("%+v", got)
	}
}

// watched runs a script that writes a pid to the file named by $PIDFILE, ends
// its context once it is there, and returns the outcome and the pid.
func watched(t *testing.T, script string, cause error, opts ...Option) (*ran, int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pid")
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan *ran, 1)
	go func() { done <- sh(ctx, script, "{}", append(opts, Env("PIDFILE="+file))...) }()
	pid := pidIn(t, file)
	if cause != nil {
		cancel(cause)
	}
	defer cancel(nil)
	select {
	case r := <-done:
		return r, pid
	case <-time.After(2 * time.Minute):
		t.Fatal("the handler does not return")
		return nil, 0
	}
}

// pidIn waits until a file has a pid and a newline, and returns the pid.
func pidIn(t *testing.T, file string) (pid int) {
	t.Helper()
	await(t, "the pid", func() bool {
		b, err := os.ReadFile(file)
		if err != nil || !strings.HasSuffix(string(b), "\n") {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(b)))
		return err == nil
	})
	return pid
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for: %s", what)
		}
	}
}

// dead waits until a process is gone, or a zombie that its new parent has yet
// to reap.
func dead(t *testing.T, pid int) {
	t.Helper()
	await(t, "the end of a process", func() bool {
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			return true
		}
		b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		return err == nil && strings.Contains(string(b), ") Z ")
	})
}

func TestContextEndsTheGroup(t *testing.T) {
	for name, script := range map[string]string{
		"child":                   `echo $$ > $PIDFILE; exec sleep 1000`,
		"grandchild":              `sh -c 'echo $$ > $PIDFILE; exec sleep 1000' & wait`,
		"child with its own trap": `trap 'exit 3' TERM; sh -c 'echo $$ > $PIDFILE; exec sleep 1000' & wait`,
	} {
		t.Run(name, func(t *testing.T) {
			got, pid := watched(t, script, workers.ErrCancelled, Grace(time.Hour))
			if !errors.Is(got.Err, workers.ErrCancelled) {
				t.Errorf("got %v", got.Err)
			}
			dead(t, pid)
		})
	}
}

func TestKillAfterGrace(t *testing.T) {
	script := `trap '' TERM; echo $$ > $PIDFILE; while :; do sleep 1000; done`
	for _, grace := range []time.Duration{0, 50 * time.Millisecond} {
		got, pid := watched(t, script, workers.ErrLeaseLost, Grace(grace))
		if !errors.Is(got.Err, workers.ErrLeaseLost) {
			t.Errorf("got %v", got.Err)
		}
		dead(t, pid)
	}
}

func TestTimeout(t *testing.T) {
	ctx, cancel := context.WithTimeoutCause(t.Context(), 200*time.Millisecond, workers.ErrTimeout)
	defer cancel()
	if got := sh(ctx, "sleep 1000", "{}"); got.Code != events.FailTimeout || !got.Retryable {
		t.Errorf("%+v", got.Outcome)
	}
	if got := sh(ctx, "true", "{}"); got.Err == nil {
		t.Error("a child was started after the context's end")
	}
}

func TestGrandchildDoesNotOutliveTheChild(t *testing.T) {
	got, pid := watched(t, `sh -c 'trap "" TERM HUP; echo $$ > $PIDFILE; while :; do sleep 1000; done' & until [ -s $PIDFILE ]; do :; done; echo 7`, nil, PipeDelay(time.Hour))
	if got.Err != nil || string(got.Result) != "7" {
		t.Errorf("%+v", got.Outcome)
	}
	dead(t, pid)
}

// A descendant that has left the group may hold stdout, but not hold us up.
func TestHeldPipe(t *testing.T) {
	need.Program(t, "setsid")
	got, pid := watched(t, `setsid sh -c 'echo $$ > $PIDFILE; exec sleep 1000' & until [ -s $PIDFILE ]; do :; done; echo 7`, nil, PipeDelay(2*time.Second))
	if got.Err != nil || string(got.Result) != "7" {
		t.Errorf("%+v", got.Outcome)
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
	dead(t, pid)
}

func TestManyAtOnce(t *testing.T) {
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if got := sh(t.Context(), "cat", strconv.Itoa(i)); string(got.Result) != strconv.Itoa(i) {
				t.Errorf("child %d: %+v", i, got.Outcome)
			}
		})
	}
	wg.Wait()
	var info syscall.WaitStatus
	if pid, err := syscall.Wait4(-1, &info, syscall.WNOHANG, nil); !errors.Is(err, syscall.ECHILD) {
		t.Errorf("a child was left: pid %d, %v", pid, err)
	}
}
