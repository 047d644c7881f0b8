package core

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/streamwright/streamwright/events"
)

// Park says that a run has ended in a wait for signals. The item goes on, with no attempt
// used, once they have come, or with what the wait says of its deadline.
type Park struct {
	Run
	Wait events.WaitTerms // without Until, if For is set
	For  time.Duration    // the time from the decision to the deadline; 0: Wait.Until is set
	Ask  *events.Question // nil: nothing; its form has been found to be a schema
}

// decide ends a run in a wait. Signals that have come already end it at once.
func (c Park) decide(d *decider) (Decision, error) {
	it, repeat, err := d.report(c.Run, "wait", false, hasParked)
	if repeat || err != nil {
		return Decision{ID: c.ID, Repeat: repeat}, err
	}
	if err := d.checkWait(it, &c); err != nil {
		return Decision{}, err
	}
	ask := 0
	if c.Ask != nil {
		if err := d.checkQuestion(it, &c); err != nil {
			return Decision{}, err
		}
		ask = c.Ask.Number
	}
	evs := []events.Event{d.runEvent(it, &events.Parked{WaitTerms: c.Wait, Ask: c.Ask, Duration: d.since(it.StartedAt)})}
	box, err := d.state.mailbox(it)
	if err != nil {
		return Decision{}, err
	}
	if w := it.Waited(); w != nil {
		use(&box, w.Taken)
	}
	if taken, whole := takes(&c.Wait, ask, box.Unread); whole {
		evs = append(evs, d.event(it, d.woken(it, events.WaitSignalled, taken)))
	}
	return Decision{ID: it.ID, Events: evs}, nil
}

// checkWait checks the terms of a wait, and fills in its deadline.
func (d *decider) checkWait(it *events.Item, c *Park) (err error) {
	w := &c.Wait
	if it.Worker.Ack() {
		return events.Refuse(events.CodeWrongState, "item %s is of an ack type, whose runs can't wait", it.ID)
	}
	if len(w.Names) > events.MaxWaitNames {
		return events.Refuse(events.CodeTooLarge, "the wait is for %d signals: at most %d; let them share a name, and tell them apart by what they carry", len(w.Names), events.MaxWaitNames)
	}
	for i, name := range w.Names {
		if err := checkSignalName(name); err != nil {
			return err
		}
		if slices.Contains(w.Names[:i], name) {
			return events.Refuse(events.CodeBadRequest, "the wait names the signal %q twice", name)
		}
	}
	if w.All && len(w.Names) == 0 {
		return events.Refuse(events.CodeBadRequest, "the wait is for all of no signals: name them")
	}
	switch {
	case c.For != 0 && !w.Until.IsZero():
		return events.Refuse(events.CodeBadTime, "the wait has a time and a duration: give one of them")
	case c.For < 0 || c.For > events.MaxDelay, c.For == 0 && w.Until.IsZero():
		return events.Refuse(events.CodeBadTime, "the wait has no deadline, or one that is out of range: give a time, or a duration of at most ten years")
	case c.For > 0:
		w.Until, w.Delayed = d.now.Add(c.For), true
	default:
		w.Until, w.Delayed = w.Until.UTC().Round(0), false
		if err := events.CheckDue(w.Until, 0, d.now); err != nil {
			return err
		}
	}
	return checkThen(it, w)
}

// checkThen checks what a wait says of its deadline.
func checkThen(it *events.Item, w *events.WaitTerms) (err error) {
	switch w.Then {
	case events.WaitContinue, events.WaitFail, events.WaitComplete:
	default:
		return events.Refuse(events.CodeBadRequest, "the wait must say what becomes of the item at its deadline: then is %q, and must be %s, %s or %s", events.Clip(string(w.Then), 64), events.WaitContinue, events.WaitFail, events.WaitComplete)
	}
	if w.Then != events.WaitFail && (w.Code != "" || w.Error != "") || w.Then != events.WaitComplete && len(w.Result) > 0 {
		return events.Refuse(events.CodeBadRequest, "the wait has a code, an error or a result that does not belong to then %q: a code and an error belong to %s, a result to %s", w.Then, events.WaitFail, events.WaitComplete)
	}
	if w.Code, err = events.CheckText("the wait's code", w.Code, events.MaxNameLen); err != nil {
		return err
	}
	w.Error = events.Shorten(w.Error, events.MaxErrorText)
	if len(bytes.TrimSpace(w.Result)) == 0 {
		w.Result = nil
		return nil
	}
	w.Result, err = keptDocument("the result of the wait of item "+it.ID.String(), w.Result, events.MaxWaitResult)
	return err
}

func checkSignalName(name string) error {
	if name == "" {
		return events.Refuse(events.CodeBadRequest, "the signal has no name")
	}
	_, err := events.CheckText("the signal's name", name, events.MaxNameLen)
	return err
}

// hasParked reports whether the item's last run ended in a wait.
func hasParked(it *events.Item) bool {
	switch it.State {
	case events.StateWaiting:
		return it.Wait() != nil
	case events.StateQueued, events.StateCompleted:
		return isWaitEnd(it.Reason)
	case events.StateDead:
		return it.Reason == events.DeadWaitTimedOut
	}
	return false
}

func isWaitEnd(reason string) bool {
	return reason == string(events.WaitSignalled) || reason == string(events.WaitTimedOut)
}

// takes returns the numbers of the signals that a wait takes: of each of its names, or of
// any, the first that came. whole reports whether they end it. If the wait asks something, ask is
// the number of that, and of the first of its names only an answer counts.
func takes(w *events.WaitTerms, ask int, unread []events.Signal) (taken []int, whole bool) {
	var names []string
	for i := range unread {
		s := &unread[i]
		if !slices.Contains(w.Names, s.Name) || slices.Contains(names, s.Name) || ask != 0 && s.Name == w.Names[0] && s.Answer != ask {
			continue
		}
		names, taken = append(names, s.Name), append(taken, s.Number)
		if !w.All || len(names) == len(w.Names) {
			return taken, true
		}
	}
	return taken, false
}

// woken queues an item whose wait has ended, in its old place.
func (d *decider) woken(it *events.Item, by events.WaitEnd, taken []int) *events.Queued {
	return &events.Queued{Reason: string(by), OrderAt: it.OrderAt, Signals: taken}
}

// waitOver decides what becomes of an item at the deadline of its wait.
func (d *decider) waitOver(it *events.Item, w *events.Wait) (Decision, error) {
	dec := Decision{ID: it.ID}
	switch w.Then {
	case events.WaitFail:
		text := cmp.Or(w.Error, "no signal "+nameList(w.Names, w.All)+" has come by "+w.Until.Format(time.RFC3339))
		dec.Events = d.dead(it, &events.Dead{Reason: events.DeadWaitTimedOut, Attempts: it.Attempt, Error: text, Code: cmp.Or(w.Code, events.DeadWaitTimedOut)})
	case events.WaitComplete:
		dec.Events = []events.Event{d.event(it, &events.Completed{Result: w.Result, TimedOut: true, Unread: it.Signals.Unread})}
	default:
		box, err := d.state.mailbox(it)
		if err != nil {
			return Decision{}, err
		}
		taken, _ := takes(&w.WaitTerms, w.Asks(), box.Unread)
		dec.Events = []events.Event{d.event(it, d.woken(it, events.WaitTimedOut, taken))}
	}
	return dec, nil
}

// nameList names the signals of a wait.
func nameList(names []string, all bool) string {
	word := " or "
	if all {
		word = " and "
	}
	text := ""
	for i, n := range names {
		if i > 0 {
			text += word
		}
		text += fmt.Sprintf("%q", n)
	}
	return text
}

// Signal sends an item a signal: it comes into the item's mailbox, whatever the item is
// doing, and ends its wait if that is for it.
type Signal struct {
	ID      events.ID
	Name    string
	Payload json.RawMessage // any JSON document; empty: none
	MsgID   string          // one with the id of another is that other; empty: none
}

func (c Signal) decide(d *decider) (Decision, error) {
	it, err := d.known(c.ID)
	if err != nil {
		return Decision{}, err
	}
	box, err := d.state.mailbox(it)
	if err != nil {
		return Decision{}, err
	}
	if c.MsgID != "" && box.Has(c.MsgID) {
		return Decision{ID: it.ID, Repeat: true}, nil
	}
	if err := c.check(); err != nil {
		return Decision{}, err
	}
	if err := takesSignals(it); err != nil {
		return Decision{}, err
	}
	return d.deliver(it, &box, &events.Signalled{Name: c.Name, Payload: c.Payload, MsgID: c.MsgID})
}

// deliver puts a signal into an item's mailbox, and ends the item's wait if it is for that.
func (d *decider) deliver(it *events.Item, box *events.Mailbox, b *events.Signalled) (Decision, error) {
	had := events.Signals{}
	if it.Signals != nil {
		had = *it.Signals
	}
	b.Number = had.Last + 1
	s, w := signalOf(b), it.Wait()
	if w.Asks() != 0 && b.Answer == 0 && b.Name == w.Names[0] {
		return Decision{}, events.Refuse(events.CodeWrongState, "item %s asks a question whose answer is the signal %q: answer that (`engine answer`, or POST /api/v1/approvals/{id})", it.ID, b.Name)
	}
	if full := had.Unread >= events.MaxUnread || had.Bytes+s.Size() > events.MaxMailboxBytes; full && b.Answer == 0 { // an answer has room: there is only one
		return Decision{}, events.Refuse(events.CodeMailboxFull, "item %s has %d signals that no run has used up, of %d bytes: at most %d and %d; the signal %q is refused, send it again once the item has gone on", it.ID, had.Unread, had.Bytes, events.MaxUnread, events.MaxMailboxBytes, b.Name)
	}
	dec := Decision{ID: it.ID, Events: []events.Event{d.event(it, b)}}
	if w != nil {
		if taken, whole := takes(&w.WaitTerms, w.Asks(), append(slices.Clip(box.Unread), s)); whole {
			dec.Events = append(dec.Events, d.event(it, d.woken(it, events.WaitSignalled, taken)))
		}
	}
	return dec, nil
}

// check checks a signal, and gives its payload the form in which it is kept.
func (c *Signal) check() (err error) {
	if err = checkSignalName(c.Name); err != nil {
		return err
	}
	if _, err = events.CheckText("the signal's message id", c.MsgID, events.MaxNameLen); err != nil {
		return err
	}
	if len(bytes.TrimSpace(c.Payload)) == 0 {
		c.Payload = nil
		return nil
	}
	c.Payload, err = keptDocument("the payload of the signal "+c.Name, c.Payload, events.MaxSignalBytes)
	return err
}

// keptDocument checks a document that is kept within others, and returns it as
// json.Marshal writes it there: that counts against the limit.
func keptDocument(what string, doc json.RawMessage, limit int) (json.RawMessage, error) {
	const advice = "store it elsewhere and give a reference to it"
	doc, err := events.CheckDocument(what, doc, limit, advice)
	if err != nil {
		return nil, err
	}
	kept, n := compactJSON(doc)
	if n > limit {
		return nil, events.Refuse(events.CodeTooLarge, "%s has %d bytes with <, > and & escaped: at most %d are allowed; %s", what, n, limit, advice)
	}
	return kept, nil
}

// takesSignals refuses a signal to an item that can't make use of it.
func takesSignals(it *events.Item) error {
	switch {
	case it.State == events.StateMerged:
		return events.Refuse(events.CodeWrongState, "item %s was merged into item %s: send the signal to that one", it.ID, it.MergedInto)
	case it.State.Terminal():
		return events.Refuse(events.CodeEnded, "item %s is %s since %s: no signal reaches it any more", it.ID, it.State, it.FinishedAt.Format(time.RFC3339))
	case relationsOf(it).Batch:
		return events.Refuse(events.CodeWrongState, "item %s is a batch, which does not run: send the signal to one of its items", it.ID)
	}
	return nil
}

func signalOf(b *events.Signalled) events.Signal {
	return events.Signal{Number: b.Number, Name: b.Name, Payload: b.Payload, Error: b.Error, MsgID: b.MsgID, Token: b.Token != "", Answer: b.Answer}
}

// mailbox returns an item's signals. The slices in it are the state's.
func (s *State) mailbox(it *events.Item) (box events.Mailbox, err error) {
	if s := it.Signals; s == nil || s.Last == 0 && s.Tokens == 0 && s.Asked == 0 {
		return box, nil
	}
	doc, err := s.Document(events.DocMailbox, it.ID)
	if err != nil || doc == nil {
		return box, err
	}
	if err := json.Unmarshal(doc, &box); err != nil {
		return box, fmt.Errorf("mailbox of %s: %w: %w", it.ID, events.ErrCorrupt, err)
	}
	return box, nil
}

// Given returns the signals that the item's current or next run is given: those that
// its last wait has taken, nil for none.
func (s *State) Given(it *events.Item) ([]events.Signal, error) {
	w := it.Waited()
	if w == nil || len(w.Taken) == 0 {
		return nil, nil
	}
	box, err := s.mailbox(it)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(box.Unread, func(s events.Signal) bool { return !slices.Contains(w.Taken, s.Number) }), nil
}

// unreadBy returns how many signals the item has that no run was given.
func unreadBy(it *events.Item) int {
	if it.Signals == nil {
		return 0
	}
	n := it.Signals.Unread
	if w := it.Waited(); w != nil {
		n -= len(w.Taken)
	}
	return n
}

// use moves signals to those that a run has used up.
func use(box *events.Mailbox, taken []int) {
	left := make([]events.Signal, 0, len(box.Unread))
	for _, s := range box.Unread {
		switch {
		case !slices.Contains(taken, s.Number):
			left = append(left, s)
		case s.MsgID != "":
			box.Used = append(box.Used, events.UsedSignal{Number: s.Number, MsgID: s.MsgID})
		}
	}
	box.Unread = left
	box.Used = box.Used[max(0, len(box.Used)-events.MaxUsedSignals):]
}

func foldParked(a *applier, _ *entry, it *events.Item, b *events.Parked) error {
	if err := a.useSignals(it); err != nil {
		return err
	}
	queued := it.QueuedAt
	handBack(it, a.ev)
	it.Reason, it.QueuedAt = "", queued
	s := ownSignals(it)
	s.Wait = &events.Wait{WaitTerms: b.WaitTerms, Since: a.ev.At}
	if b.Ask == nil {
		return nil
	}
	doc, err := json.Marshal(b.Ask)
	if err != nil {
		return a.corrupt("its question can't be kept: %v", err)
	}
	s.Asked, s.Wait.Ask = b.Ask.Number, asked(b.Ask, a.ev.At)
	a.setDocument(events.DocQuestion, it.ID, doc)
	return nil
}

func foldSignalled(a *applier, _ *entry, it *events.Item, b *events.Signalled) error {
	box, err := a.mailbox(it)
	if err != nil {
		return err
	}
	sig := signalOf(b)
	sig.By, sig.At = a.ev.By, a.ev.At
	box.Unread = append(slices.Clip(box.Unread), sig)
	s := ownSignals(it)
	switch {
	case b.Answer != 0:
		if err := foldAnswer(&box, s, b, a.ev.At); err != nil {
			return a.corrupt("its answer can't be read: %v", err)
		}
	case b.Token != "":
		answerToken(&box, b, a.ev.At)
		s.Tokens--
	}
	s.Last, s.Unread, s.Bytes = b.Number, s.Unread+1, s.Bytes+sig.Size()
	return a.setMailbox(it, &box)
}

// endWait notes that an item's wait has ended: by whom, and with which signals.
func endWait(it *events.Item, by events.WaitEnd, taken []int) {
	s := ownSignals(it)
	if s.Wait == nil {
		return
	}
	w := *s.Wait
	w.Ended, w.Taken = by, taken
	s.Wait = &w
}

// useSignals lets go of what the item's last wait has taken: a run that was given it has
// ended with an outcome.
func (a *applier) useSignals(it *events.Item) error {
	w := it.Waited()
	if w == nil {
		return nil
	}
	s := ownSignals(it)
	s.Wait = nil
	if len(w.Taken) == 0 {
		return nil
	}
	box, err := a.mailbox(it)
	if err != nil {
		return err
	}
	use(&box, w.Taken)
	s.Unread, s.Bytes = len(box.Unread), 0
	for i := range box.Unread {
		s.Bytes += box.Unread[i].Size()
	}
	return a.setMailbox(it, &box)
}

func (a *applier) setMailbox(it *events.Item, box *events.Mailbox) error {
	doc, err := json.Marshal(box)
	if err != nil {
		return a.corrupt("its signals can't be kept: %v", err)
	}
	a.setDocument(events.DocMailbox, it.ID, doc)
	return nil
}

// ownSignals gives the item, which is written, a copy of its signals' summary, since the
// copy that it had may be another's too.
func ownSignals(it *events.Item) *events.Signals {
	s := events.Signals{}
	if it.Signals != nil {
		s = *it.Signals
	}
	it.Signals = &s
	return &s
}
