// Expense pays what somebody has approved: the handler asks, the item waits and holds no slot, an
// item of another type reminds, and the answer comes by the page, a link or engine answer.
//
//	engine serve &
//	go run ./examples/expense
//
// It prints the link to each question. Answer by it, on the page under Work, Approvals, or with
//
//	engine answer ID approve --by bob
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/workers"
)

// Expense is what somebody has spent.
type Expense struct {
	Who string `json:"who"`
	For string `json:"for"`
	Sum int    `json:"sum"`
}

// Cost is the part of it that an approver may change.
type Cost struct {
	Sum int `json:"sum"`
}

var (
	expense = streamwright.Define[Expense, string]("expense")
	remind  = streamwright.Define[workers.Reminder, string]("remind")
)

func main() {
	ctx := context.Background()
	c, err := streamwright.Connect(ctx, cmp.Or(os.Getenv("NATS_URL"), "nats://127.0.0.1:4222"))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	x := desk{page: cmp.Or(os.Getenv("ENGINE_URL"), "http://127.0.0.1:8484"), every: time.Minute, out: os.Stdout}
	if err := x.run(ctx, c, Expense{Who: "ada", For: "train tickets", Sum: 80}); err != nil {
		log.Fatal(err)
	}
}

// desk is where expenses are handed in.
type desk struct {
	page  string        // where people reach the engine
	every time.Duration // between two reminders
	out   io.Writer
}

// run hands an expense in, and waits for what becomes of it.
func (x desk) run(ctx context.Context, c *streamwright.Client, e Expense) error {
	w, err := streamwright.NewWorker(c, workers.Config{})
	if err != nil {
		return err
	}
	expense.Handle(w, x.pay)
	remind.Handle(w, x.remind)
	if err := w.Start(ctx); err != nil {
		return err
	}
	defer w.Stop(ctx)
	sub, err := expense.Submit(ctx, c, e)
	if err != nil {
		return err
	}
	said, err := expense.Wait(ctx, c, sub.ID)
	if err != nil {
		return err
	}
	fmt.Fprintln(x.out, said)
	return nil
}

// pay runs twice: first it asks, and once somebody has answered it runs again.
func (x desk) pay(ctx context.Context, it *workers.Item[Expense]) (string, error) {
	e := it.Params
	if it.Waited == nil {
		token, err := workers.Link(ctx, "ok", "the accountant")
		if err != nil {
			return "", err
		}
		link := x.page + "/#/answer/" + token
		fmt.Fprintf(x.out, "to the accountant: %s\n", link) // a mail, say
		return "", workers.Ask("ok", workers.Question{
			Title:    fmt.Sprintf("Pay %s %d € for %s?", e.Who, e.Sum, e.For),
			Text:     "Company policy allows **100 €** without a receipt.",
			Choices:  []workers.Choice{workers.ChoiceApprove, workers.ChoiceEdit, workers.ChoiceReject},
			Proposal: Cost{e.Sum},
			Form:     json.RawMessage(`{"type":"object","required":["sum"],"properties":{"sum":{"type":"integer","title":"Euros","minimum":1,"maximum":1000}}}`),
			Remind:   workers.Reminders{Every: x.every, Type: "remind", Params: link},
		}).For(72 * time.Hour).OrComplete("not paid: nobody has answered in three days")
	}
	a, _, err := workers.AnswerOf[Cost](it.RawItem, "ok")
	switch {
	case err != nil:
		return "", err
	case !a.Approved():
		return "not paid: " + a.Comment, nil
	}
	return fmt.Sprintf("%s gets %d €", e.Who, a.Value.Sum), nil
}

// remind asks once more.
func (x desk) remind(_ context.Context, it *workers.Item[workers.Reminder]) (string, error) {
	r := it.Params
	var link string
	if err := json.Unmarshal(r.Params, &link); err != nil {
		return "", err
	}
	fmt.Fprintf(x.out, "to the accountant, reminder %d: %s %s\n", r.Nth, r.Title, link)
	return "", nil
}
