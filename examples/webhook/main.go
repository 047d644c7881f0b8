// Webhook takes orders that are paid elsewhere: the handler gives the payment service a token, the
// item waits and holds no slot, and days later the service presents the token, without a login.
//
//	engine serve &
//	go run ./examples/webhook
//
// The payment service here is a stand-in, which answers at once: of an order over 1,000 it says
// that the card was declined.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/workers"
)

// Order is what somebody buys.
type Order struct {
	Sum int `json:"sum"`
}

// Payment is what the payment service says of one.
type Payment struct {
	Reference string `json:"reference"`
}

var order = streamwright.Define[Order, string]("order")

func main() {
	ctx := context.Background()
	c, err := streamwright.Connect(ctx, cmp.Or(os.Getenv("NATS_URL"), "nats://127.0.0.1:4222"))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	tokens := cmp.Or(os.Getenv("ENGINE_URL"), "http://127.0.0.1:8484") + "/api/v1/tokens/"
	if err := run(ctx, c, tokens, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// run has two orders paid. Below the URL tokens one presents them.
func run(ctx context.Context, c *streamwright.Client, tokens string, out io.Writer) error {
	w, err := streamwright.NewWorker(c, workers.Config{})
	if err != nil {
		return err
	}
	order.Handle(w, func(ctx context.Context, it *workers.Item[Order]) (string, error) {
		return pay(ctx, it, tokens)
	})
	if err := w.Start(ctx); err != nil {
		return err
	}
	defer w.Stop(ctx)
	for _, sum := range []int{20, 2000} {
		sub, err := order.Submit(ctx, c, Order{Sum: sum})
		if err != nil {
			return err
		}
		said, err := order.Wait(ctx, c, sub.ID)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "an order for %d: %s\n", sum, said)
	}
	return nil
}

// pay runs twice: first it asks for the payment, and once the token was presented it runs again.
func pay(ctx context.Context, it *workers.Item[Order], tokens string) (string, error) {
	if it.Waited == nil {
		token, err := workers.Token(ctx, "paid")
		if err != nil {
			return "", err
		}
		if err := charge(it.Params.Sum, tokens+token); err != nil {
			return "", err // the next attempt makes another token; either may be presented
		}
		return "", workers.Wait("paid").For(72*time.Hour).OrFail("not_paid", "the payment service has not answered in three days")
	}
	payment, _, err := workers.SignalOf[Payment](it.RawItem, "paid")
	if declined := (*workers.SignalError)(nil); errors.As(err, &declined) {
		return "not sent: " + declined.Message, nil
	}
	return "sent, paid by " + payment.Reference, err
}

// charge stands for the payment service: it takes the order, and calls back.
func charge(sum int, callback string) error {
	answer := map[string]any{"result": Payment{Reference: fmt.Sprintf("pay-%d", sum)}}
	if sum > 1000 {
		answer = map[string]any{"error": map[string]string{"code": "declined", "message": "the card was declined"}}
	}
	body, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	go func() {
		resp, err := http.Post(callback, "application/json", bytes.NewReader(body))
		if err != nil {
			log.Print(err) // a real service tries again: the same answer again is the same answer
			return
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			log.Print("the engine answers ", resp.Status)
		}
	}()
	return nil
}
