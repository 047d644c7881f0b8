package secured

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/streamwright/streamwright/internal/need"
)

// patience bounds every wait of a test.
const patience = 2 * time.Minute

// built is the folder that the programs are in.
var built string

func TestMain(m *testing.M) {
	// Most tests wait for programs to start, and compute little.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	if flag.Parse(); testing.Short() {
		fmt.Println("all of these tests take seconds: skipped by -short")
		return
	}
	code := withPrograms(m.Run)
	if code == 0 {
		if err := goleak.Find(goleak.IgnoreTopFunction("github.com/golang/glog.(*fileSink).flushDaemon")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// withPrograms builds the programs and runs the tests: none of them is to have
// the time that building takes taken off its own.
func withPrograms(run func() int) int {
	dir, err := os.MkdirTemp("", "streamwright-secured-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if out, err := exec.Command("go", "build", "-o", dir, "github.com/streamwright/streamwright/cmd/engine", "github.com/streamwright/streamwright/cmd/tail").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the programs: %v\n%s", err, out)
		return 1
	}
	built = dir
	return run()
}

// program is the path of one of the programs.
func program(name string) string { return filepath.Join(built, name) }

// environ is this process's without what concerns NATS, and with more.
func environ(more ...string) (env []string) {
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "NATS_") && !strings.HasPrefix(e, "XDG_CONFIG_HOME=") {
			env = append(env, e)
		}
	}
	return append(env, more...)
}

type ran struct {
	code      int
	out, errs string
}

// login is what a program is given to connect: arguments and environment.
type login struct{ args, env []string }

func (l login) with(args ...string) login {
	return login{append(append([]string{}, l.args...), args...), l.env}
}

// run runs the engine program to its end.
func (l login) run(t *testing.T, args ...string) ran {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	// The flags come first: behind a -- they would be the child's.
	cmd := exec.CommandContext(ctx, program("engine"), append(append([]string{}, l.args...), args...)...)
	cmd.Env = environ(l.env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatalf("run %v: %v", args, err)
	}
	return ran{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

func (r ran) wants(t *testing.T, code int, says ...string) ran {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d\nout: %s\nerr: %s", r.code, code, r.out, r.errs)
	}
	for _, s := range says {
		if !strings.Contains(r.out+r.errs, s) {
			t.Errorf("it does not say %q\nout: %s\nerr: %s", s, r.out, r.errs)
		}
	}
	return r
}

// proc is a program that runs until it is stopped.
type proc struct {
	t    *testing.T
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended

	said need.Log

	mu   sync.Mutex    // guards more
	more chan struct{} // closed when it has said more
}

func (p *proc) Write(b []byte) (int, error) {
	n, err := p.said.Write(b)
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.more)
	p.more = make(chan struct{})
	return n, err
}

func (p *proc) log() string { return p.said.String() }

// begin starts a program; it is killed at the test's end.
func (l login) begin(t *testing.T, name string, args ...string) *proc {
	t.Helper()
	p := &proc{t: t, done: make(chan struct{}), more: make(chan struct{})}
	p.cmd = exec.Command(program(name), append(append([]string{}, l.args...), args...)...)
	p.cmd.Env = environ(l.env...)
	p.cmd.Stdout, p.cmd.Stderr = p, p
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGKILL)
		<-p.done
		if t.Failed() {
			t.Logf("%s %v said:\n%s", name, args, p.log())
		}
	})
	return p
}

// says waits until the program has said something.
func (p *proc) says(what string) {
	p.t.Helper()
	late := time.After(patience)
	for {
		p.mu.Lock()
		more := p.more
		p.mu.Unlock()
		if strings.Contains(p.log(), what) {
			return
		}
		select {
		case <-more:
		case <-p.done:
			if !strings.Contains(p.log(), what) {
				p.t.Fatalf("it has ended and not said %q", what)
			}
		case <-late:
			p.t.Fatalf("it has not said %q", what)
		}
	}
}

// end asks it to stop, and wants exit code 0.
func (p *proc) end() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	select {
	case <-p.done:
	case <-time.After(patience):
		p.t.Fatal("it does not stop")
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		p.t.Errorf("exit code %d", code)
	}
}
