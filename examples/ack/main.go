// Ack handles work with nothing but the NATS client: no worker runtime, no
// registration. An ack completes an item, a nak retries it, a term ends it.
//
//	engine serve &
//	go run ./examples/ack
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright"
)

var ping = streamwright.Define[string, struct{}]("ping").WithSettings(streamwright.Settings{Protocol: new(streamwright.ProtocolAck)})

func main() {
	ctx := context.Background()
	c, err := streamwright.Connect(ctx, cmp.Or(os.Getenv("NATS_URL"), "nats://127.0.0.1:4222"))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if err := run(ctx, c, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, c *streamwright.Client, out io.Writer) error {
	// Once, by an operator: `engine types set ping protocol=ack`.
	if _, err := ping.Configure(ctx, c); err != nil {
		return err
	}
	sub, err := ping.Submit(ctx, c, "example.org", func(it *streamwright.Item) { it.Labels = map[string]string{"by": "example"} })
	if err != nil {
		return err
	}
	consuming, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		if err := consume(consuming, c); err != nil {
			log.Print(err)
		}
	}()
	item, err := c.Wait(ctx, sub.ID)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s after %d attempt\n", item.State, item.Attempt)
	return nil
}

// consume is all that a worker needs. The engine has made the stream and the
// consumer; any JetStream client in any language can do this.
func consume(ctx context.Context, c *streamwright.Client) error {
	js, err := jetStream(ctx, c)
	if err != nil {
		return err
	}
	consumer, err := js.Consumer(ctx, "WORK_DISPATCH", string(ping.Type()))
	for (errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrConsumerNotFound)) && ctx.Err() == nil {
		time.Sleep(50 * time.Millisecond) // the engine makes them right after the type's first configuration
		consumer, err = js.Consumer(ctx, "WORK_DISPATCH", string(ping.Type()))
	}
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		msgs, err := consumer.Fetch(1, jetstream.FetchMaxWait(time.Second))
		if err != nil {
			return err
		}
		for msg := range msgs.Messages() {
			if err := handle(string(msg.Data())); err != nil {
				err = errors.Join(err, msg.TermWithReason(err.Error()))
				log.Print(err)
				continue
			}
			if err := msg.Ack(); err != nil {
				return err
			}
		}
	}
	return nil
}

// jetStream reaches the engine's streams: where it has users, in a domain.
func jetStream(ctx context.Context, c *streamwright.Client) (jetstream.JetStream, error) {
	info, err := c.Engine().Info(ctx)
	if err != nil {
		return nil, err
	}
	if info.JetStreamDomain != "" {
		return jetstream.NewWithDomain(c.Conn(), info.JetStreamDomain)
	}
	return jetstream.New(c.Conn())
}

func handle(params string) error {
	if !strings.HasPrefix(params, `"`) {
		return fmt.Errorf("the params are %s: want a host name", params)
	}
	return nil
}
