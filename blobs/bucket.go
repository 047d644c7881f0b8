package blobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/events"
)

// DefaultBucketBytes bounds the bucket.
const DefaultBucketBytes int64 = 4 << 30

// BucketConfig says how the bucket is kept. Zero fields have defaults.
type BucketConfig struct {
	Memory   bool
	Replicas int
	MaxBytes int64 // at the bound Puts are refused
}

// makeBucket makes the bucket, or brings it to this configuration. The stream
// is made directly, for one difference to what nats.go makes: without direct
// gets all is read from the leader, where what was acknowledged is to be found.
// And it allows none of the headers by which a message does something to others
// (rollups, times to live, schedules, batches): clients may publish here.
func (s *Store) makeBucket(ctx context.Context, c BucketConfig) error {
	conf := jetstream.StreamConfig{
		Name: s.stream, Description: "params and results that are too large for an event; see docs/guides/BLOBS.md",
		Subjects: []string{s.chunkSubject(">"), "$O." + s.bucket + ".M.>"},
		MaxBytes: c.MaxBytes, Discard: jetstream.DiscardNew, Replicas: max(c.Replicas, 1),
		Duplicates: 100 * time.Millisecond, // the least; nobody uses message ids here
	}
	if conf.MaxBytes == 0 {
		conf.MaxBytes = DefaultBucketBytes
	}
	if c.Memory {
		conf.Storage = jetstream.MemoryStorage
	}
	_, err := s.js.CreateOrUpdateStream(ctx, conf)
	var api *jetstream.APIError
	if errors.As(err, &api) && (api.ErrorCode == natsNoStorage || api.ErrorCode == natsNoMemory || api.ErrorCode == natsInsufficient || api.ErrorCode == natsNoResources) {
		return events.WithCode(events.CodeBadConfig, fmt.Errorf("make the object store %s: %w: there is no room for the %d bytes of blob_max_bytes: lower it", s.bucket, err, conf.MaxBytes))
	}
	if err != nil {
		return fmt.Errorf("make the object store %s: %w", s.bucket, err)
	}
	return nil
}
