package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// clientEnv holds the order of a client's process. The client submits and works; that it
// is a process of its own keeps its CPU and memory apart from the servers', and each
// measurement from the one before.
const clientEnv = "STREAMWRIGHT_BENCH_CLIENT"

// measureWithin bounds one measurement with its preparation.
const measureWithin = 30 * time.Minute

// order is what a client is to do.
type order struct {
	System  string
	Addr    string
	Load    string
	Case    Case
	Options Options
}

// What a client says, each on a line. It waits for a line after each.
const (
	saysReady = "ready"
	saysDone  = "done " // and the values
)

// clientMain is the client's process.
func clientMain(text string, in io.Reader, out io.Writer) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), measureWithin)
	defer cancel()
	var system System
	for _, s := range systems() {
		if s.About().ID == o.System {
			system = s
		}
	}
	var load Load
	for _, l := range loads() {
		if l.Name() == o.Load {
			load = l
		}
	}
	if system == nil || load == nil {
		return fmt.Errorf("no system %q or no load %q", o.System, o.Load)
	}
	heard := bufio.NewReader(in)
	// await waits until the other side has read its counters. If it has gone, so does
	// the client.
	await := func() error {
		_, err := heard.ReadString('\n')
		return err
	}
	return serve(ctx, system, load, o, func(line string) error {
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
		return await()
	})
}

func serve(ctx context.Context, s System, l Load, o order, say func(string) error) (err error) {
	peer, err := s.Dial(ctx, o.Addr, o.Options.Slots)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	r := &Run{Options: o.Options, Case: o.Case, Peer: peer}
	defer func() { err = errors.Join(err, r.end(), peer.Close()) }()
	if err := l.Prepare(ctx, r); err != nil {
		return fmt.Errorf("prepare: %w", err)
	}
	if err := say(saysReady); err != nil {
		return err
	}
	values, err := l.Measure(ctx, r)
	if err != nil {
		return err
	}
	text, err := json.Marshal(values)
	if err != nil {
		return err
	}
	return say(saysDone + string(text))
}

// client is a client's process, seen from outside.
type client struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr strings.Builder
}

func startClient(ctx context.Context, o order) (*client, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	c := &client{cmd: exec.CommandContext(ctx, self)}
	c.cmd.Env = append(os.Environ(), clientEnv+"="+string(text))
	c.cmd.Stderr = &c.stderr
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewReader(out)
	return c, c.cmd.Start()
}

// hear reads a line that begins with want, and returns the rest of it.
func (c *client) hear(want string) (string, error) {
	line, err := c.out.ReadString('\n')
	rest, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), want)
	if err != nil || !ok {
		return "", fmt.Errorf("the client said %q, not %q (%w)", line, want, err)
	}
	return rest, nil
}

// goOn lets the client continue.
func (c *client) goOn() error {
	_, err := io.WriteString(c.in, "\n")
	return err
}

// end waits for the client's end, which it hastens if something has failed.
func (c *client) end(failed bool) error {
	_ = c.in.Close() // the client stops waiting
	if failed {
		_ = c.cmd.Process.Kill() // it may be in the middle of a load
	}
	if err := c.cmd.Wait(); err != nil {
		return fmt.Errorf("the client: %w: %s", err, strings.TrimSpace(c.stderr.String()))
	}
	return nil
}

func parseValues(text string) (v Values, err error) {
	err = json.Unmarshal([]byte(text), &v)
	return v, err
}
