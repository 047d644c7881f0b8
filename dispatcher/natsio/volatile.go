package natsio

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/connect"
)

// Volatile streams, of dispatches and of lease advisories, have one replica in memory,
// in a cluster too: at the owner's own server, if it has one. Three in memory would
// outlive it, but not usefully: a dispatch takes 0.7 ms instead of 0.05, making a
// consumer 70 ms instead of 2, and after the death of a server the group's own
// election takes as long as the log's, on top of the takeover. Instead a new owner
// makes them anew, in some milliseconds, and dispatches anew.
//
// A server that was cut off or paused keeps its streams until it has caught up with the
// cluster's decisions, which takes an election when it comes back: up to a quarter of a
// minute. Until then two servers have a stream of the same name. Both would store what is
// published to its subjects, either would acknowledge it, and both would serve who pulls
// from a consumer of the same name. So each life of the dispatch stream has subjects and
// consumers of its own (see wire.Life). The two streams of lease advisories store the same,
// and nobody publishes to them who wants an answer.

const (
	// lookVolatile bounds a look at a volatile stream of this ownership, in which it is asked
	// for twice (see connect.JetStream). Then the stream's server counts as dead: losing the
	// stream costs more than the wait.
	lookVolatile = 2 * time.Second
	// dropVolatile bounds the wait for the word that a stream is deleted, which nobody
	// gives if its server is dead. makeVolatile bounds one try to make one, and
	// replaceWithin all of them.
	dropVolatile  = 100 * time.Millisecond
	makeVolatile  = 500 * time.Millisecond
	replaceWithin = 10 * time.Second
)

// ensureVolatile makes a volatile stream if it does not exist. On several servers, one
// that is not of this ownership (own is false), or that nobody leads, is replaced, with what
// it holds. made says that it was made.
func (t *Topology) ensureVolatile(ctx context.Context, name string, cfg func() jetstream.StreamConfig, own bool) (s jetstream.Stream, made bool, err error) {
	switch {
	case !t.cfg.Several:
		if s, err = t.js.Stream(ctx, name); errors.Is(err, jetstream.ErrStreamNotFound) {
			made = true
			s, err = t.js.CreateStream(ctx, t.volatile(cfg()))
		}
	case own:
		if s, err = t.lookVolatile(ctx, name); err == nil && led(s) {
			return s, false, nil
		}
		if err != nil && !isOffline(err) && !errors.Is(err, jetstream.ErrStreamNotFound) {
			break
		}
		t.log.Warn("a stream in memory is gone, or nobody leads it: making it anew", "stream", name, "error", err)
		fallthrough
	default:
		made = true
		s, err = t.replaceVolatile(ctx, name, cfg)
	}
	if err != nil {
		return nil, false, fmt.Errorf("make stream %s: %w", name, err)
	}
	return s, made, nil
}

// led reports whether a stream has a leader.
func led(s jetstream.Stream) bool {
	c := s.CachedInfo().Cluster
	return c == nil || c.Leader != ""
}

// volatile completes the configuration of a volatile stream.
func (t *Topology) volatile(cfg jetstream.StreamConfig) jetstream.StreamConfig {
	cfg.Replicas, cfg.Storage, cfg.Placement = 1, jetstream.MemoryStorage, connect.Placement(t.cfg.Placement)
	if t.cfg.Node != "" {
		cfg.Placement = connect.Placement([]string{connect.NodeTag(t.cfg.Node)})
	}
	return cfg
}

// lookVolatile asks for a stream.
func (t *Topology) lookVolatile(ctx context.Context, name string) (jetstream.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, lookVolatile)
	defer cancel()
	return t.js.Stream(ctx, name)
}

// replaceVolatile deletes a stream and makes it anew. The deletion needs no answer of
// the stream's own server, and none is waited for: the cluster takes both requests in
// their order. A server that is dead, and not known to be, may be chosen for the new
// one: then nobody answers, and the next try may choose another.
func (t *Topology) replaceVolatile(ctx context.Context, name string, cfg func() jetstream.StreamConfig) (s jetstream.Stream, err error) {
	ctx, cancel := context.WithTimeout(ctx, replaceWithin)
	defer cancel()
	for ctx.Err() == nil {
		one, cancel := context.WithTimeout(ctx, dropVolatile)
		_ = t.js.DeleteStream(one, name)
		cancel()
		one, cancel = context.WithTimeout(ctx, makeVolatile)
		s, err = t.js.CreateStream(one, t.volatile(cfg()))
		cancel()
		if err == nil {
			return s, nil
		}
		var api *jetstream.APIError
		if errors.As(err, &api) && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) && api.Code != 503 {
			return nil, err
		}
		if !pauseFor(ctx) {
			break
		}
	}
	return nil, errors.Join(err, ctx.Err())
}

// streamOffline is the server's code for a stream whose servers are all down.
const streamOffline = 10118

// isOffline reports whether an error says, or lets expect, that no server leads a
// stream.
func isOffline(err error) bool {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.ErrorCode == streamOffline
	}
	return errors.Is(err, context.DeadlineExceeded)
}
