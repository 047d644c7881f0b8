package docs

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/workers"
)

// The code of docs/guides/WAITING.md and APPROVALS.md; TestWaitExamples runs it.

type payment struct{ Sum int }

func order(_ context.Context, it *workers.RawItem) (any, error) {
	if it.Waited == nil { // the first run
		return nil, workers.Wait("paid").For(72 * time.Hour)
	}
	paid, ok, err := workers.SignalOf[payment](it, "paid")
	if err != nil || !ok {
		return "not paid within three days", err
	}
	return paid.Sum, nil
}

func pay(ctx context.Context, c *streamwright.Client, id string) error {
	_, err := c.Signal(ctx, id, streamwright.Signal{Name: "paid", Payload: payment{Sum: 3}, MsgID: "payment-4711"})
	return err
}

// asked gets the token of a payment that was asked for.
var asked = make(chan string, 1)

func askForPayment(token string) error {
	asked <- token
	return nil
}

func charge(ctx context.Context, it *workers.RawItem) (any, error) {
	if it.Waited == nil {
		token, err := workers.Token(ctx, "paid")
		if err != nil {
			return nil, err
		}
		if err := askForPayment(token); err != nil {
			return nil, err
		}
		return nil, workers.Wait("paid").For(72*time.Hour).OrFail("not_paid", "nobody has paid in three days")
	}
	paid, _, err := workers.SignalOf[payment](it, "paid") // err is what was presented as an error
	return paid.Sum, err
}

type cost struct {
	Sum int `json:"sum"`
}

func expense(_ context.Context, it *workers.RawItem) (any, error) {
	if it.Waited == nil {
		return nil, workers.Ask("ok", workers.Question{
			Title:    "Pay 80 € for train tickets?",
			Text:     "Ada went to **Bern** for the [kick-off](https://example.com/kick-off).",
			Choices:  []workers.Choice{workers.ChoiceApprove, workers.ChoiceEdit, workers.ChoiceReject},
			Proposal: cost{Sum: 80},
			Form:     json.RawMessage(`{"type":"object","properties":{"sum":{"type":"integer","title":"Euros","minimum":1}}}`),
			Who:      workers.Answerers{NotSubmitter: true},
			Remind:   workers.Reminders{Every: 24 * time.Hour, Type: "remind"},
		}).For(72*time.Hour).OrFail("no_answer", "nobody has answered in three days")
	}
	a, _, err := workers.AnswerOf[cost](it, "ok")
	if err != nil || !a.Approved() {
		return "rejected by " + a.By + ": " + a.Comment, err
	}
	return fmt.Sprintf("paid %d, approved by %s", a.Value.Sum, a.By), nil
}
