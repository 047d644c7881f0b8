package streamwright

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// ask sends a request that may be repeated, and reads the reply into a T. It
// tries again for the client's patience while no engine can answer.
func ask[T any](ctx context.Context, c *Client, op string, req any) (T, error) {
	return askFor[T](ctx, c, op, req, c.set.tryTimeout, c.set.patience)
}

// forever is the patience of what is tried until its context ends.
const forever = time.Duration(1<<63 - 1)

func askFor[T any](ctx context.Context, c *Client, op string, req any, try, patience time.Duration) (T, error) {
	var reply T
	body, err := json.Marshal(req)
	if err != nil {
		return reply, events.Refuse(events.CodeBadRequest, "write the %s request: %v", op, err)
	}
	err = c.retry(ctx, op, patience, func(ctx context.Context) error {
		data, err := c.once(ctx, op, body, try)
		if err != nil {
			return err
		}
		var fresh T
		if err := json.Unmarshal(data, &fresh); err != nil {
			return unreadable(op, err)
		}
		reply = fresh
		return nil
	})
	return reply, err
}

// retry calls try until it succeeds, is refused for good, ctx ends, or no
// engine could be reached for longer than patience.
func (c *Client) retry(ctx context.Context, op string, patience time.Duration, try func(context.Context) error) error {
	start, backoff := time.Now(), minBackoff
	var last error
	for {
		if err := ctx.Err(); err != nil {
			return endOf(op, err, last)
		}
		err := try(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return endOf(op, ctx.Err(), telling(last, err))
		}
		wait, again := worthAnother(err, backoff)
		if !again || time.Since(start)+wait > patience {
			return err
		}
		if c.set.onRetry != nil {
			c.set.onRetry(op, err)
		}
		last, backoff = err, min(2*backoff, maxBackoff)
		if err := sleep(ctx, wait); err != nil {
			return endOf(op, err, last)
		}
	}
}

// telling prefers what was learnt from an earlier try over an error that may
// only be the context's.
func telling(earlier, now error) error {
	mute := errors.Is(now, context.Canceled) || events.CodeOf(now) == events.CodeTimeout
	if mute && (earlier != nil || errors.Is(now, context.Canceled)) {
		return earlier
	}
	return now
}

// worthAnother says whether a failed try may be repeated, and after what wait.
func worthAnother(err error, backoff time.Duration) (time.Duration, bool) {
	var e *events.Error
	if !errors.As(err, &e) || e.Code != events.CodeUnavailable && e.Code != events.CodeTimeout {
		return 0, false
	}
	wait := backoff/2 + rand.N(backoff/2)
	return max(wait, min(e.RetryAfter, time.Minute)), true
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// once sends one request and waits for its reply, at most timeout. What comes
// back is the body of a reply that is no refusal.
func (c *Client) once(ctx context.Context, op string, body []byte, timeout time.Duration) ([]byte, error) {
	if most := c.nc.MaxPayload(); most > 0 && int64(len(body)) > most {
		return nil, events.Refuse(events.CodeTooLarge, "the %s request has %d bytes: the NATS server takes at most %d", op, len(body), most)
	}
	ctx, cancel := c.trying(ctx, c.set.names.API(op), timeout)
	defer cancel()
	msg, err := c.nc.RequestWithContext(ctx, c.set.names.API(op), body)
	if err != nil {
		return nil, c.failed(op, lostOr(ctx, err))
	}
	return content(op, msg)
}

// content is the body of a reply, or the refusal in it.
func content(op string, msg *nats.Msg) ([]byte, error) {
	if e := refusal(msg); e != nil {
		return nil, e
	}
	if len(msg.Data) == 0 {
		return nil, events.Refuse(events.CodeInternal, "the engine's reply to %s is empty", op)
	}
	return msg.Data, nil
}

// refusal is the error that a reply carries, nil for none. An error reply is
// an object with nothing but "error": an item has a field of that name too.
func refusal(msg *nats.Msg) error {
	if body := bytes.TrimLeft(msg.Data, " \t\r\n"); bytes.HasPrefix(body, []byte(`{"error"`)) {
		var all map[string]json.RawMessage
		var e wire.Error
		if json.Unmarshal(body, &all) == nil && len(all) == 1 && json.Unmarshal(all["error"], &e) == nil && e.Code != "" {
			return e.Err()
		}
	}
	if text := msg.Header.Get(micro.ErrorHeader); text != "" {
		return events.Refuse(events.CodeInternal, "the engine answered: %s", text)
	}
	return nil
}

// failed turns what the NATS client says of one try into an *events.Error.
func (c *Client) failed(op string, err error) error {
	var refused *events.Error
	switch {
	case errors.As(err, &refused):
		return err
	case errors.Is(err, nats.ErrNoResponders):
		return events.Refuse(events.CodeUnavailable, "no engine answers on %s at %s: is `engine serve` running there?", c.set.names.API("*"), c.where())
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return events.Refuse(events.CodeTimeout, "no reply to %s from the engine at %s in time", op, c.where())
	case errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrConnectionDraining):
		return events.Refuse(events.CodeInternal, "the client is closed")
	case errors.Is(err, nats.ErrMaxPayload):
		return events.Refuse(events.CodeTooLarge, "the %s request is larger than the NATS server takes (%d bytes)", op, c.nc.MaxPayload())
	case errors.Is(err, context.Canceled):
		return err
	}
	return events.Refuse(events.CodeUnavailable, "%s at %s: %v", op, c.where(), err)
}

// where names the servers for an error text.
func (c *Client) where() string {
	if u := c.nc.ConnectedUrlRedacted(); u != "" {
		return u
	}
	if s := c.nc.Servers(); len(s) > 0 {
		return Redact(s[0]) + " (connection lost)"
	}
	return "the NATS server"
}

// ended is an *events.Error for a request whose context ended first. It
// matches the context's error as well.
type ended struct{ refused, cause error }

func (e *ended) Error() string   { return e.refused.Error() }
func (e *ended) Unwrap() []error { return []error{e.refused, e.cause} }

// endOf says that a context ended, and what the last try had met.
func endOf(op string, cause, last error) error {
	text := fmt.Sprintf("%s: gave up waiting (%v)", op, cause)
	if last != nil {
		text = fmt.Sprintf("%s; the last try: %v", text, message(last))
	}
	return &ended{refused: &events.Error{Code: events.CodeTimeout, Message: text}, cause: cause}
}

func message(err error) string {
	var e *events.Error
	if errors.As(err, &e) {
		return e.Message
	}
	return err.Error()
}

func unreadable(op string, err error) error {
	return events.Refuse(events.CodeInternal, "the engine's reply to %s can't be read (%v): is it another version?", op, err)
}
