package acceptance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/internal/logins"
	"github.com/streamwright/streamwright/internal/need"
)

// binary is the path of the program.
var binary string

// build builds the program into a folder: before the tests, since none of them is
// to have the time that it takes taken off its own.
func build(dir string) error {
	binary = filepath.Join(dir, "engine")
	out, err := exec.Command("go", "build", "-o", binary, "github.com/streamwright/streamwright/cmd/engine").CombinedOutput()
	if err != nil {
		return fmt.Errorf("build the engine: %w\n%s", err, out)
	}
	return nil
}

// ran is what a run of the program came to.
type ran struct {
	code      int
	out, errs string
}

// cli runs the program to its end, as a user would.
func cli(t *testing.T, url string, args ...string) ran {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = environ(url)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("run %v: %v", args, err)
	}
	return ran{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// login returns the options of a user's connection to a URL; none if the server there is open.
func login(t *testing.T, url, user string) []nats.Option {
	t.Helper()
	if !strings.HasPrefix(url, "tls://") {
		return nil
	}
	return secured.Options(t, user)
}

// environ is the environment of a program that connects to a URL: with a login, if the
// engine there is secured.
func environ(url string) []string {
	env := append(os.Environ(), "NATS_URL="+url)
	if strings.HasPrefix(url, "tls://") {
		env = append(env, secured.Environ(logins.All)...)
	}
	return env
}

// wants checks the exit code and what was said.
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
	log  *logBook
	done chan struct{} // closed when it has ended
}

// begin starts the program; it is killed at the test's end. The program is built without
// the race detector, which finds nothing in a test whose engine is another process.
func begin(t *testing.T, url string, args ...string) *proc {
	t.Helper()
	if args[0] == "serve" {
		need.NoRace(t, "the engine is another process, which runs without it")
	}
	p := &proc{t: t, cmd: exec.Command(binary, args...), log: &logBook{}, done: make(chan struct{})}
	p.cmd.Env = environ(url)
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		p.kill()
		secured.Check(t, p.log.String())
		if t.Failed() {
			t.Logf("%v said:\n%s", args, tailOf(p.log.String(), 4000))
		}
	})
	return p
}

// kill is kill -9.
func (p *proc) kill() {
	_ = p.cmd.Process.Signal(syscall.SIGKILL)
	<-p.done
}

// signal sends it a signal.
func (p *proc) signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
}

// end asks it to stop, and returns its exit code.
func (p *proc) end() int {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	return p.ended()
}

// ended waits for its end by itself, and returns its exit code.
func (p *proc) ended() int {
	p.t.Helper()
	recv(p.t, "the end of the program", p.done)
	return p.cmd.ProcessState.ExitCode()
}

// served is an `engine serve`, with a client.
type served struct {
	rig
	dir    string
	listen string
	nats   string // an outside NATS server; empty: the engine's own
	toml   string
	p      *proc
}

// serve starts `engine serve` with this configuration.
func serve(t *testing.T, toml string) *served {
	t.Helper()
	s := &served{rig: rig{t: t, ctx: testContext(t), log: &logBook{}}, dir: filepath.Join(t.TempDir(), "data"), listen: need.Address(t).String()}
	s.toml = filepath.Join(t.TempDir(), "engine.toml")
	if err := os.WriteFile(s.toml, []byte("[server]\ndurability = \"interval\"\nhttp = \"off\"\n"+toml+secured.TOML()), 0o600); err != nil {
		t.Fatal(err)
	}
	s.begin()
	s.connect()
	return s
}

func (s *served) url() string {
	if s.nats != "" {
		return s.nats
	}
	return secured.Scheme() + s.listen
}

func (s *served) begin() {
	s.t.Helper()
	if s.nats != "" {
		s.p = begin(s.t, s.nats, "serve", "--dir", s.dir, "--config", s.toml, "--nats-url", s.nats)
		return
	}
	s.p = begin(s.t, s.url(), "serve", "--dir", s.dir, "--config", s.toml, "--nats-listen", s.listen)
}

// connect gives the rig its client once the engine is there.
func (s *served) connect() {
	s.t.Helper()
	soon := []nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(20 * time.Millisecond), nats.ReconnectJitter(0, 0)}
	eventually(s.t, "the engine is ready", func() bool {
		select {
		case <-s.p.done:
			s.t.Fatalf("the engine has ended:\n%s", s.p.log)
		default:
		}
		return strings.Contains(s.p.log.String(), "engine ready")
	})
	s.nc = must(nats.Connect(s.url(), append(login(s.t, s.url(), logins.All), soon...)...))(s.t)
	s.c = must(streamwright.New(s.nc))(s.t)
	s.js = jetStream(s.t, s.nc)
	s.t.Cleanup(func() { s.c.Close(); s.nc.Close() })
}

func touch(t *testing.T, file string) {
	t.Helper()
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// kills returns how often a test kills the engine: CHAOS_KILLS times, or usual.
func kills(usual int) int {
	if n, err := strconv.Atoi(os.Getenv("CHAOS_KILLS")); err == nil {
		return n
	}
	return usual
}
