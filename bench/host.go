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
	"github.com/streamwright/streamwright/internal/sleep"
)

// serverWithin bounds the start of a server, and its orderly stop.
const serverWithin = 60 * time.Second

// Host is the folder and the server of one system under measurement.
type Host struct {
	*Tools
	Dir  string
	cmd  *exec.Cmd // the server; nil: none was started
	end  func()
	log  bytes.Buffer
	done chan struct{} // closed when it has ended
}

// Run starts the server, which End ends. User may be nil.
func (h *Host) Run(user *syscall.Credential, program string, args ...string) error {
	ctx, end := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = h.Dir, &h.log, &h.log
	// A group of its own: an interrupt at the terminal reaches only this program,
	// which then ends its servers in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: user}
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(os.Interrupt) }, serverWithin
	if err := cmd.Start(); err != nil {
		end()
		return fmt.Errorf("start %s: %w", program, err)
	}
	h.cmd, h.end, h.done = cmd, end, make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended matters only while it is needed: see Start
		close(h.done)
	}()
	return nil
}

// End ends the server in order, and returns what it has used in its whole life. One that
// does not end in time is killed.
func (h *Host) End() (Use, error) {
	if h.cmd == nil {
		return Use{}, nil
	}
	h.end()
	<-h.done
	var err error
	if h.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		err = fmt.Errorf("%s did not end within %s of an interrupt", h.cmd.Path, serverWithin)
	}
	return lifeOf(h.cmd.ProcessState), err
}

// Start starts a system on an address that nobody listens on, and waits until it is ready.
func (h *Host) Start(ctx context.Context, s System) (addr string, err error) {
	addrs, err := loopback.Free(1)
	if err != nil {
		return "", err
	}
	if err := s.start(ctx, h, addrs[0]); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, serverWithin)
	defer cancel()
	for {
		err := listens(addrs[0])
		if err == nil {
			err = s.ready(ctx, addrs[0])
		}
		if err == nil {
			return addrs[0], nil
		}
		if e := sleep.For(ctx, 10*time.Millisecond); e != nil {
			return "", fmt.Errorf("%w: %w", e, err)
		}
		select {
		case <-h.done:
			return "", fmt.Errorf("%s has ended:\n%s", filepath.Base(h.cmd.Path), bytes.TrimSpace(h.log.Bytes()))
		default:
		}
	}
}

// Tools are the programs that the systems run.
type Tools struct {
	dir     string            // for what is made
	Root    string            // of the repository
	Servers map[string]string // by product, the server's program
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
	t := &Tools{dir: dir, Root: root, Servers: map[string]string{}}
	for _, s := range all {
		if t.Servers[s.Product] != "" {
			continue
		}
		if t.Servers[s.Product], err = s.prepare(ctx, t); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// build builds a package, from a folder with a module that has it, as a program.
func (t *Tools) build(ctx context.Context, dir, pkg string) (program string, err error) {
	program = filepath.Join(t.dir, filepath.Base(dir)+"-server")
	_, err = output(ctx, dir, "go", "build", "-o", program, pkg)
	return program, err
}

func output(ctx context.Context, dir, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w\n%s", err, bytes.TrimSpace(e.Stderr))
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
