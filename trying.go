package streamwright

import (
	"context"
	"errors"
	"time"

	"github.com/streamwright/streamwright/events"
)

// errLost ends a try whose request or reply may have gone with the connection.
var errLost = errors.New("the connection was lost")

// lostOr is why a try was ended before its time, if it was, else its error.
func lostOr(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	var refused *events.Error
	if errors.Is(cause, errLost) || errors.As(cause, &refused) {
		return cause
	}
	return err
}

// trying is the context of one try: it ends after timeout, when the connection
// is lost, and when the server refuses what the try needs: the subject of its
// request (empty: one of JetStream's), or an inbox.
func (c *Client) trying(ctx context.Context, subject string, timeout time.Duration) (context.Context, context.CancelFunc) {
	return c.tryingSince(ctx, c.denials.next(), subject, timeout)
}

// tryingSince is trying for a request that went out when refused was the
// denial to come next.
func (c *Client) tryingSince(ctx context.Context, refused *denial, subject string, timeout time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	ctx, stop := context.WithTimeout(ctx, timeout)
	lost := c.lost.Load().ch
	go func() {
		for {
			select {
			case <-refused.told:
				if refused.concerns(subject) {
					cancel(refused.err)
					return
				}
				refused = refused.after
			case <-lost:
				cancel(errLost)
				return
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, func() { stop(); cancel(nil) }
}
