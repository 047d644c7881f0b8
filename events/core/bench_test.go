package core

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
)

// benchParams are 256 bytes, as in the engine's own benchmark.
var benchParams = json.RawMessage(fmt.Sprintf(`{"to":"someone@example.org","text":%q}`, fmt.Sprintf("%0218d", 7)))

// life decides and applies the five events of an item that goes well.
func life(b *testing.B, s *State, n int, now time.Time) {
	id, tok := crowdID(n), events.NewToken(1, uint64(n)+1)
	for _, c := range [...]Command{
		Submit{Type: "email", NewID: id, Params: benchParams, Intake: events.Intake{Seq: uint64(n) + 1}},
		Claim{ID: id, Token: tok, Worker: "worker-1", Start: true},
		Complete{Run: Run{ID: id, Token: tok, Worker: "worker-1"}},
	} {
		d, err := Decide(s, c, now)
		if err != nil {
			b.Fatal(err)
		}
		frame := s.meta.Applied.Frame() + 1
		for i := range d.Events {
			d.Events[i].Seq = events.SeqOf(frame, i)
			if err := s.Apply(d.Events[i]); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// One item's life: three decisions, five events; changes taken and projected
// every 256 lives, as under load.
func BenchmarkLifeOfAnItem(b *testing.B) {
	s, err := NewState(Empty{})
	if err != nil {
		b.Fatal(err)
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		life(b, s, n, now)
		if n%256 == 255 {
			s.TakeChanges()
			s.Projected(s.meta.Applied)
		}
	}
	b.ReportMetric(float64(b.N)*5/b.Elapsed().Seconds(), "events/s")
}

// Applying alone, as in a rebuild.
func BenchmarkApply(b *testing.B) {
	s, err := NewState(Empty{})
	if err != nil {
		b.Fatal(err)
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)
	evs := []events.Event{
		{Kind: events.KindCreated, Body: &events.Created{Params: benchParams, Priority: 5, MaxAttempts: 3, Timeout: events.Millis(300_000)}},
		{Kind: events.KindQueued, Body: &events.Queued{Reason: "submitted", OrderAt: now}},
		{Kind: events.KindClaimed, Attempt: 1, Worker: "w", Body: &events.Claimed{Token: 1, StartBy: now}},
		{Kind: events.KindRunning, Attempt: 1, Worker: "w", Body: &events.Running{Deadline: now}},
		{Kind: events.KindCompleted, Attempt: 1, Worker: "w", Body: &events.Completed{}},
	}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		for _, ev := range evs {
			ev.ID, ev.Type, ev.At, ev.Seq = crowdID(n), "email", now, nextFrame(s)
			if err := s.Apply(ev); err != nil {
				b.Fatal(err)
			}
		}
		if n%256 == 255 {
			s.TakeChanges()
			s.Projected(s.meta.Applied)
		}
	}
	b.ReportMetric(float64(b.N)*5/b.Elapsed().Seconds(), "events/s")
}

func benchWorld(b *testing.B) (evs [events.NumKinds]*events.Event, lines [events.NumKinds][]byte) {
	w := goldenWorld(&testing.T{})
	for i, line := range w.encoded() {
		if k := w.log[i].Kind; len(line) > len(lines[k]) {
			evs[k], lines[k] = &w.log[i], line
		}
	}
	b.ResetTimer()
	return evs, lines
}

func BenchmarkAppendJSON(b *testing.B) {
	evs, lines := benchWorld(b)
	for k, ev := range evs {
		if ev == nil {
			continue
		}
		b.Run(ev.Kind.String(), func(b *testing.B) {
			buf := make([]byte, 0, 4096)
			b.ReportAllocs()
			b.SetBytes(int64(len(lines[k])))
			for b.Loop() {
				if _, err := ev.AppendJSON(buf); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDecodeEvent(b *testing.B) {
	_, lines := benchWorld(b)
	for k, line := range lines {
		if line == nil {
			continue
		}
		b.Run(events.Kind(k).String(), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(line)))
			for b.Loop() {
				if _, err := events.DecodeEvent(line); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// nextFrame is the position of the next frame's first event.
func nextFrame(s *State) events.Seq { return events.SeqOf(s.meta.Applied.Frame()+1, 0) }
