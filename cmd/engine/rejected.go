package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/events"
)

func rejectedCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rejected",
		Short: "List, show, replay or purge submissions that became no item",
		Long: "Submissions that could not become an item are kept with their original bytes: the newest 10,000, up to 64 MiB.\n" +
			"SEQ is the sequence of the rejected event, which the list shows.",
		Example: "  engine rejected list --type email\n  engine rejected show 1042\n" +
			"  engine rejected replay 1042 --params '{\"to\":\"ada@example.org\"}' --header Work-Priority=8",
		Args: console.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(rejectedListCommand(a), rejectedShowCommand(a), rejectedReplayCommand(a), rejectedPurgeCommand(a))
	return cmd
}

func rejectedListCommand(a *app) *cobra.Command {
	var f streamwright.RejectedFilter
	cmd := &cobra.Command{
		Use: "list", Short: "List rejected submissions, newest first", Example: "  engine rejected list --type email --code bad_params", Args: console.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.ask(cmd, func(ctx context.Context, c *streamwright.Client) error {
				page, err := c.Rejected().List(ctx, f)
				if err != nil {
					return err
				}
				return a.printRejected(page)
			})
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.Type, "type", "", "only submissions of this `type`")
	fs.StringVar(&f.Code, "code", "", "only submissions rejected with this `code`, such as bad_params")
	fs.IntVar(&f.Limit, "limit", 50, "how many entries to show in a page, at most 1000")
	fs.StringVar(&f.Cursor, "cursor", "", "go on from where a page has ended, by its `cursor`")
	return cmd
}

func (a *app) printRejected(page streamwright.RejectedPage) error {
	now, style := time.Now(), console.StyleFor(a.Out)
	head := []string{"SEQ", "AT", "TYPE", "INTAKE", "CODE", "BYTES", "WHY"}
	err := printList(a, page.Rejected, "nothing was rejected that is still kept", head, func(r streamwright.Rejected) []string {
		return []string{r.Seq.String(), console.Ago(r.At, now), orDash(r.Type), strconv.FormatUint(r.IntakeSeq, 10), console.Clean(r.Code),
			console.Count(r.Size), style.Clip(r.Message, 70)}
	})
	if err != nil {
		return err
	}
	if page.NextCursor != "" {
		a.Notef("there is more: --cursor %s", page.NextCursor)
	}
	return nil
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return console.Clean(s)
}

func rejectedShowCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "show SEQ", Short: "Show a rejected submission with its original", Example: "  engine rejected show 1042", Args: console.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			seq, err := parseSeqArg(args[0])
			if err != nil {
				return err
			}
			return a.ask(cmd, func(ctx context.Context, c *streamwright.Client) error {
				r, err := c.Rejected().Get(ctx, seq)
				if err != nil {
					return err
				}
				return a.printOneRejected(r)
			})
		},
	}
}

func (a *app) printOneRejected(r streamwright.Rejected) error {
	if a.JSON {
		return a.PrintJSON(r)
	}
	field := func(name, value string) { a.field(name, console.Clean(value)) }
	field("seq", r.Seq.String())
	field("at", fmt.Sprintf("%s  (%s)", r.At.Format(time.RFC3339Nano), console.Ago(r.At, time.Now())))
	field("type", r.Type)
	field("code", r.Code)
	field("why", r.Message)
	field("subject", r.Subject)
	if r.IntakeSeq > 0 {
		field("intake seq", strconv.FormatUint(r.IntakeSeq, 10))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
		field("header", name+": "+strings.Join(r.Headers[name], ", "))
	}
	size := console.Count(r.Size) + " bytes"
	if r.Truncated {
		size += ", of which a part is kept"
	}
	field("size", size)
	field("body", r.Text)
	if len(r.Bytes) > 0 {
		field("body", fmt.Sprintf("%q", r.Bytes))
	}
	return nil
}

func parseSeqArg(text string) (events.Seq, error) {
	seq, err := events.ParseSeq(text)
	if err != nil {
		return 0, console.Usagef("SEQ: %v", err)
	}
	return seq, nil
}

func rejectedReplayCommand(a *app) *cobra.Command {
	var fix streamwright.Correction
	var params string
	var headers []string
	cmd := &cobra.Command{
		Use: "replay SEQ", Short: "Submit a rejected submission anew, corrected",
		Long:    "Submit it anew. --header replaces a header; with nothing behind the = it drops one. The new item's trigger is rejected:SEQ.",
		Example: "  engine rejected replay 1042 --params '{\"to\":\"ada@example.org\"}' --header Work-Priority=8",
		Args:    console.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if fix.Seq, err = parseSeqArg(args[0]); err != nil {
				return err
			}
			if fix.Headers, err = parseHeaders(headers); err != nil {
				return err
			}
			if params != "" {
				if fix.Params, err = a.params(params); err != nil {
					return err
				}
			}
			return a.ask(cmd, func(ctx context.Context, c *streamwright.Client) error {
				s, err := c.Rejected().Replay(ctx, fix)
				if err != nil {
					return err
				}
				return a.printSubmitted(fix.Type, s)
			})
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&params, "params", "", "replace the body by `JSON`, by a file's (@file), or by standard input (-)")
	fs.StringVar(&fix.Type, "type", "", "submit it as an item of this `type`")
	fs.StringArrayVar(&headers, "header", nil, "replace a header, `NAME=VALUE` (repeatable)")
	return cmd
}

func parseHeaders(flags []string) (map[string]string, error) {
	var m map[string]string
	for _, f := range flags {
		name, value, ok := strings.Cut(f, "=")
		if !ok || name == "" {
			return nil, console.Usagef("invalid --header %q: use NAME=VALUE", f)
		}
		if m == nil {
			m = map[string]string{}
		}
		m[name] = value
	}
	return m, nil
}

func rejectedPurgeCommand(a *app) *cobra.Command {
	var note string
	cmd := &cobra.Command{
		Use: "purge SEQ", Short: "Forget a rejected submission", Example: "  engine rejected purge 1042 --note 'a test'", Args: console.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			seq, err := parseSeqArg(args[0])
			if err != nil {
				return err
			}
			return a.ask(cmd, func(ctx context.Context, c *streamwright.Client) error {
				if err := c.Rejected().Purge(ctx, seq, note); err != nil {
					return err
				}
				if a.JSON {
					return a.PrintJSON(map[string]any{"seq": seq, "position": c.Position()})
				}
				a.Printf("%s  purged\n", seq)
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&note, "note", "", "the `reason`, for the log")
	return cmd
}
