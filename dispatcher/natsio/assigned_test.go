package natsio

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/dispatcher/table"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Items that are claimed together share a message, as far as their documents fit; one that is as
// large as it can be has a message of its own.
func TestAssignedItemsShareMessages(t *testing.T) {
	srv, err := natsserver.NewServer(&natsserver.Options{Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, MaxPayload: 4 << 20, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	nc, err := nats.Connect(srv.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	sub, err := nc.SubscribeSync("work.run.email.s1")
	if err != nil {
		t.Fatal(err)
	}
	p := &Pusher{
		nc: nc, log: slog.New(slog.DiscardHandler), parcels: map[recipient]*parcel{},
		cfg: &Config{Names: wire.Default, Traceparent: func(*events.Item, events.Token) string { return "" }},
	}
	text := func(n int) json.RawMessage { return json.RawMessage(`"` + strings.Repeat("x", n-2) + `"`) }
	small := wire.Left{Checkpoint: text(100)}
	half := wire.Left{Checkpoint: text(events.MaxCheckpoint), Waited: &wire.EndedWait{Ended: events.WaitSignalled, Signals: text(wire.MaxAssignedBytes / 2)}}
	all := wire.Left{ // more than a log can have of them: see events.MaxOutcomesBytes and events.MaxMailboxBytes
		Checkpoint:   text(events.MaxCheckpoint),
		Continuation: &wire.Continuation{Name: "on", Children: text(2 << 20)},
		Waited:       &wire.EndedWait{Ended: events.WaitSignalled, Signals: text(2 * events.MaxMailboxBytes)},
	}
	given := []struct {
		params json.RawMessage
		left   wire.Left
	}{{text(10), small}, {text(10), small}, {text(10), half}, {text(10), half}, {text(events.MaxParamsCeiling), all}, {nil, wire.Left{}}}
	for i, g := range given {
		d := &table.Dispatch{Token: events.NewToken(1, uint64(i+1)), Session: "s1", Lease: 30 * time.Second}
		p.Assign(d, &events.Item{ID: events.ID{byte(i)}, Type: "email"}, g.params, &g.left)
	}
	p.FlushAssigned()
	n := 0
	for _, want := range []int{3, 1, 1, 1} {
		m, err := sub.NextMsg(10 * time.Second)
		if err != nil {
			t.Fatalf("behind %d items: %v", n, err)
		}
		list, err := wire.DecodeAssigned(nil, m.Data)
		if err != nil || len(list) != want {
			t.Fatalf("behind %d items: a message of %d bytes has %d, want %d: %v", n, len(m.Data), len(list), want, err)
		}
		for _, a := range list {
			if left := given[n].left; a.Left.Size() != left.Size() || a.Bytes != max(len(given[n].params), len("null")) {
				t.Errorf("item %d has %d bytes of params and %d that were left", n, a.Bytes, a.Left.Size())
			}
			n++
		}
	}
}
