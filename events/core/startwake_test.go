package core

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
)

// A submission with a signal starts an item, or wakes the one that it repeats or is merged into,
// and however often it comes, its signal comes once.
func TestStartOrWake(t *testing.T) {
	for name, ask := range map[string]func(*world) Submit{
		"by id":              func(w *world) Submit { return Submit{ID: events.ID{1}} },
		"by dedup key":       func(w *world) Submit { return Submit{DedupKey: "order-4711"} },
		"by idempotency key": func(w *world) Submit { return Submit{IdempotencyKey: "order-4711"} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			send := func(msgID string) Decision {
				t.Helper()
				c := ask(w)
				c.Type, c.NewID, c.Signal = "email", w.newID(), &FirstSignal{Name: "paid", Payload: json.RawMessage(`{"sum": 3}`), MsgID: msgID}
				return w.do(c)
			}
			id := send("m1").ID
			w.state(id, events.StateQueued)
			send("m1") // a repeat
			if it := w.item(id); it.Signals.Unread != 1 {
				t.Fatalf("%+v", it.Signals)
			}
			w.park(w.run(id), "paid") // which has come
			w.park(w.run(id), "paid")
			w.state(id, events.StateWaiting)
			send("m2")
			send("m1")
			w.state(id, events.StateQueued)
			w.do(Complete{Run: w.run(id)})
			if it := w.item(id); it.Signals.Unread != 0 {
				t.Fatalf("%+v", it.Signals)
			}
			w.readBack()
		})
	}
}

func TestStartOrWakeIsRefused(t *testing.T) {
	w := newWorld(t)
	with := func(c Submit, name, msgID, payload string) Submit {
		c.Type, c.NewID, c.Signal = "email", w.newID(), &FirstSignal{Name: name, MsgID: msgID, Payload: json.RawMessage(payload)}
		return c
	}
	w.refused(events.CodeBadRequest, with(Submit{}, "paid", "", ""))
	w.refused(events.CodeBadRequest, with(Submit{}, "", "m", ""))
	w.refused(events.CodeBadParams, with(Submit{}, "paid", "m", "no"))
	id := w.do(with(Submit{IdempotencyKey: "k"}, "paid", "m", "")).ID
	w.refused(events.CodeBadParams, with(Submit{IdempotencyKey: "k"}, "paid", "m2", "no"))
	w.do(Complete{Run: w.run(id)})
	w.refused(events.CodeEnded, with(Submit{IdempotencyKey: "k"}, "paid", "m2", ""))
	if !w.do(with(Submit{IdempotencyKey: "k"}, "paid", "m", "")).Repeat {
		t.Error("a repeat after the end is refused")
	}
	// One that would end at once: the signal would reach nobody, so there is no item.
	dead := w.submit(Submit{})
	w.do(Fail{Run: w.run(dead)})
	w.refused(events.CodeEnded, with(Submit{After: []events.ID{dead}}, "paid", "m", ""))
	holder := w.submit(Submit{DedupKey: "full"})
	for range events.MaxUnread {
		w.do(Signal{ID: holder, Name: "x"})
	}
	w.refused(events.CodeMailboxFull, with(Submit{DedupKey: "full"}, "paid", "m", ""))
	w.now = w.now.Add(time.Second)
	w.readBack()
}
