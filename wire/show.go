package wire

import (
	"encoding/json"

	"github.com/streamwright/streamwright/events"
)

// FromItem is an item as queries show it, with what is kept beside it: params,
// result and the submissions merged into it, each nil if not wanted.
func FromItem(it *events.Item, params, result []byte, merged []events.MergedEntry) Item {
	out := Item{
		ID: it.ID.String(), Type: string(it.Type), State: it.State, Priority: int(it.Priority),
		Params: params, Attempt: int(it.Attempt), MaxAttempts: int(it.MaxAttempts),
		OwnAttempts: it.OwnAttempts, TimeoutMS: it.Timeout.Milliseconds(), OwnTimeout: it.OwnTimeout, Worker: string(it.Worker),
		DedupKey: it.DedupKey, IdempotencyKey: it.IdempotencyKey,
		Capabilities: it.Capabilities, Tenant: it.Tenant, Labels: it.Labels,
		Provenance: it.Provenance, MergedCount: it.MergedCount, IntakeSeq: it.IntakeSeq,
		AvailableAt: it.AvailableAt, CreatedAt: it.CreatedAt, QueuedAt: it.QueuedAt,
		ClaimedAt: it.ClaimedAt, StartedAt: it.StartedAt, Deadline: it.Deadline,
		FinishedAt: it.FinishedAt, Result: result, Reason: it.Reason, Cause: it.Cause, Position: PositionOf(it.Seq),
	}
	if !it.MergedInto.IsZero() {
		out.MergedInto = it.MergedInto.String()
	}
	if it.Error != "" || it.Code != "" {
		out.Error = &ItemError{Message: it.Error, Code: it.Code, Retryable: it.Retryable}
	}
	out.ItemFlow = itemFlow(it)
	if len(merged) > 0 {
		out.MergedProvenance = make([]MergedProvenance, len(merged))
		for i, m := range merged {
			out.MergedProvenance[i] = MergedProvenance{ID: m.ID.String(), At: m.At, Provenance: m.Provenance}
		}
	}
	return out
}

// FromEvent is an event as queries and tails show it.
func FromEvent(ev events.Event) HistoryEvent {
	out := HistoryEvent{
		Seq: ev.Seq, Kind: ev.Kind, Type: string(ev.Type), At: ev.At,
		Attempt: int(ev.Attempt), Worker: string(ev.Worker),
	}
	if !ev.ID.IsZero() {
		out.ID = ev.ID.String()
	}
	data, err := ev.Data()
	if err != nil {
		// A payload that was read from JSON can be written as JSON; one that
		// can't must not take the rest of the history with it.
		data, _ = json.Marshal(map[string]string{"unreadable": err.Error()})
	}
	out.Data = data
	return out
}
