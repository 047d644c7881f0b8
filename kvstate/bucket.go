package kvstate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/internal/sleep"
)

// bucket is a KV bucket that is made again when it is gone.
type bucket struct {
	js   jetstream.JetStream
	name string
	conf jetstream.StreamConfig

	mu sync.Mutex
	kv jetstream.KeyValue // guarded by mu; nil until opened, and when it is gone
}

// streamConfig returns the stream configuration of a KV bucket, as its clients
// expect it. The stream is made directly since a bucket's configuration can't
// name the persist mode.
func streamConfig(name, description string, ttl time.Duration) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              "KV_" + name,
		Description:       description,
		Subjects:          []string{"$KV." + name + ".>"},
		MaxMsgsPerSubject: 1,
		MaxAge:            ttl,
		Discard:           jetstream.DiscardNew,
		AllowRollup:       true,
		DenyDelete:        true,
		AllowDirect:       true,
		AllowMsgTTL:       true,
		Duplicates:        minDuplicates,
	}
}

// replicate sets the replicas of a bucket that is not open yet, and the tags of their
// servers.
func (b *bucket) replicate(n int, tags []string) {
	b.conf.Replicas, b.conf.Placement = n, connect.Placement(tags)
}

// requestTimeout bounds one request to the server.
const requestTimeout = 5 * time.Second

// minDuplicates is the least duplicate window that the server allows; the
// buckets' writers use no message ids.
const minDuplicates = 100 * time.Millisecond

// open makes the bucket if it is not there.
func (b *bucket) open(ctx context.Context) (jetstream.KeyValue, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.kv != nil {
		return b.kv, nil
	}
	if err := b.create(ctx); err != nil {
		return nil, err
	}
	kv, err := b.made(ctx)
	if err != nil {
		return nil, fmt.Errorf("open bucket %s: %w", b.name, err)
	}
	b.kv = kv
	return kv, nil
}

// made returns the bucket that has just been made. Of several that make the same stream in
// a cluster at once, one may be told that it is there by a replica that has it, and next by
// the preferred leader, which does not have it yet, that it is not (server 2.15.2).
func (b *bucket) made(ctx context.Context) (kv jetstream.KeyValue, err error) {
	for end := time.Now().Add(requestTimeout); ; {
		kv, err = b.js.KeyValue(ctx, b.name)
		if !isGone(err) || time.Now().After(end) || sleep.For(ctx, replicaLook) != nil {
			return kv, err
		}
	}
}

// The server's codes for what is not the stream's fault: a cluster without a leader, or
// without room for the replicas; a stream whose servers are all down; and too few servers
// for the replicas.
const (
	unavailable   = 503
	streamOffline = 10118
	noPeers       = 10005
	notClustered  = 10074
)

// create makes the stream or brings it to its configuration. One that can't be
// brought there is deleted: a stream that is made while its predecessor is
// still being deleted can lose its folder to that deletion, and refuses every
// update from then on (seen with server 2.15.2). Nothing in a bucket is worth
// keeping.
func (b *bucket) create(ctx context.Context) error {
	_, err := b.js.CreateOrUpdateStream(ctx, b.conf)
	var api *jetstream.APIError
	if err == nil || !errors.As(err, &api) || api.Code == unavailable || slices.Contains([]jetstream.ErrorCode{streamOffline, noPeers, notClustered}, api.ErrorCode) {
		return wrap(err, "make bucket %s", b.name)
	}
	if derr := b.js.DeleteStream(ctx, b.conf.Name); derr != nil {
		return fmt.Errorf("make bucket %s: %w", b.name, errors.Join(err, derr))
	}
	_, err = b.js.CreateStream(ctx, b.conf)
	return wrap(err, "make bucket %s anew", b.name)
}

func wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}

func (b *bucket) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kv = nil
}

// isGone reports whether err says that the bucket's stream is not there.
func isGone(err error) bool {
	// Watchers return package nats's errors, everything else jetstream's.
	return errors.Is(err, nats.ErrNoResponders) || errors.Is(err, nats.ErrStreamNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, jetstream.ErrBucketNotFound)
}

// do runs fn on the bucket, and once more if it was gone.
func (b *bucket) do(ctx context.Context, fn func(jetstream.KeyValue) error) error {
	for retried := false; ; retried = true {
		kv, err := b.open(ctx)
		if err != nil {
			return err
		}
		if err = fn(kv); err == nil || retried || !isGone(err) {
			return err
		}
		b.forget()
	}
}

func (b *bucket) put(ctx context.Context, key string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode entry %s of bucket %s: %w", key, b.name, err)
	}
	err = b.do(ctx, func(kv jetstream.KeyValue) error {
		_, err := kv.Put(ctx, key, data)
		return err
	})
	if err != nil {
		return fmt.Errorf("put %s into bucket %s: %w", key, b.name, err)
	}
	return nil
}

func (b *bucket) delete(ctx context.Context, key string) error {
	err := b.do(ctx, func(kv jetstream.KeyValue) error { return kv.Delete(ctx, key) })
	if err != nil {
		return fmt.Errorf("delete %s from bucket %s: %w", key, b.name, err)
	}
	return nil
}

// each calls fn with every live entry, in the order of their last change.
func (b *bucket) each(ctx context.Context, fn func(key string, value []byte) error) error {
	return b.do(ctx, func(jetstream.KeyValue) error {
		st, err := b.js.Stream(ctx, b.conf.Name)
		if err != nil {
			return fmt.Errorf("read bucket %s: %w", b.name, err)
		}
		return b.scan(ctx, st, st.CachedInfo().State.LastSeq+1, fn)
	})
}

// scan calls fn with every live entry whose sequence is below end. It asks for
// one message after the other. A watcher would be shorter, but it waits
// forever when an entry that it counted expires before it is delivered.
func (b *bucket) scan(ctx context.Context, st jetstream.Stream, end uint64, fn func(key string, value []byte) error) error {
	prefix := "$KV." + b.name + "."
	for seq := st.CachedInfo().State.FirstSeq; seq < end; {
		msg, err := nextMsg(ctx, st, seq, prefix+">")
		if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && msg.Sequence >= end {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read bucket %s: %w", b.name, err)
		}
		seq = msg.Sequence + 1
		if msg.Header.Get(jetstream.MarkerReasonHeader) != "" || msg.Header.Get("KV-Operation") != "" {
			continue // deleted
		}
		if err := fn(msg.Subject[len(prefix):], msg.Data); err != nil {
			return err
		}
	}
	return nil
}

func nextMsg(ctx context.Context, st jetstream.Stream, seq uint64, filter string) (*jetstream.RawStreamMsg, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return st.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(filter))
}
