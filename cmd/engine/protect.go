package main

import (
	"context"
	"fmt"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/wire"
)

func pauseCommand(a *app) *cobra.Command {
	var o streamwright.PauseOptions
	var until string
	cmd := &cobra.Command{
		Use:   "pause TYPE",
		Short: "Hold back the items of a type",
		Long: "Hold back the items of a type: none is begun, those that run go on, and submissions are\n" +
			"accepted. It holds until engine resume, or until the time given, also over a restart of the\n" +
			"engine. Of a type that is paused already it changes that time.",
		Example: "  engine pause email --reason 'the provider is down'\n  engine pause email --for 2h\n  engine pause email --until 2030-01-31T08:00:00Z",
		Args:    console.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			yes, no := args[0]+" is paused", args[0]+" was paused already"
			switch {
			case until != "" && o.For != 0:
				return console.Usagef("--until and --for both say when the pause ends: give one of them")
			case o.For < 0:
				return console.Usagef("invalid --for %v: use a duration above 0", o.For)
			case o.For > 0:
				yes += " for " + console.Span(o.For)
			case until != "":
				t, err := parseTime("--until", until)
				if err != nil {
					return err
				}
				o.Until = t
				yes += " until " + t.Format(time.RFC3339)
				no += " until then"
			}
			return a.change(cmd, yes, no, func(ctx context.Context, c *streamwright.Client) (bool, error) {
				return c.Types().Pause(ctx, args[0], o)
			})
		},
	}
	cmd.Flags().StringVar(&o.Reason, "reason", "", "the `reason`, for the history and for engine types")
	cmd.Flags().StringVar(&o.By, "by", userName(), "the `name` of who pauses it")
	cmd.Flags().DurationVar(&o.For, "for", 0, "how long it is paused; it ends by itself then")
	cmd.Flags().StringVar(&until, "until", "", "the `time` when it ends, in place of --for (RFC 3339)")
	return cmd
}

// userName is the login name, if there is one.
func userName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return ""
}

func resumeCommand(a *app) *cobra.Command {
	return a.changing(&cobra.Command{Use: "resume TYPE", Short: "End the pause of a type", Example: "  engine resume email"},
		"%s goes on", "%s was not paused",
		func(c *streamwright.Client, ctx context.Context, typ string) (bool, error) {
			return c.Types().Resume(ctx, typ)
		})
}

func circuitCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "circuit",
		Short:   "Close a circuit that has opened",
		Example: "  engine circuit reset email",
		Args:    console.Args(cobra.NoArgs),
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var worker string
	reset := &cobra.Command{
		Use:     "reset {TYPE | --worker WORKER}",
		Short:   "Close the circuit of a type or of a worker now",
		Example: "  engine circuit reset email\n  engine circuit reset --worker host-7",
		Args:    console.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 0) == (worker == "") {
				return console.Usagef("give a type, or --worker with a worker's id")
			}
			whose := "worker " + worker
			if worker == "" {
				whose = args[0]
			}
			return a.change(cmd, "the circuit of "+whose+" is closed", "the circuit of "+whose+" was closed already", func(ctx context.Context, c *streamwright.Client) (bool, error) {
				if worker != "" {
					return c.Workers().ResetCircuit(ctx, worker)
				}
				return c.Types().ResetCircuit(ctx, args[0])
			})
		},
	}
	reset.Flags().StringVar(&worker, "worker", "", "the `id` of a worker, in place of a type")
	cmd.AddCommand(reset)
	return cmd
}

// changing completes a command that changes what its one argument names. The texts
// say of that that it was changed, or was so already.
func (a *app) changing(cmd *cobra.Command, yes, no string, do func(*streamwright.Client, context.Context, string) (bool, error)) *cobra.Command {
	cmd.Args = console.Args(cobra.ExactArgs(1))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		say := func(format string) string { return strings.Replace(format, "%s", args[0], 1) }
		return a.change(cmd, say(yes), say(no), func(ctx context.Context, c *streamwright.Client) (bool, error) { return do(c, ctx, args[0]) })
	}
	return cmd
}

// change makes a change, and says whether there was one to make.
func (a *app) change(cmd *cobra.Command, yes, no string, do func(context.Context, *streamwright.Client) (bool, error)) error {
	return a.ask(cmd, func(ctx context.Context, c *streamwright.Client) error {
		changed, err := do(ctx, c)
		text := no
		if changed {
			text = yes
		}
		return a.show(wire.Changed{Changed: changed, Position: c.Position()}, err, func() { a.Printf("%s\n", console.Clean(text)) })
	})
}

// heldBack says in a few words what holds a type back, - for nothing.
func heldBack(p *streamwright.Pause, c *streamwright.Circuit, now time.Time) string {
	switch {
	case p != nil:
		text := "paused " + console.Ago(p.At, now)
		if p.By != "" {
			text += " by " + p.By
		}
		if wait := p.Until.Sub(now); !p.Until.IsZero() {
			text += " until " + p.Until.Format(time.RFC3339)
			if wait > 0 {
				text += " (in " + console.Span(wait) + ")"
			}
		}
		if p.Reason != "" {
			text += ": " + p.Reason
		}
		return console.Clean(text)
	case c != nil:
		return circuitText(c, now)
	}
	return "-"
}

func circuitText(c *streamwright.Circuit, now time.Time) string {
	text := fmt.Sprintf("circuit open since %s (%s)", console.Ago(c.Since, now), c.Reason)
	if c.Until.IsZero() {
		return fmt.Sprintf("circuit half open, %d try it", c.Probing)
	}
	if wait := c.Until.Sub(now); wait > 0 {
		text += ", tried in " + console.Span(wait)
	}
	return text
}
