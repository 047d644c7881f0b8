package streamwright

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/events"
)

// feed is an ordered consumer whose messages come one by one. It takes itself
// up again after a lost connection.
type feed struct {
	msgs jetstream.MessagesContext
	next chan fed
	stop chan struct{}
	done chan struct{}
}

type fed struct {
	msg jetstream.Msg
	err error
}

// openFeed starts reading a stream.
func (c *Client) openFeed(ctx context.Context, stream string, cfg jetstream.OrderedConsumerConfig) (*feed, error) {
	var cons jetstream.Consumer
	err := c.retry(ctx, "read "+stream, c.set.patience, func(ctx context.Context) (err error) {
		ctx, cancel := c.trying(ctx, "", c.set.tryTimeout)
		defer cancel()
		cons, err = c.js.OrderedConsumer(ctx, stream, cfg)
		return c.feedFailed(stream, lostOr(ctx, err))
	})
	if err != nil {
		return nil, err
	}
	msgs, err := cons.Messages(jetstream.PullMaxMessages(feedAhead))
	if err != nil {
		return nil, c.feedFailed(stream, err)
	}
	f := &feed{msgs: msgs, next: make(chan fed), stop: make(chan struct{}), done: make(chan struct{})}
	go f.run()
	return f, nil
}

// feedAhead bounds the messages fetched ahead of their use.
const feedAhead = 512

func (f *feed) run() {
	defer close(f.done)
	for {
		msg, err := f.msgs.Next()
		if errors.Is(err, jetstream.ErrNoHeartbeat) {
			continue // the consumer renews itself
		}
		select {
		case f.next <- fed{msg, err}:
		case <-f.stop:
			return
		}
		if err != nil {
			return
		}
	}
}

// close ends the feed and awaits its goroutine.
func (f *feed) close() {
	close(f.stop)
	f.msgs.Stop()
	<-f.done
}

// feedFailed turns what the NATS client says of a stream into an *events.Error.
func (c *Client) feedFailed(stream string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jetstream.ErrStreamNotFound), errors.Is(err, jetstream.ErrJetStreamNotEnabled):
		return events.Refuse(events.CodeUnavailable, "there is no stream %s at %s: has `engine serve` run there?", stream, c.where())
	}
	return c.failed("read "+stream, err)
}
