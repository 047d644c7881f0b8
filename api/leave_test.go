package api

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/streamwright/streamwright/dispatcher"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Waits whose caller has gone make room for others at once.
func TestWaitsEndWithTheirCaller(t *testing.T) {
	r := newRig(t, nil)
	sub := ask[wire.Submitted](r, wire.APISubmit, wire.Submit{Type: "a"})
	body, err := json.Marshal(wire.Wait{IDs: []string{sub.ID}, Timeout: events.DurationOf(MaxWait)})
	if err != nil {
		t.Fatal(err)
	}
	const callers = 50
	ctx, leave := context.WithCancel(context.Background())
	ended := make(chan error, callers)
	for range callers {
		go func() {
			_, err := r.svc.Call(ctx, wire.APIWait, body)
			ended <- err
		}()
	}
	until(t, r, func() bool { return r.svc.waits.count() == callers })
	leave()
	for range callers {
		if err := <-ended; events.CodeOf(err) != events.CodeTimeout {
			t.Errorf("a caller who left is told %v", err)
		}
	}
	until(t, r, func() bool { return r.svc.waits.count() == 0 })
	// One who has gone before he waits does not stay.
	if _, err := r.svc.Call(ctx, wire.APIWait, body); err == nil {
		t.Error("a wait of one who has gone succeeds")
	}
	until(t, r, func() bool { return r.svc.waits.count() == 0 })
	r.svc.waits.mu.Lock()
	defer r.svc.waits.mu.Unlock()
	if n := len(r.svc.waits.byItem); n != 0 {
		t.Errorf("the table still has %d items", n)
	}
}

func TestEstimateWait(t *testing.T) {
	for _, c := range []struct {
		ahead, inFlight, parallel int
		run, want                 time.Duration
		known                     bool
	}{
		{0, 0, 0, time.Second, 0, false},              // no worker
		{0, 0, 4, 0, 0, true},                         // a free slot
		{3, 0, 4, 0, 0, true},                         // one for each
		{4, 0, 4, 0, 0, false},                        // none, and no run is known
		{0, 4, 4, time.Second, time.Second / 4, true}, // the next that ends lets it go
		{7, 4, 4, time.Second, 2 * time.Second, true},
		{7, 2, 4, time.Second, 1500 * time.Millisecond, true},
		{0, 9, 4, time.Second, time.Second / 4, true}, // more than the workers say
	} {
		got, known := estimateWait(c.ahead, c.inFlight, c.parallel, c.run)
		if got != c.want || known != c.known {
			t.Errorf("%d ahead, %d of %d busy, runs of %v: %v %v, not %v %v", c.ahead, c.inFlight, c.parallel, c.run, got, known, c.want, c.known)
		}
	}
	p := placed(dispatcher.Place{OnItsWay: true}, 0)
	if p.Ahead == nil || *p.Ahead != 0 || p.EstimatedWait == nil || !p.EstimatedWait.IsZero() {
		t.Errorf("one on its way: %+v", p)
	}
	if p := placed(dispatcher.Place{}, time.Second); p.Ahead != nil || p.EstimatedWait != nil {
		t.Errorf("one that is not queued: %+v", p)
	}
}

// A wait for what another client has just submitted finds it, though the caller
// names no position.
func TestWaitsFindWhatIsNotProjectedYet(t *testing.T) {
	r := newRig(t, nil)
	for range 50 {
		sub := ask[wire.Submitted](r, wire.APISubmit, wire.Submit{Type: "a"})
		body, err := json.Marshal(wire.Wait{IDs: []string{sub.ID}, Timeout: events.Millis(1)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.svc.Call(context.Background(), wire.APIWait, body); err != nil {
			t.Fatal(err)
		}
	}
	body, _ := json.Marshal(wire.Wait{IDs: []string{events.ID{1}.String()}, Timeout: events.Millis(1000)})
	if _, err := r.svc.Call(context.Background(), wire.APIWait, body); events.CodeOf(err) != events.CodeNotFound {
		t.Errorf("a wait for no item: %v", err)
	}
}
