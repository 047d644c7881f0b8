package eventlog_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	. "github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/eventlog/blocks"
	"github.com/streamwright/streamwright/eventlog/logtest"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// longLog is a log of some blocks, with foreign messages in it, of which the beginning is cut off.
// It returns the folder of the account's streams, and what a consumer delivers.
func longLog(t *testing.T) (f *serverFixture, folder string, frames []Frame) {
	t.Helper()
	dir := t.TempDir()
	s := startServer(t, dir, nil)
	nc, err := inProcess(s)()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	f = &serverFixture{s: s, nc: nc}
	l := openLog(t, Config{Connect: inProcess(s)})
	pad := json.RawMessage(`{"pad":"` + strings.Repeat("x", 100<<10) + `"}`)
	last := uint64(0)
	for i := range 300 {
		evs := logtest.Decision(1+i%3, fmt.Sprint("frame ", i))
		evs[0].Body = &events.Created{Params: pad, Priority: 5, MaxAttempts: 3, Timeout: events.Millis(1000)}
		last = mustAppend(t, l, last, evs)
		switch i {
		case 150:
			f.publish(nil, []byte("a stranger's"))
			f.publish(nats.Header{HeaderFrame: {"somebody's"}, "Status": {"404"}}, nil)
			last += 2
		case 170: // a tombstone
			f.trim(t, 100)
		}
	}
	tip, err := l.Last(logtest.Context(t))
	if err != nil || tip.First != 100 || tip.Seq != last {
		t.Fatalf("the log is %+v, %v", tip, err)
	}
	err = l.Read(logtest.Context(t), 0, last, func(f Frame) error { frames = append(frames, f); return nil })
	if err != nil || len(frames) != 302-99-2 {
		t.Fatalf("%d frames, %v", len(frames), err)
	}
	return f, filepath.Join(dir, "jetstream", "$G", "streams"), frames
}

// The server's files give the same frames as a consumer.
func TestNear(t *testing.T) {
	t.Parallel()
	f, folder, want := longLog(t)
	var told []uint64
	l := openLog(t, Config{Connect: inProcess(f.s), Folder: folder, OnForeign: func(seq uint64, _ string) { told = append(told, seq) }})
	last := want[len(want)-1].Seq
	for _, c := range []struct{ from, to uint64 }{{100, last}, {101, last - 1}, {180, last}, {want[1].Seq, last - 100}, {last - 64, last}} {
		told = nil
		var got []Frame
		next, err := l.Near(logtest.Context(t), c.from, c.to, func(f Frame) error { got = append(got, f); return nil })
		if err != nil || next != c.to+1 {
			t.Errorf("from %d to %d: it stops at %d, %v", c.from, c.to, next, err)
		}
		wanted := slices.DeleteFunc(slices.Clone(want), func(f Frame) bool { return f.Seq < c.from || f.Seq > c.to })
		if !reflect.DeepEqual(got, wanted) {
			t.Errorf("from %d to %d: %d frames, want %d, or they differ", c.from, c.to, len(got), len(wanted))
		}
		if foreign := c.from < 152 && c.to > 153; foreign != slices.Equal(told, []uint64{152, 153}) {
			t.Errorf("from %d to %d it tells of %v", c.from, c.to, told)
		}
	}
	for _, c := range []struct{ from, to uint64 }{{1, last}, {last - 63, last}, {1, 1}, {last + 1, last}} { // cut off, or little
		if next, err := l.Near(logtest.Context(t), c.from, c.to, ignore); err != nil || next != c.from {
			t.Errorf("from %d to %d: it stops at %d, %v", c.from, c.to, next, err)
		}
	}
	if next, err := l.Near(logtest.Context(t), 100, last+1000, ignore); err != nil || next != last+1 {
		t.Errorf("beyond the end it stops at %d, %v", next, err)
	}
}

// Where the files are not as they should be, a consumer brings the rest.
func TestNearDamage(t *testing.T) {
	t.Parallel()
	f, folder, want := longLog(t)
	stream := wire.Default.EventStream(0)
	last := want[len(want)-1].Seq
	half := func(b []byte) []byte { return b[:len(b)/2] }
	for name, change := range map[string]func(b []byte) []byte{ // of the second block; nil: it is removed
		"removed":       nil,
		"empty":         func([]byte) []byte { return nil },
		"cut":           half,
		"a flipped bit": func(b []byte) []byte { b[len(b)/2] ^= 4; return b },
		"compressed":    func(b []byte) []byte { return append([]byte("cmp\x01\x00"), b...) },
		"no records":    func(b []byte) []byte { clear(b); return b },
	} {
		t.Run(name, func(t *testing.T) {
			copied := t.TempDir()
			if err := os.CopyFS(copied, os.DirFS(folder)); err != nil {
				t.Fatal(err)
			}
			indexes, err := blocks.Indexes(filepath.Join(copied, stream))
			if err != nil || len(indexes) < 3 {
				t.Fatalf("blocks %v, %v", indexes, err)
			}
			file := blocks.File(filepath.Join(copied, stream), indexes[1])
			b, err := os.ReadFile(file)
			if err == nil && change == nil {
				err = os.Remove(file)
			} else if err == nil {
				err = os.WriteFile(file, change(b), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			l := openLog(t, Config{Connect: inProcess(f.s), Folder: copied})
			next, err := l.Near(logtest.Context(t), 100, last, ignore)
			if err != nil || next > last {
				t.Errorf("it stops at %d, %v", next, err)
			}
			var got []Frame
			err = l.Read(logtest.Context(t), 100, last, func(f Frame) error { got = append(got, f); return nil })
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%d frames, %v, want %d, or they differ", len(got), err, len(want))
			}
		})
	}
	l := openLog(t, Config{Connect: inProcess(f.s), Folder: t.TempDir()})
	if next, err := l.Near(logtest.Context(t), 100, last, ignore); err != nil || next != 100 {
		t.Errorf("without files it stops at %d, %v", next, err)
	}
}
