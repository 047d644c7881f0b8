package streamwright_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/fakeengine"
	"github.com/streamwright/streamwright/wire"
)

// reconnectSoon keeps the tests short.
var reconnectSoon = streamwright.WithNATS(nats.ReconnectWait(20*time.Millisecond), nats.ReconnectJitter(0, 0))

func TestSubmitManySurvivesARestart(t *testing.T) {
	e := fakeengine.Start(t)
	c := connect(t, e, reconnectSoon, streamwright.WithTryTimeout(2*time.Second))
	items := mails(20_000)
	n := 0
	err := c.SubmitSeq(testContext(t), slices.Values(items), func(s streamwright.Submitted) error {
		if s.Error != nil {
			t.Fatal(s.Error)
		}
		if n++; n == 3000 {
			e.RestartServer() // with requests in flight
		}
		return nil
	})
	if err != nil || n != len(items) || e.Len() != len(items) {
		t.Errorf("%d answers, %d items, %v", n, e.Len(), err)
	}
}

func TestTailSurvivesARestart(t *testing.T) {
	e := fakeengine.Start(t)
	c := connect(t, e, reconnectSoon)
	for range 50 {
		e.Append(decision(idA, "email", events.KindCreated, events.KindQueued)...)
	}
	done := errors.New("done")
	var got []events.Seq
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	err := c.Tail(ctx, streamwright.TailOptions{FromSeq: 1}, func(ev streamwright.Event) error {
		switch got = append(got, ev.Seq); len(got) {
		case 100:
			e.RestartServer()
			e.Append(decision(idB, "email", events.KindFailed, events.KindDead)...)
		case 102:
			return done
		}
		return nil
	})
	if !errors.Is(err, done) {
		t.Fatal(err)
	}
	for i, seq := range got {
		if seq != events.SeqOf(uint64(i/2+1), i%2) {
			t.Fatalf("event %d is %d: %v", i, seq, got)
		}
	}
}

func TestWaitSurvivesARestart(t *testing.T) {
	e := fakeengine.Start(t)
	c := connect(t, e, reconnectSoon)
	s, err := c.Submit(testContext(t), streamwright.Item{Type: "email"})
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() {
		_, err := c.Wait(testContext(t), s.ID)
		got <- err
	}()
	waitUntil(t, func() bool { return e.Requests(wire.APIWait) == 1 })
	e.RestartServer()
	e.Set(s.ID, func(it *wire.Item) { it.State = events.StateCompleted })
	if err := <-got; err != nil {
		t.Error(err)
	}
}
