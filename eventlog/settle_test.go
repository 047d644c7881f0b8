package eventlog_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	. "github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/eventlog/logtest"
	"github.com/streamwright/streamwright/internal/need"
)

// A settle comes to its end while foreign messages keep coming. All of them are counted, and
// some have a line in the program's log.
func TestSettleThroughAFlood(t *testing.T) {
	s := startServer(t, t.TempDir(), nil)
	foreign, out := 0, new(need.Log)
	l := openLog(t, Config{Connect: inProcess(s), OnForeign: func(uint64, string) { foreign++ }, Logger: slog.New(slog.NewTextHandler(out, nil))})
	defer flood(t, dial(t, s))()
	last := settle(t, l)
	var got []string
	err := l.Read(logtest.Context(t), 1, last, func(f Frame) error { got = append(got, marksOf(f.Events)...); return nil })
	if err != nil || !slices.Equal(got, []string{"owned:me"}) || foreign == 0 {
		t.Fatalf("read %v, %v, and %d foreign messages", got, err, foreign)
	}
	if err := l.Close(); err != nil { // it writes how many lines it has left out
		t.Fatal(err)
	}
	lines, left := 0, 0
	for line := range strings.Lines(out.String()) {
		if _, n, ok := strings.Cut(strings.TrimSpace(line), "left_out="); ok {
			k, err := strconv.Atoi(n)
			if err != nil {
				t.Fatal(line)
			}
			left += k
		} else {
			lines++
		}
	}
	if left == 0 || lines+left != foreign {
		t.Errorf("%d lines, and %d left out, of %d foreign messages", lines, left, foreign)
	}
}

// flood publishes foreign messages, ten at a time, until it is stopped. It has begun when
// it returns.
func flood(t *testing.T, nc *nats.Conn) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(logtest.Context(t))
	begun := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			for range 9 {
				_ = nc.Publish("work.frame.0", nil)
			}
			_, _ = nc.RequestWithContext(ctx, "work.frame.0", nil)
			if n == 10 {
				close(begun)
			}
		}
	})
	<-begun
	return func() { cancel(); wg.Wait() }
}

// How often in a row a settle goes on behind others is bounded.
func TestSettleIsFenced(t *testing.T) {
	for _, fences := range []int{MaxFences - 1, MaxFences} {
		l := logtest.NewMemoryStream(0).Open()
		l.Script(slices.Repeat([]logtest.Fault{{Kind: logtest.FaultForeign, Foreign: 1}}, fences)...)
		last, err := Settle(logtest.Context(t), l, 0, ownedBarrier("me"), ignore)
		if fences < MaxFences && (err != nil || last != MaxFences) {
			t.Errorf("fenced %d times: %d, %v", fences, last, err)
		}
		if fences == MaxFences && (!errors.Is(err, ErrFenced) || errors.Is(err, ErrAmbiguous)) {
			t.Errorf("fenced %d times: %v, want ErrFenced", fences, err)
		}
	}
}

// A settle whose barriers end unknown, or fenced, in turns tries until one is stored, and
// gives each frame to apply once.
func TestSettleTriesAgain(t *testing.T) {
	l := logtest.NewMemoryStream(0).Open()
	appendEach(t, l, 0, "a")
	l.Script(logtest.Fault{Kind: logtest.FaultLost}, logtest.Fault{Kind: logtest.FaultConflict, Rival: logtest.Write(logtest.Decision(1, "rival"))}, logtest.Fault{Kind: logtest.FaultAckLost}, logtest.Fault{Kind: logtest.FaultLate, Land: logtest.LandAfterLast})
	var got []string
	last, err := Settle(logtest.Context(t), l, 0, ownedBarrier("me"), func(f Frame) error {
		got = append(got, marksOf(f.Events)...)
		return nil
	})
	if want := []string{"a", "rival", "owned:me", "owned:me", "owned:me"}; err != nil || last != 5 || !slices.Equal(got, want) {
		t.Fatalf("settled on %d, %v, %v, want %v", last, got, err, want)
	}
}
