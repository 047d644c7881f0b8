package kvstate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// The default lives of entries without news. Workers send a heartbeat every
// 20 s, so a worker's entry outlives two that are lost.
const (
	DefaultWorkerTTL    = 60 * time.Second
	DefaultPartitionTTL = 60 * time.Second
)

// Workers is the registry of workers that other programs read. Its methods may
// be called at once from several goroutines.
type Workers struct{ b bucket }

// NewWorkers returns the registry. Entries expire after ttl without a Put; 0
// means DefaultWorkerTTL. Nothing is made until the first call.
func NewWorkers(js jetstream.JetStream, names wire.Names, ttl time.Duration) *Workers {
	name := names.Bucket("workers")
	conf := streamConfig(name, "registered workers; derived, may be deleted", cmp.Or(ttl, DefaultWorkerTTL))
	conf.Storage = jetstream.MemoryStorage
	return &Workers{bucket{js: js, name: name, conf: conf}}
}

// Put shows a worker, for the registry's time to live.
func (w *Workers) Put(ctx context.Context, info wire.WorkerInfo) error {
	return w.b.put(ctx, workerKey(info.Worker), info)
}

// Delete takes a worker out; it is no error if it is not there.
func (w *Workers) Delete(ctx context.Context, id events.WorkerID) error {
	return w.b.delete(ctx, workerKey(string(id)))
}

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

// workerKey is the worker's id, a second dot in a row being spelled =2E, since
// a subject has no empty tokens. Ids have no = of their own.
func workerKey(id string) string { return strings.ReplaceAll(id, "..", ".=2E") }

// Owner says who owns a partition.
type Owner struct {
	Owner string       `json:"owner"`
	Epoch events.Epoch `json:"epoch"`
	At    time.Time    `json:"at"`
}

// Partitions shows who owns which partition. Its methods may be called at once
// from several goroutines.
type Partitions struct{ b bucket }

// NewPartitions returns the bucket. Entries expire after ttl without a Put; 0
// means DefaultPartitionTTL. Nothing is made until the first call.
func NewPartitions(js jetstream.JetStream, names wire.Names, ttl time.Duration) *Partitions {
	name := names.Bucket("partitions")
	conf := streamConfig(name, "owners of partitions, about liveness only; may be deleted", cmp.Or(ttl, DefaultPartitionTTL))
	conf.Storage = jetstream.MemoryStorage
	return &Partitions{bucket{js: js, name: name, conf: conf}}
}

// Put shows the owner of partition p, for the bucket's time to live.
func (p *Partitions) Put(ctx context.Context, partition int, o Owner) error {
	return p.b.put(ctx, strconv.Itoa(partition), o)
}

// Get returns the owner of partition p, and whether one shows.
func (p *Partitions) Get(ctx context.Context, partition int) (o Owner, found bool, err error) {
	found, err = p.b.get(ctx, strconv.Itoa(partition), &o)
	return o, found, err
}

// Delete says that the partition has no owner any more.
func (p *Partitions) Delete(ctx context.Context, partition int) error {
	return p.b.delete(ctx, strconv.Itoa(partition))
}
