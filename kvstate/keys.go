package kvstate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/internal/sleep"
	"github.com/streamwright/streamwright/wire"
)

const (
	// replicaBehind is how long a replica may lack a key that the leader has, and
	// replicaLook the time between two questions for it.
	replicaBehind = 10 * time.Second
	replicaLook   = 50 * time.Millisecond
)

// Keys holds what the engines of one log share and nobody else may know. Its methods may
// be called at once from several goroutines.
type Keys struct{ b bucket }

// NewKeys returns the bucket. Its entries stay. Nothing is made until the first call.
func NewKeys(js jetstream.JetStream, names wire.Names) *Keys {
	name := names.Bucket("keys")
	return &Keys{bucket{js: js, name: name, conf: streamConfig(name, "keys of the engines, for nobody else; may be deleted", 0)}}
}

// Replicate keeps n replicas of the bucket, on servers with these tags. It must come
// first.
func (k *Keys) Replicate(n int, tags []string) *Keys {
	k.b.replicate(n, tags)
	return k
}

// Share returns the key of a name that all engines share: mine, if there is none yet.
func (k *Keys) Share(ctx context.Context, name string, mine []byte) (key []byte, err error) {
	err = k.b.do(ctx, func(kv jetstream.KeyValue) error {
		if _, err := kv.Create(ctx, name, mine); !errors.Is(err, jetstream.ErrKeyExists) {
			key = mine
			return err
		}
		e, err := kv.Get(ctx, name)
		for end := time.Now().Add(replicaBehind); errors.Is(err, jetstream.ErrKeyNotFound) && time.Now().Before(end) && sleep.For(ctx, replicaLook) == nil; {
			e, err = kv.Get(ctx, name) // the one asked first was behind the leader, which has it
		}
		if err == nil {
			key = e.Value()
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("share the key %s with the other engines: %w", name, err)
	}
	return key, nil
}
