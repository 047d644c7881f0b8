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
// replaces a stream whose server is dead, or is not its own, in some milliseconds, and
// dispatches anew.

const (
	// lookVolatile bounds one look at a volatile stream, and looksVolatile are made
	// before its server counts as dead. The server of a stream that has just been
	// there gets lookPatiently, since losing the stream costs more than a wait.
	lookVolatile  = 250 * time.Millisecond
	looksVolatile = 2
	lookPatiently = time.Second
	// dropVolatile bounds the wait for the word that a stream is deleted, which nobody
	// gives if its server is dead. makeVolatile bounds one try to make one, and
	// replaceWithin all of them.
	dropVolatile  = 100 * time.Millisecond
	makeVolatile  = 500 * time.Millisecond
	replaceWithin = 10 * time.Second
)

// ensureVolatile makes a volatile stream if it does not exist. One that is not where
// it belongs, or that nobody leads, is replaced, with what it holds. seen says that the
// stream has been there for this owner.
func (t *Topology) ensureVolatile(ctx context.Context, cfg jetstream.StreamConfig, seen bool) (jetstream.Stream, error) {
	cfg.Replicas, cfg.Storage, cfg.Placement = 1, jetstream.MemoryStorage, connect.Placement(t.cfg.Placement)
	if t.cfg.Node != "" {
		cfg.Placement = connect.Placement([]string{connect.NodeTag(t.cfg.Node)})
	}
	s, err := t.lookVolatile(ctx, cfg.Name, seen)
	switch {
	case err == nil && t.atHome(s):
		return s, nil
	case err == nil && !clustered(s):
		return s, nil
	case errors.Is(err, jetstream.ErrStreamNotFound):
		s, err = t.js.CreateStream(ctx, cfg)
	case err == nil, isOffline(err):
		t.log.Info("a stream in memory is made anew here", "stream", cfg.Name, "why", whyReplaced(s, err))
		s, err = t.replaceVolatile(ctx, cfg)
	}
	if err != nil {
		return nil, fmt.Errorf("make stream %s: %w", cfg.Name, err)
	}
	return s, nil
}

// lookVolatile asks for a stream, twice if there is no answer.
func (t *Topology) lookVolatile(ctx context.Context, name string, seen bool) (s jetstream.Stream, err error) {
	wait := lookVolatile
	if seen || !t.cfg.Several {
		wait = lookPatiently
	}
	for range looksVolatile {
		one, cancel := context.WithTimeout(ctx, wait)
		s, err = t.js.Stream(one, name)
		cancel()
		if err == nil || !errors.Is(err, context.DeadlineExceeded) {
			break
		}
	}
	if !t.cfg.Several && errors.Is(err, context.DeadlineExceeded) {
		return t.js.Stream(ctx, name) // the one server there is will answer some time
	}
	return s, err
}

// replaceVolatile deletes a stream and makes it anew. The deletion needs no answer of
// the stream's own server, and none is waited for: the cluster takes both requests in
// their order. A server that is dead, and not known to be, may be chosen for the new
// one: then nobody answers, and the next try may choose another.
func (t *Topology) replaceVolatile(ctx context.Context, cfg jetstream.StreamConfig) (s jetstream.Stream, err error) {
	ctx, cancel := context.WithTimeout(ctx, replaceWithin)
	defer cancel()
	for ctx.Err() == nil {
		one, cancel := context.WithTimeout(ctx, dropVolatile)
		_ = t.js.DeleteStream(one, cfg.Name)
		cancel()
		one, cancel = context.WithTimeout(ctx, makeVolatile)
		s, err = t.js.CreateStream(one, cfg)
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

// atHome reports whether a stream has a leader, and that is the server where it
// belongs.
func (t *Topology) atHome(s jetstream.Stream) bool {
	c := s.CachedInfo().Cluster
	return c != nil && c.Leader != "" && (t.cfg.Node == "" || c.Leader == t.cfg.Node) && len(c.Replicas) == 0
}

// clustered reports whether a stream is on a cluster.
func clustered(s jetstream.Stream) bool {
	c := s.CachedInfo().Cluster
	return c != nil && c.Name != ""
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

func whyReplaced(s jetstream.Stream, err error) string {
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("it is at %q", s.CachedInfo().Cluster.Leader)
}
