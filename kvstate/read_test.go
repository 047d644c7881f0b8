package kvstate

// What other programs do.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"
)

// Get returns the owner of partition p, and whether one shows.
func (p *Partitions) Get(ctx context.Context, partition int) (o Owner, found bool, err error) {
	found, err = p.b.get(ctx, strconv.Itoa(partition), &o)
	return o, found, err
}

// get decodes an entry into v and reports whether it is there.
func (b *bucket) get(ctx context.Context, key string, v any) (bool, error) {
	var entry jetstream.KeyValueEntry
	err := b.do(ctx, func(kv jetstream.KeyValue) (err error) {
		entry, err = kv.Get(ctx, key)
		return err
	})
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("get %s from bucket %s: %w", key, b.name, err)
	}
	if err := json.Unmarshal(entry.Value(), v); err != nil {
		return false, fmt.Errorf("decode entry %s of bucket %s: %w", key, b.name, err)
	}
	return true, nil
}
