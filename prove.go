package streamwright

import (
	"context"
	"encoding/json"
	"time"

	"github.com/streamwright/streamwright/wire"
)

// proofSilence is how long Verify and Rebuild wait for the next sign of
// progress.
const proofSilence = time.Minute

// Verify has the engine replay the log into a second store and compare that
// with the live one. progress, which may be nil, is told how far it is. A
// difference is no error: look at Equal.
func (c *Client) Verify(ctx context.Context, progress func(Proof)) (Proof, error) {
	return c.prove(ctx, wire.APIVerify, progress)
}

// Rebuild has the engine replace its store by one rebuilt from the log.
func (c *Client) Rebuild(ctx context.Context, progress func(Proof)) (Proof, error) {
	return c.prove(ctx, wire.APIRebuild, progress)
}

// prove makes a request that is answered by a stream of replies. It is not
// repeated: the work is long, and the caller sees that it failed.
func (c *Client) prove(ctx context.Context, op string, progress func(Proof)) (Proof, error) {
	sub, err := c.sendAsync(op, []byte("{}"))
	if err != nil {
		return Proof{}, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	for {
		quiet, cancel := context.WithTimeout(ctx, proofSilence)
		msg, err := sub.NextMsgWithContext(quiet)
		cancel()
		if err != nil {
			if ctx.Err() != nil {
				return Proof{}, endOf(op, ctx.Err(), nil)
			}
			return Proof{}, c.failed(op, err)
		}
		data, err := content(op, msg)
		if err != nil {
			return Proof{}, err
		}
		var p Proof
		if err := json.Unmarshal(data, &p); err != nil {
			return Proof{}, unreadable(op, err)
		}
		if p.Done {
			return p, nil
		}
		if progress != nil {
			progress(p)
		}
	}
}
