package docs

import (
	"context"
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

type answer struct{ By, Note string }

func expense(_ context.Context, it *workers.RawItem) (any, error) {
	if it.Waited == nil {
		return nil, workers.WaitAny("approved", "rejected").For(48*time.Hour).OrFail("no_answer", "nobody has answered in two days")
	}
	if no, ok, err := workers.SignalOf[answer](it, "rejected"); ok || err != nil {
		return "rejected by " + no.By, err
	}
	return "paid out", nil
}
