package api

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

// endedIDs lists the items that have ended, in the order of the answer.
func endedIDs(w wire.Waited) (ids []string) {
	for _, it := range w.Ended {
		ids = append(ids, it.ID)
	}
	return ids
}

func pendingIDs(w wire.Waited) (ids []string) {
	for _, p := range w.Pending {
		ids = append(ids, p.ID)
	}
	return ids
}

func same(got []string, want ...string) bool {
	return strings.Join(got, " ") == strings.Join(want, " ")
}

// submitEach submits n items of a type that nobody works on.
func (r *rig) submitEach(n int) (ids []string) {
	list := make([]wire.Submit, n)
	for i := range list {
		list[i] = wire.Submit{Type: "idle"}
	}
	for _, s := range ask[[]wire.Submitted](r, wire.APISubmit, list) {
		ids = append(ids, s.ID)
	}
	return ids
}

// waiting asks for items, and returns once the wait is under way.
func (r *rig) waiting(t *testing.T, w wire.Wait) <-chan wire.Waited {
	t.Helper()
	got, before := make(chan wire.Waited, 1), r.svc.waits.count()
	go func() {
		v, err := try[wire.Waited](r, wire.APIWait, w)
		if err != nil {
			t.Errorf("wait: %v", err)
		}
		got <- v
	}()
	until(t, r, func() bool { return r.svc.waits.count() > before })
	return got
}

func TestWaitsForAnyAndAll(t *testing.T) {
	r := newRig(t, nil)
	ids := r.submitEach(3)
	a, b, c := ids[0], ids[1], ids[2]
	all := r.waiting(t, wire.Wait{IDs: []string{c, a, b, a}, Timeout: events.Millis(60_000)})
	first := r.waiting(t, wire.Wait{IDs: ids, Any: true, Timeout: events.Millis(60_000)})
	r.cancel(b)
	if w := <-first; !same(endedIDs(w), b) || !same(pendingIDs(w), a, c) || w.Pending[0].State != events.StateQueued {
		t.Errorf("the first of three: %+v", w)
	}
	// The time is over: what has ended, and what has not.
	if w := ask[wire.Waited](r, wire.APIWait, wire.Wait{IDs: ids, Timeout: events.Millis(1)}); !same(endedIDs(w), b) || !same(pendingIDs(w), a, c) {
		t.Errorf("at the end of the time: %+v", w)
	}
	r.cancel(a)
	r.cancel(c)
	if w := <-all; !same(endedIDs(w), c, a, b) || len(w.Pending) != 0 || w.Ended[0].State != events.StateCancelled {
		t.Errorf("all three, in the order asked: %+v", w)
	}
	// Nothing to wait for.
	if w := ask[wire.Waited](r, wire.APIWait, wire.Wait{IDs: []string{b, a}, Any: true}); !same(endedIDs(w), b, a) {
		t.Errorf("any of those that ended long ago: %+v", w)
	}
	if n, m := r.svc.waits.count(), len(r.svc.waits.byItem); n != 0 || m != 0 || r.svc.waits.awaited != 0 {
		t.Errorf("%d waits are left, for %d items", n, m)
	}
}

// An unknown id is refused by name, though another item has ended.
func TestWaitsRefuseUnknownItems(t *testing.T) {
	r := newRig(t, nil)
	ids := r.submitEach(2)
	r.cancel(ids[0])
	const unknown = "01J00000000000000000000000"
	for _, one := range []bool{true, false} {
		_, err := try[wire.Waited](r, wire.APIWait, wire.Wait{IDs: append(ids, unknown), Any: one, Timeout: events.DurationOf(MaxWait)})
		wantCode(t, err, events.CodeNotFound)
		if !strings.Contains(err.Error(), unknown) {
			t.Errorf("the refusal does not name the item: %v", err)
		}
	}
}

// What an item was merged into is waited for in its place, and is there once.
func TestWaitsForManyFollowMergedItems(t *testing.T) {
	r := newRig(t, nil)
	into := r.submit(wire.Submit{Type: "idle", DedupKey: "k"})
	merged := r.submit(wire.Submit{Type: "idle", DedupKey: "k"})
	other := r.submit(wire.Submit{Type: "idle"})
	ids := []string{merged.ID, other.ID, into.ID}
	w := ask[wire.Waited](r, wire.APIWait, wire.Wait{IDs: ids, Timeout: events.Millis(1)})
	if !same(pendingIDs(w), ids...) || w.Pending[0].MergedInto != into.ID || w.Pending[0].State != events.StateQueued || w.Pending[2].MergedInto != "" {
		t.Errorf("before its end: %+v", w)
	}
	got := r.waiting(t, wire.Wait{IDs: ids, Timeout: events.Millis(60_000)})
	r.cancel(into.ID)
	r.cancel(other.ID)
	if w := <-got; !same(endedIDs(w), into.ID, other.ID) || len(w.Merged) != 1 || w.Merged[merged.ID] != into.ID {
		t.Errorf("after its end: %+v", w)
	}
}

// An item that is merged while it is waited for gives way to the other one.
func TestWaitsSeeAMergeThatComesLater(t *testing.T) {
	r := newRig(t, nil)
	into := r.submit(wire.Submit{Type: "idle", DedupKey: "k"})
	merged := r.submit(wire.Submit{Type: "idle", DedupKey: "k"})
	ids := r.submitEach(1)
	got := r.waiting(t, wire.Wait{IDs: ids, Timeout: events.Millis(60_000)})
	mergedID, err := events.ParseID(merged.ID)
	if err != nil {
		t.Fatal(err)
	}
	until(t, r, func() bool { // nobody looks at it any more
		r.svc.waits.mu.Lock()
		defer r.svc.waits.mu.Unlock()
		for _, set := range r.svc.waits.byItem {
			for a := range set {
				return !a.w.held
			}
		}
		return false
	})
	// As if the queued item had been the one that was merged: what the table knows of it.
	r.svc.waits.mu.Lock()
	for id, set := range r.svc.waits.byItem {
		delete(r.svc.waits.byItem, id)
		for a := range set {
			a.id = mergedID
		}
		r.svc.waits.byItem[mergedID] = set
	}
	r.svc.waits.mu.Unlock()
	r.svc.Notify([]core.ItemChange{{New: &events.Item{ID: mergedID, State: events.StateMerged}}})
	until(t, r, func() bool {
		r.svc.waits.mu.Lock()
		defer r.svc.waits.mu.Unlock()
		_, gone := r.svc.waits.byItem[mergedID]
		return !gone && len(r.svc.waits.byItem) == 1
	})
	r.cancel(into.ID)
	if w := <-got; !same(endedIDs(w), into.ID) || w.Merged[ids[0]] != into.ID {
		t.Errorf("got %+v", w)
	}
}

// A thousand items: the table has each once, a commit looks up what it ends, and the
// waiter is woken once.
func TestWaitsForAThousandItems(t *testing.T) {
	r := newRig(t, nil)
	ids := r.submitEach(wire.MaxWaitIDs)
	all := r.waiting(t, wire.Wait{IDs: ids, Timeout: events.Millis(120_000)})
	until(t, r, func() bool {
		r.svc.waits.mu.Lock()
		defer r.svc.waits.mu.Unlock()
		return len(r.svc.waits.byItem) == len(ids)
	})
	reply := ask[wire.BulkReply](r, wire.APIBulk, wire.Bulk{Action: wire.BulkCancel, Select: wire.Selection{List: wire.List{Type: "idle", Limit: wire.MaxWaitIDs}}})
	if reply.Changed != len(ids) {
		t.Fatalf("cancelled %+v", reply)
	}
	if w := <-all; !same(endedIDs(w), ids...) || len(w.Pending) != 0 {
		t.Errorf("%d have ended, %d are pending", len(w.Ended), len(w.Pending))
	}
}

// An answer fits in a message: what has no room in it is shown by id, type and state.
func TestAnswersOfWaitsAreBounded(t *testing.T) {
	r := newRig(t, nil)
	const n = 40
	big, err := json.Marshal(strings.Repeat("x", 100<<10))
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for range n {
		ids = append(ids, r.submit(wire.Submit{Type: "idle", Params: big}).ID)
	}
	for _, id := range ids {
		r.cancel(id)
	}
	msg := r.raw(wire.APIWait, `{"ids":["`+strings.Join(ids, `","`)+`"]}`)
	w, err := read[wire.Waited](t, msg)
	if err != nil || !same(endedIDs(w), ids...) {
		t.Fatalf("%d of %d: %v", len(w.Ended), n, err)
	}
	if size := len(msg.Data); size > maxWaitedBytes+n*400 {
		t.Errorf("the answer has %d bytes", size)
	}
	whole := 0
	for _, it := range w.Ended {
		if len(it.Params) > 0 {
			whole++
		} else if len(it.Notes) != 1 || it.Notes[0] != leftOut || it.Type != "idle" || it.State != events.StateCancelled {
			t.Fatalf("an item that is not shown whole: %+v", it)
		}
	}
	if whole < 5 || whole > 10 {
		t.Errorf("%d of %d are whole", whole, n)
	}
	if one := ask[wire.Waited](r, wire.APIWait, wire.Wait{IDs: ids[n-1:]}); len(one.Ended[0].Params) != len(big) {
		t.Error("one alone is not whole")
	}
}

// The waits under way are for a bounded number of items.
func TestAwaitedItemsAreBounded(t *testing.T) {
	r := newRig(t, nil)
	ids := r.submitEach(2)
	ws := r.svc.waits
	ws.mu.Lock()
	ws.awaited = maxAwaited - 1
	ws.mu.Unlock()
	_, err := try[wire.Waited](r, wire.APIWait, wire.Wait{IDs: ids, Timeout: events.Millis(1)})
	wantCode(t, err, events.CodeUnavailable)
	ask[wire.Waited](r, wire.APIWait, wire.Wait{IDs: ids[:1], Timeout: events.Millis(1)})
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.awaited != maxAwaited-1 {
		t.Errorf("%d are counted after their end", ws.awaited-maxAwaited+1)
	}
}

// Stop answers waits for many, also those that are being looked at.
func TestStopAnswersWaitsForMany(t *testing.T) {
	r := newRig(t, nil)
	body, err := json.Marshal(wire.Wait{IDs: r.submitEach(100), Timeout: events.Millis(60_000)})
	if err != nil {
		t.Fatal(err)
	}
	errs := make(chan error, 20)
	for range cap(errs) {
		go func() {
			_, err := r.svc.Call(context.Background(), wire.APIWait, body)
			errs <- err
		}()
	}
	until(t, r, func() bool { return r.svc.waits.count() == cap(errs) })
	if err := r.svc.Stop(r.ctx()); err != nil {
		t.Fatal(err)
	}
	for range cap(errs) {
		wantCode(t, <-errs, events.CodeUnavailable)
	}
}
