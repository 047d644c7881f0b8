package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/events"
)

func approvalsCommand(a *app) *cobra.Command {
	var q streamwright.Approvals
	cmd := &cobra.Command{
		Use:   "approvals [ID]",
		Short: "List the questions that items ask people, or show one",
		Long: `List the questions that items ask, those last touched first, or show the last
that one item has asked. Without the role read you see those that you may
answer. To answer one, use engine answer.`,
		Example: "  engine approvals --mine\n  engine approvals 01JD3V6YB2M4C9W8ZK5T7QXRNE",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.approvals(cmd.Context(), q)
			}
			return a.ask(cmd.Context(), func(ctx context.Context, c *streamwright.Client) error {
				ap, err := c.Approval(ctx, args[0])
				return a.show(ap, err, func() { a.printApproval(ap) })
			})
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&q.Type, "type", "", "only those of items of this `type`")
	fs.BoolVar(&q.Mine, "mine", false, "only those that you may answer")
	pageFlags(fs, "questions", &q.Limit, &q.Cursor)
	return cmd
}

// approvals shows a page of questions.
func (a *app) approvals(ctx context.Context, q streamwright.Approvals) error {
	return a.ask(ctx, func(ctx context.Context, c *streamwright.Client) error {
		var page streamwright.ApprovalPage
		for more := true; more; {
			var err error
			if page, err = c.Approvals(ctx, q); err != nil {
				return err
			}
			q.Cursor = page.NextCursor
			more = page.NextCursor != "" && len(page.Approvals) == 0 // a page may be short of those that match
		}
		a.noteStale(page.Stale)
		now, style := time.Now(), a.Style()
		err := showList(a, page.Approvals, nil, "nothing waits for an answer", []string{"ID", "TYPE", "ASKED", "DEADLINE", "BY", "MAY I", "QUESTION"}, func(ap streamwright.Approval) []string {
			may := "yes"
			if !ap.MayAnswer {
				may = "no"
			}
			return []string{ap.ID, ap.Type, console.Ago(ap.Since, now), console.Ago(ap.Until, now), console.Clean(ap.SubmittedBy), may, style.Clip(ap.Title, 60)}
		})
		if err == nil && page.NextCursor != "" {
			a.Notef("there is more: --cursor %s", page.NextCursor)
		}
		return err
	})
}

func (a *app) printApproval(ap streamwright.Approval) {
	f := fields{a, time.Now()}
	a.Printf("%s\n", console.Clean(ap.Title))
	f.lines(ap.Text)
	f.field("item", ap.ID)
	f.field("type", ap.Type)
	f.number("number", uint64(ap.Number))
	f.text("submitted by", ap.SubmittedBy)
	f.at("asked", ap.Since)
	f.at("deadline", ap.Until)
	f.field("then", string(ap.Then))
	f.number("reminders", uint64(ap.Reminded))
	if len(ap.Proposal) > 0 {
		f.field("proposal", console.Clean(string(ap.Proposal)))
	}
	if len(ap.Form) > 0 {
		f.field("form", console.Clean(string(ap.Form)))
	}
	var choices []string
	for _, c := range ap.Choices {
		choices = append(choices, string(c))
	}
	f.field("choices", strings.Join(choices, ", "))
	switch was := ap.Answered; {
	case was != nil:
		f.field("answered", console.Clean(string(was.Choice)+" by "+was.By)+"  "+console.Ago(was.At, f.now))
	case !ap.MayAnswer:
		f.field("you", "may not answer: "+console.Clean(ap.WhyNot))
	}
}

func answerCommand(a *app) *cobra.Command {
	var ans streamwright.Answer
	cmd := &cobra.Command{
		Use:   "answer ID approve|reject|edit|answer [JSON | - | @file]",
		Short: "Answer the question that an item asks",
		Long: `Answer the question that an item asks (see engine approvals ID):

  approve   as proposed; with a form, as it is filled in by the JSON
  edit      approve with changes: the JSON is the changed proposal
  reject    no
  answer    in words: --comment

Of two answers the first counts. Repeating yours does nothing more.`,
		Example: "  engine answer 01JD3V6YB2M4C9W8ZK5T7QXRNE approve\n  engine answer 01JD3V6YB2M4C9W8ZK5T7QXRNE edit '{\"sum\":40}' --comment 'half'",
		Args:    cobra.RangeArgs(2, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			ans.Choice = events.Choice(args[1])
			if len(args) > 2 {
				doc, err := a.json("value is", args[2])
				if err != nil {
					return err
				}
				ans.Value = doc
			}
			return a.ask(cmd.Context(), func(ctx context.Context, c *streamwright.Client) error {
				done, err := c.Answer(ctx, args[0], ans)
				return a.show(done, err, func() {
					note := ""
					if done.Repeat {
						note = " (you had answered so before)"
					}
					a.Printf("%s  %s%s\n", done.ID, done.State, note)
				})
			})
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&ans.Comment, "comment", "", "a `text` with the answer; of the choice answer: the answer")
	fs.StringVar(&ans.By, "by", "", "who answers, a `name`; where people log in it is the login's")
	fs.IntVar(&ans.Number, "number", 0, "the `number` of the question, as engine approvals shows it, so that no other is answered")
	return cmd
}
