package streamwright_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/faultproxy"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

// An engine that stands by, or stops, is asked again at once, whatever it says of later:
// another one takes over in a moment.
func TestRequestsAreRepeatedWhileTheOwnerChanges(t *testing.T) {
	e := start(t)
	c := connect(t, e)
	standby := faultproxy.Refuse(&events.Error{Code: events.CodeNotOwner, Message: "another one owns the log", RetryAfter: time.Hour})
	stopping := faultproxy.Refuse(events.ErrShuttingDown)
	e.Next(wire.APISubmit, stopping, standby, standby)
	if s, err := c.Submit(testContext(t), streamwright.Item{Type: "email"}); err != nil || s.ID == "" {
		t.Errorf("submit: %+v, %v", s, err)
	}
	e.Next(wire.APIStats, stopping, standby, standby)
	if _, err := c.Engine().Stats(testContext(t)); err != nil { // has two seconds of patience
		t.Errorf("stats: %v", err)
	}
	e.Next(wire.APISubmit, faultproxy.Reply(`[{"id":"A","state":"queued","position":"40"},{"error":{"code":"not_owner","message":"no longer"}}]`))
	out, err := c.SubmitMany(testContext(t), mails(2))
	if err != nil || out[0].ID != "A" || out[1].Error != nil || out[1].State != events.StateQueued {
		t.Errorf("submit many: %+v, %v", out, err)
	}
	once := connect(t, e, streamwright.WithPatience(0))
	e.Next(wire.APIStats, standby)
	if _, err := once.Engine().Stats(testContext(t)); events.CodeOf(err) != events.CodeNotOwner {
		t.Errorf("without patience: %v", err)
	}
}

// A client that has been answered before waits for the time that a fail-over takes; one
// that has not says soon that there is no engine.
func TestPatienceLastsForAFailover(t *testing.T) {
	need.Seconds(t)
	e := start(t)
	c := connect(t, e)
	// More than two seconds, less than four.
	standing := slices.Repeat([]faultproxy.Fault{faultproxy.Refuse(events.Refuse(events.CodeNotOwner, "nobody owns the log now"))}, 14)
	e.Next(wire.APIStats, standing...)
	if _, err := c.Engine().Stats(testContext(t)); events.CodeOf(err) != events.CodeNotOwner {
		t.Fatalf("a client that nobody has answered: %v", err)
	}
	if _, err := c.Engine().Info(testContext(t)); err != nil {
		t.Fatal(err)
	}
	e.Next(wire.APIStats, standing...)
	if _, err := c.Engine().Stats(testContext(t)); err != nil {
		t.Fatalf("a client that was answered before: %v", err)
	}
}

// The reply that an engine has taken with it is not waited for as long as a slow one's.
func TestRequestIsRepeatedWhenItsEngineDies(t *testing.T) {
	need.Seconds(t)
	e := start(t)
	c := connect(t, e)
	e.Next(wire.APIStats, faultproxy.Lose)
	ctx, cancel := context.WithTimeout(testContext(t), streamwright.DefaultTryTimeout)
	defer cancel()
	if _, err := c.Engine().Stats(ctx); err != nil {
		t.Error(err)
	}
	if n := len(e.Requests(wire.APIStats)); n != 2 {
		t.Errorf("%d requests", n)
	}
}
