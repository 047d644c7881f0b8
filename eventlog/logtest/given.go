package logtest

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
)

// Patience bounds every wait of a test.
const Patience = 2 * time.Minute

// Context ends with a test, or after Patience.
func Context(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	t.Cleanup(cancel)
	return ctx
}

// Time is when the events of [Decision] and [Owned] happen.
var Time = time.Date(2025, 3, 4, 5, 6, 7, 890123456, time.UTC)

// ID returns the id of the n-th item, of 2^24.
func ID(n int) events.ID { return events.ID{0: 1, 13: byte(n >> 16), 14: byte(n >> 8), 15: byte(n)} }

// Decision returns n events that belong together: created, and then queued.
func Decision(n int, mark string) []events.Event {
	evs := make([]events.Event, n)
	for i := range evs {
		evs[i] = events.Event{Kind: events.KindQueued, ID: ID(i), Type: "email", At: Time, Body: &events.Queued{Reason: mark, OrderAt: Time}}
		if i == 0 {
			params, _ := json.Marshal(mark) // a string can always be written
			evs[i].Kind, evs[i].Body = events.KindCreated, &events.Created{Params: params, Priority: 5, MaxAttempts: 3, Timeout: events.Millis(1000)}
		}
	}
	return evs
}

// Owned returns the barrier of an owner of the first epoch.
func Owned(owner string) events.Event {
	return events.Event{Kind: events.KindOwned, At: Time, Body: &events.Owned{Epoch: 1, Owner: owner, Barrier: true}}
}

// Write returns what an owner of the first epoch appends.
func Write(evs []events.Event) *eventlog.Write {
	return &eventlog.Write{Epoch: 1, Node: "me", Level: 1, Events: evs}
}

// MarkOf names an event for comparisons: by the mark of Decision, or its owner.
func MarkOf(ev events.Event) string {
	switch b := ev.Body.(type) {
	case *events.Created:
		return strings.Trim(string(b.Params), `"`)
	case *events.Queued:
		return b.Reason
	case *events.Owned:
		return "owned:" + b.Owner
	}
	return ev.Kind.String()
}
