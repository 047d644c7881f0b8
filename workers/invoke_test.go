package workers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// A timeout is said once, whatever the handler makes of its context's end.
func TestATimeoutIsSaidOnce(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(ErrTimeout)
	for _, c := range []struct {
		returned error
		want     string
	}{
		{ErrTimeout, ErrTimeout.Error()},
		{context.DeadlineExceeded, ErrTimeout.Error()},
		{context.Canceled, ErrTimeout.Error()},
		{fmt.Errorf("fetch the page: %w", ErrTimeout), "fetch the page: " + ErrTimeout.Error()},
		{errors.New("disk full"), ErrTimeout.Error() + "; the handler returned: disk full"},
	} {
		out := Invoke(ctx, func(context.Context, *RawItem) (any, error) { return nil, c.returned }, &RawItem{})
		if out.Err == nil || out.Err.Error() != c.want || !errors.Is(out.Err, ErrTimeout) || out.Code != "timeout" || !out.Retryable {
			t.Errorf("of %v: got %v (%s)", c.returned, out.Err, out.Code)
		}
	}
}

// The first line of a panic's error stands alone: it is what lists show.
func TestThePanicIsOnALineOfItsOwn(t *testing.T) {
	out := Invoke(t.Context(), func(context.Context, *RawItem) (any, error) { panic("oh no") }, &RawItem{})
	first, stack, _ := strings.Cut(out.Err.Error(), "\n")
	if first != "the handler panicked: oh no" || !strings.Contains(stack, "goroutine") {
		t.Errorf("got %q and %d bytes", first, len(stack))
	}
}

func TestTypedDecodes(t *testing.T) {
	h := Typed(func(_ context.Context, it *Item[struct{ A, B int }]) (any, error) {
		return it.Params.A + it.Params.B, nil
	})
	out := Invoke(t.Context(), h, &RawItem{Raw: json.RawMessage(`{"A":2,"B":3}`)})
	if out.Err != nil || string(out.Result) != "5" {
		t.Errorf("got %+v", out)
	}
}

// What can't be recorded fails the item for good, with a code of its own.
func TestBadEndsFailTheItem(t *testing.T) {
	item := &RawItem{ID: events.ID{1}, Type: "x"}
	child := Child{Type: "a"}
	big := Child{Type: "a", Params: strings.Repeat("x", wire.MaxSpawnBytes/20)}
	for name, result := range map[string]any{
		"no children":    Spawn(),
		"too many":       Spawn(slices.Repeat([]Child{child}, events.MaxChildren+1)...),
		"bad type":       Spawn(child, Child{Type: "A"}),
		"bad params":     Spawn(Child{Type: "a", Params: func() {}}),
		"too large":      Spawn(slices.Repeat([]Child{big}, 20)...),
		"policy":         Spawn(child).OnFailure("never"),
		"no delay":       Snoozed{},
		"a pointer":      &Snoozed{},
		"delay too long": Snooze(events.MaxDelay + time.Hour),
		"long name":      Spawn(child).Then(strings.Repeat("x", 300)),
	} {
		out := Invoke(t.Context(), func(context.Context, *RawItem) (any, error) { return result, nil }, item)
		if out.Err == nil || out.Code != FailBadSpawn || out.Retryable || out.Spawn != nil || out.Snooze != nil {
			t.Errorf("%s: %+v", name, out)
		}
	}
}

// A nil pointer is a failure of the attempt.
func TestNilEnd(t *testing.T) {
	for _, result := range []any{(*Snoozed)(nil), (*Spawned)(nil), (*Waits)(nil)} {
		out := Invoke(t.Context(), func(context.Context, *RawItem) (any, error) { return result, nil }, &RawItem{ID: events.ID{1}, Type: "x"})
		if out.Err == nil || !strings.Contains(out.Err.Error(), "nil") {
			t.Errorf("%T: %+v", result, out)
		}
	}
}
