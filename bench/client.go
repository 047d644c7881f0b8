package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/streamwright/streamwright/internal/measure"
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

// clientMain is the client's process. It writes its values when it has prepared, and when it
// has measured. Each time it then waits for a byte, so that the other side can read
// its counters.
func clientMain(text string, in io.Reader, out io.Writer) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), measureWithin)
	defer cancel()
	s, err := systemsNamed(o.System)
	if err != nil {
		return err
	}
	l, err := loadsNamed(o.Load)
	if err != nil {
		return err
	}
	q, err := s[0].dial(ctx, o.Addr, o.Options.Slots)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	r := newRun(o.Options, o.Case, q)
	r.ready = func() error {
		if err := json.NewEncoder(out).Encode(r.values); err != nil {
			return err
		}
		_, err := in.Read(make([]byte, 1))
		return err
	}
	if err = l[0].run(ctx, r); err == nil {
		err = r.ready()
	}
	return errors.Join(err, r.stop(), q.Close())
}

func newRun(o Options, c Case, q measure.Queue) *Run {
	return &Run{Options: o, Case: c, Queue: q, values: Values{}, tally: measure.NewTally(c.Items), stop: func() error { return nil }}
}

// client is a client's process.
type client struct {
	cmd    *exec.Cmd
	in     io.Writer
	out    *json.Decoder
	stderr bytes.Buffer
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
	c.cmd.Env, c.cmd.Stderr = append(os.Environ(), clientEnv+"="+string(text)), &c.stderr
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = json.NewDecoder(out)
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	return c, c.cmd.Start()
}

// values waits until the client has done the next thing.
func (c *client) values() (v Values, err error) {
	if err := c.out.Decode(&v); err != nil {
		return nil, fmt.Errorf("the client has gone: %w", err)
	}
	return v, nil
}

// goOn lets the client go on.
func (c *client) goOn() error {
	_, err := c.in.Write([]byte{'\n'})
	return err
}

// end waits for the client's end, and hastens it if something has failed: it may be in the
// middle of a load.
func (c *client) end(failed bool) error {
	if failed {
		_ = c.cmd.Process.Kill() // it has ended already: Wait says so
	}
	if err := c.cmd.Wait(); err != nil {
		return fmt.Errorf("the client: %w: %s", err, bytes.TrimSpace(c.stderr.Bytes()))
	}
	return nil
}
