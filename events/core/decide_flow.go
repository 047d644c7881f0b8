package core

import (
	"bytes"
	"time"

	"github.com/streamwright/streamwright/events"
)

// ProgressEvery is how much time there is at least between two progressed
// events of a run; the one that reaches 100 percent does not wait.
const ProgressEvery = time.Second

// runsOn returns the item of a report about a run that goes on.
func (d *decider) runsOn(r Run, report string) (*events.Item, error) {
	it, err := d.current(r)
	switch {
	case err != nil:
		return nil, err
	case it.State == events.StateClaimed:
		return nil, notStarted(it, report)
	case it.State != events.StateRunning:
		return nil, wrongState(it, report)
	}
	return it, nil
}

// decide puts a running item off.
func (c Snooze) decide(d *decider) (Decision, error) {
	it, err := d.current(c.Run)
	if err != nil {
		return Decision{}, err
	}
	if snoozed(it) {
		return Decision{ID: it.ID, Repeat: true}, nil
	}
	if it, err = d.runsOn(c.Run, "snooze"); err != nil {
		return Decision{}, err
	}
	if c.Delay <= 0 || c.Delay > events.MaxDelay {
		return Decision{}, events.Refuse(events.CodeBadTime, "the delay of a snooze is %s: it must be positive and at most ten years", c.Delay)
	}
	reason, err := events.CheckText("reason", c.Reason, events.MaxNameLen)
	if err != nil {
		return Decision{}, err
	}
	ev := d.runEvent(it, &events.Snoozed{AvailableAt: d.now.Add(c.Delay), Reason: reason, DurationMS: d.since(it.StartedAt)})
	return Decision{ID: it.ID, Events: []events.Event{ev}}, nil
}

// decide records how far a run has come, not too often.
func (c ReportProgress) decide(d *decider) (Decision, error) {
	it, err := d.runsOn(c.Run, "progress")
	if err != nil {
		return Decision{}, err
	}
	if c.Percent < 0 || c.Percent > 100 {
		return Decision{}, events.Refuse(events.CodeBadRequest, "the progress is %d percent: it must be 0 to 100", c.Percent)
	}
	msg := events.Shorten(c.Message, events.MaxProgressText)
	was := it.Progress
	done := c.Percent == 100 && was.Percent != 100
	if !was.At.IsZero() && (!done && d.now.Sub(was.At).Abs() < ProgressEvery || was.Percent == c.Percent && was.Message == msg) {
		return Decision{ID: it.ID, Repeat: true}, nil
	}
	return Decision{ID: it.ID, Events: []events.Event{d.runEvent(it, &events.Progressed{Percent: c.Percent, Message: msg})}}, nil
}

// decide keeps what the next attempt is to begin from.
func (c SaveCheckpoint) decide(d *decider) (Decision, error) {
	it, err := d.runsOn(c.Run, "checkpoint")
	if err != nil {
		return Decision{}, err
	}
	data, err := events.CheckDocument("the checkpoint of item "+it.ID.String(), c.Checkpoint, events.MaxCheckpoint, "store it elsewhere and save a reference to it")
	if err != nil {
		return Decision{}, err
	}
	if it.HasCheckpoint {
		had, err := d.state.Document(events.DocCheckpoint, it.ID)
		if err != nil {
			return Decision{}, err
		}
		if bytes.Equal(had, data) {
			return Decision{ID: it.ID, Repeat: true}, nil
		}
	}
	return Decision{ID: it.ID, Events: []events.Event{d.runEvent(it, &events.Checkpointed{Checkpoint: data})}}, nil
}
