package intake

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// What is read ahead of the intake is bounded with the headers that a publisher
// may add to it, which say nothing to the engine.
func TestReadAheadCountsHeaders(t *testing.T) {
	const long = 60 << 10
	r := NewReader(Config{Names: wire.Default, NewID: func() events.ID { return events.ID{1} }, Read: func(uint64) {}}, 0)
	header := nats.Header{"X": {strings.Repeat("x", long)}}
	n := 0
	for r.budget.TryAcquire(2 * long) { // else take waits
		r.budget.Release(2 * long)
		if err := r.add(t.Context(), connect.Message{Seq: uint64(n + 1), Subject: "work.intake.0.email", Header: header, Data: []byte("1")}); err != nil {
			t.Fatal(err)
		}
		if n++; n*long > maxBytes {
			t.Fatalf("%d messages of %d bytes are held: the bound is %d", n, long, maxBytes)
		}
	}
	if n*long < maxBytes/2 {
		t.Fatalf("only %d messages are held", n)
	}
}
