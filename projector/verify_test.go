package projector

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/projector/internal/layout"
)

var _ Log = eventlog.Log(nil)

func TestVerifyFindsEqual(t *testing.T) {
	slow(t)
	for _, o := range []Options{{}, {InMemory: true}} {
		live, err := Open(t.TempDir(), o)
		if err != nil {
			t.Fatal(err)
		}
		s := newSim(t, 2, live)
		s.run(2000, 50)
		at := live.Applied()
		res, err := live.Verify(context.Background(), s.log, func(done, total uint64) {
			if done == total { // the live store moves on meanwhile
				s.run(100, 10)
			}
		})
		if err != nil || !res.Equal || res.Digest != res.Live || res.Position != at || res.Diff != nil {
			t.Fatalf("%+v, %v", res, err)
		}
		if live.Applied() == at {
			t.Fatal("the live store did not move")
		}
		if names, err := live.folder.fs.List(live.folder.dir); len(names) != 3 || err != nil {
			t.Fatalf("in the folder: %v, %v", names, err)
		}
		if err := live.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := live.Verify(context.Background(), s.log, nil); !errors.Is(err, ErrClosed) {
			t.Fatalf("verify of a closed store: %v", err)
		}
	}
}

func TestVerifyNamesWhatDiffers(t *testing.T) {
	live := openMem(t)
	s := newSim(t, 2, live)
	s.run(500, 50)
	id := s.ids[3]
	it, err := live.Item(id)
	if err != nil {
		t.Fatal(err)
	}
	changed := *it
	changed.Priority, changed.Reason = 9-it.Priority, "tampered"
	ref := events.KeyRef{Kind: events.KeyDedup, Type: "email", Key: "from nowhere"}
	tamper(t, live, layout.IDKey(layout.PrefixItem, id), layout.AppendItem(nil, &changed))
	tamper(t, live, layout.AppendHeldKey(nil, ref), layout.AppendHeld(nil, events.HeldKey{ID: id}))
	res, err := live.Verify(context.Background(), s.log, nil)
	if err != nil || res.Equal || res.Digest == res.Live || len(res.Diff) != 2 {
		t.Fatalf("%+v, %v", res, err)
	}
	for i, want := range []string{"item " + id.String() + " differs: Priority is ", `dedup key "from nowhere" of type email: only in the live store`} {
		if !strings.Contains(res.Diff[i], want) {
			t.Errorf("got %s, want %s", res.Diff[i], want)
		}
	}
	if !strings.Contains(res.Diff[0], "Reason is tampered") {
		t.Errorf("got %s", res.Diff[0])
	}
}

func TestVerifyFails(t *testing.T) {
	live := openMem(t)
	s := newSim(t, 2, live)
	s.run(500, 50)
	s.log.failAt = 100
	if _, err := live.Verify(context.Background(), s.log, nil); !errors.Is(err, errLog) {
		t.Fatalf("a log that can't be read: %v", err)
	}
	if err := live.Rebuild(context.Background(), s.log, nil); !errors.Is(err, errLog) {
		t.Fatalf("a log that can't be read: %v", err)
	}
	s.log.failAt = 0
	half := len(s.log.frames) / 2
	short := s.log.upTo(uint64(half) + 1)
	short.frames = append(short.frames, make([]*memFrame, len(s.log.frames)-half)...)
	if err := live.Rebuild(context.Background(), short, nil); err == nil || !strings.Contains(err.Error(), "leads to event") {
		t.Fatalf("another log: %v", err)
	}
	if names, err := live.folder.fs.List(live.folder.dir); len(names) != 3 || err != nil {
		t.Fatalf("in the folder: %v, %v", names, err)
	}
	same(t, live, replayed(t, s.log, s.log.last()))
	var inner error
	_, err := live.Verify(context.Background(), s.log, func(done, total uint64) {
		inner = live.Rebuild(context.Background(), s.log, nil)
	})
	if err != nil || !errors.Is(inner, ErrProving) {
		t.Fatalf("two at once: %v, %v", err, inner)
	}
}

// trimmedLog is a log that keeps nothing in front of a frame.
type trimmedLog struct {
	*memLog
	first uint64
}

func (l trimmedLog) Checksum(ctx context.Context, seq uint64) (uint64, error) {
	if seq < l.first {
		return 0, &eventlog.TrimmedError{Asked: seq, First: l.first}
	}
	if last := uint64(len(l.frames)); seq > last {
		return 0, &eventlog.BehindError{Known: seq, Last: last}
	}
	return l.memLog.Checksum(ctx, seq)
}

func TestCheckLog(t *testing.T) {
	live := openMem(t)
	s := newSim(t, 2, live)
	check := func(identity string, l Log, diverged bool) {
		t.Helper()
		err := live.CheckLog(context.Background(), identity, l)
		if diverged != errors.Is(err, ErrDiverged) || !diverged && err != nil {
			t.Errorf("%v, want diverged: %v", err, diverged)
		}
	}
	check("any", s.log, false) // nothing is folded in yet
	s.run(200, 20)
	check("any", s.log, false) // no identity is noted
	if err := live.SetIdentity("this"); err != nil {
		t.Fatal(err)
	}
	at := live.Applied().Frame()
	other := func(line string) *memLog {
		l := s.log.upTo(at)
		l.frames = append(l.frames, &memFrame{lines: [][]byte{[]byte(line)}})
		return l
	}
	check("this", s.log, false)
	check("that", s.log, false) // restored elsewhere: it has the frame that was folded last
	check("that", other(`{}`), true)
	check("that", trimmedLog{s.log, at + 1}, true)
	check("this", trimmedLog{s.log, at + 1}, false)
	check("this", trimmedLog{s.log, at + 2}, true)
	check("this", trimmedLog{s.log.upTo(at), 1}, true)
	check("this", other(`{"other":1}`), true)
	if err := live.CheckLog(context.Background(), "this", &memLog{}); err == nil || errors.Is(err, ErrDiverged) {
		t.Errorf("a log that can't be read: %v", err)
	}
}
