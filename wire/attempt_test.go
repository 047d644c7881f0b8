package wire

import (
	"testing"

	"github.com/streamwright/streamwright/events"
)

// An item's attempts are numbered on over its replays, so a report may name one above the
// ceiling of a single life.
func TestReportOfAHighAttempt(t *testing.T) {
	r := Report{ID: (events.ID{1}).String(), Token: events.NewToken(1, 1).String(), Worker: "w", Event: ReportComplete, Attempt: events.MaxAttemptsCeiling + 1}
	if _, err := r.Command(0); err != nil {
		t.Error(err)
	}
	r.Attempt = -1
	if _, err := r.Command(0); events.CodeOf(err) != events.CodeBadRequest {
		t.Error(err)
	}
}
