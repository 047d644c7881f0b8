package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/streamwright/streamwright/internal/loopback"
	"github.com/streamwright/streamwright/internal/measure"
	"github.com/streamwright/streamwright/internal/sleep"
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
	cmd  *exec.Cmd
	log  bytes.Buffer
	done chan struct{}
}

// Run starts a server, which End ends. User may be nil.
func (h *Host) Run(user *syscall.Credential, program string, args ...string) error {
	p := &process{cmd: exec.Command(program, args...), done: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = h.Dir, &p.log, &p.log
	// A group of its own: an interrupt at the terminal reaches only this program,
	// which then ends its servers in order.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: user}
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", program, err)
	}
	h.procs = append(h.procs, p)
	go func() {
		_ = p.cmd.Wait() // how it ended matters only while it is needed: see Ready
		close(p.done)
	}()
	return nil
}

// Ready calls try until it succeeds. It fails at once when a server has ended.
func (h *Host) Ready(ctx context.Context, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		if e := sleep.For(ctx, 10*time.Millisecond); e != nil {
			return fmt.Errorf("%w: %w", e, err)
		}
		for _, p := range h.procs {
			select {
			case <-p.done:
				return fmt.Errorf("%s has ended:\n%s", filepath.Base(p.cmd.Path), bytes.TrimSpace(p.log.Bytes()))
			default:
			}
		}
	}
}

// End ends the servers in order, one after the other, and returns what they have used
// in their whole life. One that does not end in time is killed.
func (h *Host) End() (sum measure.Counters, err error) {
	for i := len(h.procs) - 1; i >= 0; i-- {
		p := h.procs[i]
		_ = p.cmd.Process.Signal(os.Interrupt) // it has ended already: done says so
		select {
		case <-p.done:
		case <-time.After(endWithin):
			_ = p.cmd.Process.Kill()
			<-p.done
			err = errors.Join(err, fmt.Errorf("%s did not end within %s of an interrupt", p.cmd.Path, endWithin))
		}
		sum = sum.Plus(measure.LifeOf(p.cmd.ProcessState))
	}
	h.procs = nil
	return sum, err
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
	addrs, err := loopback.Free(1)
	if err != nil {
		return "", err
	}
	return addrs[0], s.Start(ctx, h, addrs[0])
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
			err = t.build(ctx, &t.Engine, filepath.Join(dir, "engine"), root, "./cmd/engine")
		case jetstreamSystem: // in the folder bench, whose go.mod has it as a tool
			err = t.build(ctx, &t.NATS, filepath.Join(dir, "nats-server"), filepath.Join(root, "bench"), "github.com/nats-io/nats-server/v2")
		case asynqSystem:
			if t.Redis, err = exec.LookPath("redis-server"); err != nil {
				err = fmt.Errorf("%w: install the package redis-server, or choose others with --only", err)
			}
		case riverSystem:
			err = t.preparePostgres(ctx, dir)
		}
		if err != nil {
			return nil, err
		}
	}
	return t, nil
}

// build builds a package as a program, once.
func (t *Tools) build(ctx context.Context, built *string, program, dir, pkg string) error {
	if *built != "" {
		return nil
	}
	*built = program
	_, err := output(ctx, dir, "go", "build", "-o", program, pkg)
	return err
}

func output(ctx context.Context, dir, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return strings.TrimSpace(string(out)), nil
}
