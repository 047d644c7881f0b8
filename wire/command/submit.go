package command

import (
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

// OfSubmit makes the command of a submission and checks it: see [core.Submit.Check].
// newID is a fresh id, for an item whose submitter chose none; its time stamp is the now
// of the check. maxParams bounds the params in bytes. They are not copied.
func OfSubmit(s wire.Submit, newID events.ID, maxParams int) (core.Submit, error) {
	typ, err := events.ParseType(s.Type)
	if err != nil {
		return core.Submit{}, events.Refuse(events.CodeBadType, "%v", err)
	}
	if s.Namespace != "" {
		return core.Submit{}, events.Refuse(events.CodeBadRequest, "only a request to submit hands an item to another namespace, not a spawn, a batch or a callback: have the handler submit it, with the id of its own item as the idempotency key, so that a repeated run makes no second one")
	}
	c := core.Submit{
		Type: typ, Params: s.Params, NewID: newID,
		DedupKey: s.DedupKey, IdempotencyKey: s.IdempotencyKey,
		AvailableAt: s.AvailableAt, Delay: s.Delay.Duration, Capabilities: s.Capabilities,
		MaxAttempts: events.Attempt(s.MaxAttempts), Timeout: s.Timeout.Duration,
		Tenant: s.Tenant, Labels: s.Labels,
		Provenance: events.Provenance{Source: s.Source, Trigger: s.Trigger},
		Trace:      s.Trace,
	}
	if f := s.Signal; f != nil {
		c.Signal = &core.FirstSignal{Name: f.Name, Payload: f.Payload, MsgID: f.MsgID}
	}
	if s.ID != "" {
		if c.ID, err = parseID(s.ID); err != nil {
			return core.Submit{}, err
		}
	}
	if c.Priority, err = checkPriority(s.Priority); err != nil {
		return core.Submit{}, err
	}
	if err := putOptions(&c, &s.SubmitOptions); err != nil {
		return core.Submit{}, err
	}
	return c, c.Check(maxParams, idTime(newID))
}

// putOptions puts the options into the command.
func putOptions(c *core.Submit, t *wire.SubmitOptions) error {
	if t.AfterPolicy != "" && len(t.After) == 0 {
		return events.Refuse(events.CodeBadRequest, "after_policy is %q, but the item comes after nothing: give the ids in after, or leave the policy out", t.AfterPolicy)
	}
	if len(t.After) > events.MaxAfter {
		t.After = t.After[:events.MaxAfter+1] // Check refuses them: no need to read them all
	}
	for _, text := range t.After {
		id, err := parseID(text)
		if err != nil {
			return events.Refuse(events.CodeBadID, "after: %v", err)
		}
		c.After = append(c.After, id)
	}
	if t.DedupWindow != nil {
		c.DedupWindow = new(t.DedupWindow.Duration)
	}
	c.AfterPolicy, c.DedupPolicy, c.ExpiresAt = t.AfterPolicy, t.DedupPolicy, t.ExpiresAt
	if t.Batch != "" {
		id, err := parseID(t.Batch)
		if err != nil {
			return events.Refuse(events.CodeBadID, "batch: %v", err)
		}
		c.Batch = id
	}
	c.Estimate = t.EstimatedDuration.Duration
	return nil
}

// parseID reads an id that must name an item.
func parseID(s string) (events.ID, error) {
	id, err := events.ParseID(s)
	if err != nil {
		return id, events.Refuse(events.CodeBadID, "%v", err)
	}
	if id.IsZero() {
		return id, events.Refuse(events.CodeBadID, "the id of zeros names no item: choose a fresh ULID, or leave the id out")
	}
	return id, nil
}

func checkPriority(p *wire.Priority) (*events.Priority, error) {
	if p == nil {
		return nil, nil
	}
	if *p < 0 || *p > wire.Priority(events.MaxPriority) {
		return nil, events.Refuse(events.CodeBadPriority, "invalid priority %d: use 0 to %d, higher first", *p, events.MaxPriority)
	}
	v := events.Priority(*p)
	return &v, nil
}

// idTime returns the time stamp of an id, the zero time for the zero id.
func idTime(id events.ID) time.Time {
	if id.IsZero() {
		return time.Time{}
	}
	return ulid.Time(ulid.ULID(id).Time())
}

// OfBatch makes the commands of a Batch: the one that makes the batch and, with a callback,
// the callback's submission. newID returns fresh, ascending ids.
func OfBatch(b wire.Batch, newID func() events.ID) ([]core.Command, error) {
	if b.Count < 0 {
		return nil, events.Refuse(events.CodeBadRequest, "count is %d: a batch has 1 to %d items", b.Count, events.MaxBatchCount)
	}
	if b.Count > events.MaxBatchCount {
		return nil, events.Refuse(events.CodeTooLarge, "count is %d: a batch has 1 to %d items", b.Count, events.MaxBatchCount)
	}
	if b.Seal {
		return seal(b)
	}
	if _, err := events.CheckText("name", b.Name, events.MaxNameLen); err != nil {
		return nil, err
	}
	own, err := OfSubmit(wire.Submit{
		Type: string(events.BatchType), ID: b.ID, Tenant: b.Tenant, Labels: b.Labels, Source: b.Source, Trigger: b.Trigger, Priority: b.Priority, Trace: b.Trace,
	}, newID(), events.MaxParamsCeiling)
	if err != nil {
		return nil, err
	}
	if own.ID.IsZero() {
		own.ID = own.NewID // so that the callback can name it
	}
	cmds := []core.Command{core.OpenBatch{Submit: own, Name: b.Name, Count: b.Count}}
	if b.Callback == nil {
		return cmds, nil
	}
	callback := *b.Callback
	callback.After = append([]string{own.ID.String()}, callback.After...)
	cmd, err := OfSubmit(callback, newID(), events.MaxParamsCeiling)
	if err != nil {
		return nil, events.Refuse(events.CodeOf(err), "the callback: %s", wire.FromError(err).Message)
	}
	if cmd.ID.IsZero() {
		cmd.ID = callbackID(own.ID)
	}
	return append(cmds, cmd), nil
}

// callbackID returns the id of a batch's callback, unless its submitter chose one.
// It is the same each time, so a repeated request makes no second callback.
func callbackID(batch events.ID) events.ID {
	id := batch
	id[6] ^= 0x80 // the first byte behind the time: far from the ids made next
	return id
}

func seal(b wire.Batch) ([]core.Command, error) {
	if b.Callback != nil {
		return nil, events.Refuse(events.CodeBadRequest, "a batch is given its callback when it is opened: submit an item with after, or leave callback out")
	}
	id, err := parseID(b.ID)
	if err != nil {
		return nil, err
	}
	return []core.Command{core.SealBatch{ID: id, Count: b.Count}}, nil
}
