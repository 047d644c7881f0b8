package eventlog

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
)

// encoded is a frame's message.
func encoded(t testing.TB, w *Write) message {
	t.Helper()
	m, err := NewMemoryStream(0).Open().enc.encode(w, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return message{seq: 5, header: m.Header, data: m.Data}
}

// Of a frame that was damaged nothing is handed over, nor is it taken for a foreign message;
// a message without a frame's id is foreign, whatever else it has.
func TestDamagedFrames(t *testing.T) {
	set := func(key, v string) func(*message) { return func(m *message) { m.header[key] = []string{v} } }
	body := func(edit func([]byte) []byte) func(*message) { return func(m *message) { m.data = edit(m.data) } }
	const corrupt, foreign = "corrupt", "foreign"
	for name, c := range map[string]struct {
		damage func(*message)
		want   string
	}{
		"whole":               {func(*message) {}, ""},
		"no id":               {func(m *message) { delete(m.header, headerFrame) }, foreign},
		"an empty id":         {func(m *message) { m.header[headerFrame] = nil }, foreign},
		"a foreign id":        {set(headerFrame, "0123456789AB-1"), foreign},
		"an id in lower case": {set(headerFrame, "abcdefghijkl.1"), foreign},
		"a long id":           {set(headerFrame, "0123456789AB."+strings.Repeat("1", 14)), foreign},
		"no headers":          {func(m *message) { m.header = nil }, foreign},
		"no epoch":            {func(m *message) { delete(m.header, headerEpoch) }, corrupt},
		"an epoch below 0":    {set(headerEpoch, "-1"), corrupt},
		"no count before":     {set(headerBefore, ""), corrupt},
		"no events":           {set(headerEvents, "0"), corrupt},
		"too many events":     {set(headerEvents, "4096"), corrupt},
		"no number":           {set(headerEvents, "1e3"), corrupt},
		"fewer events":        {set(headerEvents, "4"), corrupt},
		"more events":         {set(headerEvents, "2"), corrupt},
		"an empty body":       {body(func([]byte) []byte { return nil }), corrupt},
		"a torn end":          {body(func(b []byte) []byte { return b[:len(b)-1] }), corrupt},
		"a torn line":         {body(func(b []byte) []byte { return append(b[:len(b)-9], '\n') }), corrupt},
		"a line less":         {body(func(b []byte) []byte { return b[:bytes.LastIndexByte(b[:len(b)-1], '\n')+1] }), corrupt},
		"a line more":         {body(func(b []byte) []byte { return append(b, "{}\n"...) }), corrupt},
		"an empty line":       {body(func(b []byte) []byte { return append([]byte{'\n'}, b...) }), corrupt},
		"zeros":               {body(func(b []byte) []byte { clear(b[len(b)/2:]); return b }), corrupt},
		"a newer level":       {set(headerLevel, "99"), ""}, // an event says what it has
	} {
		t.Run(name, func(t *testing.T) {
			m := encoded(t, write(decision(3, "a")))
			c.damage(&m)
			j := judge(&m)
			got := ""
			var ce *CorruptError
			switch {
			case errors.As(j.err, &ce) && ce.Frame == 5:
				got = corrupt
			case j.err != nil:
				got = j.err.Error()
			case j.foreign != "":
				got = foreign
			}
			if got != c.want {
				t.Errorf("judged %q (%v, %s), want %q", got, j.err, j.foreign, c.want)
			}
		})
	}
}

// FuzzFrame: whatever a message has, it is judged without a panic, and a frame holds what
// its header says.
func FuzzFrame(f *testing.F) {
	for _, n := range []int{1, 3} {
		m := encoded(f, write(decision(n, "a")))
		f.Add(m.header[headerFrame][0], "1", "1", fmt.Sprint(n), "0", m.data)
		f.Add(m.header[headerFrame][0], "1", "1", fmt.Sprint(n+1), "0", m.data)
		f.Add(m.header[headerFrame][0], "18446744073709551615", "99", "4095", "x", m.data[:len(m.data)/2])
		f.Add("", "", "", "", "", m.data)
	}
	f.Fuzz(func(t *testing.T, id, epoch, level, n, before string, data []byte) {
		h := nats.Header{headerFrame: {id}, headerEpoch: {epoch}, headerLevel: {level}, headerEvents: {n}, headerBefore: {before}}
		m := message{seq: 7, header: h, data: data}
		switch j := judge(&m); {
		case j.err != nil:
			if !errors.Is(j.err, events.ErrCorrupt) && !errors.Is(j.err, events.ErrNewer) {
				t.Errorf("judged %v", j.err)
			}
		case j.foreign == "":
			if got := fmt.Sprint(len(j.frame.Events)); got != strings.TrimLeft(n, "+0") || bytes.Count(data, []byte{'\n'}) != len(j.frame.Events) {
				t.Errorf("%s events of %q", got, n)
			}
			if last := j.frame.Last(); last.Frame() != 7 || last.Index() != len(j.frame.Events)-1 {
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
