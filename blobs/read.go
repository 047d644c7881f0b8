package blobs

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/events"
)

// Get returns the document that a reference stands for, all of it in memory; one
// of more than MaxBytes is refused with events.CodeTooLarge.
func (s *Store) Get(ctx context.Context, ref Ref) ([]byte, error) {
	if ref.Size > s.max {
		return nil, events.Refuse(events.CodeTooLarge, "the object %s has %d bytes: at most %d are read into memory", ref.Name, ref.Size, s.max)
	}
	r, err := s.Open(ctx, ref)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	doc := make([]byte, ref.Size)
	if _, err := io.ReadFull(r, doc); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = damaged(ref, "it ends early")
		}
		return nil, err
	}
	if _, err := r.Read(make([]byte, 1)); err != io.EOF {
		return nil, err
	}
	return doc, nil
}

// Resolve returns a document: what it stands for if it is a reference, else
// itself.
func (s *Store) Resolve(ctx context.Context, doc []byte) ([]byte, error) {
	ref, ok, err := Find(doc)
	if err != nil || !ok {
		return doc, err
	}
	return s.Get(ctx, ref)
}

// Open begins to read an object, of any size. The bytes come as they are read:
// that they are those which the reference was made for is known at their end,
// when the last Read returns io.EOF, or an error that is ErrDamaged. The reader
// is for one goroutine, and ends with ctx.
func (s *Store) Open(ctx context.Context, ref Ref) (io.ReadCloser, error) {
	what := "read the object " + ref.Name
	info, err := s.info(ctx, ref.Name)
	switch {
	case err != nil:
		return nil, s.failed(ctx, what, err)
	case info == nil || info.Deleted:
		return nil, events.Refuse(CodeGone, "the object %s is not in the object store %s: its item has been pruned, or it was put under another name", ref.Name, s.bucket)
	case !matches(info, ref):
		return nil, damaged(ref, fmt.Sprintf("it has %d bytes and the digest %s, and the reference says %d and %s", info.Size, info.Digest, ref.Size, ref.Digest))
	}
	return &reader{ctx: ctx, s: s, ref: ref, subject: s.chunkSubject(info.NUID), hash: sha256.New()}, nil
}

func damaged(ref Ref, why string) error {
	return events.Refuse(CodeDamaged, "the object %s is damaged: %s; submit the item again", ref.Name, why)
}

// reader reads an object chunk by chunk.
type reader struct {
	ctx     context.Context
	s       *Store
	ref     Ref
	subject string
	hash    hash.Hash
	seq     uint64 // of the chunk last read
	read    int64
	chunk   []byte // what is left of it
	err     error
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	if len(r.chunk) == 0 && r.err == nil {
		r.err = r.next()
	}
	if len(r.chunk) == 0 {
		return 0, r.err
	}
	n := copy(p, r.chunk)
	r.chunk = r.chunk[n:]
	return n, nil
}

// next gets the next chunk, or says why there is none.
func (r *reader) next() error {
	if r.read == r.ref.Size {
		if digestOf(r.hash.Sum(nil)) != r.ref.Digest {
			return damaged(r.ref, "its bytes do not have the digest that the reference says")
		}
		return io.EOF
	}
	what := "read the object " + r.ref.Name
	h, err := r.s.use(r.ctx)
	if err != nil {
		return r.s.failed(r.ctx, what, err)
	}
	ctx, cancel := context.WithTimeout(r.ctx, requestTimeout)
	defer cancel()
	msg, err := h.GetMsg(ctx, r.seq+1, jetstream.WithGetMsgSubject(r.subject))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return damaged(r.ref, fmt.Sprintf("only %d of %d bytes are there", r.read, r.ref.Size))
	}
	if err != nil {
		return r.s.failed(r.ctx, what, err)
	}
	r.seq = msg.Sequence
	r.read += int64(len(msg.Data))
	if r.read > r.ref.Size {
		return damaged(r.ref, fmt.Sprintf("it has more than its %d bytes", r.ref.Size))
	}
	r.hash.Write(msg.Data)
	r.chunk = msg.Data
	return nil
}

// Close implements io.Closer.
func (r *reader) Close() error {
	r.chunk, r.err = nil, errors.New("the object is closed")
	return nil
}
