package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	. "github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/eventlog/logtest"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// A frame is read as it was appended, whatever its size.
func TestAppendAndRead(t *testing.T) {
	for _, n := range []int{1, 12, MaxEvents} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			each(t, func(t *testing.T, f fixture) {
				ctx := logtest.Context(t)
				l := f.open(t, nil)
				if tip, err := l.Last(ctx); err != nil || tip.Seq != 0 || tip.First != 1 || time.Since(tip.Time).Abs() > time.Hour || tip.Created.IsZero() {
					t.Fatalf("the empty log: %+v, %v", tip, err)
				}
				var want []Frame
				for i := range uint64(3) {
					w := &Write{Epoch: events.Epoch(7 + i), Node: fmt.Sprint("node", i), Before: 100 * i, Events: logtest.Decision(n, fmt.Sprint("mark", i))}
					done, err := l.Append(ctx, i, w)
					if err != nil || done.Last != events.SeqOf(i+1, n-1) {
						t.Fatalf("appended %+v, %v", done, err)
					}
					want = append(want, Frame{Seq: i + 1, Epoch: w.Epoch, Node: w.Node, Before: w.Before, Events: w.Events, Bytes: len(done.Lines), Checksum: done.Checksum})
				}
				ids := map[string]bool{}
				err := f.open(t, nil).Read(ctx, 1, 3, func(got Frame) error {
					w := want[0]
					want = want[1:]
					ids[got.ID] = true
					if got.Last() != events.SeqOf(w.Seq, n-1) || !slices.Equal(marksOf(got.Events), marksOf(w.Events)) {
						t.Errorf("frame %d has %d events, to %d", w.Seq, len(got.Events), got.Last())
					}
					got.ID, got.Events, w.Events = "", nil, nil
					if fmt.Sprint(got) != fmt.Sprint(w) {
						t.Errorf("read %+v, want %+v", got, w)
					}
					return nil
				})
				if err != nil || len(want) > 0 || len(ids) != 3 {
					t.Fatalf("%d frames are missing, the ids are %v: %v", len(want), ids, err)
				}
				if c := readAll(t, l); len(c.frames) != 3 || c.skipped != 0 {
					t.Fatalf("read %+v", c.frames)
				}
				if tip, err := l.Last(ctx); err != nil || tip.Seq != 3 || tip.Bytes == 0 {
					t.Fatalf("the log: %+v, %v", tip, err)
				}
			})
		})
	}
}

// A rival's frame, or a foreign message, that is stored first fences the append: nothing
// of it is stored. A fenced writer is not broken: it settles and goes on.
func TestFenced(t *testing.T) {
	for name, c := range map[string]struct {
		fault logtest.Fault
		want  []string
		found uint64
	}{
		"rival":   {logtest.Fault{Kind: logtest.FaultConflict, Rival: logtest.Write(logtest.Decision(2, "rival"))}, []string{"seed", "rival", "rival"}, 2},
		"foreign": {logtest.Fault{Kind: logtest.FaultForeign, Foreign: 3}, []string{"seed"}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, f fixture) {
				l := f.open(t, nil)
				after := mustAppend(t, l, 0, logtest.Decision(1, "seed"))
				f.fault(l, c.fault)
				_, err := l.Append(logtest.Context(t), after, logtest.Write(logtest.Decision(3, "lost")))
				var fenced *FencedError
				if !errors.As(err, &fenced) || !errors.Is(err, ErrFenced) || errors.Is(err, ErrAmbiguous) || fenced.Expected != after || fenced.Found != c.found {
					t.Fatalf("append: %v, want ErrFenced behind %d, with %d found", err, after, c.found)
				}
				if got := readAll(t, l); !slices.Equal(got.marks, c.want) {
					t.Fatalf("read %+v, want %v", got, c.want)
				}
				settleAndCheck(t, f, l, c.want)
			})
		})
	}
}

// The end of an append is unknown: nothing of it is stored, or all, at once or late.
func TestAmbiguous(t *testing.T) {
	for name, c := range map[string]struct {
		fault  logtest.Fault
		stored bool
	}{
		"lost":                   {logtest.Fault{Kind: logtest.FaultLost}, false},
		"ack lost":               {logtest.Fault{Kind: logtest.FaultAckLost}, true},
		"late, after the end":    {logtest.Fault{Kind: logtest.FaultLate, Land: logtest.LandOnDemand}, false}, // behind the barrier: it does not fit
		"late, after Last":       {logtest.Fault{Kind: logtest.FaultLate, Land: logtest.LandAfterLast}, true},
		"late, after the replay": {logtest.Fault{Kind: logtest.FaultLate, Land: logtest.LandAfterRead}, true},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, f fixture) {
				raw := f.open(t, nil)
				l := landing(raw, c.fault.Land, f.land)
				after := mustAppend(t, l, 0, logtest.Decision(1, "seed"))
				f.fault(raw, c.fault)
				w := logtest.Write(logtest.Decision(3, "a"))
				for range 2 { // once it is struck, and once it waits for Reset
					if _, err := l.Append(logtest.Context(t), after, w); !errors.Is(err, ErrAmbiguous) || errors.Is(err, ErrFenced) {
						t.Fatalf("append: %v, want ErrAmbiguous", err)
					}
				}
				want := []string{"seed"}
				if c.stored {
					want = append(want, "a", "a", "a")
				}
				settleAndCheck(t, f, l, want)
			})
		})
	}
}

// settleAndCheck settles, and checks that what was applied is want and what a
// fresh reader sees, that nothing lands any more, and that appends go on.
func settleAndCheck(t *testing.T, f fixture, l Log, want []string) {
	t.Helper()
	ctx := logtest.Context(t)
	var got []string
	last, err := Settle(ctx, l, 0, ownedBarrier("me"), func(f Frame) error {
		got = append(got, marksOf(f.Events)...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := append(slices.Clone(want), "owned:me"); !slices.Equal(got, want) {
		t.Fatalf("settled on %v, want %v", got, want)
	}
	f.land()
	if tip, err := l.Last(ctx); err != nil || tip.Seq != last {
		t.Fatalf("something has landed behind the barrier at %d: %+v, %v", last, tip, err)
	}
	mustAppend(t, l, last, logtest.Decision(3, "next"))
	want = append(got, "next", "next", "next")
	if c := readAll(t, f.open(t, nil)); !slices.Equal(c.marks, want) {
		t.Fatalf("a fresh reader sees %v, want %v", c.marks, want)
	}
}

// A settle begins where its caller is, and replays nothing twice.
func TestSettleFromAPosition(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		l := f.open(t, nil)
		last := appendEach(t, l, 0, "a", "b", "c")
		strangers(t, f, 2)
		for _, from := range []uint64{1, last, last + 2} { // the last one is a foreign message
			tip, err := l.Last(logtest.Context(t))
			if err != nil {
				t.Fatal(err)
			}
			var got []uint64
			barrier, err := Settle(logtest.Context(t), l, from, ownedBarrier("me"), func(f Frame) error {
				got = append(got, f.Seq)
				return nil
			})
			if err != nil || barrier != tip.Seq+1 || got[0] <= from || got[len(got)-1] != barrier || !slices.IsSorted(got) {
				t.Fatalf("settled behind %d: %d, %v; it applied %v", from, barrier, err, got)
			}
		}
	})
}

// Foreign messages are passed over, counted and told.
func TestForeignMessages(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		var told []string
		l := f.open(t, func(seq uint64, reason string) { told = append(told, fmt.Sprint(seq, " ", reason)) })
		strangers(t, f, 1)
		after := mustAppend(t, l, 1, logtest.Decision(2, "a"))
		good, err := NewMessage(wire.Default, 0, logtest.Write(logtest.Decision(1, "intruder")))
		if err != nil {
			t.Fatal(err)
		}
		f.inject(t, nil, good.Data)                                                   // a frame's body
		f.inject(t, nats.Header{HeaderFrame: {"somebody's"}, "Status": {"404"}}, nil) // an id of another form
		fetched := nats.Header{"Nats-Stream": {"WORK_EVENTS_0"}, "Nats-Sequence": {"2"}}
		for key, v := range good.Header {
			fetched[key] = v
		}
		f.inject(t, fetched, good.Data) // what a server answers to a direct get
		if _, err := l.Append(logtest.Context(t), after, logtest.Write(logtest.Decision(1, "b"))); !errors.Is(err, ErrFenced) {
			t.Fatalf("append in the place of a foreign message: %v, want ErrFenced", err)
		}
		mustAppend(t, l, after+3, logtest.Decision(1, "b"))
		strangers(t, f, 1)
		c := readAll(t, l)
		if !slices.Equal(c.marks, []string{"a", "a", "b"}) || !slices.Equal(c.frames, []uint64{2, 6}) || c.skipped != 4 {
			t.Fatalf("read %+v", c)
		}
		if len(told) != 5 || !strings.Contains(told[0], "1 it has no frame id") || !strings.Contains(told[3], "5 it is a server's answer") || !strings.HasPrefix(told[4], "7 ") {
			t.Fatalf("told of %q", told)
		}
	})
}

// A frame that can't be read is corruption, for each reader.
func TestCorruption(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		ctx := logtest.Context(t)
		l := f.open(t, nil)
		mustAppend(t, l, 0, logtest.Decision(2, "a"))
		m, err := NewMessage(wire.Default, 0, logtest.Write(logtest.Decision(3, "torn")))
		if err != nil {
			t.Fatal(err)
		}
		f.inject(t, m.Header, m.Data[:len(m.Data)-30])
		for name, read := range map[string]func(func(Frame) error) error{
			"read":   func(fn func(Frame) error) error { return l.Read(ctx, 1, 2, fn) },
			"follow": func(fn func(Frame) error) error { return l.Follow(ctx, 1, fn) },
			"settle": func(fn func(Frame) error) error {
				_, err := Settle(ctx, l, 0, ownedBarrier("me"), fn)
				return err
			},
		} {
			n := 0
			err := read(func(f Frame) error { n += len(f.Events); return nil })
			var corrupt *CorruptError
			if !errors.Is(err, events.ErrCorrupt) || !errors.As(err, &corrupt) || corrupt.Frame != 2 || n != 2 {
				t.Errorf("%s gave %d events: %v, want ErrCorrupt at frame 2", name, n, err)
			}
		}
	})
}

// Follow hands over what there is, and then what comes.
func TestFollow(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		ctx := logtest.Context(t)
		told := 0
		l, writer := f.open(t, func(uint64, string) { told++ }), f.open(t, nil)
		last := appendEach(t, writer, 0, "a", "b", "c")
		stop := errors.New("stop")
		var got []string
		follow := func(from uint64, fn func(Frame) error) error {
			return l.Follow(ctx, from, func(fr Frame) error {
				got = append(got, fmt.Sprint(fr.Seq, marksOf(fr.Events), fr.Skipped))
				return fn(fr)
			})
		}
		err := follow(2, func(fr Frame) error { // the live appends are made from here
			switch fr.Seq {
			case 3:
				last = mustAppend(t, writer, last, logtest.Decision(2, "d"))
			case 4:
				strangers(t, f, 2)
				last = mustAppend(t, writer, last+2, logtest.Decision(1, "e"))
			case 7:
				return stop
			}
			return nil
		})
		if want := []string{"2 [b] 0", "3 [c] 0", "4 [d d] 0", "7 [e] 2"}; err != stop || !slices.Equal(got, want) || told != 2 {
			t.Fatalf("followed %q, %v, told of %d foreign messages; want %q", got, err, told, want)
		}

		// From behind the end it waits for what comes.
		waits, end := context.WithCancel(ctx)
		err = l.Follow(waits, last, func(fr Frame) error {
			if fr.Seq == last {
				appendEach(t, writer, last, "f")
			} else {
				end()
			}
			return waits.Err()
		})
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("followed to the context's end: %v", err)
		}

		f.trim(t, 3)
		var trimmed *TrimmedError
		if err := l.Follow(ctx, 2, ignore); !errors.As(err, &trimmed) || trimmed.Asked != 2 || trimmed.First != 3 {
			t.Fatalf("follow what is cut: %v", err)
		}
	})
}

// End counts the events, whatever foreign messages stand at the end, and whatever is cut.
func TestEnd(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		l := f.open(t, nil)
		expect := func(last events.Seq, n uint64) {
			t.Helper()
			tip, err := l.Last(logtest.Context(t))
			if err != nil {
				t.Fatal(err)
			}
			end, err := l.End(logtest.Context(t))
			if err != nil || end.Last != last || end.Events != n || end.Seq != tip.Seq || end.First != tip.First {
				t.Fatalf("the log ends at %+v, %v, want the position %d and %d events", end, err, last, n)
			}
		}
		expect(0, 0)
		strangers(t, f, 2)
		expect(0, 0)
		var n uint64
		last := uint64(2)
		for i := range 3 {
			w := logtest.Write(logtest.Decision(i+1, "a"))
			w.Before = n
			if _, err := l.Append(logtest.Context(t), last, w); err != nil {
				t.Fatal(err)
			}
			last, n = last+1, n+uint64(i+1)
		}
		expect(events.SeqOf(5, 2), 6)
		f.trim(t, 5)
		expect(events.SeqOf(5, 2), 6)
		strangers(t, f, 100)
		expect(events.SeqOf(5, 2), 6)
	})
}

func TestTrimmedAndBehind(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		ctx := logtest.Context(t)
		l := f.open(t, nil)
		last := appendEach(t, l, 0, "a", "b", "c", "d", "e", "f", "g", "h", "i", "j")
		f.trim(t, 5)
		var trimmed *TrimmedError
		if err := l.Read(ctx, 4, last, ignore); !errors.As(err, &trimmed) || trimmed.First != 5 || !errors.Is(err, ErrTrimmed) {
			t.Fatalf("read: %v, want ErrTrimmed", err)
		}
		if _, err := l.Checksum(ctx, 4); !errors.Is(err, ErrTrimmed) {
			t.Fatalf("checksum: %v, want ErrTrimmed", err)
		}
		if c := readAll(t, l); len(c.marks) != 6 {
			t.Fatalf("read %+v", c)
		}
		if err := l.Read(ctx, 5, last+1, ignore); !errors.Is(err, ErrBehind) {
			t.Fatalf("read: %v, want ErrBehind", err)
		}
		if _, err := l.Checksum(ctx, last+1); !errors.Is(err, ErrBehind) {
			t.Fatalf("checksum: %v, want ErrBehind", err)
		}
		if _, err := Settle(ctx, l, last+1, ownedBarrier("me"), ignore); !errors.Is(err, ErrBehind) {
			t.Fatalf("settle: %v, want ErrBehind", err)
		}
		f.trim(t, last+1)
		if tip, err := l.Last(ctx); err != nil || tip.Seq != last || tip.First != last+1 {
			t.Fatalf("last of an emptied log: %+v, %v", tip, err)
		}
		mustAppend(t, l, last, logtest.Decision(2, "b"))
	})
}

func TestReadStopsWithTheCallersError(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		l := f.open(t, nil)
		var last uint64
		for range 50 {
			last = mustAppend(t, l, last, logtest.Decision(100, "a"))
		}
		stop := errors.New("stop")
		if err := l.Read(logtest.Context(t), 1, last, func(Frame) error { return stop }); err != stop {
			t.Fatal(err)
		}
		if _, err := Settle(logtest.Context(t), l, 0, ownedBarrier("me"), func(Frame) error { return stop }); err != stop {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(logtest.Context(t))
		if err := l.Read(ctx, 1, last, func(Frame) error { cancel(); return nil }); err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	})
}

func TestAppendBounds(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		l := f.open(t, nil)
		for _, n := range []int{0, MaxEvents + 1} {
			if _, err := l.Append(logtest.Context(t), 0, logtest.Write(logtest.Decision(n, "a"))); err == nil || errors.Is(err, ErrAmbiguous) {
				t.Fatalf("append of %d events: %v", n, err)
			}
		}
		ctx, cancel := context.WithCancel(logtest.Context(t))
		cancel()
		if _, err := l.Append(ctx, 0, logtest.Write(logtest.Decision(1, "a"))); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		last := mustAppend(t, l, 0, logtest.Decision(MaxEvents, "a"))
		_ = l.Close()
		_ = l.Close()
		if _, err := l.Append(logtest.Context(t), last, logtest.Write(logtest.Decision(1, "a"))); !errors.Is(err, ErrClosed) {
			t.Fatal(err)
		}
		if err := l.Reset(logtest.Context(t)); !errors.Is(err, ErrClosed) {
			t.Fatal(err)
		}
		if _, err := l.Last(logtest.Context(t)); !errors.Is(err, ErrClosed) {
			t.Fatal(err)
		}
	})
}
