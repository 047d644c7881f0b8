package core

import (
	"time"

	"github.com/streamwright/streamwright/events"
)

// NativeWord is what is known of a run by a native worker: see [events.ProtocolAck].
type NativeWord uint8

// The words.
const (
	NativeSeen    NativeWord = iota + 1 // the message was delivered, and is not answered yet
	NativeAck                           // +ACK
	NativeNak                           // -NAK
	NativeTerm                          // +TERM
	NativeExpired                       // neither answered nor renewed within the lease
)

// Native says how far a native worker has come with what was dispatched to it.
// One outcome may be told any number of times, by whatever has seen it: only
// the first counts, the others are answered by a Repeat, and so is what
// concerns another dispatch than the item's current one.
type Native struct {
	ID         events.ID
	Token      events.Token // of the message that it is about
	Dispatched events.Token // of the item's current dispatch; 0: it is not dispatched
	Word       NativeWord
	// Took is how long the worker had the message, where the server says so.
	Took   time.Duration
	Delay  time.Duration // with NativeNak: the worker's; 0: the type's backoff
	Reason string        // with NativeTerm; may be empty
	Random uint64        // for jitter
}

// decide decides what a word means. There was no claim to refuse, since the
// message alone let the worker run: so what holds a claim back (a pause, a
// circuit, a limit) holds back a dispatch, and here a run that was is recorded
// as it was.
func (c Native) decide(d *decider) (Decision, error) {
	it, err := d.state.Item(c.ID)
	if err != nil {
		return Decision{}, err
	}
	nothing := Decision{ID: c.ID, Repeat: true}
	if it == nil || c.Token == 0 {
		return nothing, nil
	}
	runs := it.Token == c.Token && it.State == events.StateRunning && it.Worker.Native()
	fresh := it.State == events.StateQueued && it.Token != c.Token && c.Token == c.Dispatched
	if !runs && !fresh || runs && c.Word == NativeSeen {
		return nothing, nil
	}
	run := *it
	var evs []events.Event
	if fresh {
		if evs, err = c.begin(d, &run); err != nil {
			return Decision{}, err
		}
	}
	end, err := c.end(d, &run)
	if err != nil {
		return Decision{}, err
	}
	return Decision{ID: it.ID, Events: append(evs, end...)}, nil
}

// begin begins the run that a word is about, if none has been recorded: run
// becomes the item during it.
func (c Native) begin(d *decider, run *events.Item) ([]events.Event, error) {
	run.Attempt++
	run.Worker, run.Token = events.NativeWorker(run.Type), c.Token
	claimed := &events.Claimed{Token: c.Token}
	run.StartedAt = d.now
	if c.Took > 0 {
		run.StartedAt = d.now.Add(-c.Took)
		claimed.DeliveredAt = run.StartedAt
	}
	t := d.info(run.Type)
	if n := t.Settings.Circuit.WithDefaults().Probes; t.Circuit.State == events.CircuitHalfOpen && t.Circuit.Probing < n {
		claimed.Probe, run.Probe = true, true
	}
	rates, err := d.mayRun(run)
	if err != nil && events.CodeOf(err) == events.CodeInternal {
		return nil, err
	}
	claimed.Rates = rates // none, if there is no room: it has run all the same
	evs := []events.Event{d.runEvent(run, claimed), d.running(run)}
	run.State = events.StateRunning
	return evs, nil
}

// end ends a run as its worker has said.
func (c Native) end(d *decider, run *events.Item) ([]events.Event, error) {
	fail := Fail{Random: c.Random}
	switch c.Word {
	case NativeSeen:
		return nil, nil
	case NativeAck:
		took := d.since(run.StartedAt)
		return d.succeeded(run, d.runEvent(run, &events.Completed{DurationMS: took})), nil
	case NativeNak:
		fail.Error, fail.Code, fail.Retryable = "the worker answered -NAK", events.FailError, true
		fail.RetryAfter = min(max(c.Delay, 0), events.MaxDelay)
	case NativeTerm:
		fail.Error, fail.Code = c.Reason, events.FailTerminated
		if fail.Error == "" {
			fail.Error = "the worker answered +TERM and gave no reason"
		}
	case NativeExpired:
		fail.Error, fail.Code, fail.Retryable = "the lease expired: the worker neither renewed it by +WPI nor answered", events.FailLeaseExpired, true
	default:
		return nil, events.Refuse(events.CodeBadRequest, "a native worker says nothing like %d", c.Word)
	}
	return d.failed(run, fail).Events, nil
}
