package kvstate

// What other programs do: the engine itself reads none of its buckets.

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/wire"
)

// List returns the workers, by id.
func (w *Workers) List(ctx context.Context) ([]wire.WorkerInfo, error) {
	var list []wire.WorkerInfo
	err := w.b.each(ctx, func(key string, value []byte) error {
		var info wire.WorkerInfo
		if err := json.Unmarshal(value, &info); err != nil {
			return fmt.Errorf("decode worker %s: %w", key, err)
		}
		list = append(list, info)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list workers: %w", err)
	}
	slices.SortFunc(list, func(a, b wire.WorkerInfo) int { return cmp.Compare(a.Worker, b.Worker) })
	return list, nil
}

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
