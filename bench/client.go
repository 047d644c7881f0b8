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
	System, Load, Addr string
	Case               Case
	Options            Options
}

// talk is one end of the conversation between a client and the process that measures
// it. What the client says is answered with an empty line, once the other side has read
// its counters.
type talk struct {
	in  *bufio.Reader
	out io.Writer
}

// What a client says.
const (
	saysReady = "ready"
	saysDone  = "done " // and the values
)

func (t talk) say(line string) error {
	_, err := io.WriteString(t.out, line+"\n")
	return err
}

// hear reads a line that begins with want, and returns the rest of it.
func (t talk) hear(want string) (string, error) {
	line, err := t.in.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("the other side has gone: %w", err)
	}
	rest, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), want)
	if !ok {
		return "", fmt.Errorf("the other side said %q, not %q", line, want)
	}
	return rest, nil
}

// clientMain is the client's process.
func clientMain(text string, in io.Reader, out io.Writer) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), measureWithin)
	defer cancel()
	s, err := pick(o.System, systems(), isSystem)
	if err != nil {
		return err
	}
	l, err := pick(o.Load, loads(), isLoad)
	if err != nil {
		return err
	}
	peer, err := s[0].Dial(ctx, o.Addr, o.Options.Slots)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	r := &Run{Options: o.Options, Case: o.Case, Peer: peer}
	return errors.Join(r.serve(ctx, l[0], talk{bufio.NewReader(in), out}), r.end(), peer.Close())
}

// serve does what a client is for.
func (r *Run) serve(ctx context.Context, l Load, t talk) error {
	if err := l.Prepare(ctx, r); err != nil {
		return fmt.Errorf("prepare: %w", err)
	}
	if err := t.say(saysReady); err != nil {
		return err
	}
	if _, err := t.hear(""); err != nil {
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
	if err := t.say(saysDone + string(text)); err != nil {
		return err
	}
	_, err = t.hear("")
	return err
}

// startClient starts a client's process. end waits for its end, and hastens it if
// something has failed: it may be in the middle of a load.
func startClient(ctx context.Context, o order) (t talk, pid int, end func(failed bool) error, err error) {
	self, err := os.Executable()
	if err != nil {
		return t, 0, nil, err
	}
	text, err := json.Marshal(o)
	if err != nil {
		return t, 0, nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), clientEnv+"="+string(text))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return t, 0, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return t, 0, nil, err
	}
	if err := cmd.Start(); err != nil {
		return t, 0, nil, err
	}
	return talk{bufio.NewReader(out), in}, cmd.Process.Pid, func(failed bool) error {
		if failed {
			_ = cmd.Process.Kill() // it has ended already: Wait says so
		}
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("the client: %w: %s", err, strings.TrimSpace(stderr.String()))
		}
		return nil
	}, nil
}
