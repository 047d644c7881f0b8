package rest_test

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/streamwright/streamwright/api/rest"
	"github.com/streamwright/streamwright/events"
)

// A refusal says when to try again if that may help.
func TestRetryAfter(t *testing.T) {
	later := func(code events.Code) error {
		err := events.Refuse(code, "refused")
		err.RetryAfter = 1500 * time.Millisecond
		return err
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{events.Refuse(events.CodeQuotaExceeded, "refused"), ""},
		{later(events.CodeQuotaExceeded), "2"},
		{events.Refuse(events.CodeQueueFull, "refused"), "1"},
		{events.Refuse(events.CodeUnavailable, "refused"), "1"},
		{events.Refuse(events.CodeWrongState, "refused"), ""},
	} {
		rec := httptest.NewRecorder()
		rest.WriteProblem(rec, c.err)
		if got := rec.Header().Get("Retry-After"); got != c.want {
			t.Errorf("%+v: Retry-After is %q, want %q", c.err, got, c.want)
		}
	}
}
