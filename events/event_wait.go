package events

import (
	"encoding/json"
	"slices"
	"time"
)

// The bounds of signals and waits.
const (
	MaxSignalBytes  = 64 << 10  // the payload of one
	MaxUnread       = 100       // signals in an item's mailbox that no run has used up
	MaxMailboxBytes = 256 << 10 // and their payloads and names together
	MaxWaitNames    = 16        // names that one wait is for
	MaxWaitResult   = 4 << 10   // the result that a wait gives its item at its deadline
	MaxTokens       = 100       // tokens of an item that nobody has presented, and as many that somebody has: the last ones
	// MaxUsedSignals bounds the signals of an item whose message ids are kept once a run
	// has used them up: the last ones.
	MaxUsedSignals = 256
)

// WaitTerms say what a wait is for, and what becomes of it at its deadline.
type WaitTerms struct {
	Names   []string  `json:"names,omitempty"` // of signals; none: only the deadline ends it
	All     bool      `json:"all,omitempty"`   // it takes a signal of each name; else one signal, of any of them
	Until   time.Time `json:"until"`
	Delayed bool      `json:"delayed,omitempty"` // Until is a delay from the event, not a moment that somebody named
	Then    WaitThen  `json:"then"`
	// Code and Error are those of the item if Then is WaitFail.
	Code  string `json:"code,omitempty"`
	Error string `json:"error,omitempty"`
	// Result is that of the item if Then is WaitComplete.
	Result json.RawMessage `json:"result,omitempty"`
}

// WaitThen says what becomes of an item whose wait has come to its deadline.
type WaitThen string

// The outcomes of a deadline.
const (
	WaitContinue WaitThen = "continue" // it runs, and is told so
	WaitFail     WaitThen = "fail"     // it is dead
	WaitComplete WaitThen = "complete" // it has completed
)

// Wait is what an item waits for, or how its last wait has ended: that is for the
// runs that follow, until one of them ends with an outcome.
type Wait struct {
	WaitTerms
	Since time.Time `json:"since,omitzero"`
	Ended WaitEnd   `json:"ended,omitempty"` // empty: it has not
	Taken []int     `json:"taken,omitempty"` // the signals that it has taken, in the order of their arrival
	Ask   *Asked    `json:"ask,omitempty"`   // the first of Names is the answer's; nil: it asks nothing. Never changed in place
}

// WaitEnd says what has ended a wait.
type WaitEnd string

// The ends of a wait. They are also the reasons of the queued event that ends it.
const (
	WaitSignalled WaitEnd = "signalled"
	WaitTimedOut  WaitEnd = "timed_out"
)

// Signals sums up an item's mailbox. Values are copied on write.
type Signals struct {
	Last   int   `json:"last,omitempty"`   // number of the last signal that came
	Unread int   `json:"unread,omitempty"` // how many no run has used up
	Bytes  int   `json:"bytes,omitempty"`  // of those, their names and payloads
	Tokens int   `json:"tokens,omitempty"` // how many nobody has presented
	Asked  int   `json:"asked,omitempty"`  // number of the last question
	Wait   *Wait `json:"wait,omitempty"`
}

// Wait returns the wait that the item is in, nil if it is in none.
func (it *Item) Wait() *Wait {
	if it.State != StateWaiting || it.Signals == nil || it.Signals.Wait == nil || it.Signals.Wait.Ended != "" {
		return nil
	}
	return it.Signals.Wait
}

// Asks returns the number of what the wait, which may be nil, asks; 0 for nothing.
func (w *Wait) Asks() int {
	if w == nil || w.Ask == nil {
		return 0
	}
	return w.Ask.Number
}

// timerAt returns when something is due for the wait: its deadline, or a reminder.
func (w *Wait) timerAt() time.Time {
	if a := w.Ask; a != nil && !a.RemindAt.IsZero() && a.RemindAt.Before(w.Until) {
		return a.RemindAt
	}
	return w.Until
}

// Waited returns how the item's last wait has ended, for the runs that are told of it; nil
// if there is nothing to tell.
func (it *Item) Waited() *Wait {
	if it.Signals == nil || it.Signals.Wait == nil || it.Signals.Wait.Ended == "" {
		return nil
	}
	return it.Signals.Wait
}

// Mailbox holds the signals of an item: [DocMailbox].
type Mailbox struct {
	Unread []Signal     `json:"unread,omitempty"` // in the order of their arrival
	Used   []UsedSignal `json:"used,omitempty"`   // those with a message id, the last MaxUsedSignals
	Tokens []WaitToken  `json:"tokens,omitempty"` // in the order in which they were given
	// Answered are the questions that were answered, the last MaxAnswered.
	Answered []Answered `json:"answered,omitempty"`
}

// Signal is one that has come.
type Signal struct {
	Number  int             `json:"number"` // from 1, in the item
	Name    string          `json:"name"`
	Payload json.RawMessage `json:"payload,omitempty"`
	Error   *SignalError    `json:"error,omitempty"` // in place of a payload, of one that came by a token
	MsgID   string          `json:"msg_id,omitempty"`
	Token   bool            `json:"token,omitempty"`  // somebody has presented a token
	Answer  int             `json:"answer,omitempty"` // the number of the question that it answers; its payload is an [Answer]
	By      string          `json:"by,omitempty"`     // who sent it; see [Event].By
	At      time.Time       `json:"at"`
}

// UsedSignal is a signal that a run has used up.
type UsedSignal struct {
	Number int    `json:"number"`
	MsgID  string `json:"msg_id"`
}

// Has reports whether a signal with a message id has come.
func (b *Mailbox) Has(msgID string) bool {
	return slices.ContainsFunc(b.Unread, func(s Signal) bool { return s.MsgID == msgID }) ||
		slices.ContainsFunc(b.Used, func(s UsedSignal) bool { return s.MsgID == msgID })
}

// Size is what a signal counts against MaxMailboxBytes.
func (s *Signal) Size() int {
	n := len(s.Name) + len(s.Payload) + len(s.MsgID)
	if s.Error != nil {
		doc, _ := json.Marshal(s.Error) // as it is kept: control characters take six bytes
		n += len(doc)
	}
	return n
}

// Token returns the token with a hash; nil if there is none.
func (b *Mailbox) Token(hash string) *WaitToken {
	if i := slices.IndexFunc(b.Tokens, func(t WaitToken) bool { return t.Hash == hash }); i >= 0 {
		return &b.Tokens[i]
	}
	return nil
}

// Parked is the payload of parked: the run has ended in a wait, with no attempt used. It
// uses up the signals that the run was given.
type Parked struct {
	WaitTerms
	Ask      *Question `json:"ask,omitempty"` // nil: nothing
	Duration Duration  `json:"duration_ms"`
}

// Signalled is the payload of signalled: a signal has come into the item's mailbox.
type Signalled struct {
	Number  int             `json:"number"`
	Name    string          `json:"name"`
	Payload json.RawMessage `json:"payload,omitempty"`
	Error   *SignalError    `json:"error,omitempty"`
	MsgID   string          `json:"msg_id,omitempty"`
	Token   string          `json:"token,omitempty"`  // the hash of the token that was presented
	Answer  int             `json:"answer,omitempty"` // the number of the question that it answers
}

func (*Parked) Kind() Kind    { return KindParked }
func (*Signalled) Kind() Kind { return KindSignalled }

func (b *Parked) check(*Event) error { return inRange(Writable(b.Until)) }
