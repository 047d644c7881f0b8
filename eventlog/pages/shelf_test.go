package pages

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// The frames that are kept are bounded, in number and in bytes: those of the log's end that
// came last, and those of older parts that were read last.
func TestKeptFramesAreBounded(t *testing.T) {
	for name, c := range map[string]struct{ frames, size, want int }{
		"many":  {2 * keepFrames, 10, keepFrames},
		"large": {10, keepBytes / 4, 4},
		"one":   {1, 2 * keepBytes, 1},
	} {
		t.Run(name, func(t *testing.T) {
			last := uint64(0)
			p := NewReader(nil, wire.Default, func() events.Seq { return events.SeqOf(last, 0) }, nil)
			add := func(seq uint64) {
				p.keep(&piece{seq: seq, Decoded: eventlog.Decoded{Frame: eventlog.Frame{Bytes: c.size}}}, events.Meta{})
			}
			for range c.frames {
				last++
				add(last)
				add(last)
			}
			check := func(s *shelf, newest uint64, want int) {
				t.Helper()
				if len(s.kept) != want || len(s.order) != want || s.bytes != want*c.size || s.kept[newest] == nil {
					t.Errorf("%d frames of %d bytes are kept, want %d", len(s.kept), s.bytes, want)
				}
			}
			check(&p.last, last, c.want)
			last += 100 * keepFrames
			for seq := range uint64(c.frames) {
				add(seq + 1)
			}
			check(&p.old, uint64(c.frames), max(1, min(c.frames, getFrames, keepOld/c.size)))
			check(&p.last, last-100*keepFrames, c.want)
		})
	}
}

// Who shares a read with someone whose context ends reads for himself.
func TestASharedReadOutlivesItsFirstReader(t *testing.T) {
	const others = 10
	for _, ended := range []error{context.Canceled, context.DeadlineExceeded} {
		synctest.Test(t, func(t *testing.T) {
			p := NewReader(nil, wire.Default, func() events.Seq { return events.SeqOf(1, 0) }, nil)
			end := make(chan struct{})
			go func() {
				_, _, _ = p.gets.Do("1", func() (any, error) { <-end; return []*piece(nil), fmt.Errorf("read: %w", ended) })
			}()
			synctest.Wait()
			got := make(chan error, others)
			for range others {
				go func() {
					_, err := p.pieces(t.Context(), 1)
					got <- err
				}()
			}
			synctest.Wait() // they share the read
			p.keep(&piece{seq: 1}, events.Meta{})
			close(end)
			for range others {
				if err := <-got; err != nil {
					t.Errorf("one of the others: %v", err)
				}
			}
		})
	}
}
