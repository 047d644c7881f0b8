package eventlog_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
)

// plainEvent is an event as a reader without our packages sees it: EVENTS.md says the rest.
type plainEvent struct {
	Position uint64 `json:"-"`

	V    int             `json:"v"`
	Kind string          `json:"kind"`
	ID   string          `json:"id"`
	Type string          `json:"type"`
	At   time.Time       `json:"at"`
	Data json.RawMessage `json:"data"`
}

// plainReader reads the log of partition 0 by docs/reference/EVENTS.md.
type plainReader struct {
	epoch  uint64 // of the last frame
	events uint64 // in the log so far
}

// run reads all that is stored now.
func (r *plainReader) run(ctx context.Context, js jetstream.JetStream, fn func(plainEvent)) error {
	s, err := js.Stream(ctx, "WORK_EVENTS_0")
	if err != nil {
		return err
	}
	c, err := s.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return err
	}
	for last := s.CachedInfo().State.LastSeq; last > 0; {
		m, err := c.Next(jetstream.FetchContext(ctx))
		if err != nil {
			return err
		}
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		if err := r.frame(meta.Sequence.Stream, m.Headers(), m.Data(), fn); err != nil {
			return fmt.Errorf("message %d: %w", meta.Sequence.Stream, err)
		}
		if meta.Sequence.Stream == last {
			break
		}
	}
	return nil
}

// frame reads one message of the stream.
func (r *plainReader) frame(seq uint64, h nats.Header, body []byte, fn func(plainEvent)) error {
	if h.Get("Work-Frame") == "" {
		return nil // foreign: no engine wrote it
	}
	epoch, err1 := strconv.ParseUint(h.Get("Work-Epoch"), 10, 64)
	n, err2 := strconv.ParseUint(h.Get("Work-Events"), 10, 64)
	before, err3 := strconv.ParseUint(h.Get("Work-Before"), 10, 64)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	switch {
	case epoch < r.epoch:
		return nil // of an owner that was one no more
	case r.events > 0 && before != r.events:
		return fmt.Errorf("%d events come before it, and %d were read: some are missing", before, r.events)
	}
	r.epoch, r.events = epoch, before+n
	lines := bufio.NewScanner(bytes.NewReader(body))
	lines.Buffer(nil, len(body)+1)
	i := uint64(0)
	for ; lines.Scan(); i++ {
		ev := plainEvent{Position: seq*4096 + i}
		if err := json.Unmarshal(lines.Bytes(), &ev); err != nil {
			return err
		}
		if ev.V != 1 {
			return fmt.Errorf("event %d has level %d: use a newer reader", i, ev.V)
		}
		fn(ev)
	}
	if i != n {
		return fmt.Errorf("it has %d events of %d", i, n)
	}
	return lines.Err()
}

// The log can be read, and state rebuilt from it, with a NATS client alone.
func TestReadWithNATSAlone(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	s, err := server.NewServer(&server.Options{DontListen: true, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	connect := func() (*nats.Conn, error) {
		return nats.Connect("", nats.InProcessServer(s), nats.ReconnectBufSize(-1))
	}
	log, err := eventlog.Open(ctx, eventlog.Config{Connect: connect})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	nc, err := connect()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}

	// Ten items are created, three of them completed, in frames of several items.
	var ids []events.ID
	var first, second []events.Event
	for i := range 10 {
		id := events.ID{0: 1, 15: byte(i)}
		ids = append(ids, id)
		first = append(first, events.Event{Kind: events.KindCreated, ID: id, Type: "email", At: time.Unix(0, 0).UTC(), Body: &events.Created{Params: json.RawMessage(`{"text":"two\nlines"}`), Priority: 5, MaxAttempts: 1, Timeout: events.Millis(1000)}})
	}
	for _, id := range ids[:3] {
		second = append(second, events.Event{Kind: events.KindCompleted, ID: id, Type: "email", At: time.Unix(1, 0).UTC(), Attempt: 1, Worker: "w", Body: &events.Completed{Result: json.RawMessage(`{"ok":true}`)}})
	}
	if _, err := log.Append(ctx, 0, &eventlog.Write{Epoch: 1, Node: "a", Events: first}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(ctx, "work.frame.0", []byte("no engine wrote this")); err != nil {
		t.Fatal(err)
	}
	if _, err := log.Append(ctx, 2, &eventlog.Write{Epoch: 2, Node: "b", Before: 10, Events: second}); err != nil {
		t.Fatal(err)
	}

	var r plainReader
	state := map[string]string{}
	var positions []uint64
	err = r.run(ctx, js, func(ev plainEvent) {
		state[ev.ID] = ev.Kind
		positions = append(positions, ev.Position)
		if ev.Type != "email" || !strings.HasPrefix(string(ev.Data), "{") || ev.At.IsZero() {
			t.Errorf("read %+v", ev)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, id := range ids {
		want := "created"
		if i < 3 {
			want = "completed"
		}
		if state[id.String()] != want {
			t.Errorf("item %d is %q, want %q", i, state[id.String()], want)
		}
	}
	if len(state) != 10 || r.events != 13 || !slices.IsSorted(positions) || positions[0] != 4096 || positions[12] != 3*4096+2 {
		t.Errorf("read %d items, %d events, at the positions %d", len(state), r.events, positions)
	}
}
