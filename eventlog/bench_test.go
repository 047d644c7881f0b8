package eventlog

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/streamwright/streamwright/events"
)

// benchEvents are n events as an engine writes them: five an item.
func benchEvents(n int) []events.Event {
	params := json.RawMessage(`{"to":"someone@example.com","subject":"Hello","template":"welcome","vars":{"name":"Some One","plan":"basic","n":12345},"pad":"` + fmt.Sprintf("%0100d", 7) + `"}`)
	var evs []events.Event
	for i := 0; len(evs) < n; i++ {
		id := testID(i)
		at := testTime
		evs = append(evs,
			events.Event{Kind: events.KindCreated, ID: id, Type: "email", At: at, Tx: events.Tx{N: 1, Of: 2}, Body: &events.Created{Params: params, Priority: 5, MaxAttempts: 3, TimeoutMS: 300000, Provenance: events.Provenance{Source: "bench"}, Intake: events.Intake{Seq: uint64(i)}}},
			events.Event{Kind: events.KindQueued, ID: id, Type: "email", At: at, Tx: events.Tx{N: 2, Of: 2}, Body: &events.Queued{Reason: "submitted", OrderAt: at}},
			events.Event{Kind: events.KindClaimed, ID: id, Type: "email", At: at, Attempt: 1, Worker: "worker-1", Body: &events.Claimed{Token: events.NewToken(3, uint64(i)), StartBy: at}},
			events.Event{Kind: events.KindRunning, ID: id, Type: "email", At: at, Attempt: 1, Worker: "worker-1", Body: &events.Running{Deadline: at}},
			events.Event{Kind: events.KindCompleted, ID: id, Type: "email", At: at, Attempt: 1, Worker: "worker-1", Body: &events.Completed{DurationMS: 12, Result: json.RawMessage(`{"ok":true}`)}},
		)
	}
	return evs[:n]
}

// BenchmarkAppend measures appends, each waiting for the one before. The paths
// are those that Append takes by itself, or, with n around atomicFrom on a
// server that syncs every write, both.
func BenchmarkAppend(b *testing.B) {
	for _, sync := range []bool{false, true} {
		durability := map[bool]string{false: "interval", true: "always"}[sync]
		for _, path := range []struct {
			name   string
			atomic bool
			ns     []int
		}{
			{"single", false, []int{1}},
			{"pipelined", false, []int{2, 4, 6, 8, 12, 100, 1000}},
			{"atomic", true, []int{2, 4, 6, 8, 12, 100, 1000}},
		} {
			for _, n := range path.ns {
				b.Run(fmt.Sprintf("%s/%s/n=%d", path.name, durability, n), func(b *testing.B) {
					s := startServer(b, b.TempDir(), func(o *server.Options) { o.SyncAlways = sync })
					benchAppend(b, openLog(b, Config{Connect: inProcess(s), SyncAlways: sync}), n, path.atomic)
				})
			}
		}
	}
	for _, n := range []int{2, 3, 4, 6, 8, 12, 100, 1000} {
		b.Run(fmt.Sprintf("staged/always/n=%d", n), func(b *testing.B) {
			s, _, f := stagedStream(b, b.TempDir())
			l := openLog(b, Config{Connect: inProcess(s), SyncAlways: true})
			if !f.Ready(1 << 20) {
				b.Skip("there is no room in memory")
			}
			benchAppend(b, l, n, true)
		})
	}
}

// BenchmarkDial compares the ways to reach a server in the same process.
func BenchmarkDial(b *testing.B) {
	for _, n := range []int{1, 100, 1000} {
		s := startServer(b, b.TempDir(), nil)
		b.Run(fmt.Sprintf("pipe/n=%d", n), func(b *testing.B) {
			benchAppend(b, openLog(b, Config{Connect: inProcess(s)}), n, false)
		})
		b.Run(fmt.Sprintf("loopback/n=%d", n), func(b *testing.B) {
			benchAppend(b, openLog(b, Config{Connect: dialURL(s.ClientURL())}), n, false)
		})
	}
}

func benchAppend(b *testing.B, l *JetStream, n int, atomic bool) {
	evs := benchEvents(n)
	ctx := b.Context()
	tip, err := l.Last(ctx)
	if err != nil {
		b.Fatal(err)
	}
	after := tip.Seq
	l.path = func(int) bool { return atomic }
	b.ReportAllocs()
	for b.Loop() {
		done, err := l.Append(ctx, after, evs)
		if err != nil {
			b.Fatal(err)
		}
		after = done.Last
	}
	b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N), "µs/append")
}

// BenchmarkRead measures a replay of 100,000 events.
func BenchmarkRead(b *testing.B) {
	const total = 100_000
	s := startServer(b, b.TempDir(), nil)
	l := openLog(b, Config{Connect: inProcess(s)})
	ctx := b.Context()
	evs := benchEvents(MaxAppend)
	var after events.Seq
	for after < total {
		done, err := l.Append(ctx, after, evs)
		if err != nil {
			b.Fatal(err)
		}
		after = done.Last
	}
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		if err := l.Read(ctx, 1, after, func(g Group) error { n += len(g.Events); return nil }); err != nil || n != total {
			b.Fatal(n, err)
		}
	}
	b.ReportMetric(float64(b.N)*total/b.Elapsed().Seconds(), "events/s")
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
	for i := 0; b.Loop(); i++ {
		if _, err := events.DecodeEvent(msgs[i%len(msgs)]); err != nil {
			b.Fatal(err)
		}
	}
}
