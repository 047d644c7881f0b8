package kvstate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// The default lives of entries that are not renewed. The engine renews the
// entry of each worker it knows after a third of that time.
const (
	DefaultWorkerTTL    = 60 * time.Second
	DefaultPartitionTTL = 10 * time.Second // a silent owner's lease ends after it
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

// Replicate keeps n replicas of the bucket, on servers with these tags. It must come
// first.
func (w *Workers) Replicate(n int, tags []string) *Workers {
	w.b.replicate(n, tags)
	return w
}

// Put shows a worker, for the registry's time to live.
func (w *Workers) Put(ctx context.Context, info wire.WorkerInfo) error {
	return w.b.put(ctx, workerKey(info.Worker), info)
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

// Delete takes a worker out; it is no error if it is not there.
func (w *Workers) Delete(ctx context.Context, id events.WorkerID) error {
	return w.b.delete(ctx, workerKey(string(id)))
}

// workerKey is the worker's id, a second dot in a row being spelled =2E, since
// a subject has no empty tokens. Ids have no = of their own.
func workerKey(id string) string { return strings.ReplaceAll(id, "..", ".=2E") }

// Owner says who owns a partition.
type Owner struct {
	Owner string       `json:"owner"`
	Epoch events.Epoch `json:"epoch"`
	At    time.Time    `json:"at"`
	// Node tells engines with the same name apart: it identifies the data
	// folder. Empty where no lease is needed.
	Node string `json:"node,omitempty"`
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

// Replicate keeps n replicas of the bucket, on servers with these tags. It must come
// first.
func (p *Partitions) Replicate(n int, tags []string) *Partitions {
	p.b.replicate(n, tags)
	return p
}

// Make makes the bucket if it is not there, and tells about its stream.
func (p *Partitions) Make(ctx context.Context) (*jetstream.StreamInfo, error) {
	if _, err := p.b.open(ctx); err != nil {
		return nil, err
	}
	s, err := p.b.js.Stream(ctx, p.b.conf.Name)
	if err != nil {
		return nil, wrap(err, "look at bucket %s", p.b.name)
	}
	return s.CachedInfo(), nil
}

// Put shows the owner of partition p, for the bucket's time to live.
func (p *Partitions) Put(ctx context.Context, partition int, o Owner) error {
	return p.b.put(ctx, strconv.Itoa(partition), o)
}

// HeldError says that the lease of a partition is another's.
type HeldError struct{ By Owner }

func (e *HeldError) Error() string {
	return fmt.Sprintf("the lease of the partition is held by %s", e.By.Owner)
}

// Lease takes the lease of partition p for o, or renews it: rev is the result
// of the last call, 0 for none. It ends after the bucket's time to live, by the
// server's clock. A *HeldError says that another has it; any other error, that
// the bucket can't be asked. A lease with o's Node counts as o's own: it is
// left by an earlier process, which is gone, since it had the same data folder.
// So does one of the node gone, if that is not empty.
func (p *Partitions) Lease(ctx context.Context, partition int, o Owner, rev uint64, gone string) (uint64, error) {
	data, err := json.Marshal(o)
	if err != nil {
		return 0, fmt.Errorf("encode the lease of partition %d: %w", partition, err)
	}
	key := strconv.Itoa(partition)
	err = p.b.do(ctx, func(kv jetstream.KeyValue) error {
		if rev != 0 {
			next, err := kv.Update(ctx, key, data, rev)
			if !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
				rev = next
				return err
			}
		}
		next, err := kv.Create(ctx, key, data)
		if !errors.Is(err, jetstream.ErrKeyExists) {
			rev = next
			return err
		}
		e, err := kv.Get(ctx, key)
		if err != nil {
			return err // it has just ended: the next call finds out
		}
		var by Owner
		if err := json.Unmarshal(e.Value(), &by); err == nil && (o.Node == "" || by.Node != o.Node && by.Node != gone) {
			return &HeldError{by}
		}
		rev, err = kv.Update(ctx, key, data, e.Revision())
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("take the lease of partition %d: %w", partition, err)
	}
	return rev, nil
}

// Release ends the lease of o, unless another has it by now. rev is the result of the last
// call of Lease; a later one, without an answer, may have renewed the lease all the same.
func (p *Partitions) Release(ctx context.Context, partition int, o Owner, rev uint64) error {
	key := strconv.Itoa(partition)
	err := p.b.do(ctx, func(kv jetstream.KeyValue) error {
		err := kv.Delete(ctx, key, jetstream.LastRevision(rev))
		if !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
			return err
		}
		e, err := kv.Get(ctx, key)
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			return nil
		}
		var by Owner
		if err != nil || json.Unmarshal(e.Value(), &by) != nil || by.Node != o.Node {
			return err
		}
		return kv.Delete(ctx, key, jetstream.LastRevision(e.Revision()))
	})
	return wrap(err, "release the lease of partition %d", partition)
}
