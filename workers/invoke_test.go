package workers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
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
