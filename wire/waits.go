package wire

import (
	"encoding/json"
	"time"

	"github.com/streamwright/streamwright/events"
)

// WaitFor says what the run of a wait report ends in: the item waits for signals.
type WaitFor struct {
	Names []string `json:"names,omitempty"` // of the signals; none: it waits for the deadline alone
	All   bool     `json:"all,omitempty"`   // for a signal of each name; else for one, of any of them
	// Until is the deadline; For, in its place, how long it is away. One of them is needed.
	Until time.Time       `json:"until,omitzero"`
	For   events.Duration `json:"for_ms,omitzero"`
	// Then says what becomes of the item at the deadline: continue, fail or complete.
	Then   events.WaitThen `json:"then"`
	Code   string          `json:"code,omitempty"`   // of fail; empty: wait_timed_out
	Error  string          `json:"error,omitempty"`  // of fail
	Result json.RawMessage `json:"result,omitempty"` // of complete: at most 4 KiB
	// Ask is what it asks people, an [events.Question] without its number: the answer is a signal of the
	// first of Names. Absent: nothing.
	Ask json.RawMessage `json:"ask,omitempty"`
}

// WaitToken says, in a token report, that a run has made a token for its item: somebody outside who
// presents it sends the item the signal.
type WaitToken struct {
	Name string `json:"name"` // of the signal
	Hash string `json:"hash"` // SHA-256 of the token's text, in lower-case hex; the text is ID-SECRET: see PROTOCOL.md
	// For makes it a link: whoever presents it answers the question of that name, as him.
	For string `json:"for,omitempty"`
}

// PresentToken presents a token: the item gets the signal that it is for.
type PresentToken struct {
	Token  string              `json:"token"`
	Result json.RawMessage     `json:"result,omitempty"` // the signal's payload: any JSON document of at most 64 KiB
	Error  *events.SignalError `json:"error,omitempty"`  // in its place
}

// TokenPresented answers a PresentToken. It is the same for the same answer again.
type TokenPresented struct {
	ID string `json:"id"` // of the item
}

// EndedWait tells a run how the wait has ended that the item was in.
type EndedWait struct {
	Ended   events.WaitEnd  `json:"ended"`             // signalled or timed_out
	Signals json.RawMessage `json:"signals,omitempty"` // those that the wait has taken, in the order in which they came: an array of [events.Signal]
}

// Signal sends an item a signal.
type Signal struct {
	ID      string          `json:"id"`
	Name    string          `json:"name"`              // 1 to 256 bytes
	Payload json.RawMessage `json:"payload,omitempty"` // at most 64 KiB
	MsgID   string          `json:"msg_id,omitempty"`  // a signal with the id of one that has come is that one
}

// Signalled answers a Signal.
type Signalled struct {
	ID       string           `json:"id"`
	State    events.ItemState `json:"state"`
	Repeat   bool             `json:"repeat,omitempty"` // it had come before
	Position Position         `json:"position"`
}

// WaitShown is what an item waits for.
type WaitShown struct {
	Names []string        `json:"names,omitempty"`
	All   bool            `json:"all,omitempty"`
	Since time.Time       `json:"since"`
	Until time.Time       `json:"until"`
	Then  events.WaitThen `json:"then"`
	Ask   *AskShown       `json:"ask,omitempty"` // what it asks people; nil: nothing
}

// AskShown is what an item asks: an [Approval] has more of it.
type AskShown struct {
	Number  int              `json:"number"`
	Title   string           `json:"title"`
	Choices []events.Choice  `json:"choices"`
	Who     events.Answerers `json:"who,omitzero"`
}

func shownWait(w *events.Wait) *WaitShown {
	if w == nil {
		return nil
	}
	s := &WaitShown{Names: w.Names, All: w.All, Since: w.Since, Until: w.Until, Then: w.Then}
	if a := w.Ask; a != nil {
		s.Ask = &AskShown{Number: a.Number, Title: a.Title, Choices: a.Choices, Who: a.Who}
	}
	return s
}
