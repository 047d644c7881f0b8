package core

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/policy"
)

// Run names one run of an item in a worker's report.
type Run struct {
	ID      events.ID
	Token   events.Token
	Worker  events.WorkerID
	Attempt events.Attempt // 0: not said
}

// Claim grants an item to a worker.
type Claim struct {
	ID     events.ID
	Token  events.Token // higher than every token that the item has run under
	Worker events.WorkerID
	Start  bool // and start at once
	// Slack is added to the time in which the start must be reported.
	Slack time.Duration
}

// decide grants a queued item that no limit holds back.
func (c Claim) decide(d *decider) (Decision, error) {
	it, err := d.known(c.ID)
	if err != nil {
		return Decision{}, err
	}
	if c.Token <= it.Token || it.State != events.StateQueued {
		return Decision{}, stale(it)
	}
	if it.AvailableAt.After(d.now) {
		return Decision{}, events.Refuse(events.CodeStaleToken, "item %s has been put off until %s", it.ID, it.AvailableAt.Format(time.RFC3339))
	}
	if d.expired(it) {
		return Decision{}, expiredRun(it)
	}
	if _, err := events.ParseWorkerID(string(c.Worker)); err != nil {
		return Decision{}, events.Refuse(events.CodeBadRequest, "%v", err)
	}
	claimed := &events.Claimed{Token: c.Token, StartBy: d.now.Add(d.state.limits.TimeToStart() + c.Slack)}
	if claimed.Probe, claimed.WorkerProbe, err = d.lets(it, c.Worker); err != nil {
		return Decision{}, err
	}
	if claimed.Rates, err = d.mayRun(it); err != nil {
		return Decision{}, err
	}
	run := *it
	run.Attempt, run.Worker = it.Attempt+1, c.Worker
	dec := Decision{ID: it.ID, Events: make([]events.Event, 0, 2)}
	dec.Events = append(dec.Events, d.runEvent(&run, claimed))
	if c.Start {
		dec.Events = append(dec.Events, d.running(&run))
	}
	return dec, nil
}

func (d *decider) running(it *events.Item) events.Event {
	return d.runEvent(it, &events.Running{Deadline: d.now.Add(it.Timeout)})
}

// current returns the item of a run, if the run is the item's last.
func (d *decider) current(r Run) (*events.Item, error) {
	it, err := d.known(r.ID)
	if err != nil {
		return nil, err
	}
	if r.Token == 0 || it.Token != r.Token {
		return nil, stale(it)
	}
	if it.Worker != r.Worker && it.Worker != "" {
		return nil, events.Refuse(events.CodeWrongWorker, "item %s was claimed by worker %s, not by %s", it.ID, it.Worker, r.Worker)
	}
	last := it.Attempt
	if uncounted(it) {
		last++ // its run was begun and not counted
	}
	if r.Attempt != 0 && r.Attempt != last {
		return nil, wrongAttempt(it, last, r.Attempt)
	}
	return it, nil
}

// uncounted reports whether the item's last run used no attempt: it was handed
// back (only then is there a reason why a queued item that has a token is in
// its state), or it ended in children or in a wait.
func uncounted(it *events.Item) bool {
	return it.State == events.StateQueued && it.Reason != "" || inChildren(it) || hasParked(it)
}

// inChildren reports whether the item's last run ended in children.
func inChildren(it *events.Item) bool {
	switch it.State {
	case events.StateQueued:
		return it.Reason == reasonContinuation
	case events.StateWaiting:
		return it.Relations != nil && it.Relations.Spawned
	case events.StateCompleted:
		return it.Reason == reasonChildren
	case events.StateDead:
		return it.Reason == events.DeadOfChild
	}
	return false
}

func isSnoozed(reason string) bool {
	return reason == reasonSnoozed || strings.HasPrefix(reason, reasonSnoozed+": ")
}

// isOwnReason reports whether the reason why an item is queued is one that the engine
// gives, and no worker that hands it back.
func isOwnReason(reason string) bool {
	return reason == reasonContinuation || isSnoozed(reason) || isWaitEnd(reason)
}

func wrongAttempt(it *events.Item, last, said events.Attempt) error {
	return events.Refuse(events.CodeWrongAttempt, "item %s is at attempt %d, not %d: send the attempt of the assigned item back unchanged", it.ID, last, said)
}

func stale(it *events.Item) error {
	return events.Refuse(events.CodeStaleToken, "the token is not the current one of item %s, which is %s: stop running it", it.ID, it.State)
}

// report returns the item that a worker's report is about. If the run has ended
// as reported already (repeated), repeat is true; otherwise the item is running,
// or claimed if early.
func (d *decider) report(r Run, what string, early bool, repeated func(*events.Item) bool) (it *events.Item, repeat bool, err error) {
	if it, err = d.current(r); err != nil {
		return nil, false, err
	}
	switch {
	case repeated(it):
		return it, true, nil
	case it.State == events.StateRunning, early && it.State == events.StateClaimed:
		return it, false, nil
	case it.State == events.StateClaimed:
		return nil, false, events.Refuse(events.CodeWrongState, "item %s is claimed and has not started: report start before %s", it.ID, what)
	}
	return nil, false, events.Refuse(events.CodeWrongState, "item %s is %s: %s can't be reported any more; stop running it", it.ID, it.State, what)
}

// never is the repeated of a report that may come any number of times.
func never(*events.Item) bool { return false }

// Start says that a claimed item's handler starts.
type Start struct{ Run }

func (c Start) decide(d *decider) (Decision, error) {
	it, repeat, err := d.report(c.Run, "start", true, func(it *events.Item) bool { return it.State == events.StateRunning })
	switch {
	case repeat || err != nil:
		return Decision{ID: c.ID, Repeat: repeat}, err
	case d.expired(it):
		return Decision{}, expiredRun(it)
	}
	return Decision{ID: it.ID, Events: []events.Event{d.running(it)}}, nil
}

// Complete says that a run has succeeded.
type Complete struct {
	Run
	Result json.RawMessage
	// Strict refuses the completion while the item has signals that no run was given.
	Strict bool
}

func (c Complete) decide(d *decider) (Decision, error) {
	it, repeat, err := d.report(c.Run, "complete", false, func(it *events.Item) bool { return it.State == events.StateCompleted && !uncounted(it) })
	if repeat || err != nil {
		return Decision{ID: c.ID, Repeat: repeat}, err
	}
	unread := unreadBy(it)
	if c.Strict && unread > 0 {
		return Decision{}, events.Refuse(events.CodeUnreadSignals, "item %s has %s that no run was given: wait for them before it completes", it.ID, events.Count(unread, "signal"))
	}
	var result json.RawMessage
	if len(bytes.TrimSpace(c.Result)) > 0 {
		if result, err = events.CheckDocument("the result of item "+it.ID.String(), c.Result, events.MaxResultBytes, "store it elsewhere and report a reference to it, or fail the item"); err != nil {
			return Decision{}, err
		}
	}
	ev := d.runEvent(it, &events.Completed{Duration: d.since(it.StartedAt), Result: result, Unread: unread})
	return Decision{ID: it.ID, Events: d.succeeded(it, ev)}, nil
}

// expired reports whether the item has not started in time.
func (d *decider) expired(it *events.Item) bool {
	at := it.ExpiryAt()
	return !at.IsZero() && !at.After(d.due)
}

func expiredRun(it *events.Item) error {
	return events.Refuse(events.CodeStaleToken, "item %s has expired at %s: don't run it", it.ID, it.ExpiresAt.Format(time.RFC3339))
}

func (d *decider) since(t time.Time) events.Duration {
	if t.IsZero() || d.now.Before(t) {
		return events.Duration{}
	}
	return events.DurationOf(d.now.Sub(t).Truncate(time.Millisecond))
}

// Fail says that a run has failed.
type Fail struct {
	Run
	Error      string
	Code       string // empty: FailError
	Retryable  bool
	RetryAfter time.Duration // 0: the type's backoff
	Random     uint64        // for jitter

	early bool // the worker was lost early in the run
}

func (c Fail) decide(d *decider) (Decision, error) {
	c.Code = cmp.Or(c.Code, events.FailError)
	it, repeat, err := d.report(c.Run, "fail", true, func(it *events.Item) bool {
		ended := it.State == events.StateQueued || it.State == events.StateDead
		return ended && !uncounted(it) && it.Code == c.Code // else its run ended otherwise: lease, timeout, release
	})
	switch {
	case repeat || err != nil:
		return Decision{ID: c.ID, Repeat: repeat}, err
	case len(c.Code) > events.MaxNameLen || !utf8.ValidString(c.Code):
		return Decision{}, events.Refuse(events.CodeBadRequest, "the failure code must be valid UTF-8 of at most %d bytes", events.MaxNameLen)
	case c.RetryAfter < 0 || c.RetryAfter > events.MaxDelay:
		return Decision{}, events.Refuse(events.CodeBadTime, "retry_after %s is outside 0 to ten years", c.RetryAfter)
	}
	return d.failed(it, c), nil
}

// Release hands a claimed or running item back, with no attempt used.
type Release struct {
	Run
	Reason string // empty: "released"
}

func (c Release) decide(d *decider) (Decision, error) {
	it, repeat, err := d.report(c.Run, "release", true, func(it *events.Item) bool {
		return it.State == events.StateQueued && it.Reason != "" && !isOwnReason(it.Reason)
	})
	if repeat || err != nil {
		return Decision{ID: c.ID, Repeat: repeat}, err
	}
	reason, err := reasonOr(c.Reason, "released")
	if err != nil {
		return Decision{}, err
	}
	if isOwnReason(reason) {
		reason = "released" // the others are the engine's own
	}
	return Decision{ID: it.ID, Events: []events.Event{d.runEvent(it, &events.Released{Reason: reason})}}, nil
}

// ExpireLease says that the lease of the dispatch Token has run out. Heard is when its
// worker last reported the run or named it in a heartbeat, zero if that is not known;
// the next heartbeat was due a Heartbeat later.
type ExpireLease struct {
	ID        events.ID
	Token     events.Token
	Heard     time.Time
	Heartbeat time.Duration
	Random    uint64
}

// decide ends the run that a dispatch led to, if it is still the item's.
func (c ExpireLease) decide(d *decider) (Decision, error) {
	it, err := d.state.Item(c.ID)
	if err != nil {
		return Decision{}, err
	}
	if it == nil || it.Token != c.Token || !running(it.State) {
		return Decision{ID: c.ID, Repeat: true}, nil
	}
	return d.failed(it, Fail{
		Error: "the lease expired: worker " + string(it.Worker) + " neither renewed it nor reported", Code: events.FailLeaseExpired, Retryable: true, Random: c.Random,
		early: c.early(it),
	}), nil
}

// early reports whether the worker was lost before it started the item, or in the first
// tenth of its timeout. The worker may have run the item until its next heartbeat was due.
// A last word before the start leaves the duration open: the clock was set back since.
func (c ExpireLease) early(it *events.Item) bool {
	switch {
	case it.Worker.Ack(): // its start is not reported
		return false
	case it.State == events.StateClaimed:
		return true
	}
	return !c.Heard.IsZero() && !c.Heard.Before(it.StartedAt) && c.Heard.Add(c.Heartbeat).Sub(it.StartedAt) <= it.Timeout/10
}

// Due says that the item's timer ([events.Item.TimerAt]) may have passed.
type Due struct {
	ID     events.ID
	Random uint64
	NewID  events.ID // fresh: of a reminder
}

// decide decides what a passed timer means.
func (c Due) decide(d *decider) (Decision, error) {
	it, err := d.state.Item(c.ID)
	if err != nil {
		return Decision{}, err
	}
	nothing := Decision{ID: c.ID, Repeat: true}
	if it != nil && d.expired(it) {
		return Decision{ID: it.ID, Events: []events.Event{d.cancelled(it, "expired", events.ID{})}}, nil
	}
	if it == nil || it.TimerAt().IsZero() || it.TimerAt().After(d.due) {
		return nothing, nil
	}
	switch it.State {
	case events.StateClaimed:
		return Decision{ID: it.ID, Events: []events.Event{d.runEvent(it, &events.Released{Reason: "not_started"})}}, nil
	case events.StateRunning:
		return d.failed(it, Fail{Error: "the attempt took longer than its timeout of " + it.Timeout.String(), Code: events.FailTimeout, Retryable: true, Random: c.Random}), nil
	case events.StateWaiting:
		if w := it.Wait(); w.Until.After(d.due) {
			return d.remind(it, w, c.NewID)
		}
		return d.waitOver(it, it.Wait())
	}
	return nothing, nil
}

// failed records a failure and its consequences: a retry or the end of the item, and
// the changes of circuits.
func (d *decider) failed(it *events.Item, c Fail) Decision {
	set, _ := d.state.Settings(it.Type)
	forCode := policy.ForCode(set, c.Code)
	limit, _ := policy.AttemptLimit(set, it, c.Code)
	f := &events.Failed{
		Error: events.Shorten(c.Error, events.MaxErrorText), Code: c.Code, Retryable: c.Retryable && !forCode.NoRetry, Duration: d.since(it.StartedAt),
	}
	poisoned := f.Code == events.FailLeaseExpired && it.LeasesLost+1 >= policy.PoisonAfter(set)
	if f.Spared = c.early && f.Retryable && !poisoned && spares(it, limit); f.Spared {
		limit++
	}
	f.MaxAttempts = max(limit, it.Attempt)
	evs := make([]events.Event, 0, 2)
	evs = append(evs, d.runEvent(it, f))
	die := func(reason string) []events.Event {
		return append(evs, d.dead(it, &events.Dead{Reason: reason, Attempts: it.Attempt, Error: f.Error, Code: f.Code})...)
	}
	switch {
	case poisoned:
		evs = die(events.DeadPoisoned)
	case !f.Retryable:
		evs = die(events.DeadNotRetryable)
	case it.Attempt >= limit:
		evs = die(events.DeadExhausted)
	default:
		evs = append(evs, d.event(it, d.retry(it, c, set, forCode)))
	}
	return Decision{ID: it.ID, Events: append(evs, d.circuitsAfter(it, f)...)}
}

// spares reports whether a run that is lost early raises the item's limit. Each lost lease
// brings the item nearer to where none is spared, so that it runs less than twice as often
// as it may, whatever poison_after is; and an item that may run once runs once.
func spares(it *events.Item, limit events.Attempt) bool {
	return events.Attempt(it.LeasesLost)+1 < limit-it.AttemptsBefore-it.Spared
}

// retry queues an item for its next attempt. The first retry after a lost lease
// is at once: the item is not known to be at fault.
func (d *decider) retry(it *events.Item, c Fail, set events.TypeSettings, forCode events.CodePolicy) *events.Queued {
	q := &events.Queued{Reason: "retry", OrderAt: it.OrderAt}
	if t := policy.NextTimeout(set, it, c.Code); t != it.Timeout {
		q.Timeout = events.DurationOf(t.Truncate(time.Millisecond))
	}
	wait := c.RetryAfter
	if wait == 0 && (c.Code != events.FailLeaseExpired || it.Attempt > 1) {
		_, _, backoff := set.For(it.Priority)
		var jitter time.Duration
		wait, jitter = policy.RetryDelay(forCode, backoff, it.Attempt, c.Random)
		q.Jitter = events.DurationOf(jitter.Truncate(time.Millisecond))
	}
	if wait > 0 {
		q.AvailableAt = d.now.Add(wait)
	}
	return q
}

// ProgressEvery is the least time between two progressed events of a run; the one
// that reaches 100 percent does not wait.
const ProgressEvery = time.Second

// Snooze puts a running item off, with no attempt used.
type Snooze struct {
	Run
	Delay  time.Duration
	Reason string
}

// decide puts a running item off.
func (c Snooze) decide(d *decider) (Decision, error) {
	it, repeat, err := d.report(c.Run, "snooze", false, func(it *events.Item) bool { return it.State == events.StateQueued && isSnoozed(it.Reason) })
	if repeat || err != nil {
		return Decision{ID: c.ID, Repeat: repeat}, err
	}
	if c.Delay <= 0 || c.Delay > events.MaxDelay {
		return Decision{}, events.Refuse(events.CodeBadTime, "the delay of a snooze is %s: it must be positive and at most ten years", c.Delay)
	}
	reason, err := events.CheckText("reason", c.Reason, events.MaxNameLen)
	if err != nil {
		return Decision{}, err
	}
	ev := d.runEvent(it, &events.Snoozed{AvailableAt: d.now.Add(c.Delay), Reason: reason, Duration: d.since(it.StartedAt)})
	return Decision{ID: it.ID, Events: []events.Event{ev}}, nil
}

// ReportProgress says how far a run has come.
type ReportProgress struct {
	Run
	Percent int
	Message string
}

// decide records how far a run has come, not too often.
func (c ReportProgress) decide(d *decider) (Decision, error) {
	it, _, err := d.report(c.Run, "progress", false, never)
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

// SaveCheckpoint keeps what the item's next attempt is to begin from.
type SaveCheckpoint struct {
	Run
	Checkpoint json.RawMessage
}

// decide keeps what the next attempt is to begin from.
func (c SaveCheckpoint) decide(d *decider) (Decision, error) {
	it, _, err := d.report(c.Run, "checkpoint", false, never)
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

// AckSignal is what is heard of a message of an ack type: see [events.ProtocolAck].
type AckSignal uint8

// The ack signals.
const (
	AckSeen    AckSignal = iota + 1 // the message was delivered, and is not answered yet
	AckDone                         // +ACK
	AckNak                          // -NAK
	AckTerm                         // +TERM
	AckExpired                      // neither answered nor renewed within the lease
)

// AckRun reports how far a worker of an ack type has come with what was dispatched to it.
// An outcome may be reported any number of times: the first report counts, and the
// others are answered by a Repeat, as are reports about a dispatch that is not the
// item's current one.
type AckRun struct {
	ID         events.ID
	Token      events.Token // of the message that it is about
	Dispatched events.Token // of the item's current dispatch; 0: it is not dispatched
	Word       AckSignal
	// Took is the time for which the worker had the message, where the server says so.
	Took   time.Duration
	Delay  time.Duration // with AckNak: the worker's; 0: the type's backoff
	Reason string        // with AckTerm; may be empty
	Random uint64        // for jitter
}

// decide decides what a word means. There was no claim to refuse, since the
// message alone let the worker run: so what holds a claim back (a pause, a
// circuit, a limit) holds back a dispatch, and here a run that was is recorded
// as it was.
func (c AckRun) decide(d *decider) (Decision, error) {
	it, err := d.state.Item(c.ID)
	if err != nil {
		return Decision{}, err
	}
	nothing := Decision{ID: c.ID, Repeat: true}
	if it == nil || c.Token == 0 {
		return nothing, nil
	}
	runs := it.Token == c.Token && it.State == events.StateRunning && it.Worker.Ack()
	fresh := it.State == events.StateQueued && it.Token != c.Token && c.Token == c.Dispatched
	if !runs && !fresh || runs && c.Word == AckSeen {
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
func (c AckRun) begin(d *decider, run *events.Item) ([]events.Event, error) {
	run.Attempt++
	run.Worker, run.Token = events.AckWorker(run.Type), c.Token
	claimed := &events.Claimed{Token: c.Token}
	run.StartedAt = d.now
	if c.Took > 0 {
		run.StartedAt = d.now.Add(-c.Took)
		claimed.DeliveredAt = run.StartedAt
	}
	t, _ := d.state.info(run.Type)
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
func (c AckRun) end(d *decider, run *events.Item) ([]events.Event, error) {
	fail := Fail{Random: c.Random}
	switch c.Word {
	case AckSeen:
		return nil, nil
	case AckDone:
		took := d.since(run.StartedAt)
		return d.succeeded(run, d.runEvent(run, &events.Completed{Duration: took, Unread: unreadBy(run)})), nil
	case AckNak:
		fail.Error, fail.Code, fail.Retryable = "the worker answered -NAK", events.FailError, true
		fail.RetryAfter = min(max(c.Delay, 0), events.MaxDelay)
	case AckTerm:
		fail.Error, fail.Code = c.Reason, events.FailTerminated
		if fail.Error == "" {
			fail.Error = "the worker answered +TERM and gave no reason"
		}
	case AckExpired:
		fail.Error, fail.Code, fail.Retryable = "the lease expired: the worker neither renewed it by +WPI nor answered", events.FailLeaseExpired, true
	default:
		return nil, events.Refuse(events.CodeBadRequest, "there is no ack signal %d", c.Word)
	}
	return d.failed(run, fail).Events, nil
}
