package embedded

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/internal/sleep"
)

const (
	// startPatience bounds how long an engine that starts waits for servers of others that
	// don't answer, and for more servers: longer than they need to choose their leaders.
	startPatience = time.Minute
	// startTry bounds one try, and startAgain is the wait before the next. Right after an
	// election the servers drop requests without a word.
	startTry   = 5 * time.Second
	startAgain = 250 * time.Millisecond
	// startTell is the time between two lines about what does not answer.
	startTell = 5 * time.Second
)

// patiently does what may find no leader when several servers start or have just lost one.
// Where there is one server, or it has refused something, it does it once. fn must be fit to be
// repeated. A node of a cluster waits for a leader until ctx ends, as it does for its quorum:
// on busy machines one election may follow another.
func (b *base) patiently(ctx context.Context, fn func(context.Context) error) error {
	if b.srv != nil && !b.cfg.Cluster.On() {
		return fn(ctx)
	}
	var told time.Time
	for end := time.Now().Add(startPatience); ; {
		try, cancel := context.WithTimeout(ctx, startTry)
		err := fn(try)
		cancel()
		late := time.Now().After(end)
		again := !late && (silence(err) || gathering(err)) || b.cfg.Cluster.On() && leaderless(err)
		if err == nil || ctx.Err() != nil || !again || b.outside.denied.any() {
			return err
		}
		b.does("the NATS servers do not answer yet: %v", err)
		if time.Since(told) > startTell {
			b.log.Warn("the NATS servers do not answer yet: trying again", "error", err)
			told = time.Now()
		}
		if sleep.For(ctx, startAgain) != nil {
			return err
		}
	}
}

// silence reports whether an error says that no server has answered, or that those which did
// have no leader.
func silence(err error) bool {
	for _, is := range []error{context.DeadlineExceeded, nats.ErrTimeout, nats.ErrNoResponders, jetstream.ErrNoStreamResponse, eventlog.ErrUnreachable} {
		if errors.Is(err, is) {
			return true
		}
	}
	var api *jetstream.APIError
	return errors.As(err, &api) && api.Code == 503
}

// leaderless reports whether an error says that there is no leader, or says nothing: an election
// ends that.
func leaderless(err error) bool {
	const notAvailable = 10008
	var api *jetstream.APIError
	return silence(err) && (!errors.As(err, &api) || api.ErrorCode == notAvailable)
}

// gathering reports whether an error says that there are not enough servers for a stream. While
// a cluster starts that passes; if the placement asks for servers that there are not, it stays.
func gathering(err error) bool {
	const noPeers = 10005
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == noPeers
}
