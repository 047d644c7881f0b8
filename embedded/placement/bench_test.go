package placement

import (
	"testing"
	"time"
)

func BenchmarkNext(b *testing.B) {
	s := atRest(1, standardPlan, 50, 1000, true)
	now := s.now
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Second)
		s.p.Next(now, s.asNodes, s.asLogs)
	}
}
