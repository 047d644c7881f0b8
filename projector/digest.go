package projector

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"

	"github.com/cockroachdb/pebble/v2"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/projector/internal/layout"
)

// checkEvery is the number of keys that a walk over the store reads between two
// looks at its context.
const checkEvery = 4096

// Digest is a SHA-256 over the store's logical content, in hexadecimal: every
// key and value in order, the position included. It leaves out what the log's
// events do not say: the log's own identity, its frames' checksums, and expired keys that
// are not removed yet. Two stores that have folded the same log up to the same position have
// the same digest, however they got there.
func (s *Store) Digest(ctx context.Context) (digest string, err error) {
	err = s.Snapshot(func(v layout.View) error { digest, err = digestView(ctx, v); return err })
	return digest, err
}

func digestView(ctx context.Context, v layout.View) (string, error) {
	c, err := contentOf(ctx, v)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	var buf [16]byte
	for c.next() {
		hashPair(h, buf[:0], c.key, c.value)
	}
	return hex.EncodeToString(h.Sum(nil)), c.close()
}

// hashPair feeds a key and a value with their lengths, so that no other pair
// of them feeds the same bytes.
func hashPair(h hash.Hash, buf, key, value []byte) {
	buf = binary.BigEndian.AppendUint64(buf, uint64(len(key)))
	buf = binary.BigEndian.AppendUint64(buf, uint64(len(value)))
	h.Write(buf)
	h.Write(key)
	h.Write(value)
}

// content walks over what a digest is made of.
type content struct {
	ctx        context.Context
	iter       *pebble.Iterator
	meta       events.Meta
	started    bool
	steps      int
	key, value []byte // valid until the next step
	err        error
}

func contentOf(ctx context.Context, v layout.View) (*content, error) {
	m, err := v.Meta()
	if err != nil {
		return nil, err
	}
	it, err := v.R.NewIter(nil)
	if err != nil {
		return nil, err
	}
	return &content{ctx: ctx, iter: it, meta: m}, nil
}

// next steps to the next pair, false at the end or on an error.
func (c *content) next() bool {
	for c.err == nil && c.step() {
		c.key = c.iter.Key()
		if c.value, c.err = c.iter.ValueAndErr(); c.err == nil && !c.hidden() {
			return true
		}
	}
	c.key, c.value = nil, nil
	return false
}

func (c *content) step() bool {
	if c.steps++; c.steps%checkEvery == 0 {
		if c.err = c.ctx.Err(); c.err != nil {
			return false
		}
	}
	if !c.started {
		c.started = true
		return c.iter.First()
	}
	return c.iter.Next()
}

// hidden reports whether the current pair is not derived from the log's
// content, or belongs to a key that does not exist any more.
func (c *content) hidden() bool {
	switch c.key[0] {
	case layout.PrefixMeta:
		switch c.key[1] {
		case layout.MetaIdentity, layout.MetaChecksum, layout.MetaKeeps:
			return true
		}
	case layout.PrefixKey:
		r := layout.KeyReader{B: c.key[1:]}
		h, err := layout.DecodeHeld(r.Ref(), c.value)
		return err == nil && r.Err == nil && layout.Expired(h, c.meta)
	case layout.PrefixExpiry:
		r := layout.KeyReader{B: c.key[1:]}
		r.Byte()
		until := layout.FromNanos(r.Nanos())
		return r.Err == nil && layout.Expired(events.HeldKey{Ref: r.Ref(), Until: until}, c.meta)
	}
	return false
}

// close ends the walk and returns its first error.
func (c *content) close() error { return errors.Join(c.err, c.iter.Error(), c.iter.Close()) }

// Diff names the first keys in which two stores differ, at most limit of them,
// in words. None: they are equal, as their digests are.
func Diff(ctx context.Context, a, b *Store, limit int) (differences []string, err error) {
	err = a.Snapshot(func(va layout.View) error {
		return b.Snapshot(func(vb layout.View) error {
			differences, err = diffViews(ctx, va, vb, "the first store", "the second store", limit)
			return err
		})
	})
	return differences, err
}

func diffViews(ctx context.Context, va, vb layout.View, nameA, nameB string, limit int) (differences []string, err error) {
	a, err := contentOf(ctx, va)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	b, err := contentOf(ctx, vb)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	moreA, moreB := a.next(), b.next()
	for (moreA || moreB) && len(differences) < limit {
		order := bytes.Compare(a.key, b.key)
		switch {
		case !moreB || moreA && order < 0:
			differences = append(differences, fmt.Sprintf("%s: only in %s", layout.DescribeKey(a.key), nameA))
			moreA = a.next()
		case !moreA || order > 0:
			differences = append(differences, fmt.Sprintf("%s: only in %s", layout.DescribeKey(b.key), nameB))
			moreB = b.next()
		default:
			if !bytes.Equal(a.value, b.value) {
				differences = append(differences, fmt.Sprintf("%s, in %s against %s", layout.DescribeDifference(a.key, a.value, b.value), nameA, nameB))
			}
			moreA, moreB = a.next(), b.next()
		}
	}
	return differences, nil
}
