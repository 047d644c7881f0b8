package measure

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// slowQueue takes one submit at a time, and hands the item to the handler when it is done.
type slowQueue struct {
	Queue
	takes  time.Duration
	turn   chan struct{}
	handle func(Payload)
}

func (q *slowQueue) Submit(_ context.Context, p Payload) error {
	q.turn <- struct{}{}
	time.Sleep(q.takes)
	<-q.turn
	q.handle(p)
	return nil
}

// A queue that takes a tenth of what comes shows the whole backlog that builds up: of 100
// items that are due within 0.1 s the last is handled after a second, 901 ms late. A
// closed loop would show 10 ms for each. Counted from when it was submitted, an item is at
// most as late.
func TestOpenLoopCountsFromTheIntendedTime(t *testing.T) {
	for _, intended := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			tally := NewTally(100)
			q := &slowQueue{takes: 10 * time.Millisecond, turn: make(chan struct{}, 1), handle: func(p Payload) { tally.Saw(p.Seq) }}
			began := time.Now()
			if err := OpenLoop(t.Context(), q, tally, 1000, intended); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took != time.Second {
				t.Errorf("took %s", took)
			}
			// The order in which the waiting submits get their turn is open, so only what
			// does not depend on it: the last one handled is at 1,000 ms, and was due before 100 ms.
			late := tally.Late()
			if most := Quantile(late, 1); most < 901 || most > 1000 || Quantile(late, 0.5) < 400 {
				t.Errorf("intended %v: %v", intended, late)
			}
		})
	}
}

func TestOpenLoopEndsWithAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := errors.New("full")
		if err := OpenLoop(t.Context(), refusing{err: full}, NewTally(100), 10, true); !errors.Is(err, full) {
			t.Error(err)
		}
	})
}

type refusing struct {
	Queue
	err error
}

func (r refusing) Submit(context.Context, Payload) error { return r.err }

// gathering notes the numbers that are submitted.
type gathering struct {
	Queue
	seqs chan int
}

func (g gathering) Submit(_ context.Context, p Payload) error { g.seqs <- p.Seq; return nil }

func (g gathering) SubmitMany(_ context.Context, ps []Payload) error {
	for _, p := range ps {
		g.seqs <- p.Seq
	}
	return nil
}

func TestEachNumberIsSubmittedOnce(t *testing.T) {
	const first, n = 7, 2345
	for name, submit := range map[string]func(Queue) error{
		"bulk":   func(q Queue) error { return Bulk(t.Context(), q, first, n, BulkCallers) },
		"single": func(q Queue) error { return Single(t.Context(), q, first, n, 8) },
	} {
		q := gathering{seqs: make(chan int, 2*n)}
		if err := submit(q); err != nil {
			t.Fatal(err)
		}
		close(q.seqs)
		seen := map[int]bool{}
		for s := range q.seqs {
			if s < first || s >= first+n || seen[s] {
				t.Errorf("%s: number %d", name, s)
			}
			seen[s] = true
		}
		if len(seen) != n {
			t.Errorf("%s: %d of %d", name, len(seen), n)
		}
	}
}

func TestTallyCountsEachOnce(t *testing.T) {
	c := NewTally(2)
	c.Saw(1)
	c.Saw(1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Wait(ctx); err == nil || !strings.Contains(err.Error(), "1 of 2 items were never handled") {
		t.Error(err)
	}
	c.Saw(0)
	if err := c.Wait(t.Context()); err != nil || c.More() != 1 {
		t.Error(err, c.More())
	}
	c.Saw(7)
	if err := c.Wait(t.Context()); err == nil {
		t.Error("an item that nobody submitted goes unnoticed")
	}
	any := NewTally(2)
	for range 3 {
		any.Count()
	}
	if err := any.Wait(t.Context()); err != nil || any.More() != 0 {
		t.Error(err, any.More())
	}
}

func TestFigure(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.04: "0.040", 0.5234: "0.523", 4.56: "4.56", 45.6: "45.6", 456.7: "457", 1234: "1,230", 999.6: "1,000", 1234567: "1,230,000", -456: "-456", -1234: "-1,230"} {
		if got := Figure(v); got != want {
			t.Errorf("Figure(%v) is %q, it should be %q", v, got, want)
		}
	}
}

func TestQuantile(t *testing.T) {
	var d []time.Duration
	for i := range 100 {
		d = append(d, time.Duration(100-i)*time.Millisecond)
	}
	if Quantile(d, 0.5) != 50 || Quantile(d, 0.99) != 99 || Quantile(d, 1) != 100 || Quantile(d[:1], 0.99) != 1 {
		t.Error(Quantile(d, 0.5), Quantile(d, 0.99), Quantile(d, 1), Quantile(d[:1], 0.99))
	}
}

func TestPayloadsHaveOneSize(t *testing.T) {
	for _, seq := range []int{0, 9, 123_456, 999_999} {
		b, err := json.Marshal(NewPayload(seq))
		if err != nil || len(b) != PayloadBytes || string(b) != string(NewPayload(seq).JSON()) {
			t.Errorf("item %d is %s and %s (%v)", seq, b, NewPayload(seq).JSON(), err)
		}
		if p, err := SeqOf(NewPayload(seq).JSON()); err != nil || p.Seq != seq {
			t.Errorf("item %d is %d (%v)", seq, p.Seq, err)
		}
	}
}

func TestAligned(t *testing.T) {
	want := "| a   | bb |\n|---  |--- |\n| ccc | d  |\n"
	if got := Aligned(Head("a", "bb") + Row("ccc", "d")); got != want {
		t.Errorf("got\n%s", got)
	}
}

func TestSelf(t *testing.T) {
	for Self(SelfCPU) == 0 { // which the kernel may count by ticks
	}
	if Self(SelfResident) < 1<<20 || Self("nonsense") != 0 {
		t.Errorf("this process has %v bytes and has used %v s", Self(SelfResident), Self(SelfCPU))
	}
}
