package command

import (
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

// OfCancel makes the command of a Cancel.
func OfCancel(c wire.Cancel) (core.Cancel, error) {
	id, err := parseID(c.ID)
	if err != nil {
		return core.Cancel{}, err
	}
	if _, err := events.CheckText("reason", c.Reason, events.MaxNameLen); err != nil {
		return core.Cancel{}, err
	}
	return core.Cancel{ID: id, Reason: c.Reason}, nil
}

// OfReschedule makes the command of a Reschedule; now is the time against which
// AvailableAt is checked.
func OfReschedule(r wire.Reschedule, now time.Time) (core.Reschedule, error) {
	id, err := parseID(r.ID)
	if err != nil {
		return core.Reschedule{}, err
	}
	p, err := checkPriority(r.Priority)
	if err != nil {
		return core.Reschedule{}, err
	}
	delay := r.Delay.Duration
	if err := events.CheckDue(r.AvailableAt, delay, now); err != nil {
		return core.Reschedule{}, err
	}
	due := delay != 0 || !r.AvailableAt.IsZero()
	if r.Now && due {
		return core.Reschedule{}, events.Refuse(events.CodeBadTime, "now and a later time are both given: give one of them")
	}
	if !r.Now && !due && p == nil {
		return core.Reschedule{}, events.Refuse(events.CodeBadRequest, "nothing to change: give a priority, a time, a delay, or now")
	}
	return core.Reschedule{ID: id, Priority: p, AvailableAt: r.AvailableAt, Delay: delay, Now: r.Now}, nil
}

// OfReplay makes the command of a Replay, but for the params that a Patch makes: see
// [MergePatch].
func OfReplay(r wire.Replay) (core.Replay, error) {
	id, err := parseID(r.ID)
	if err != nil {
		return core.Replay{}, err
	}
	c := core.Replay{ID: id, Reason: r.Reason}
	if c.Priority, err = checkPriority(r.Priority); err != nil {
		return core.Replay{}, err
	}
	if r.MaxAttempts < 0 || r.MaxAttempts > events.MaxAttemptsCeiling {
		return core.Replay{}, events.Refuse(events.CodeBadRequest, "max_attempts is %d: it must be 1 to %d, or left out", r.MaxAttempts, events.MaxAttemptsCeiling)
	}
	c.MaxAttempts = events.Attempt(r.MaxAttempts)
	if len(r.Patch) > 0 && len(r.Params) > 0 {
		return core.Replay{}, events.Refuse(events.CodeBadRequest, "params and patch are both given: params replace the item's, a patch changes them; give one of them")
	}
	if len(r.Patch) > 0 && !isObject(r.Patch) { // it would put one document in place of every item's
		return core.Replay{}, events.Refuse(events.CodeBadRequest, "the patch is no JSON object: name the fields to change, or give params to replace the whole")
	}
	if len(r.Params) > 0 {
		if c.Params, err = events.CheckParams(r.Params, events.MaxParamsCeiling); err != nil {
			return core.Replay{}, err
		}
	}
	_, err = events.CheckText("reason", r.Reason, events.MaxNameLen)
	return c, err
}

// OfPurge makes the command of a Purge.
func OfPurge(p wire.Purge) (core.Purge, error) {
	id, err := parseID(p.ID)
	if err != nil {
		return core.Purge{}, err
	}
	_, err = events.CheckText("reason", p.Reason, events.MaxNameLen)
	return core.Purge{ID: id, Reason: p.Reason}, err
}

// OfBulk makes the command for one item of a Bulk; now is the time against which
// AvailableAt is checked.
func OfBulk(b *wire.Bulk, id string, now time.Time) (core.Command, error) {
	switch b.Action {
	case wire.BulkReplay:
		return OfReplay(wire.Replay{ID: id, Params: b.Params, Patch: b.Patch, Priority: b.Priority, MaxAttempts: b.MaxAttempts, Reason: b.Reason})
	case wire.BulkPurge:
		return OfPurge(wire.Purge{ID: id, Reason: b.Reason})
	case wire.BulkCancel:
		return OfCancel(wire.Cancel{ID: id, Reason: b.Reason})
	case wire.BulkReschedule:
		return OfReschedule(wire.Reschedule{ID: id, Priority: b.Priority, AvailableAt: b.AvailableAt, Delay: b.Delay, Now: b.Now}, now)
	}
	return nil, b.UnknownAction()
}

// OfSchedule makes the command of a Schedule. What it says is checked when it is decided.
func OfSchedule(s wire.Schedule, source string) (core.SetSchedule, error) {
	priority, err := checkPriority(s.Priority)
	if err != nil {
		return core.SetSchedule{}, err
	}
	out := events.Schedule{
		Name: s.Name, Type: events.Type(s.Type), Cron: s.Cron, Every: s.Every, Anchor: s.Anchor, Zone: s.Zone,
		Missed: events.MissedPolicy(s.Missed), Overlap: events.DedupPolicy(s.Overlap), Params: s.Params, Priority: priority,
		Tenant: s.Tenant, Labels: s.Labels, MaxAttempts: events.Attempt(s.MaxAttempts), Timeout: s.Timeout,
		Source: source, Paused: s.Paused,
	}
	return core.SetSchedule{Schedule: out}, nil
}

// OfFire makes the command of a ScheduleFire.
func OfFire(f wire.ScheduleFire, newID events.ID) (core.Fire, error) {
	c := core.Fire{Name: f.Name, NewID: newID}
	if f.ID == "" {
		return c, nil
	}
	var err error
	c.ID, err = parseID(f.ID)
	return c, err
}

// OfSignal makes the command of a Signal, whose bounds the core checks.
func OfSignal(s wire.Signal) (core.Signal, error) {
	id, err := parseID(s.ID)
	return core.Signal{ID: id, Name: s.Name, Payload: s.Payload, MsgID: s.MsgID}, err
}

// OfToken makes the command of a PresentToken. What can't be a token is refused as one that is
// not known.
func OfToken(p wire.PresentToken) (core.PresentToken, error) {
	id, ok := wire.WaitTokenItem(p.Token)
	if !ok {
		return core.PresentToken{}, core.ErrNoToken
	}
	return core.PresentToken{ID: id, Hash: wire.HashWaitToken(p.Token), Result: p.Result, Error: p.Error}, nil
}

// OfAnswer makes the command of an Answer by somebody. Whether its value matches the form of the
// question, the caller has to find out.
func OfAnswer(a wire.Answer, who events.Answerer) (core.Answer, error) {
	id, err := parseID(a.ID)
	if !who.Known {
		who.Name = a.By
	}
	if _, bad := events.CheckText("by", who.Name, events.MaxNameLen); err == nil {
		err = bad
	}
	return core.Answer{ID: id, Number: a.Number, Who: who, Answer: events.Answer{Choice: a.Choice, Value: a.Value, Comment: a.Comment}}, err
}
