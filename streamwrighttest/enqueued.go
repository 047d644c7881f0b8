package streamwrighttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
)

// Enqueued returns all items of a type that have been submitted, oldest first,
// whatever has become of them since. Items that were merged into others are left
// out.
func (e *Engine) Enqueued(typ string) []streamwright.WorkItem {
	e.t.Helper()
	ctx := e.t.Context()
	e.sync(ctx)
	var items []streamwright.WorkItem
	for it, err := range e.client.All(ctx, streamwright.Filter{Type: typ}) {
		if err != nil {
			e.t.Fatalf("list the items of type %s: %v", typ, err)
		}
		if it.State == events.StateMerged {
			continue
		}
		if it, err = e.client.Get(ctx, it.ID); err == nil {
			it.Params, err = e.client.Params(ctx, it)
		}
		if err != nil {
			e.t.Fatalf("get item %s: %v", it.ID, err)
		}
		items = append(items, it)
	}
	slices.SortFunc(items, func(a, b streamwright.WorkItem) int {
		if c := a.CreatedAt.Compare(b.CreatedAt); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return items
}

// RequireEnqueued fails the test unless exactly one submitted item matches want, and
// returns it. Type must be set; other fields are compared if they are set: Params as
// JSON, Delay and AvailableAt to the millisecond, Labels as a part of the item's. After,
// AfterPolicy, Batch, DedupPolicy and Trace are not compared.
//
//	e.RequireEnqueued(streamwright.Item{Type: "email", Params: Mail{To: "ada@example.org"}, Priority: 8})
//	e.RequireEnqueued(Welcome.Item(Mail{To: "ada@example.org"}))
func (e *Engine) RequireEnqueued(want streamwright.Item) streamwright.WorkItem {
	e.t.Helper()
	found, others := e.match(want)
	switch len(found) {
	case 1:
	case 0:
		e.t.Fatalf("no such item of type %s was submitted%s", want.Type, others)
	default:
		e.t.Fatalf("%d such items of type %s were submitted: want 1", len(found), want.Type)
	}
	return found[0]
}

// RequireNotEnqueued fails the test if an item was submitted that is as described;
// see [Engine.RequireEnqueued].
func (e *Engine) RequireNotEnqueued(unwanted streamwright.Item) {
	e.t.Helper()
	if found, _ := e.match(unwanted); len(found) > 0 {
		e.t.Fatalf("%s of type %s was submitted, with the params %s: want none", found[0].ID, unwanted.Type, found[0].Params)
	}
}

// match returns the items that are as wanted, and says how the others differ.
func (e *Engine) match(want streamwright.Item) (found []streamwright.WorkItem, others string) {
	e.t.Helper()
	sub, err := want.Submission()
	if err != nil {
		e.t.Fatalf("the item to look for: %v", err)
	}
	var text strings.Builder
	for _, it := range e.Enqueued(want.Type) {
		d := differences{}
		d.compare(&want, sub.Params, &it)
		if len(d) == 0 {
			found = append(found, it)
			continue
		}
		fmt.Fprintf(&text, "\n\t%s (%s): %s", it.ID, it.State, strings.Join(d, "; "))
	}
	if text.Len() > 0 {
		return found, "; others were:" + text.String()
	}
	return found, ""
}

// differences says what an item has that is not wanted.
type differences []string

func (d *differences) compare(want *streamwright.Item, params json.RawMessage, it *streamwright.WorkItem) {
	if want.Params != nil && !sameJSON(params, it.Params) {
		d.add("params", it.Params, params)
	}
	if want.Priority != 0 {
		d.differ("priority", it.Priority, max(want.Priority, 0))
	}
	d.same("id", it.ID, want.ID)
	d.same("dedup key", it.DedupKey, want.DedupKey)
	d.same("idempotency key", it.IdempotencyKey, want.IdempotencyKey)
	d.same("source", it.Provenance.Source, want.Source)
	d.same("trigger", it.Provenance.Trigger, want.Trigger)
	d.same("tenant", it.Tenant, want.Tenant)
	d.same("max attempts", it.MaxAttempts, want.MaxAttempts)
	d.same("timeout", it.Timeout.Duration, roundUp(want.Timeout))
	d.same("estimated duration", it.EstimatedDuration.Duration, roundUp(want.EstimatedDuration))
	if want.DedupWindow != 0 {
		d.differ("dedup window", it.DedupWindow.Duration, max(roundUp(want.DedupWindow), 0))
	}
	if want.Delay != 0 {
		d.differ("delay", it.AvailableAt.Sub(it.CreatedAt).Round(time.Millisecond), roundUp(want.Delay))
	}
	d.sameTime("available at", it.AvailableAt, want.AvailableAt)
	d.sameTime("expires at", it.ExpiresAt, want.ExpiresAt)
	if want.Capabilities != nil && !slices.Equal(slices.Sorted(slices.Values(it.Capabilities)), slices.Sorted(slices.Values(want.Capabilities))) {
		d.add("capabilities", it.Capabilities, want.Capabilities)
	}
	for k, v := range want.Labels {
		d.differ("label "+k, it.Labels[k], v)
	}
}

// same notes a difference in a field, unless nothing is wanted of it.
func (d *differences) same(field string, got, want any) {
	if !reflect.ValueOf(want).IsZero() {
		d.differ(field, got, want)
	}
}

// sameTime is same for times, to the millisecond.
func (d *differences) sameTime(field string, got, want time.Time) {
	if !want.IsZero() && got.Sub(want).Abs() > time.Millisecond {
		d.add(field, got, want)
	}
}

// differ notes a field if it differs.
func (d *differences) differ(field string, got, want any) {
	if got != want {
		d.add(field, got, want)
	}
}

func (d *differences) add(field string, got, want any) {
	*d = append(*d, fmt.Sprintf("%s %s, want %s", field, show(got), show(want)))
}

func show(v any) string {
	switch v := v.(type) {
	case json.RawMessage:
		return string(v)
	case string:
		return fmt.Sprintf("%q", v)
	}
	return fmt.Sprint(v)
}

// sameJSON reports whether two documents say the same; none is null.
func sameJSON(a, b json.RawMessage) bool {
	return reflect.DeepEqual(decoded(a), decoded(b))
}

func decoded(doc json.RawMessage) (v any) {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	_ = d.Decode(&v) // what was submitted is JSON; no document is null
	return v
}

// roundUp rounds up to a millisecond, as a submission does.
func roundUp(d time.Duration) time.Duration { return events.DurationOf(d).Duration }
