package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

// Check is a health check that runs cmd (the program and its arguments; no
// shell). An exit other than 0 fails it, with the last line of stderr that is not
// blank, cut to wire.MaxCheckError bytes, or how the child ended. When the check's context
// ends, the child's group is killed at once: [Grace] does not apply. The
// environment is that of a handler's children, without an item's.
func Check(cmd []string, opts ...Option) workers.Check {
	c := config{argv: append([]string(nil), cmd...), pipeDelay: DefaultPipeDelay}
	for _, o := range opts {
		o(&c)
	}
	c.grace = 0
	return c.check
}

// check runs one child to its end.
func (c *config) check(ctx context.Context) error {
	if len(c.argv) == 0 || c.argv[0] == "" {
		return errors.New("no command is given to run")
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	said := &capture{max: wire.MaxCheckError}
	cmd := exec.Command(c.argv[0], c.argv[1:]...)
	cmd.Dir = c.dir
	cmd.Env = c.environ(os.Environ())
	cmd.Stderr = said
	cmd.WaitDelay = c.pipeDelay
	isolate(cmd)
	err := c.run(ctx, cmd, func() {})
	switch state := cmd.ProcessState; {
	case cmd.Process == nil:
		return fmt.Errorf("start %s: %w", c.argv[0], err)
	case state == nil:
		return fmt.Errorf("wait for the child: %w", err)
	case state.Success():
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	default:
		return errors.New(reason(string(said.lastLine()), state.String()))
	}
}

// reason is what the child said last, else how it ended.
func reason(line, ended string) string {
	line = strings.ToValidUTF8(line[:min(len(line), wire.MaxCheckError)], "")
	if line == "" {
		return ended
	}
	return line
}
