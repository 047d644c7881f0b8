package streamwright_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/workers"
)

// reader collects an item's output as a follower sees it.
type reader struct {
	t      testing.TB
	text   []byte // of the run that is known
	resets int
	last   uint64
	cut    bool
}

func (r *reader) take(o streamwright.OutputChunk) error {
	b, err := o.Bytes()
	if err != nil {
		return err
	}
	if o.Reset {
		r.resets++
		r.text = nil
	}
	if o.Offset != len(r.text) || o.Seq <= r.last {
		r.t.Errorf("chunk %d has the offset %d behind %d bytes of chunk %d", o.Seq, o.Offset, len(r.text), r.last)
	}
	r.text, r.last, r.cut = append(r.text, b...), o.Seq, o.Cut
	return nil
}

// noise returns n bytes, of which some are characters of several bytes.
func noise(n int, seed uint64) []byte {
	r, out := rand.New(rand.NewPCG(seed, 1)), make([]byte, 0, n)
	for len(out) < n {
		switch r.IntN(3) {
		case 0:
			out = append(out, "größer als €"...)
		case 1:
			out = append(out, byte(r.IntN(256)))
		default:
			out = append(out, '\n')
		}
	}
	return out[:n]
}

// pieces writes all in pieces of any size.
func pieces(out *workers.Output, all []byte) error {
	for n := 1; len(all) > 0; n = n*3%9973 + 1 {
		n = min(n, len(all))
		if _, err := out.Write(all[:n]); err != nil {
			return err
		}
		all = all[n:]
	}
	return nil
}

func TestOutputIsFollowed(t *testing.T) {
	e := start(t)
	c, ctx := connect(t, e), testContext(t)
	all, seen := noise(300_000, 1), make(chan struct{})
	e.work("email", func(ctx context.Context, it *workers.RawItem) (any, error) {
		out := it.Output()
		if err := errors.Join(pieces(out, all[:1000]), out.Flush()); err != nil {
			return nil, err
		}
		select {
		case <-seen: // a follower has that while the run lasts
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		return nil, pieces(out, all[1000:])
	})
	s := submit(t, c)
	r := &reader{t: t}
	first := true
	err := c.FollowOutput(ctx, s.ID, 0, func(o streamwright.OutputChunk) error {
		if err := r.take(o); err != nil {
			return err
		}
		if first && len(r.text) >= 1000 {
			first = false
			close(seen)
		}
		return nil
	})
	if err != nil || !bytes.Equal(r.text, all) || r.resets != 1 {
		t.Fatalf("%d bytes of %d, %d resets, %v", len(r.text), len(all), r.resets, err)
	}
	if got, err := c.Output(ctx, s.ID); err != nil || !bytes.Equal(got, all) {
		t.Errorf("read whole: %d bytes, %v", len(got), err)
	}
	// A reader that goes on where it was misses nothing, wherever that was.
	chunks := []streamwright.OutputChunk{}
	if err := c.FollowOutput(ctx, s.ID, 0, func(o streamwright.OutputChunk) error { chunks = append(chunks, o); return nil }); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(chunks); i += max(len(chunks)/5, 1) {
		r := &reader{t: t, text: all[:chunks[i].Offset:chunks[i].Offset]}
		b, _ := chunks[i].Bytes()
		r.text = append(r.text, b...)
		r.last = chunks[i].Seq
		if err := c.FollowOutput(ctx, s.ID, chunks[i].Seq, r.take); err != nil || !bytes.Equal(r.text, all) || r.resets != 0 {
			t.Errorf("behind chunk %d: %d bytes, %d resets, %v", i, len(r.text), r.resets, err)
		}
	}
	if _, err := c.Output(ctx, events.ID{1}.String()); !errors.Is(err, &streamwright.Error{Code: streamwright.CodeNotFound}) {
		t.Errorf("of an unknown item: %v", err)
	}
}
