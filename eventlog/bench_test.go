package eventlog_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	. "github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/eventlog/logtest"
	"github.com/streamwright/streamwright/events"
)

// benchEvents are n events as an engine writes them: five an item.
func benchEvents(n int) []events.Event {
	params := json.RawMessage(`{"to":"someone@example.com","subject":"Hello","template":"welcome","vars":{"name":"Some One","plan":"basic","n":12345},"pad":"` + fmt.Sprintf("%0100d", 7) + `"}`)
	var evs []events.Event
	for i := 0; len(evs) < n; i++ {
		id := logtest.ID(i)
		at := logtest.Time
		evs = append(evs,
			events.Event{Kind: events.KindCreated, ID: id, Type: "email", At: at, Body: &events.Created{Params: params, Priority: 5, MaxAttempts: 3, Timeout: events.Millis(300000), Provenance: events.Provenance{Source: "bench"}, Intake: events.Intake{Seq: uint64(i)}}},
			events.Event{Kind: events.KindQueued, ID: id, Type: "email", At: at, Body: &events.Queued{Reason: "submitted", OrderAt: at}},
			events.Event{Kind: events.KindClaimed, ID: id, Type: "email", At: at, Attempt: 1, Worker: "worker-1", Body: &events.Claimed{Token: events.NewToken(3, uint64(i)), StartBy: at}},
			events.Event{Kind: events.KindRunning, ID: id, Type: "email", At: at, Attempt: 1, Worker: "worker-1", Body: &events.Running{Deadline: at}},
			events.Event{Kind: events.KindCompleted, ID: id, Type: "email", At: at, Attempt: 1, Worker: "worker-1", Body: &events.Completed{Duration: events.Millis(12), Result: json.RawMessage(`{"ok":true}`)}},
		)
	}
	return evs[:n]
}

// BenchmarkAppend measures appends, each waiting for the one before.
func BenchmarkAppend(b *testing.B) {
	for _, sync := range []bool{false, true} {
		durability := map[bool]string{false: "interval", true: "always"}[sync]
		for _, n := range []int{1, 12, 1000} {
			b.Run(fmt.Sprintf("%s/n=%d", durability, n), func(b *testing.B) {
				s := startServer(b, b.TempDir(), func(o *server.Options) { o.SyncAlways = sync })
				benchAppend(b, openLog(b, Config{Connect: inProcess(s)}), n)
			})
		}
	}
}

// BenchmarkDial compares the ways to reach a server in the same process.
func BenchmarkDial(b *testing.B) {
	for _, n := range []int{1, 12, 1000} {
		s := startServer(b, b.TempDir(), nil)
		b.Run(fmt.Sprintf("pipe/n=%d", n), func(b *testing.B) {
			benchAppend(b, openLog(b, Config{Connect: inProcess(s)}), n)
		})
		b.Run(fmt.Sprintf("loopback/n=%d", n), func(b *testing.B) {
			benchAppend(b, openLog(b, Config{Connect: dialURL(s.ClientURL())}), n)
		})
	}
}

func benchAppend(b *testing.B, l *JetStream, n int) {
	w := logtest.Write(benchEvents(n))
	ctx := b.Context()
	tip, err := l.Last(ctx)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for after := tip.Seq; b.Loop(); after++ {
		if _, err := l.Append(ctx, after, w); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N), "µs/append")
}

// BenchmarkRead measures a replay of 100,000 events, by an engine with a server of its own.
func BenchmarkRead(b *testing.B) {
	const total = 100_000
	for _, n := range []int{1, 12, 1000} {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			dir := b.TempDir()
			s := startServer(b, dir, nil)
			l := openLog(b, Config{Connect: inProcess(s), Folder: filepath.Join(dir, "jetstream", "$G", "streams")})
			ctx := b.Context()
			w := logtest.Write(benchEvents(n))
			var last uint64
			for ; last < total/uint64(n); last++ {
				if _, err := l.Append(ctx, last, w); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				got := 0
				if err := l.Read(ctx, 1, last, func(f Frame) error { got += len(f.Events); return nil }); err != nil || got != int(last)*n {
					b.Fatal(got, err)
				}
			}
			b.ReportMetric(float64(b.N)*float64(last)*float64(n)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// BenchmarkDecode measures what one core does of a replay.
func BenchmarkDecode(b *testing.B) {
	evs := benchEvents(1000)
	var msgs [][]byte
	for i := range evs {
		m, err := evs[i].AppendJSON(nil)
		if err != nil {
			b.Fatal(err)
		}
		msgs = append(msgs, m)
	}
	b.ReportAllocs()
	var d events.Decoder
	for i := 0; b.Loop(); i++ {
		if _, err := d.Decode(msgs[i%len(msgs)]); err != nil {
			b.Fatal(err)
		}
	}
}
