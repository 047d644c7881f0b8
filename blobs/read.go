package blobs

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/directget"
)

// Get returns the document that a reference stands for, all of it in memory; one
// of more than MaxBytes is refused with events.CodeTooLarge.
func (s *Store) Get(ctx context.Context, ref Ref) ([]byte, error) {
	if ref.Size > s.max {
		return nil, events.Refuse(events.CodeTooLarge, "the object %s has %d bytes: at most %d are read into memory", ref.Name, ref.Size, s.max)
	}
	what := "read the object " + ref.Name
	var doc []byte
	var broken error
	none, err := s.each(ctx, ref, func(d described) bool {
		doc, broken = s.readAll(s.reader(ctx, ref, d))
		return !errors.Is(broken, ErrDamaged) // else another may be whole
	})
	if err != nil {
		return nil, s.failed(ctx, what, err)
	}
	if none != nil {
		return nil, none
	}
	return doc, broken
}

func (s *Store) readAll(r *reader) ([]byte, error) {
	doc := make([]byte, r.ref.Size)
	if _, err := io.ReadFull(r, doc); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = damaged(r.ref, "it ends early")
		}
		return nil, err
	}
	if _, err := r.Read(make([]byte, 1)); err != io.EOF {
		return nil, err
	}
	return doc, nil
}

// Open begins to read an object, of any size. The bytes are not checked as they
// come: whether they match the reference is known at the end, when the last
// Read returns io.EOF, or an error that is ErrDamaged. The reader is for one
// goroutine, and ends with ctx.
func (s *Store) Open(ctx context.Context, ref Ref) (io.ReadCloser, error) {
	var r *reader
	none, err := s.each(ctx, ref, func(d described) bool {
		r = s.reader(ctx, ref, d)
		if r.ref.Size > 0 {
			r.err = r.next() // the first chunk
		}
		return !errors.Is(r.err, ErrDamaged)
	})
	switch {
	case err != nil:
		return nil, s.failed(ctx, "read the object "+ref.Name, err)
	case none != nil:
		return nil, none
	case r.err != nil && len(r.chunk) == 0:
		return nil, r.err
	}
	return r, nil
}

func (s *Store) reader(ctx context.Context, ref Ref, d described) *reader {
	return &reader{ctx: ctx, s: s, ref: ref, subject: s.chunkSubject(d.NUID), places: readPlaces(d.Metadata[placesKey]), hash: sha256.New()}
}

// each gives fn the descriptions that fit a reference, oldest first, until it
// returns true: a later one under the same name changes nothing. none says why
// there is none.
func (s *Store) each(ctx context.Context, ref Ref, fn func(described) bool) (none, err error) {
	var other *described
	fits := false
	err = s.find(ctx, ref.Name, func(d described) bool {
		if !matches(d, ref) {
			if !d.Deleted {
				other = &d
			}
			return false
		}
		fits = true
		return fn(d)
	})
	switch {
	case err != nil || fits:
		return nil, err
	case other == nil:
		return events.Refuse(CodeGone, "the object %s is not in the object store %s: its item has been pruned, or it was put under another name", ref.Name, s.bucket), nil
	}
	return damaged(ref, fmt.Sprintf("it has %d bytes and the digest %s, and the reference says %d and %s", other.Size, other.Digest, ref.Size, ref.Digest)), nil
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
	places  []uint64 // the sequences of the chunks to come; nil: they are not known
	hash    hash.Hash
	seq     uint64 // of the chunk last read
	read    int64
	chunk   []byte // the rest of it
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
	msg, err := r.chunkAt()
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return damaged(r.ref, fmt.Sprintf("only %d of %d bytes are there", r.read, r.ref.Size))
	}
	if err != nil {
		return r.s.failed(r.ctx, what, err)
	}
	r.seq = msg.Seq
	r.read += int64(len(msg.Data))
	if r.read > r.ref.Size {
		return damaged(r.ref, fmt.Sprintf("it has more than its %d bytes", r.ref.Size))
	}
	r.hash.Write(msg.Data)
	r.chunk = msg.Data
	return nil
}

// chunkAt gets the message that the next chunk is.
func (r *reader) chunkAt() (directget.Message, error) {
	if r.places == nil {
		return r.s.get(r.ctx, directget.Request{Seq: r.seq + 1, NextFor: r.subject})
	}
	if len(r.places) == 0 {
		return directget.Message{}, jetstream.ErrMsgNotFound
	}
	msg, err := r.s.get(r.ctx, directget.Request{Seq: r.places[0]})
	r.places = r.places[1:] // not nil at its end
	if err == nil && msg.Subject != r.subject {
		err = jetstream.ErrMsgNotFound
	}
	return msg, err
}

// Close implements io.Closer.
func (r *reader) Close() error {
	r.chunk, r.err = nil, errors.New("the object is closed")
	return nil
}

// get reads one message of the bucket, jetstream.ErrMsgNotFound if there is
// none. A handle of nats.go would ask for the stream's configuration first,
// which clients may not.
func (s *Store) get(ctx context.Context, req directget.Request) (directget.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return directget.FromLeader(ctx, s.nc, s.names(ctx).JetStream("STREAM.MSG.GET."+s.stream), req)
}

// placesKey is the metadata key under which a description lists the sequences
// of its chunks. Their subject alone does not identify them: whoever may put
// objects sees the first chunk, and may put others between the following ones.
const placesKey = "chunks"

// places writes ascending sequences: the first, and how far each is behind the
// one before.
func places(seqs []uint64) string {
	var b strings.Builder
	last := uint64(0)
	for i, seq := range seqs {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(strconv.FormatUint(seq-last, 10))
		last = seq
	}
	return b.String()
}

// readPlaces reads the output of places; it returns nil for anything else, as
// in the descriptions of other programs.
func readPlaces(text string) []uint64 {
	var seqs []uint64
	last := uint64(0)
	for step := range strings.FieldsSeq(text) {
		n, err := strconv.ParseUint(step, 10, 64)
		if err != nil || n == 0 || last+n < last {
			return nil
		}
		last += n
		seqs = append(seqs, last)
	}
	return seqs
}
