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
