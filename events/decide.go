package events

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Decide answers a command, given the state before it and the time. Its
// Decision's events have no Seq yet; they are to be applied, all or none, with
// the sequences that follow [Meta.Applied]. A refusal is an [*Error]; any other
// error is the base's and means that nothing could be decided. It changes
// nothing (but for what the State keeps in memory of the base).
//
// The same state, command and time give the same decision. A time before
// [Meta.LastAt] counts as that. What the command refers to (params, result)
// becomes part of the events: it must not be written afterwards.
func Decide(s *State, c Command, now time.Time) (Decision, error) {
	d := decider{s: s, now: now.UTC().Round(0)}
	if d.now.Before(s.meta.LastAt) {
		// Keys expire by the time of events. Were it to go back, one that the
		// projection has let go would be held again, or not, by what is cached.
		d.now = s.meta.LastAt
	}
	dec, err := d.decide(c)
	if err != nil {
		return Decision{}, err
	}
	if n := len(dec.Events); n > 1 {
		for i := range dec.Events {
			dec.Events[i].Tx = Tx{N: i + 1, Of: n}
		}
	}
	return dec, nil
}

type decider struct {
	s   *State
	now time.Time
	// parent spawns what is submitted, in its spawn number spawn; nil: none does.
	parent *Item
	spawn  int
	causes map[string]Cause // as the deaths of this decision leave them
}

func (d *decider) decide(c Command) (Decision, error) {
	switch c := c.(type) {
	case Submit:
		if !c.Batch.IsZero() {
			return d.submitMember(&c)
		}
		return d.submit(&c)
	case Reject:
		return d.reject(c), nil
	case Claim:
		return d.claim(c)
	case Start:
		return d.start(c)
	case Complete:
		return d.complete(c)
	case Fail:
		return d.fail(c)
	case Release:
		return d.release(c)
	case ExpireLease:
		return d.expireLease(c)
	case Due:
		return d.due(c)
	case Cancel:
		return d.cancel(c)
	case Reschedule:
		return d.reschedule(c)
	case Configure:
		return d.configure(c)
	case ForgetType:
		return d.forgetType(c)
	case RemoveType:
		return d.removeType(c)
	case Define:
		return d.define(c)
	case Own:
		return d.own(c), nil
	}
	return d.decideMore(c)
}

// decideMore is decide for what happens less often.
func (d *decider) decideMore(c Command) (Decision, error) {
	switch c := c.(type) {
	case Spawn:
		return d.spawned(c)
	case SpawnInParts, SpawnPart, OpenBatch, SealBatch, EndMember:
		return d.inParts(c)
	case Snooze:
		return d.snooze(c)
	case ReportProgress:
		return d.progress(c)
	case SaveCheckpoint:
		return d.checkpoint(c)
	case FollowUp:
		return d.followUp(c)
	case Replay:
		return d.replay(c)
	case Purge:
		return d.purge(c)
	case PurgeRejected:
		return d.purgeRejected(c)
	case PauseType:
		return d.pauseType(c)
	case ResumeType:
		return d.resumeType(c)
	case DueCircuit:
		return d.dueCircuit(c)
	case ResetCircuit:
		return d.resetCircuit(c)
	case SetSchedule:
		return d.setSchedule(c)
	case PauseSchedule:
		return d.pauseSchedule(c)
	case RemoveSchedule:
		return d.removeSchedule(c)
	case Fire:
		return d.fire(c)
	case Native:
		return d.native(c)
	}
	return d.decideRare(c)
}

// decideRare is decide for what comes to its end by itself, for drains, and for
// the log's own life.
func (d *decider) decideRare(c Command) (Decision, error) {
	switch c := c.(type) {
	case DuePause:
		return d.duePause(c)
	case DrainWorker:
		return d.drainWorker(c)
	case EndDrain:
		return d.endDrain(c)
	case Prune:
		return d.pruneDue(c)
	case BeginCut:
		return d.beginCut()
	case Carry:
		return d.carry(c)
	case CarryRejected:
		return d.carryRejected(c)
	case EndCut:
		return d.endCut(c)
	}
	return Decision{}, Refuse(CodeBadRequest, "the engine knows no command %T", c)
}

// event makes an event of an item.
func (d *decider) event(it *Item, b Body) Event {
	return Event{Kind: b.kind(), ID: it.ID, Type: it.Type, At: d.now, Body: b}
}

// runEvent makes an event of an item's current run.
func (d *decider) runEvent(it *Item, b Body) Event {
	e := d.event(it, b)
	e.Attempt, e.Worker = it.Attempt, it.Worker
	return e
}

func (d *decider) own(c Own) Decision {
	epoch := d.s.meta.Epoch
	if !c.Barrier {
		epoch++
	}
	accepted := d.accept(c.Clock)
	return Decision{Events: []Event{{Kind: KindOwned, At: d.now,
		Body: &Owned{Epoch: epoch, Owner: text(c.Owner, MaxNameLen), Version: text(c.Version, MaxNameLen), Barrier: c.Barrier, Clock: accepted}}}}
}

func (d *decider) configure(c Configure) (Decision, error) {
	if _, err := ParseType(string(c.Type)); err != nil {
		return Decision{}, Refuse(CodeBadType, "%v", err)
	}
	if c.Source != SourceDefault && c.Source != SourceFile && c.Source != SourceAPI {
		return Decision{}, Refuse(CodeBadRequest, "%q is no source of settings: use %s or %s", clip(c.Source, 64), SourceFile, SourceAPI)
	}
	c.Settings.Protocol = c.Settings.Protocol.plain()
	if err := c.Settings.Validate(); err != nil {
		return Decision{}, Refuse(CodeBadRequest, "settings of type %s: %s", c.Type, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	if err := d.checkPool(c.Type, c.Settings); err != nil {
		return Decision{}, err
	}
	t, known := d.s.Type(c.Type)
	if !known && c.Source != SourceFile {
		if err := d.checkAllowed(c.Type); err != nil {
			return Decision{}, err
		}
	}
	if !known && len(d.s.types) >= MaxTypes {
		return Decision{}, tooManyTypes(c.Type)
	}
	if known && equalSettings(t.Settings, c.Settings) {
		return Decision{Repeat: true}, nil
	}
	return Decision{Events: append([]Event{d.configured(c.Type, c.Source, c.Settings)}, d.switchedOff(t, c.Settings)...)}, nil
}

func (d *decider) configured(t Type, source string, set TypeSettings) Event {
	if len(set.PerPriority) == 0 {
		set.PerPriority = nil // not an empty map, which the log doesn't tell from none
	}
	if len(set.Codes) == 0 {
		set.Codes = nil
	}
	set.plainLimits()
	return Event{Kind: KindTypeConfigured, Type: t, At: d.now, Body: &TypeConfigured{Source: source, Settings: set}}
}

func (d *decider) define(c Define) (Decision, error) {
	if _, known := d.s.Type(c.Type); known {
		return Decision{Repeat: true}, nil
	}
	if err := d.checkAllowed(c.Type); err != nil {
		return Decision{}, err
	}
	return d.configure(Configure{Type: c.Type, Source: SourceDefault, Settings: d.s.defaults})
}

func tooManyTypes(t Type) error {
	return Refuse(CodeTooManyTypes, "type %s would be the %dth: an engine serves %d types; put variants of one kind of work into params or labels instead of the type", t, MaxTypes+1, MaxTypes)
}

func (d *decider) cancel(c Cancel) (Decision, error) {
	it, err := d.known(c.ID)
	if err != nil {
		return Decision{}, err
	}
	if it.State == StateCancelled {
		return Decision{ID: it.ID, Repeat: true}, nil
	}
	if _, ok := Next(it.State, KindCancelled); !ok {
		return Decision{}, Refuse(CodeWrongState, "item %s is %s: only one that is queued, waiting, claimed or running can be cancelled", it.ID, it.State)
	}
	reason, err := name("reason", c.Reason, MaxNameLen)
	if err != nil {
		return Decision{}, err
	}
	if reason == "" {
		reason = "cancelled"
	}
	ev := d.cancelled(it, reason, ID{})
	return Decision{ID: it.ID, WasRunning: ev.Body.(*Cancelled).WasRunning, Events: []Event{ev}}, nil
}

// cancelled is the end of an item that is not to be run, because of another if
// that is given.
func (d *decider) cancelled(it *Item, reason string, by ID) Event {
	running := it.State == StateClaimed || it.State == StateRunning
	body := &Cancelled{Reason: reason, WasRunning: running, By: by}
	if running {
		return d.runEvent(it, body)
	}
	return d.event(it, body)
}

func (d *decider) reschedule(c Reschedule) (Decision, error) {
	it, err := d.known(c.ID)
	if err != nil {
		return Decision{}, err
	}
	if it.State != StateQueued {
		return Decision{}, Refuse(CodeWrongState, "item %s is %s: only a queued item can be rescheduled", it.ID, it.State)
	}
	at, err := d.availableAt(c.AvailableAt, c.Delay)
	if err != nil {
		return Decision{}, err
	}
	if c.Now && !at.IsZero() {
		return Decision{}, Refuse(CodeBadTime, "give a time or a delay, or ask to run now, not both")
	}
	r := Rescheduled{Priority: it.Priority, OrderAt: it.OrderAt, AvailableAt: it.AvailableAt}
	if c.Priority != nil {
		if *c.Priority > MaxPriority {
			return Decision{}, badPriority(*c.Priority)
		}
		r.Priority = *c.Priority
	}
	switch {
	case c.Now || (!c.AvailableAt.IsZero() && at.IsZero()):
		r.AvailableAt = time.Time{}
		r.OrderAt = earlier(it.OrderAt, it.QueuedAt)
	case !at.IsZero():
		r.AvailableAt, r.OrderAt = at, at
	}
	if r == (Rescheduled{Priority: it.Priority, OrderAt: it.OrderAt, AvailableAt: it.AvailableAt}) {
		return Decision{ID: it.ID, Repeat: true}, nil
	}
	return Decision{ID: it.ID, Events: []Event{d.event(it, &r)}}, nil
}

// availableAt resolves a due time: the zero time for at once.
func (d *decider) availableAt(at time.Time, delay time.Duration) (time.Time, error) {
	if err := CheckDue(at, delay, d.now); err != nil {
		return time.Time{}, err
	}
	if delay > 0 {
		at = d.now.Add(delay)
	}
	if !at.After(d.dueTime()) {
		return time.Time{}, nil
	}
	return at.UTC().Round(0), nil
}

// known returns an item that must exist.
func (d *decider) known(id ID) (*Item, error) {
	it, err := d.s.Item(id)
	if err != nil {
		return nil, err
	}
	if it == nil {
		return nil, Refuse(CodeNotFound, "there is no item %s: check the id", id)
	}
	return it, nil
}

// name checks a short text field.
func name(field, v string, limit int) (string, error) {
	if len(v) > limit {
		return "", Refuse(CodeTooLarge, "%s has %d bytes: at most %d are allowed", field, len(v), limit)
	}
	if !utf8.ValidString(v) {
		return "", Refuse(CodeBadRequest, "%s is no valid UTF-8: encode it, for instance in base64", field)
	}
	return v, nil
}

// text cuts a long text to a bound, at a character.
func text(v string, limit int) string {
	v = strings.ToValidUTF8(v, "\uFFFD")
	if len(v) <= limit {
		return v
	}
	const mark = " … (cut)"
	return cutText(v, limit-len(mark)) + mark
}

// cutText is the longest part of v, from its beginning, that has at most limit
// bytes and ends with a whole character.
func cutText(v string, limit int) string {
	for limit > 0 && !utf8.RuneStart(v[limit]) {
		limit--
	}
	return v[:limit]
}

func badPriority(p Priority) error {
	return Refuse(CodeBadPriority, "priority %d is outside 0 to %d", p, MaxPriority)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// equalSettings compares by content; the priorities' overrides hold pointers.
func equalSettings(a, b TypeSettings) bool {
	return fmt.Sprintf("%+v", a.flat()) == fmt.Sprintf("%+v", b.flat())
}
