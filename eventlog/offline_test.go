package eventlog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	. "github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/eventlog/logtest"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// storedOf gives the messages of a log with these sequences, one by one.
func storedOf(t *testing.T, l *JetStream, seqs ...uint64) func(context.Context) (Stored, bool, error) {
	return func(context.Context) (Stored, bool, error) {
		if len(seqs) == 0 {
			return Stored{}, false, nil
		}
		m, err := l.Get(logtest.Context(t), seqs[0])
		seqs = seqs[1:]
		return m, true, err
	}
}

// What was taken out of a stream is replayed as the stream is read.
func TestReplay(t *testing.T) {
	f := onServer(t)
	l := f.open(t, nil)
	last := mustAppend(t, l, 0, logtest.Decision(3, "a"))
	strangers(t, f, 1)
	last = mustAppend(t, l, last+1, logtest.Decision(1, "b"))
	var got []string
	foreign := 0
	err := Replay(logtest.Context(t), func(uint64, string) { foreign++ }, storedOf(t, l.(*JetStream), 1, 2, 3), func(f Frame) error {
		got = append(got, fmt.Sprint(f.Seq, marksOf(f.Events), f.Skipped))
		return nil
	})
	if want := []string{"1 [a a a] 0", "3 [b] 1"}; err != nil || foreign != 1 || !slices.Equal(got, want) {
		t.Errorf("replayed %q, %d foreign, %v; want %q", got, foreign, err, want)
	}
	broken := errors.New("broken")
	if err := Replay(logtest.Context(t), nil, func(context.Context) (Stored, bool, error) { return Stored{}, false, broken }, ignore); err != broken {
		t.Errorf("a replay of a broken source: %v", err)
	}
	if end, err := EndOf(logtest.Context(t), f.nc, wire.Default, "WORK_EVENTS_0"); err != nil || end.Last != events.SeqOf(last, 0) || end.Seq != last {
		t.Errorf("the stream ends at %+v, %v", end, err)
	}
	if _, err := TipOf(logtest.Context(t), f.nc, wire.Default, "WORK_EVENTS_1"); !errors.Is(err, ErrNoLog) {
		t.Errorf("the end of a stream that is not there: %v", err)
	}
}

// The events behind a position are cut off a frame, and nothing else is changed.
func TestEndFrame(t *testing.T) {
	m, err := NewMessage(wire.Default, 0, &Write{Epoch: 3, Node: "n", Level: 1, Before: 7, Events: logtest.Decision(5, "a")})
	if err != nil {
		t.Fatal(err)
	}
	header := wireHeader(m.Header)
	for n := range 6 {
		h, data := EndFrame(header, m.Data, events.SeqOf(9, n))
		parsed, err := nats.DecodeHeadersMsg(h)
		if err != nil {
			t.Fatal(err)
		}
		d := Decode(&Stored{Seq: 9, Header: parsed, Data: data})
		got, foreign, err := d.Frame, d.Foreign, d.Err
		if want := min(n+1, 5); err != nil || foreign != "" || len(got.Events) != want || !bytes.HasPrefix(m.Data, data) {
			t.Fatalf("ended at event %d, the frame has %d events: %v", n, len(got.Events), err)
		}
		if got.Epoch != 3 || got.Node != "n" || got.Before != 7 || got.ID == "" || n >= 4 && !bytes.Equal(h, header) {
			t.Fatalf("ended at event %d: %+v", n, got)
		}
	}
	for name, foreign := range map[string][]byte{"no id": []byte("NATS/1.0\r\nA: b\r\n\r\n"), "no header": nil} {
		if h, data := EndFrame(foreign, m.Data, events.SeqOf(9, 1)); !bytes.Equal(h, foreign) || !bytes.Equal(data, m.Data) {
			t.Errorf("a message with %s was changed", name)
		}
	}
	if _, data := EndFrame(header, []byte("torn"), events.SeqOf(9, 1)); len(data) > 4 {
		t.Errorf("a torn frame has become %q", data)
	}
}

// wireHeader writes a header as NATS does.
func wireHeader(h nats.Header) []byte {
	b := []byte("NATS/1.0\r\n")
	for key, vs := range h {
		b = fmt.Appendf(b, "%s: %s\r\n", key, strings.Join(vs, ""))
	}
	return append(b, "\r\n"...)
}
