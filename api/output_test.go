package api

import (
	"context"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/oklog/ulid/v2"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// textOf reads an output, and says what is missing of it.
func textOf(t *testing.T, o *Output, id events.ID) (text string, missing int) {
	t.Helper()
	for after, more := uint64(0), true; more; {
		page, err := o.After(t.Context(), "email", id, after)
		if err != nil {
			t.Fatal(err)
		}
		more = page.More
		for _, c := range page.Chunks {
			b, err := c.Bytes()
			if err != nil {
				t.Fatal(err)
			}
			if c.Reset {
				text, missing = "", 0
			}
			missing += c.Offset - missing - len(text)
			text, after = text+string(b), c.Seq
		}
	}
	return text, missing
}

func newOutput(t *testing.T, c OutputConfig) (*rig, *Output, func(id events.ID, token events.Token, offset int, text string) wire.OutputSummary) {
	t.Helper()
	r := newRig(t, nil)
	c.Conn, c.Names = r.svc.Conn, wire.Default
	o, err := NewOutput(c)
	if err != nil {
		t.Fatal(err)
	}
	return r, o, func(id events.ID, token events.Token, offset int, text string) wire.OutputSummary {
		t.Helper()
		sum, err := o.Write(r.ctx(), "email", id, 1, token, &offset, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
}

// A sweep removes the outputs of items that do not exist, and no others.
func TestOutputsWithoutAnItemAreSwept(t *testing.T) {
	gone, kept := events.ID(ulid.Make()), events.ID(ulid.Make())
	r, o, write := newOutput(t, OutputConfig{Exists: func(_ context.Context, id events.ID) (bool, error) { return id == kept, nil }})
	if err := o.Sweep(r.ctx()); err != nil {
		t.Errorf("without a stream: %v", err)
	}
	if text, _ := textOf(t, o, kept); text != "" {
		t.Errorf("without a stream: %q", text)
	}
	write(gone, 1, 0, "gone")
	write(kept, 1, 0, "kept")
	if err := o.Sweep(r.ctx()); err != nil {
		t.Fatal(err)
	}
	if text, _ := textOf(t, o, gone); text != "" {
		t.Errorf("of an item that is gone: %q", text)
	}
	if text, _ := textOf(t, o, kept); text != "kept" {
		t.Errorf("of the other: %q", text)
	}
}

// Another engine of the log may write between two chunks; what is remembered of an output's
// end is believed only as far as the stream agrees.
func TestOutputsEndIsTheStreams(t *testing.T) {
	id := events.ID(ulid.Make())
	r, o, write := newOutput(t, OutputConfig{})
	other, err := NewOutput(o.cfg)
	if err != nil {
		t.Fatal(err)
	}
	write(id, 1, 0, "one ")
	offset := 4
	if sum, err := other.Write(r.ctx(), "email", id, 1, 1, &offset, []byte("two ")); err != nil || sum.Bytes != 8 {
		t.Fatalf("%+v, %v", sum, err)
	}
	if sum := write(id, 1, 4, "two three"); sum.Bytes != 13 {
		t.Errorf("%+v", sum)
	}
	offset = 0
	if _, err := other.Write(r.ctx(), "email", id, 2, 2, &offset, []byte("new")); err != nil {
		t.Fatal(err)
	}
	offset = 13
	_, err = o.Write(r.ctx(), "email", id, 1, 1, &offset, []byte("!"))
	wantCode(t, err, events.CodeStaleToken)
	if text, _ := textOf(t, o, id); text != "new" {
		t.Errorf("the output is %q", text)
	}
}

// At its bound the stream drops the oldest chunks. A run that has lost all of its chunks can
// still write, and readers see how much is missing.
func TestOldestOutputGoesFirst(t *testing.T) {
	old, big := events.ID(ulid.Make()), events.ID(ulid.Make())
	_, o, write := newOutput(t, OutputConfig{MaxBytes: 1 << 20, ItemBytes: 4 << 20})
	write(old, 1, 0, "begun")
	chunk := strings.Repeat("x", wire.MaxOutputChunk)
	for i := range 20 {
		write(big, 1, i*len(chunk), chunk)
	}
	if text, missing := textOf(t, o, big); missing == 0 || missing+len(text) != 20*len(chunk) {
		t.Errorf("%d bytes are missing, %d are there", missing, len(text))
	}
	if sum := write(old, 1, 5, "ended"); sum.Bytes != 10 {
		t.Errorf("%+v", sum)
	}
	if text, missing := textOf(t, o, old); text != "ended" || missing != 5 {
		t.Errorf("%q, and %d bytes are missing", text, missing)
	}
}

// What somebody else stores under the subject is no chunk, and in nobody's way.
func TestForeignMessagesAreNotOutput(t *testing.T) {
	id := events.ID(ulid.Make())
	r, o, write := newOutput(t, OutputConfig{})
	write(id, 1, 0, "one ")
	js, err := jetstream.New(r.nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(r.ctx(), wire.Default.Output("email", id), []byte("forged")); err != nil {
		t.Fatal(err)
	}
	write(id, 1, 4, "two")
	if text, missing := textOf(t, o, id); text != "one two" || missing != 0 {
		t.Errorf("%q, %d", text, missing)
	}
}
