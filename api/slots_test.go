package api

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// flood sends n requests of an endpoint without waiting for their replies.
func (r *rig) flood(endpoint string, n int, body string) *nats.Subscription {
	r.t.Helper()
	sub, err := r.nc.SubscribeSync(r.nc.NewInbox())
	if err != nil {
		r.t.Fatal(err)
	}
	for range n {
		if err := r.nc.PublishRequest(wire.Default.API(endpoint), sub.Subject, []byte(body)); err != nil {
			r.t.Fatal(err)
		}
	}
	return sub
}

// soon fails the test unless a request gets through at once, or when repeated,
// as clients do while a burst is being answered.
func soon(t *testing.T, fn func() error) {
	t.Helper()
	for end := time.Now().Add(awaitTimeout / 2); ; {
		err := fn()
		if err == nil {
			return
		}
		if events.CodeOf(err) != events.CodeUnavailable || time.Now().After(end) {
			t.Fatalf("a request is shut out: %v", err)
		}
	}
}

// Hundreds of requests for positions that will never come shut nobody out.
func TestPositionsBeyondTheLogAreRefusedAtOnce(t *testing.T) {
	r := newRig(t, nil)
	item := r.submit(wire.Submit{Type: "email"})
	const many = 4 * MaxQueries
	body := fmt.Sprintf(`{"id":%q,"min_position":"99999999999"}`, item.ID)
	waitBody := fmt.Sprintf(`{"ids":[%q],"min_position":"99999999999"}`, item.ID)
	waits, gets := r.flood(wire.APIWait, many, waitBody), r.flood(wire.APIGet, many, body)
	for range 20 {
		soon(t, func() error {
			_, err := try[wire.Item](r, wire.APIGet, wire.Get{ID: item.ID})
			return err
		})
		soon(t, func() error {
			_, err := try[wire.Waited](r, wire.APIWait, wire.Wait{IDs: []string{item.ID}, Timeout: events.Millis(1), MinPosition: item.Position})
			return err
		})
	}
	for _, sub := range []*nats.Subscription{waits, gets} {
		ahead := 0
		for range many {
			m, err := sub.NextMsgWithContext(r.ctx())
			if err != nil {
				t.Fatal(err)
			}
			switch _, err := read[wire.Item](t, m); events.CodeOf(err) {
			case events.CodePositionAhead:
				ahead++
			case events.CodeUnavailable: // more at once than there is room for
			default:
				t.Fatalf("got %v", err)
			}
		}
		if ahead == 0 {
			t.Error("none is told why")
		}
	}
}

// A position just beyond the log's end may be about to come. Those that ask for
// such ones take few of the queries' slots.
func TestPositionsJustAheadAreWaitedFor(t *testing.T) {
	r := newRig(t, nil)
	r.svc.engine.aheadWithin = patience
	item := r.submit(wire.Submit{Type: "email"})
	next := wire.PositionOf(r.eng.Position() + 2) // of the next item's two events
	sub := r.flood(wire.APIGet, 4*MaxQueries, fmt.Sprintf(`{"id":%q,"min_position":%q}`, item.ID, next))
	for end := time.Now().Add(patience); len(r.svc.engine.ahead) < MaxAhead && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	soon(t, func() error {
		_, err := try[wire.Item](r, wire.APIGet, wire.Get{ID: item.ID})
		return err
	})
	if n := len(r.svc.engine.ahead); n != MaxAhead {
		t.Errorf("%d wait for a position that is not known yet", n)
	}
	r.submit(wire.Submit{Type: "email"})
	found := 0
	for range 4 * MaxQueries {
		m, err := sub.NextMsgWithContext(r.ctx())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := read[wire.Item](t, m); err == nil {
			found++
		} else {
			wantCode(t, err, events.CodeUnavailable)
		}
	}
	if found < MaxAhead {
		t.Errorf("%d of those that waited got the item", found)
	}
}

// Each kind of request has slots that no other takes.
func TestEachKindOfRequestHasItsSlots(t *testing.T) {
	r := newRig(t, nil)
	item := r.submit(wire.Submit{Type: "email"})
	// Once it is projected, nothing has to wait for it, which would take a slot of those arriving.
	if _, err := read[map[string]any](t, r.raw(wire.APIGet, fmt.Sprintf(`{"id":%q,"min_position":%q}`, item.ID, item.Position))); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		slots chan struct{}
		taken string // by this kind
	}{
		"queries":  {r.svc.queries, wire.APIGet},
		"control":  {r.svc.control, wire.APIHeartbeat},
		"actions":  {r.svc.actions, wire.APIPause},
		"arriving": {r.svc.arriving, ""},
		"ahead":    {r.svc.engine.ahead, ""},
	} {
		for range cap(tc.slots) {
			tc.slots <- struct{}{}
		}
		for endpoint, body := range map[string]string{
			wire.APIGet:       fmt.Sprintf(`{"id":%q}`, item.ID),
			wire.APIWait:      fmt.Sprintf(`{"ids":[%q],"timeout_ms":1,"min_position":%q}`, item.ID, item.Position),
			wire.APIPause:     `{"type":"email"}`,
			wire.APIResume:    `{"type":"email"}`,
			wire.APIDrain:     `{"worker":"w1"}`,
			wire.APIRegister:  `{"worker":"w1","session":"s","types":["email"],"slots":1}`,
			wire.APIHeartbeat: `{"worker":"w1","session":"s","types":["email"],"slots":1}`,
		} {
			same := endpoint == tc.taken || tc.taken == wire.APIPause && (endpoint == wire.APIResume || endpoint == wire.APIDrain) || tc.taken == wire.APIHeartbeat && endpoint == wire.APIRegister
			_, err := read[map[string]any](t, r.raw(endpoint, body))
			if busy := events.CodeOf(err) == events.CodeUnavailable && err != nil; busy != same {
				t.Errorf("with all slots of %s taken, %s: %v", name, endpoint, err)
			}
		}
		for range cap(tc.slots) {
			<-tc.slots
		}
	}
}
