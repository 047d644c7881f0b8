package core

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/streamwright/streamwright/events"
)

// checkQuestion checks what a wait asks, fills in what it leaves out, and numbers it. Whether its
// form is a schema, whoever decides the command has checked.
func (d *decider) checkQuestion(it *events.Item, c *Park) (err error) {
	q, w := c.Ask, &c.Wait
	if len(w.Names) == 0 || w.All {
		return events.Refuse(events.CodeBadRequest, "a wait that asks something must name the signal that the answer becomes, as the first of its names, and can't be for all of them")
	}
	as := *q // the command may be decided again
	c.Ask, q = &as, &as
	if q.Title, err = events.CheckText("the question's title", q.Title, events.MaxTitle); err != nil {
		return err
	}
	switch {
	case q.Title == "" || strings.ContainsFunc(q.Title, func(r rune) bool { return !unicode.IsPrint(r) }):
		return events.Refuse(events.CodeBadRequest, "the question must have a title of one line: what is asked")
	case len(q.Text) > events.MaxQuestionText:
		return events.Refuse(events.CodeTooLarge, "the question's text has %d bytes: at most %d", len(q.Text), events.MaxQuestionText)
	}
	if q.Text, err = events.CheckText("the question's text", q.Text, events.MaxQuestionText); err != nil {
		return err
	}
	if q.Form, err = optionalDocument("the question's form", q.Form, events.MaxForm); err != nil {
		return err
	}
	if q.Proposal, err = optionalDocument("the question's proposal", q.Proposal, events.MaxProposal); err != nil {
		return err
	}
	if err := checkChoices(q); err != nil {
		return err
	}
	if err := checkAnswerers(&q.Who); err != nil {
		return err
	}
	if q.Number = 1; it.Signals != nil {
		q.Number = it.Signals.Asked + 1
	}
	return d.checkRemind(it, q)
}

func optionalDocument(what string, doc json.RawMessage, limit int) (json.RawMessage, error) {
	if doc = bytes.TrimSpace(doc); len(doc) == 0 || string(doc) == "null" {
		return nil, nil
	}
	return keptDocument(what, doc, limit)
}

func checkChoices(q *events.Question) error {
	if len(q.Choices) == 0 {
		q.Choices = []events.Choice{events.ChoiceApprove, events.ChoiceReject}
	}
	for i, c := range q.Choices {
		if !slices.Contains(events.Choices[:], c) {
			return events.Refuse(events.CodeBadRequest, "%q is no choice: use some of %s", events.Clip(string(c), 64), choiceList(events.Choices[:]))
		}
		if slices.Contains(q.Choices[:i], c) {
			return events.Refuse(events.CodeBadRequest, "the question has the choice %s twice", c)
		}
	}
	if slices.Contains(q.Choices, events.ChoiceEdit) && q.Proposal == nil {
		return events.Refuse(events.CodeBadRequest, "the question has the choice %s and no proposal that could be changed: give one", events.ChoiceEdit)
	}
	return nil
}

func choiceList(list []events.Choice) string {
	words := make([]string, len(list))
	for i, c := range list {
		words[i] = string(c)
	}
	return strings.Join(words, ", ")
}

func checkAnswerers(who *events.Answerers) error {
	if n := len(who.Users) + len(who.Roles); n > events.MaxAnswerers {
		return events.Refuse(events.CodeTooLarge, "the question names %d users and roles: at most %d; use a role", n, events.MaxAnswerers)
	}
	if n := len(strings.Join(slices.Concat(who.Users, who.Roles), "")); n > events.MaxAnswererBytes {
		return events.Refuse(events.CodeTooLarge, "the names of those who may answer have %d bytes together: at most %d; use a role", n, events.MaxAnswererBytes)
	}
	as := events.Answerers{NotSubmitter: who.NotSubmitter} // as it comes back from its JSON
	as.Users, as.Roles = append(as.Users, who.Users...), append(as.Roles, who.Roles...)
	*who = as
	for _, name := range slices.Concat(who.Users, who.Roles) {
		if _, err := events.CheckText("a name of those who may answer", name, events.MaxNameLen); err != nil {
			return err
		}
		if name == "" {
			return events.Refuse(events.CodeBadRequest, "the question names somebody with an empty name")
		}
	}
	return nil
}

func (d *decider) checkRemind(it *events.Item, q *events.Question) (err error) {
	r := q.Remind
	if r == nil {
		return nil
	}
	as := *r
	q.Remind, r = &as, &as
	if r.Every.Duration < events.MinRemindEvery || r.Every.Duration > events.MaxDelay {
		return events.Refuse(events.CodeBadTime, "the question is to be reminded of every %s: give %s to ten years", r.Every, events.MinRemindEvery)
	}
	if r.Most < 0 || r.Most > events.MaxReminders {
		return events.Refuse(events.CodeBadRequest, "the question is to be reminded of %d times: at most %d", r.Most, events.MaxReminders)
	}
	if r.Type, err = events.ParseType(string(r.Type)); err != nil {
		return events.Refuse(events.CodeBadType, "the type of the question's reminders: %v", err)
	}
	if err := d.checkAllowed(r.Type); err != nil {
		return err
	}
	switch r.Type {
	case events.BatchType:
		return errBatchType
	case it.Type:
		return events.Refuse(events.CodeBadType, "the question's reminders are of the type %s, whose items ask: choose another type, whose worker reminds", r.Type)
	}
	r.Params, err = optionalDocument("the params of the question's reminders", r.Params, events.MaxReminderParam)
	return err
}

// asked is a question as its item has it from a moment on.
func asked(q *events.Question, at time.Time) *events.Asked {
	a := &events.Asked{Number: q.Number, Title: q.Title, Choices: q.Choices, Who: q.Who}
	if r := q.Remind; r != nil {
		a.RemindEvery, a.RemindMost = r.Every, cmp.Or(r.Most, events.MaxReminders)
		a.RemindAt = at.Add(r.Every.Duration)
	}
	return a
}

// Question returns the last question that an item has asked; nil for none.
func (s *State) Question(it *events.Item) (*events.Question, error) {
	if it.Signals == nil || it.Signals.Asked == 0 {
		return nil, nil
	}
	doc, err := s.Document(events.DocQuestion, it.ID)
	if err != nil || doc == nil {
		return nil, err
	}
	q := &events.Question{}
	if err := json.Unmarshal(doc, q); err != nil {
		return nil, fmt.Errorf("question of %s: %w: %w", it.ID, events.ErrCorrupt, err)
	}
	return q, nil
}

// Answer answers the question that an item asks, once. The same answer of the same person again
// is a repeat, while it is known that it was given: see [events.MaxAnswered].
type Answer struct {
	ID     events.ID
	Number int // of the question; 0: the one that is open
	Answer events.Answer
	Who    events.Answerer
}

func (c Answer) decide(d *decider) (Decision, error) {
	it, err := d.known(c.ID)
	if err != nil {
		return Decision{}, err
	}
	c.Answer.By = c.Who.Name
	return d.answer(it, c.Number, c.Answer, &events.Signalled{}, func(ask *events.Asked) error {
		return ask.Who.MayAnswer(c.Who, it.SubmittedBy)
	})
}

// answer decides an answer to a question of an item, 0 for the one that is open. as is to become
// the signal; may says whether whoever answers may do so.
func (d *decider) answer(it *events.Item, number int, given events.Answer, as *events.Signalled, may func(*events.Asked) error) (Decision, error) {
	box, err := d.state.mailbox(it)
	if err != nil {
		return Decision{}, err
	}
	if number == 0 && it.Signals != nil {
		number = it.Signals.Asked
	}
	q, err := d.state.Question(it)
	if err != nil {
		return Decision{}, err
	}
	if q != nil && q.Number != number {
		q = nil
	}
	w := it.Wait()
	if was := box.Answer(number); was != nil {
		bare := q == nil && given.Value == nil && given.Choice == events.ChoiceApprove && given.Choice == was.Choice && given.By == was.By // what was approved is not kept any more
		if bare || checkAnswer(q, &given) == nil && payloadDigest(&given) == was.Digest {
			return Decision{ID: it.ID, Repeat: true}, nil
		}
		return Decision{}, events.Refuse(events.CodeAlreadyCompleted, "%s has answered at %s: %s; that counts", cmp.Or(was.By, "somebody"), was.At.Format(time.RFC3339), was.Choice)
	}
	if q == nil || w.Asks() != number {
		return Decision{}, notAsked(it, number)
	}
	if err := may(w.Ask); err != nil {
		return Decision{}, err
	}
	if err := checkAnswer(q, &given); err != nil {
		return Decision{}, err
	}
	if as.Payload, err = json.Marshal(&given); err != nil {
		return Decision{}, events.Refuse(events.CodeBadRequest, "the answer can't be written as JSON: %v", err)
	}
	as.Name, as.Answer = w.Names[0], number
	return d.deliver(it, &box, as)
}

// notAsked refuses an answer to a question that is not open.
func notAsked(it *events.Item, number int) error {
	switch {
	case it.State.Terminal():
		return takesSignals(it)
	case number == 0:
		return events.Refuse(events.CodeWrongState, "item %s asks nothing: it is %s", it.ID, it.State)
	case it.Signals == nil || number > it.Signals.Asked:
		return events.Refuse(events.CodeWrongState, "item %s has not asked question %d", it.ID, number)
	}
	return events.Refuse(events.CodeWrongState, "question %d of item %s is no longer open: nobody answered it by its deadline, or something else ended the wait", number, it.ID)
}

// checkAnswer checks an answer, whose value has been held against the question's form, and gives
// it the form in which it is kept. q may be nil, of an answer that only repeats another.
func checkAnswer(q *events.Question, a *events.Answer) (err error) {
	if a.Value, err = optionalDocument("the answer's value", a.Value, events.MaxProposal); err != nil {
		return err
	}
	if a.Comment, err = events.CheckText("the answer's comment", a.Comment, events.MaxAnswerComment); err != nil {
		return err
	}
	if q == nil {
		return nil
	}
	if !slices.Contains(q.Choices, a.Choice) {
		return events.Refuse(events.CodeBadRequest, "%q is no choice of this question: choose %s", events.Clip(string(a.Choice), 64), choiceList(q.Choices))
	}
	switch {
	case a.Choice == events.ChoiceAnswer && strings.TrimSpace(a.Comment) == "":
		return events.Refuse(events.CodeBadRequest, "the answer is empty: say it in comment")
	case q.Fills(a.Choice) && a.Value == nil:
		return events.Refuse(events.CodeBadRequest, "the answer has no value: %s takes one%s", a.Choice, map[bool]string{true: ", that matches the form"}[q.Form != nil])
	case q.Fills(a.Choice):
		return nil
	case a.Choice == events.ChoiceApprove && q.Proposal != nil && (a.Value == nil || bytes.Equal(a.Value, q.Proposal)):
		a.Value = q.Proposal // so the handler reads what was approved in one place
	case a.Value != nil:
		return events.Refuse(events.CodeBadRequest, "the answer has a value, and %s takes none", a.Choice)
	}
	return nil
}

func payloadDigest(a *events.Answer) string {
	doc, err := json.Marshal(a)
	if err != nil {
		return ""
	}
	return events.DigestAnswer(doc, nil)
}

// remind decides about a reminder that is due. Whatever its submission meets, the next one comes
// in its time.
func (d *decider) remind(it *events.Item, w *events.Wait, newID events.ID) (Decision, error) {
	ask := w.Ask
	b := &events.Reminded{Number: ask.Number, Nth: ask.Reminded + 1}
	if b.Nth < ask.RemindMost {
		b.Next = ask.RemindAt.Add(ask.RemindEvery.Duration)
		if !b.Next.After(d.now) { // the engine was down for longer
			b.Next = d.now.Add(ask.RemindEvery.Duration)
		}
	}
	dec := Decision{}
	q, err := d.state.Question(it)
	if err != nil {
		return dec, err
	}
	if q != nil && q.Remind != nil {
		if dec, err = d.submit(reminder(it, w, q, b.Nth, newID)); err != nil {
			var refused *events.Error
			if !errors.As(err, &refused) || refused.Code == events.CodeInternal {
				return Decision{}, err
			}
			b.Code, b.Error = refused.Code, events.Shorten(refused.Message, events.MaxErrorText)
		}
		b.Item = dec.ID
	}
	return Decision{ID: it.ID, Events: append([]events.Event{d.event(it, b)}, dec.Events...)}, nil
}

func reminder(it *events.Item, w *events.Wait, q *events.Question, nth int, newID events.ID) *Submit {
	params, err := json.Marshal(events.Reminder{ID: it.ID.String(), Number: q.Number, Title: q.Title, Since: w.Since, Until: w.Until, Nth: nth, Params: q.Remind.Params})
	if err != nil {
		params = nil // never: it was read from JSON
	}
	prio := it.Priority
	return &Submit{
		Type: q.Remind.Type, Params: params, NewID: newID, Priority: &prio, Tenant: it.Tenant, Labels: maps.Clone(it.Labels), Trace: it.Trace,
		Provenance: events.Provenance{Source: events.SourceReminder, Trigger: it.ID.String()},
	}
}

func foldReminded(a *applier, _ *entry, it *events.Item, b *events.Reminded) error {
	if w := it.Wait(); w == nil || w.Ask == nil || w.Ask.Number != b.Number {
		return a.corrupt("it does not ask question %d", b.Number)
	}
	s := ownSignals(it)
	w, ask := *s.Wait, *s.Wait.Ask
	ask.Reminded, ask.RemindAt = b.Nth, b.Next
	w.Ask, s.Wait = &ask, &w
	return nil
}

// foldAnswer notes the answer that a signal is. The links to the question have done their work.
func foldAnswer(box *events.Mailbox, s *events.Signals, b *events.Signalled, at time.Time) error {
	var a events.Answer
	if err := json.Unmarshal(b.Payload, &a); err != nil {
		return err
	}
	digest := events.DigestAnswer(b.Payload, nil)
	box.Answered = append(slices.Clip(box.Answered), events.Answered{Number: b.Answer, Signal: b.Number, Choice: a.Choice, By: a.By, At: at, Digest: digest})
	box.Answered = box.Answered[max(0, len(box.Answered)-events.MaxAnswered):]
	useLinks(box, s, b.Name, events.WaitToken{Signal: b.Number, Question: b.Answer, At: at})
	return nil
}

// useLinks ends the links to a question that is over, as of says.
func useLinks(box *events.Mailbox, s *events.Signals, name string, of events.WaitToken) {
	box.Tokens = slices.Clone(box.Tokens)
	for i := range box.Tokens {
		if t := &box.Tokens[i]; t.For != "" && t.Name == name && t.Open() {
			t.Signal, t.Question, t.At = of.Signal, of.Question, of.At
			s.Tokens--
		}
	}
	forgetTokens(box)
}

// ended ends the links to the question of an item that ends while it waits.
func (a *applier) ended(it *events.Item) error {
	if it.Signals == nil || it.Signals.Wait == nil || it.Signals.Wait.Ended != "" {
		return nil
	}
	return a.unanswered(it)
}

// unanswered ends the links to the question of a wait that has ended without an answer.
func (a *applier) unanswered(it *events.Item) error {
	if it.Signals == nil || it.Signals.Tokens == 0 || it.Signals.Wait == nil || it.Signals.Wait.Ask == nil {
		return nil
	}
	w := it.Signals.Wait
	box, err := a.mailbox(it)
	if err != nil || box.Answer(w.Ask.Number) != nil {
		return err
	}
	useLinks(&box, ownSignals(it), w.Names[0], events.WaitToken{Question: w.Ask.Number, At: a.ev.At})
	return a.setMailbox(it, &box)
}
