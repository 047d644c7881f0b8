package blobs

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/events"
)

// What is in this file purges, which only the engine's connection may.

// cleanTime bounds the purge after a PutFrom that failed.
const cleanTime = 5 * time.Second

// PutFrom is Put for a document that can be read only once. It is in memory a
// few chunks at a time. What has been stored when it fails is deleted at once, or
// by a sweep. It is for the engine alone: clients may not delete.
func (s *Store) PutFrom(ctx context.Context, id events.ID, kind Kind, doc io.Reader) (Ref, error) {
	what := fmt.Sprintf("put the %s of item %s", kind, id)
	nuid := newNUID(id)
	up := upload{s: s, subject: s.chunkSubject(nuid), hash: sha256.New()}
	err := up.sendAll(ctx, io.LimitReader(doc, s.max+1))
	if err == nil && up.total > s.max {
		err = tooLarge(id, kind, s.max)
	}
	var ref Ref
	known := false
	if err == nil {
		ref = refTo(id, kind, up.total, up.hash.Sum(nil))
		known, err = s.fresh(ctx, ref)
	}
	if err == nil && !known {
		err = s.publishInfo(ctx, ref, nuid, up.landed)
	}
	if err != nil || known {
		s.discard(ctx, nuid, &up)
	}
	return ref, s.failed(ctx, what, err)
}

// fresh reports whether an object is there already, and was put of late.
func (s *Store) fresh(ctx context.Context, ref Ref) (there bool, err error) {
	err = s.find(ctx, ref.Name, func(d described) bool {
		there = matches(d, ref) && time.Since(d.ModTime).Abs() < freshFor
		return there
	})
	return there, err
}

// discard deletes the chunks of an object that could not be put, if that can be
// done quickly. A purge may overtake chunks that were sent before it.
func (s *Store) discard(ctx context.Context, nuid string, up *upload) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
	defer cancel()
	up.landAll(ctx)
	_ = s.purge(ctx, jetstream.WithPurgeSubject(s.chunkSubject(nuid))) // else the sweep's
}

func (s *Store) purge(ctx context.Context, opts ...jetstream.StreamPurgeOpt) error {
	h, err := s.use(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return h.Purge(ctx, opts...)
}

// Remove deletes an object whose reference nobody else has. It leaves alone an
// object that is not there or has been put anew. Only the engine may call it.
func (s *Store) Remove(ctx context.Context, ref Ref) error {
	what := "remove the object " + ref.Name
	var mine *described
	err := s.find(ctx, ref.Name, func(d described) bool {
		if matches(d, ref) && owns(ref.Item(), d.NUID) {
			mine = &d
		}
		return mine != nil
	})
	if err != nil || mine == nil {
		return s.failed(ctx, what, err)
	}
	err = s.purge(ctx, jetstream.WithPurgeSubject(s.chunkSubject(mine.NUID)))
	if err == nil {
		err = s.purge(ctx, jetstream.WithPurgeSubject(s.metaSubject(ref.Name)), jetstream.WithPurgeSequence(mine.seq+1))
	}
	return s.failed(ctx, what, err)
}
