package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// readyWithin bounds the start of a server, endWithin its orderly stop.
const (
	readyWithin = 60 * time.Second
	endWithin   = 60 * time.Second
)

// Host is the folder and the processes of one system under measurement.
type Host struct {
	Dir   string
	Tools *Tools
	procs []*process
}

type process struct {
	name string
	cmd  *exec.Cmd
	log  bytes.Buffer
	last counters // what it and its children had used at their end
	done chan struct{}
}

// Run starts a server, which End ends. User may be nil.
func (h *Host) Run(user *syscall.Credential, program string, args ...string) error {
	p := &process{name: filepath.Base(program), cmd: exec.Command(program, args...), done: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = h.Dir, &p.log, &p.log
	// A group of its own: an interrupt at the terminal reaches only this program,
	// which then ends its servers in order.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: user}
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", program, err)
	}
	h.procs = append(h.procs, p)
	go p.await()
	return nil
}

// await reaps the process, after a look at what it has used: an ended process keeps
// that until it is reaped.
func (p *process) await() {
	defer close(p.done)
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, p.cmd.Process.Pid, &info, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	p.last, _ = readTree(p.cmd.Process.Pid) // zero if it is gone, which Wait tells
	_ = p.cmd.Wait()                        // how it ended matters only while it is needed: see Ready
}

// Ready calls try until it succeeds. It fails at once when a server has ended.
func (h *Host) Ready(ctx context.Context, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-tick.C:
		}
		for _, p := range h.procs {
			select {
			case <-p.done:
				return fmt.Errorf("%s has ended:\n%s", p.name, strings.TrimSpace(p.log.String()))
			default:
			}
		}
	}
}

// End ends the servers in order, one after the other, and returns what they have used
// in their whole life. One that does not end in time is killed.
func (h *Host) End() (counters, error) {
	var sum counters
	var errs []error
	for i := len(h.procs) - 1; i >= 0; i-- {
		p := h.procs[i]
		_ = p.cmd.Process.Signal(os.Interrupt) // it has ended already: done says so
		select {
		case <-p.done:
		case <-time.After(endWithin):
			_ = p.cmd.Process.Kill()
			<-p.done
			errs = append(errs, fmt.Errorf("%s did not end within %s of an interrupt", p.name, endWithin))
		}
		sum = sum.plus(p.last)
	}
	h.procs = nil
	return sum, errors.Join(errs...)
}

// pids are the servers' processes, without their children.
func (h *Host) pids() (pids []int) {
	for _, p := range h.procs {
		pids = append(pids, p.cmd.Process.Pid)
	}
	return pids
}

// Start starts a system on an address that nobody listens on.
func (h *Host) Start(ctx context.Context, s System) (addr string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	if err := l.Close(); err != nil {
		return "", err
	}
	return l.Addr().String(), s.Start(ctx, h, l.Addr().String())
}

// Tools are the programs that the systems run.
type Tools struct {
	Root   string // of the repository
	Engine string
	NATS   string
	Redis  string
	PG     string // the folder of PostgreSQL's programs
	// PGData is a fresh database cluster, to be copied.
	PGData string
	PGUser *syscall.Credential
}

// prepareTools builds or finds what the systems need, in dir.
func prepareTools(ctx context.Context, dir string, all []System) (*Tools, error) {
	root, err := output(ctx, "", "go", "list", "-m", "-f", "{{.Dir}}", "github.com/streamwright/streamwright")
	if err != nil {
		return nil, fmt.Errorf("find the repository (run this in the folder bench): %w", err)
	}
	t := &Tools{Root: root}
	for _, s := range all {
		switch s.(type) {
		case streamwrightSystem:
			err = t.buildEngine(ctx, dir)
		case jetstreamSystem:
			err = t.buildNATS(ctx, dir)
		case asynqSystem:
			err = t.findRedis()
		case riverSystem:
			err = t.preparePostgres(ctx, dir)
		}
		if err != nil {
			return nil, err
		}
	}
	return t, nil
}

func output(ctx context.Context, dir, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(out)), nil
}
