package streamwright

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/events"
)

// What the NATS server refuses a plain publish for comes as a code that says whether to try again.
func TestIntakeRefused(t *testing.T) {
	for code, want := range map[jetstream.ErrorCode]events.Code{
		natsMsgTooLarge: events.CodeTooLarge,
		natsStoreFailed: events.CodeUnavailable, natsNoStorage: events.CodeUnavailable, natsTooManyRequests: events.CodeUnavailable,
		natsInProcess: events.CodeUnavailable,
		10999:         events.CodeInternal,
	} {
		err := intakeRefused("work.submit.email", &jetstream.APIError{ErrorCode: code, Description: "as the server says"})
		if got := events.CodeOf(err); got != want {
			t.Errorf("NATS error %d is %s, want %s", code, got, want)
		}
	}
}
