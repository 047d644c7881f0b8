package process

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/tracing"
	"github.com/streamwright/streamwright/workers"
)

// Bounds and defaults.
const (
	// MaxLogLines bounds the lines of stderr that become records of the item's log;
	// further ones are dropped, and a last record says so.
	MaxLogLines = 10_000
	// DefaultGrace is the time from SIGTERM to SIGKILL.
	DefaultGrace = 5 * time.Second
	// DefaultPipeDelay bounds the time for which stdout and stderr may stay open after the
	// child has exited and its group was killed.
	DefaultPipeDelay = 2 * time.Second
)

// The exit codes with a meaning of their own, from sysexits.h.
const (
	ExitRetryLater = 75 // EX_TEMPFAIL
	ExitDataError  = 65 // EX_DATAERR
)

// The failure codes of child processes; see also events.FailKilled and
// workers.FailBadResult.
const (
	FailRetryLater = "tempfail"
	FailDataError  = "data_error"
	FailExec       = "exec_failed"
	failExitPrefix = "exit_"
)

type config struct {
	argv      []string
	dir       string
	env       []string // NAME=value
	pass      []string // names
	grace     time.Duration
	pipeDelay time.Duration

	restricted bool
	stream     bool
}

// Option changes how children are run.
type Option func(*config)

// Dir runs the children in a directory; the default is the worker's.
func Dir(path string) Option { return func(c *config) { c.dir = path } }

// Grace is the time from SIGTERM to SIGKILL; 0 kills at once.
func Grace(d time.Duration) Option { return func(c *config) { c.grace = max(d, 0) } }

// PipeDelay bounds the time for which a descendant that has left the process group may hold
// the child's pipes open.
func PipeDelay(d time.Duration) Option {
	return func(c *config) { c.pipeDelay = max(d, time.Millisecond) }
}

// Stream makes stdout the item's output, which anyone can follow while the child runs. The
// result is then {"output":{"bytes":n}}, with "cut":true if the output has reached its bound:
// what is beyond is dropped, and the child runs on.
func Stream() Option { return func(c *config) { c.stream = true } }

// Handler runs cmd (the program and its arguments; no shell) for each item.
// The program is looked up in PATH each time, so it may appear later.
func Handler(cmd []string, opts ...Option) workers.Handler {
	c := config{argv: append([]string(nil), cmd...), grace: DefaultGrace, pipeDelay: DefaultPipeDelay}
	for _, o := range opts {
		o(&c)
	}
	return c.handle
}

// handle runs one child to its end.
func (c *config) handle(ctx context.Context, item *workers.RawItem) (any, error) {
	if len(c.argv) == 0 || c.argv[0] == "" {
		return nil, workers.Permanent(workers.WithCode(errors.New("no command is given to run"), FailExec))
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	log := &lineLogger{log: func(line string) { item.Log(workers.LevelInfo, line) }}
	cmd := exec.Command(c.argv[0], c.argv[1:]...)
	cmd.Dir = c.dir
	cmd.Env = append(c.environ(os.Environ()), environment(ctx, item)...)
	cmd.Stdin = bytes.NewReader(item.Raw) // a child that does not read it is no error
	cmd.Stderr = log
	cmd.WaitDelay = c.pipeDelay
	isolate(cmd)
	if item.Continuation != nil {
		path, err := listFile("children", item.Continuation.Children)
		if err != nil {
			return nil, workers.WithCode(err, FailExec)
		}
		defer os.Remove(path)
		cmd.Env = append(cmd.Env, "WORK_CONTINUATION="+item.Continuation.Name, "WORK_CHILDREN="+path)
	}
	if w := item.Waited; w != nil {
		path, err := listFile("signals", w.Signals)
		if err != nil {
			return nil, workers.WithCode(err, FailExec)
		}
		defer os.Remove(path)
		ended := events.WaitSignalled
		if w.TimedOut {
			ended = events.WaitTimedOut
		}
		cmd.Env = append(cmd.Env, "WORK_WAITED="+string(ended), "WORK_SIGNALS="+path)
	}
	said, pipe, err := openReport(ctx, cmd, item)
	if err != nil {
		return nil, workers.WithCode(err, FailExec)
	}
	out, stdout, err := c.stdout(cmd, item)
	if err != nil {
		pipe.finish(0)
		return nil, workers.WithCode(err, FailExec)
	}

	m := new(meter)
	defer item.Measure(m.read)()
	err = c.run(ctx, cmd, func() {
		m.started(cmd.Process.Pid)
		pipe.started()
		stdout.started()
	})
	m.ended(cmd.ProcessState)
	pipe.finish(c.pipeDelay)
	stdout.finish(c.pipeDelay)
	log.flush()
	if cmd.Process == nil {
		return nil, workers.WithCode(fmt.Errorf("start %s: %w", c.argv[0], err), FailExec)
	}
	return verdict(ctx, cmd.ProcessState, err, out, log.last, said)
}

// result is what a child has written to stdout.
type result interface {
	// result returns the result of a child that has succeeded.
	result() (any, error)
}

// stdout makes stdout of a command the result, or the item's output, which has a pipe of its
// own: its reader may wait for the engine.
func (c *config) stdout(cmd *exec.Cmd, item *workers.RawItem) (result, *pipe, error) {
	if !c.stream {
		out := &capture{max: cmp.Or(max(item.MaxResult, 0), events.MaxResultBytes)}
		cmd.Stdout = out
		return out, nil, nil
	}
	out := streamed{item.Output()}
	p, err := openPipe(maxLeftOutput, out.take, func() {})
	if err != nil {
		return nil, nil, fmt.Errorf("open stdout: %w", err)
	}
	cmd.Stdout = p.ours
	return out, p, nil
}

func environment(ctx context.Context, item *workers.RawItem) []string {
	env := []string{
		"WORK_ID=" + item.ID.String(),
		"WORK_TYPE=" + string(item.Type),
		"WORK_NAMESPACE=" + string(cmp.Or(item.Namespace, events.DefaultNamespace)),
		"WORK_ATTEMPT=" + strconv.Itoa(int(item.Attempt)),
		"WORK_CHECKPOINT=" + string(item.Checkpoint),
	}
	if t := tracing.From(ctx); t != "" {
		env = append(env, "TRACEPARENT="+t)
	}
	return env
}

// run starts cmd, ends its group with ctx, and returns once it is reaped and
// its pipes are closed. It calls started once the child runs.
func (c *config) run(ctx context.Context, cmd *exec.Cmd, started func()) error {
	// On Linux the child's parent-death signal is bound to the thread that
	// started it; waiting for the child takes a thread anyway.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return err
	}
	started()
	exited, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		c.terminate(ctx, cmd, exited)
	}()
	if !awaitExit(cmd) {
		err := cmd.Wait()
		close(exited)
		<-watched
		return err
	}
	close(exited)
	<-watched
	killGroup(cmd)
	return cmd.Wait()
}

// terminate ends the child's group when ctx does, unless the child exits
// before.
func (c *config) terminate(ctx context.Context, cmd *exec.Cmd, exited <-chan struct{}) {
	select {
	case <-exited:
		return
	case <-ctx.Done():
	}
	if c.grace > 0 {
		terminateGroup(cmd)
		grace := time.NewTimer(c.grace)
		defer grace.Stop()
		select {
		case <-exited:
			return
		case <-grace.C:
		}
	}
	killGroup(cmd)
}

// verdict returns the outcome of an ended child. waitErr is the error of Wait; only
// the process's state counts, since a pipe that had to be closed is no failure.
func verdict(ctx context.Context, state *os.ProcessState, waitErr error, out result, lastLine string, said *reporter) (any, error) {
	if state == nil {
		return nil, fmt.Errorf("wait for the child: %w", waitErr)
	}
	if state.Success() {
		if result, err, asked := said.outcome(false, nil); asked {
			return result, err
		}
		return out.result()
	}
	err := errors.New(describe(state, lastLine))
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	switch code := state.ExitCode(); code {
	case ExitRetryLater:
		if _, err, asked := said.outcome(true, err); asked {
			return nil, err
		}
		return nil, workers.WithCode(err, FailRetryLater)
	case ExitDataError:
		return nil, workers.Permanent(workers.WithCode(err, FailDataError))
	case -1:
		return nil, workers.WithCode(err, events.FailKilled)
	default:
		return nil, workers.WithCode(err, failExitPrefix+strconv.Itoa(code))
	}
}

// describe returns how the child ended, and the last thing that it said.
func describe(state *os.ProcessState, lastLine string) string {
	s := "the child ended with " + state.String()
	if lastLine = strings.TrimSpace(lastLine); lastLine != "" {
		s += ": " + lastLine
	}
	return s
}
