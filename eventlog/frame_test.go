package eventlog_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	. "github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/eventlog/logtest"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// encoded is a frame's message.
func encoded(t testing.TB, w *Write) Stored {
	t.Helper()
	m, err := NewMessage(wire.Default, 0, w)
	if err != nil {
		t.Fatal(err)
	}
	return Stored{Seq: 5, Header: m.Header, Data: m.Data}
}

// Of a frame that was damaged nothing is handed over, nor is it taken for a foreign message;
// a message without a frame's id is foreign, whatever else it has.
func TestDamagedFrames(t *testing.T) {
	set := func(key, v string) func(*Stored) { return func(m *Stored) { m.Header[key] = []string{v} } }
	body := func(edit func([]byte) []byte) func(*Stored) { return func(m *Stored) { m.Data = edit(m.Data) } }
	const corrupt, foreign = "corrupt", "foreign"
	for name, c := range map[string]struct {
		damage func(*Stored)
		want   string
	}{
		"whole":               {func(*Stored) {}, ""},
		"no id":               {func(m *Stored) { delete(m.Header, HeaderFrame) }, foreign},
		"an empty id":         {func(m *Stored) { m.Header[HeaderFrame] = nil }, foreign},
		"a foreign id":        {set(HeaderFrame, "0123456789AB-1"), foreign},
		"an id in lower case": {set(HeaderFrame, "abcdefghijkl.1"), foreign},
		"a long id":           {set(HeaderFrame, "0123456789AB."+strings.Repeat("1", 14)), foreign},
		"no headers":          {func(m *Stored) { m.Header = nil }, foreign},
		"no epoch":            {func(m *Stored) { delete(m.Header, HeaderEpoch) }, corrupt},
		"an epoch below 0":    {set(HeaderEpoch, "-1"), corrupt},
		"no count before":     {set(HeaderBefore, ""), corrupt},
		"no events":           {set(HeaderEvents, "0"), corrupt},
		"too many events":     {set(HeaderEvents, "4096"), corrupt},
		"no number":           {set(HeaderEvents, "1e3"), corrupt},
		"fewer events":        {set(HeaderEvents, "4"), corrupt},
		"more events":         {set(HeaderEvents, "2"), corrupt},
		"an empty body":       {body(func([]byte) []byte { return nil }), corrupt},
		"a torn end":          {body(func(b []byte) []byte { return b[:len(b)-1] }), corrupt},
		"a torn line":         {body(func(b []byte) []byte { return append(b[:len(b)-9], '\n') }), corrupt},
		"a line less":         {body(func(b []byte) []byte { return b[:bytes.LastIndexByte(b[:len(b)-1], '\n')+1] }), corrupt},
		"a line more":         {body(func(b []byte) []byte { return append(b, "{}\n"...) }), corrupt},
		"an empty line":       {body(func(b []byte) []byte { return append([]byte{'\n'}, b...) }), corrupt},
		"zeros":               {body(func(b []byte) []byte { clear(b[len(b)/2:]); return b }), corrupt},
		"a newer level":       {set(HeaderLevel, "99"), ""}, // an event says what it has
	} {
		t.Run(name, func(t *testing.T) {
			m := encoded(t, logtest.Write(logtest.Decision(3, "a")))
			c.damage(&m)
			d := Decode(&m)
			reason, err, got := d.Foreign, d.Err, ""
			var ce *CorruptError
			switch {
			case errors.As(err, &ce) && ce.Frame == 5:
				got = corrupt
			case err != nil:
				got = err.Error()
			case reason != "":
				got = foreign
			}
			if got != c.want {
				t.Errorf("judged %q (%v, %s), want %q", got, err, reason, c.want)
			}
		})
	}
}

// FuzzFrame: whatever a message has, it is judged without a panic, and a frame holds what
// its header says.
func FuzzFrame(f *testing.F) {
	for _, n := range []int{1, 3} {
		m := encoded(f, logtest.Write(logtest.Decision(n, "a")))
		f.Add(m.Header[HeaderFrame][0], "1", "1", fmt.Sprint(n), "0", m.Data)
		f.Add(m.Header[HeaderFrame][0], "1", "1", fmt.Sprint(n+1), "0", m.Data)
		f.Add(m.Header[HeaderFrame][0], "18446744073709551615", "99", "4095", "x", m.Data[:len(m.Data)/2])
		f.Add("", "", "", "", "", m.Data)
	}
	f.Fuzz(func(t *testing.T, id, epoch, level, n, before string, data []byte) {
		h := nats.Header{HeaderFrame: {id}, HeaderEpoch: {epoch}, HeaderLevel: {level}, HeaderEvents: {n}, HeaderBefore: {before}}
		m := Stored{Seq: 7, Header: h, Data: data}
		d := Decode(&m)
		switch got, foreign, err := d.Frame, d.Foreign, d.Err; {
		case err != nil:
			if !errors.Is(err, events.ErrCorrupt) && !errors.Is(err, events.ErrNewer) {
				t.Errorf("judged %v", err)
			}
		case foreign == "":
			if count := fmt.Sprint(len(got.Events)); count != strings.TrimLeft(n, "+0") || bytes.Count(data, []byte{'\n'}) != len(got.Events) {
				t.Errorf("%s events of %q", count, n)
			}
			if last := got.Last(); last.Frame() != 7 || last.Index() != len(got.Events)-1 {
				t.Errorf("the last event is at %d", last)
			}
		}
		for _, at := range []int{0, 1, MaxEvents} {
			_, cut := EndFrame(wireHeader(h), data, events.SeqOf(7, at))
			if !bytes.HasPrefix(data, cut) {
				t.Errorf("cut at %d the body is %q", at, cut)
			}
		}
	})
}
