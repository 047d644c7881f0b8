//go:build unix

package pages_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/eventlog/logtest"
	. "github.com/streamwright/streamwright/eventlog/pages"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// BenchmarkTail measures tails of a type that has no events, while 5,000 events
// of another are appended each second, one or fifty at once. cpu-ms/s is the CPU
// time of the process in a second: the difference to no tails is theirs.
func BenchmarkTail(b *testing.B) {
	const rate = 5000
	for _, batch := range []int{1, 50} {
		for _, tails := range []int{0, 1, 10} {
			b.Run(fmt.Sprintf("batch=%d/tails=%d", batch, tails), func(b *testing.B) {
				l := newRig(b)
				var position atomic.Uint64
				p := NewReader(l.nc, wire.Default, func() events.Seq { return events.Seq(position.Load()) }, nil)
				ctx, cancel := context.WithCancel(b.Context())
				var running sync.WaitGroup
				for range tails {
					running.Go(func() {
						if err := p.Tail(ctx, TailConfig{Types: []events.Type{"rare"}}, nil, func(events.Event) error { return nil }); err != nil {
							b.Error(err)
						}
					})
				}
				w := logtest.Write(logtest.Decision(batch, "bench"))
				begun, cpu := time.Now(), cpuTime(b)
				for n := 0; b.Loop(); {
					if ahead := time.Duration(n)*time.Second/rate - time.Since(begun); ahead > 0 {
						time.Sleep(ahead)
					}
					done, err := l.Append(b.Context(), events.Seq(position.Load()).Frame(), w)
					if err != nil {
						b.Fatal(err)
					}
					position.Store(uint64(done.Last))
					p.Grown()
					n += batch
				}
				took, used := time.Since(begun), cpuTime(b)-cpu
				b.ReportMetric(float64(used.Milliseconds())/took.Seconds(), "cpu-ms/s")
				b.ReportMetric(float64(b.N*batch)/took.Seconds(), "events/s")
				cancel()
				running.Wait()
			})
		}
	}
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkPages measures someone who reads 100,000 old events page by page.
func BenchmarkPages(b *testing.B) {
	const total = 100_000
	for _, n := range []int{12, 1000, eventlog.MaxEvents} {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			l := newRig(b)
			ctx := b.Context()
			w := logtest.Write(logtest.Decision(n, "bench"))
			var last uint64
			for ; last < total/uint64(n); last++ {
				if _, err := l.Append(ctx, last, w); err != nil {
					b.Fatal(err)
				}
			}
			p := NewReader(l.nc, wire.Default, func() events.Seq { return events.SeqOf(last+KeepFrames, 0) }, nil)
			b.ReportAllocs()
			for b.Loop() {
				got := 0
				for q := (Query{From: 1}); got < int(last)*n; {
					page, err := p.Read(ctx, q, nil)
					if err != nil || len(page.Events) == 0 {
						b.Fatal(got, err)
					}
					got, q.From = got+len(page.Events), page.Next
				}
			}
			b.ReportMetric(float64(b.N)*float64(last)*float64(n)/b.Elapsed().Seconds(), "events/s")
		})
	}
}
