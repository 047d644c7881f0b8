package wire

import (
	"strconv"
	"time"

	"github.com/streamwright/streamwright/events"
)

// SubmitOptions are the fields of a Submit that relate it to other items or bound
// its life.
type SubmitOptions struct {
	// After are the items that must have ended first, at most
	// events.MaxAfter; AfterPolicy says what a bad end of one does.
	After       []string           `json:"after,omitempty"`
	AfterPolicy events.AfterPolicy `json:"after_policy,omitempty"`
	// DedupPolicy says what becomes of it if its dedup key is taken, and
	// DedupWindow how long the key stays taken once it has completed. Left
	// out, they are the type's.
	DedupPolicy events.DedupPolicy `json:"dedup_policy,omitempty"`
	DedupWindow *events.Duration   `json:"dedup_window_ms,omitempty"`
	// ExpiresAt is the time at which the item is cancelled if it has not started.
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	// Batch is the batch that it belongs to.
	Batch string `json:"batch,omitempty"`
	// EstimatedDuration is the likely duration of a run. The estimated waits of the
	// items behind it go by it; unlike timeout_ms it bounds nothing.
	EstimatedDuration events.Duration `json:"estimated_duration_ms,omitzero" strict:"positive"`
}

// readValue takes the value of one header.
func (t *SubmitOptions) readValue(name, v string) (err error) {
	switch name {
	case HeaderAfterPolicy:
		t.AfterPolicy = events.AfterPolicy(v)
	case HeaderDedupPolicy:
		t.DedupPolicy = events.DedupPolicy(v)
	case HeaderDedupWindow:
		d, err := parseDuration(name, v)
		if err != nil {
			return err
		}
		t.DedupWindow = &d
	case HeaderBatch:
		t.Batch = v
	case HeaderEstimatedDuration:
		t.EstimatedDuration, err = parsePositive(name, v)
		return err
	case HeaderExpiresAt:
		if t.ExpiresAt, err = time.Parse(time.RFC3339, v); err != nil {
			return events.Refuse(events.CodeBadTime, "header %s must be a time in RFC 3339, such as 2030-01-31T08:00:00Z", name)
		}
	}
	return nil
}

// setHeaders tells set the headers that say the same, but for After.
func (t *SubmitOptions) setHeaders(set func(name, value string)) {
	set(HeaderBatch, t.Batch)
	set(HeaderAfterPolicy, string(t.AfterPolicy))
	set(HeaderDedupPolicy, string(t.DedupPolicy))
	if t.DedupWindow != nil {
		set(HeaderDedupWindow, (t.DedupWindow.Duration).String())
	}
	if !t.ExpiresAt.IsZero() {
		set(HeaderExpiresAt, t.ExpiresAt.UTC().Format(time.RFC3339Nano))
	}
	if !t.EstimatedDuration.IsZero() {
		set(HeaderEstimatedDuration, strconv.FormatInt(t.EstimatedDuration.Milliseconds(), 10)+"ms")
	}
}
