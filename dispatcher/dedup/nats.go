package dedup

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

// NATSHook asks over NATS: it sends a NATSQuestion as JSON to Subject, and the reply is a
// NATSAnswer.
type NATSHook struct {
	Conn    *nats.Conn
	Subject string
}

// NATSQuestion is the request to a dedup hook over NATS.
type NATSQuestion struct {
	Submission wire.Submit `json:"submission"`
	Candidates []wire.Item `json:"candidates"`
}

// NATSAnswer is the answer of a dedup hook over NATS.
type NATSAnswer struct {
	Policy    events.DedupPolicy `json:"policy"`              // merge, distinct, supersede, defer
	Canonical string             `json:"canonical,omitempty"` // id of the item that it repeats
	Reason    string             `json:"reason,omitempty"`
}

// Judge implements [Hook].
func (h *NATSHook) Judge(ctx context.Context, q Question) (events.Verdict, error) {
	data, err := json.Marshal(NATSQuestion{Submission: wireSubmit(&q.Submission), Candidates: q.Candidates})
	if err != nil {
		return events.Verdict{}, fmt.Errorf("ask the dedup hook: %w", err)
	}
	reply, err := h.Conn.RequestWithContext(ctx, h.Subject, data)
	if err != nil {
		return events.Verdict{}, fmt.Errorf("ask the dedup hook at %s: %w", h.Subject, err)
	}
	var a NATSAnswer
	if err := json.Unmarshal(reply.Data, &a); err != nil {
		return events.Verdict{}, fmt.Errorf("read the dedup hook's answer: %w", err)
	}
	v := events.Verdict{Policy: a.Policy, Reason: a.Reason}
	if a.Canonical != "" {
		if v.Canonical, err = events.ParseID(a.Canonical); err != nil {
			return events.Verdict{}, fmt.Errorf("read the dedup hook's answer: %w", err)
		}
	}
	return v, nil
}

// wireSubmit returns the part of a submission that a hook may need.
func wireSubmit(c *core.Submit) wire.Submit {
	s := wire.Submit{
		Type: string(c.Type), Params: c.Params, DedupKey: c.DedupKey, IdempotencyKey: c.IdempotencyKey, AvailableAt: c.AvailableAt,
		Delay: events.DurationOf(c.Delay), MaxAttempts: int(c.MaxAttempts), Timeout: events.DurationOf(c.Timeout), Capabilities: c.Capabilities,
		Source: c.Provenance.Source, Trigger: c.Provenance.Trigger, Tenant: c.Tenant, Labels: c.Labels, Trace: c.Trace,
	}
	if !c.ID.IsZero() {
		s.ID = c.ID.String()
	}
	if c.Priority != nil {
		p := wire.Priority(*c.Priority)
		s.Priority = &p
	}
	return s
}
