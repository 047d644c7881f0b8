//go:build unix

package projector

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// BenchmarkReplay is a takeover by an engine whose store is empty: a log on an
// embedded server is replayed into a store on disk. cpu-ms is the CPU time of
// the process, the server included: until all is folded in, and until the store
// is flushed and closed.
func BenchmarkReplay(b *testing.B) {
	for _, c := range []struct {
		name         string
		items, bytes int
		lives        bool
	}{
		{"large", 1500, 64 << 10, false}, // 3,000 events
		{"small", 20_000, 200, true},     // 100,000 events
	} {
		b.Run(c.name, func(b *testing.B) {
			log, last := servedLog(b, c.items, c.bytes, c.lives)
			b.ReportAllocs()
			var filled, cpu time.Duration // until it is folded in; until the store is closed
			for b.Loop() {
				before := cpuTime(b)
				s, err := Open(b.TempDir(), Options{})
				if err != nil {
					b.Fatal(err)
				}
				if err := fill(b.Context(), s, log, moment{through: last}, nil); err != nil {
					b.Fatal(err)
				}
				filled += cpuTime(b) - before
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
				cpu += cpuTime(b) - before
			}
			b.ReportMetric(float64(filled.Milliseconds())/float64(b.N), "filled-cpu-ms/op")
			b.ReportMetric(float64(cpu.Milliseconds())/float64(b.N), "cpu-ms/op")
		})
	}
}

// servedLog is a log on an embedded server: items with so many bytes of params,
// queued, or taken through their lives.
func servedLog(b *testing.B, items, bytes int, through bool) (Log, events.Seq) {
	b.Helper()
	dir := b.TempDir()
	srv, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true, JetStream: true, StoreDir: dir, MaxPayload: 8 << 20})
	if err != nil {
		b.Fatal(err)
	}
	srv.Start()
	b.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	dial := func() (*nats.Conn, error) {
		return nats.Connect("", nats.InProcessServer(srv), nats.ReconnectBufSize(-1))
	}
	log, err := eventlog.Open(b.Context(), eventlog.Config{Connect: dial, Folder: filepath.Join(dir, "jetstream", "$G", "streams")})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { log.Close() })
	s := newSim(b, 1, nil)
	params := json.RawMessage(fmt.Sprintf(`{"pad":"%x"}`, randomBytes(s.rng, bytes/2)))
	last, per := events.Seq(0), max(1, min(100, 4<<20/bytes))
	for i := 0; i < items; i += per {
		n := min(per, items-i)
		if through {
			lives(s, n, core.Submit{Type: "email", Params: params}, "", func() {})
		} else {
			for range n {
				s.submit(core.Submit{Type: "email", Params: params})
			}
		}
		s.now = s.now.Add(time.Millisecond)
		s.take()
		last = appendAll(b, log, last, s.log.frames)
		s.ids = nil
		clear(s.log.frames) // their number stays: it is the next frame's
	}
	return log, last
}

// appendAll appends the frames that there are, and returns the log's end.
func appendAll(b *testing.B, log eventlog.Log, last events.Seq, frames []*memFrame) events.Seq {
	b.Helper()
	for _, f := range frames {
		if f == nil {
			continue
		}
		w := eventlog.Write{Epoch: f.epoch, Before: f.before}
		for _, line := range f.lines {
			ev, err := events.DecodeEvent(line)
			if err != nil {
				b.Fatal(err)
			}
			w.Events = append(w.Events, ev)
		}
		done, err := log.Append(b.Context(), last.Frame(), &w)
		if err != nil {
			b.Fatal(err)
		}
		last = done.Last
	}
	return last
}

func randomBytes(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
