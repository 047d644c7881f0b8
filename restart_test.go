package streamwright_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// reconnectSoon keeps the tests short.
var reconnectSoon = streamwright.WithNATS(nats.ReconnectWait(20*time.Millisecond), nats.ReconnectJitter(0, 0))

func TestSubmitManySurvivesARestart(t *testing.T) {
	e := startOnDisk(t)
	c := connect(t, e, reconnectSoon, streamwright.WithTryTimeout(2*time.Second))
	items := mails(5000)
	n := 0
	err := c.SubmitSeq(testContext(t), slices.Values(items), func(s streamwright.Submitted) error {
		if s.Error != nil {
			t.Fatal(s.Error)
		}
		if n++; n == 750 {
			e.restart() // with requests in flight
		}
		return nil
	}, streamwright.PerRequest(250))
	if has := e.count(); err != nil || n != len(items) || has != len(items) {
		t.Errorf("%d answers, %d items, %v", n, has, err)
	}
}

func TestTailSurvivesARestart(t *testing.T) {
	e := startOnDisk(t)
	c := connect(t, e, reconnectSoon)
	for range 50 {
		submit(t, c)
	}
	done := errors.New("done")
	var got []events.Seq
	options := streamwright.TailOptions{FromSeq: 1, Types: []string{"email"}, Kinds: []streamwright.Kind{streamwright.KindCreated, streamwright.KindQueued}}
	err := c.Tail(testContext(t), options, func(ev streamwright.Event) error {
		switch got = append(got, ev.Seq); len(got) {
		case 100:
			e.restart()
			submit(t, c)
		case 102:
			return done
		}
		return nil
	})
	if !errors.Is(err, done) {
		t.Fatal(err)
	}
	if want := tailed(t, c, options, got[101]); !slices.Equal(got, want) || !slices.IsSorted(got) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestWaitSurvivesARestart(t *testing.T) {
	e := startOnDisk(t)
	c := connect(t, e, reconnectSoon)
	s := submit(t, c)
	other := submit(t, c)
	got := make(chan error, 2)
	go func() {
		_, err := c.Wait(testContext(t), s.ID)
		got <- err
	}()
	go func() {
		_, err := c.WaitAll(testContext(t), []string{s.ID, other.ID})
		got <- err
	}()
	e.Await(wire.APIWait, 2)
	e.restart()
	e.work("email", returns(nil, nil))
	for range cap(got) {
		if err := <-got; err != nil {
			t.Error(err)
		}
	}
}
