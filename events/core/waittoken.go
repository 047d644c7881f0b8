package core

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	"github.com/streamwright/streamwright/events"
)

// GiveToken records a token that a run has made for its item, before the run gives it to somebody.
// A token outlives the run: another attempt may make one of the same name, and either may be
// presented.
type GiveToken struct {
	Run
	Name string // of the signal that the token becomes
	Hash string // of the token; see [events.WaitToken]
	For  string // not empty: the token is a link, by which he answers the question of that name
}

func (c GiveToken) decide(d *decider) (Decision, error) {
	it, _, err := d.report(c.Run, "token", false, never)
	if err != nil {
		return Decision{}, err
	}
	if err := checkSignalName(c.Name); err != nil {
		return Decision{}, err
	}
	if _, err := events.CheckText("whom the link is for", c.For, events.MaxNameLen); err != nil {
		return Decision{}, err
	}
	if !events.IsWaitTokenHash(c.Hash) {
		return Decision{}, events.Refuse(events.CodeBadRequest, "the token's hash must be the SHA-256 of its text, in lower-case hex")
	}
	box, err := d.state.mailbox(it)
	if err != nil {
		return Decision{}, err
	}
	if t := box.Token(c.Hash); t != nil {
		if t.Name != c.Name || t.For != c.For {
			return Decision{}, events.Refuse(events.CodeBadRequest, "item %s has that token for the signal %q: make another for %q", it.ID, t.Name, c.Name)
		}
		return Decision{ID: it.ID, Repeat: true}, nil
	}
	if it.Signals != nil && it.Signals.Tokens >= events.MaxTokens {
		return Decision{}, events.Refuse(events.CodeMailboxFull, "item %s has %d tokens that nobody has presented: at most %d; keep one in a checkpoint, and use it again", it.ID, it.Signals.Tokens, events.MaxTokens)
	}
	return Decision{ID: it.ID, Events: []events.Event{d.runEvent(it, &events.TokenGiven{Name: c.Name, Hash: c.Hash, For: c.For})}}, nil
}

// PresentToken sends an item the signal that a token stands for, once: with a result or with an
// error. The same answer again is a repeat, also after the item's end.
type PresentToken struct {
	ID     events.ID // that the token names
	Hash   string
	Result json.RawMessage     // any JSON document; empty: none
	Error  *events.SignalError // in its place
	// Number is that of the question that a link is presented for, with an Answer as its result,
	// which has been held against the question's form.
	Number int
}

// ErrNoToken says nothing of what there is: the sender may be anybody.
var ErrNoToken = events.Refuse(events.CodeNotFound, "unknown token: check that it is whole; the item that it was for may have been deleted")

// ErrNotAskedNow refuses a link whose question is not open.
var ErrNotAskedNow = events.Refuse(events.CodeWrongState, "the question that the link is for is not asked now: not yet, or no longer")

func (c PresentToken) decide(d *decider) (Decision, error) {
	it, err := d.known(c.ID)
	if events.CodeOf(err) == events.CodeNotFound {
		return Decision{}, ErrNoToken
	} else if err != nil {
		return Decision{}, err
	}
	box, err := d.state.mailbox(it)
	if err != nil {
		return Decision{}, err
	}
	t := box.Token(c.Hash)
	if t == nil {
		return Decision{}, ErrNoToken
	}
	if err := c.check(); err != nil {
		return Decision{}, err
	}
	if t.For != "" {
		return c.answer(d, it, t)
	}
	switch {
	case t.Signal != 0 && t.Answer == events.DigestAnswer(c.Result, c.Error):
		return Decision{ID: it.ID, Repeat: true}, nil
	case t.Signal != 0:
		return Decision{}, events.Refuse(events.CodeAlreadyCompleted, "the token was presented at %s with another answer: that one counts", t.At.Format(time.RFC3339))
	case it.State.Terminal():
		return Decision{}, events.Refuse(events.CodeEnded, "what the token was for ended at %s without it", it.FinishedAt.Format(time.RFC3339))
	}
	dec, err := d.deliver(it, &box, &events.Signalled{Name: t.Name, Payload: c.Result, Error: c.Error, Token: c.Hash})
	if events.CodeOf(err) == events.CodeMailboxFull {
		err = events.Refuse(events.CodeMailboxFull, "what the token is for can't take an answer now: present it again later")
	}
	return dec, err
}

// answer answers the question that a link is for.
func (c PresentToken) answer(d *decider, it *events.Item, t *events.WaitToken) (Decision, error) {
	var given events.Answer
	if c.Error != nil || json.Unmarshal(c.Result, &given) != nil {
		return Decision{}, events.Refuse(events.CodeBadRequest, "the token is a link to a question: present it with a result that has a choice")
	}
	given.By = t.For
	w, number := it.Wait(), t.Question
	switch {
	case number != 0:
	case it.State.Terminal():
		return Decision{}, events.Refuse(events.CodeEnded, "what was asked ended at %s without this answer", it.FinishedAt.Format(time.RFC3339))
	case w.Asks() == 0 || w.Names[0] != t.Name:
		return Decision{}, ErrNotAskedNow
	case c.Number != w.Ask.Number:
		return Decision{}, events.Refuse(events.CodeWrongState, "another question is asked now: load it again")
	default:
		number = w.Ask.Number
	}
	dec, err := d.answer(it, number, given, &events.Signalled{Token: c.Hash}, func(ask *events.Asked) error {
		if ask.Who.NotSubmitter && it.SubmittedBy == t.For {
			return ask.Who.MayAnswer(events.Answerer{Name: t.For, Known: true}, it.SubmittedBy)
		}
		return nil // whoever gave the link has chosen him
	})
	dec.by(t.For)
	return dec, err
}

// check checks the answer, and gives it the form in which it is kept.
func (c *PresentToken) check() (err error) {
	if e := c.Error; e != nil {
		if len(c.Result) > 0 {
			return events.Refuse(events.CodeBadRequest, "the token is presented with a result and an error: give one of them")
		}
		code, err := events.CheckText("the error's code", e.Code, events.MaxNameLen)
		if err != nil {
			return err
		}
		c.Error = &events.SignalError{Code: code, Message: events.Shorten(e.Message, events.MaxErrorText)}
		return nil
	}
	if len(bytes.TrimSpace(c.Result)) == 0 {
		c.Result = nil
		return nil
	}
	c.Result, err = keptDocument("the result", c.Result, events.MaxSignalBytes)
	return err
}

func foldTokenGiven(a *applier, _ *entry, it *events.Item, b *events.TokenGiven) error {
	box, err := a.mailbox(it)
	if err != nil {
		return err
	}
	box.Tokens = append(slices.Clip(box.Tokens), events.WaitToken{Name: b.Name, Hash: b.Hash, For: b.For})
	ownSignals(it).Tokens++
	return a.setMailbox(it, &box)
}

// answerToken notes what a token has become.
func answerToken(box *events.Mailbox, b *events.Signalled, at time.Time) {
	box.Tokens = slices.Clone(box.Tokens)
	if t := box.Token(b.Token); t != nil {
		t.Signal, t.Answer, t.At = b.Number, events.DigestAnswer(b.Payload, b.Error), at
	}
	forgetTokens(box)
}

// forgetTokens forgets, of the tokens that have done their work, all but the last
// events.MaxTokens. REQUIRES: box.Tokens may be written.
func forgetTokens(box *events.Mailbox) {
	for forgetToken(box) {
	}
}

func forgetToken(box *events.Mailbox) bool {
	presented, oldest := 0, -1
	for i, t := range box.Tokens {
		if t.Open() {
			continue
		}
		presented++
		if oldest < 0 || t.Signal < box.Tokens[oldest].Signal {
			oldest = i
		}
	}
	if presented <= events.MaxTokens {
		return false
	}
	box.Tokens = slices.Delete(box.Tokens, oldest, oldest+1)
	return true
}
