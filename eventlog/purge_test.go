package eventlog_test

import (
	"errors"
	"testing"

	. "github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/eventlog/logtest"
)

// A log that has been cut is read from its first position by who knows nothing,
// and appends go on behind its end.
func TestPurge(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		ctx := logtest.Context(t)
		l := f.open(t, nil)
		last := appendEach(t, l, 0, "a", "b", "c", "d", "e", "f", "g", "h", "i")
		for range 2 { // it may be repeated
			if err := l.Purge(ctx, 6); err != nil {
				t.Fatal(err)
			}
		}
		tip, err := l.Last(ctx)
		if err != nil || tip.First != 6 || tip.Seq != last {
			t.Fatalf("%+v %v", tip, err)
		}
		first := uint64(0)
		read := func(f Frame) error {
			if first == 0 {
				first = f.Seq
			}
			return nil
		}
		if err := l.Read(ctx, 0, last, read); err != nil || first != 6 {
			t.Fatalf("begins at %d: %v", first, err)
		}
		first = 0
		if _, err := Settle(ctx, l, 0, ownedBarrier("o"), read); err != nil || first != 6 {
			t.Fatalf("settled from %d: %v", first, err)
		}
		if err := l.Read(ctx, 5, last, read); !isTrimmed(err, 6) {
			t.Fatalf("read below the cut: %v", err)
		}
	})
}

// A purge without an answer may have been done or not; another settles it.
func TestPurgeFaults(t *testing.T) {
	s := logtest.NewMemoryStream(0)
	l := s.Open()
	if err := l.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	appendEach(t, l, 0, "a", "b", "c", "d", "e")
	l.ScriptPurges(logtest.PurgeLost, logtest.PurgeAckLost)
	for _, first := range []uint64{1, 4} {
		if err := l.Purge(t.Context(), 4); err == nil {
			t.Fatal("no error")
		}
		if tip, err := l.Last(t.Context()); err != nil || tip.First != first {
			t.Fatalf("%+v %v", tip, err)
		}
	}
	if err := l.Purge(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
}

func isTrimmed(err error, first uint64) bool {
	var e *TrimmedError
	return errors.As(err, &e) && e.First == first
}
