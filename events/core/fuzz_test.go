package core

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/streamwright/streamwright/events"
)

// FuzzApply applies a log, an event a line. Whatever the lines say, an event is
// applied or refused as corrupt; and the log cut into two batches leaves the
// same base as in one.
func FuzzApply(f *testing.F) {
	log, err := os.ReadFile(goldenLog)
	if err != nil {
		f.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(log), []byte("\n"))
	for i := 0; i+6 <= len(lines); i += 3 {
		f.Add(bytes.Join(lines[i:i+6], []byte("\n")), uint8(3))
	}
	f.Add(bytes.Join(lines[:min(40, len(lines))], []byte("\n")), uint8(20))
	f.Fuzz(func(t *testing.T, data []byte, cut uint8) {
		var log []events.Event
		for line := range bytes.SplitSeq(data, []byte("\n")) {
			ev, err := events.DecodeEvent(line)
			if err != nil {
				if !errors.Is(err, events.ErrCorrupt) && !errors.Is(err, events.ErrNewer) {
					t.Fatalf("neither corrupt nor newer: %v", err)
				}
				continue
			}
			ev.Seq = events.Seq(len(log) + 1)
			log = append(log, ev)
		}
		whole, n := foldLog(t, log, len(log))
		parts, m := foldLog(t, log, int(cut)%(len(log)+1))
		if n != m || n == len(log) && whole.dump() != parts.dump() {
			t.Fatalf("in one batch, %d events:\n%s\nin two, %d events:\n%s", n, whole.dump(), m, parts.dump())
		}
	})
}

// foldLog applies a log up to the first event that is refused, with a batch that
// ends at an event, and returns the base and how many events it has taken.
func foldLog(t *testing.T, log []events.Event, at int) (*mapBase, int) {
	base := newMapBase()
	s, err := NewState(base)
	if err != nil {
		t.Fatal(err)
	}
	for i, ev := range log {
		if i == at {
			if err := base.write(s.TakeChanges()); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Apply(ev); err != nil {
			if !errors.Is(err, events.ErrCorrupt) {
				t.Fatalf("event %d is refused, and is not corrupt: %v", i+1, err)
			}
			return base, i
		}
	}
	if err := base.write(s.TakeChanges()); err != nil {
		t.Fatal(err)
	}
	return base, len(log)
}
