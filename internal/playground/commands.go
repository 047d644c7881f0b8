package playground

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// Reply is what came of a command.
type Reply struct {
	Events  []string `json:"events"`            // as they are in the log, an event a string
	Refused string   `json:"refused,omitempty"` // the code, and why
	View    View     `json:"view"`
}

// View is a session as a reader looks at it.
type View struct {
	Now    time.Time         `json:"now"`
	Passed string            `json:"passed"` // since the session began
	Slots  int               `json:"slots"`
	Items  []Item            `json:"items"` // in order of submission
	Held   map[string]string `json:"held"`  // types that are paused, or whose circuit is not closed
	Digest string            `json:"digest"`
}

// Item is an item in a View.
type Item struct {
	Number      int    `json:"number"` // from 1
	Type        string `json:"type"`
	Priority    int    `json:"priority"`
	State       string `json:"state"`
	Attempt     int    `json:"attempt"`
	MaxAttempts int    `json:"max_attempts"`
	Due         string `json:"due,omitempty"` // time until its timer, such as 10s
	Note        string `json:"note,omitempty"`
}

// verbs are the commands by name. Each takes the words and the JSON behind it.
var verbs = map[string]func(*Session, string, []byte) error{
	"type": (*Session).setType, "submit": (*Session).submit, "complete": (*Session).complete, "fail": (*Session).fail,
	"lose": (*Session).lose, "cancel": (*Session).cancel, "advance": (*Session).advance, "slots": (*Session).setSlots,
	"pause": (*Session).pause, "resume": (*Session).resume, "reset": (*Session).reset,
}

// Do executes a command: a verb, mostly a word, mostly a JSON object of options.
//
//	type TYPE {SETTINGS}        change settings of a type: those of type_configured events
//	submit TYPE {OPTIONS}       priority, dedup_key, tenant, delay_ms ...
//	complete [N]                the run of item N, or the one that began first
//	fail [N] {OPTIONS}          code, error, retryable, retry_after_ms
//	lose [N]                    its worker falls silent: the lease expires
//	cancel N
//	advance DURATION | next     let time pass
//	slots N
//	pause | resume | reset TYPE reset closes the type's circuit
//
// What is refused changes nothing, except that time has passed.
func (s *Session) Do(line string) Reply {
	from := len(s.log)
	err := s.do(strings.TrimSpace(line))
	var r Reply
	for _, e := range s.log[from:] {
		r.Events = append(r.Events, string(e.line))
	}
	var viewErr error
	if r.View, viewErr = s.view(); err == nil {
		err = viewErr
	}
	if err != nil {
		r.Refused = err.Error()
	}
	return r
}

func (s *Session) do(line string) error {
	verb, rest, _ := strings.Cut(line, " ")
	word, options := strings.TrimSpace(rest), ""
	if at := strings.IndexByte(word, '{'); at >= 0 {
		word, options = strings.TrimSpace(word[:at]), word[at:]
	}
	do := verbs[verb]
	if do == nil {
		return events.Refuse(events.CodeBadRequest, "there is no command %q: type, submit, complete, fail, lose, cancel, advance, slots, pause, resume, reset", events.Clip(verb, 40))
	}
	if err := do(s, word, []byte(options)); err != nil {
		return err
	}
	return s.settle()
}

// read reads a command's options, if it has any.
func read(options []byte, into any) error {
	if len(options) == 0 {
		return nil
	}
	dec := json.NewDecoder(strings.NewReader(string(options)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return events.Refuse(events.CodeBadRequest, "the options are not as they should be: %v", err)
	}
	return nil
}

func (s *Session) setType(word string, options []byte) error {
	was, _ := s.state.Settings(events.Type(word))
	data, err := json.Marshal(was)
	if err != nil {
		return err
	}
	var set events.TypeSettings // of its own, since reading into the state's would write to it
	if err := json.Unmarshal(data, &set); err != nil {
		return err
	}
	if err := read(options, &set); err != nil {
		return err
	}
	var given map[string]json.RawMessage
	if err := read(options, &given); err != nil {
		return err
	}
	// As in a configuration: what somebody sets goes before the policy of a code.
	set.TimeoutSet = set.TimeoutSet || given["timeout_ms"] != nil
	set.MaxAttemptsSet = set.MaxAttemptsSet || given["max_attempts"] != nil
	return s.decide(core.Configure{Type: events.Type(word), Source: events.SourceAPI, Settings: set})
}

func (s *Session) submit(word string, options []byte) error {
	var o struct {
		Params         json.RawMessage    `json:"params"`
		Priority       *events.Priority   `json:"priority"`
		DedupKey       string             `json:"dedup_key"`
		DedupPolicy    events.DedupPolicy `json:"dedup_policy"`
		IdempotencyKey string             `json:"idempotency_key"`
		Delay          events.Duration    `json:"delay_ms"`
		ExpiresAt      time.Time          `json:"expires_at"`
		MaxAttempts    events.Attempt     `json:"max_attempts"`
		Timeout        events.Duration    `json:"timeout_ms"`
		Tenant         string             `json:"tenant"`
		Labels         map[string]string  `json:"labels"`
	}
	if err := read(options, &o); err != nil {
		return err
	}
	if len(s.items) >= MaxItems {
		return events.Refuse(events.CodeTooLarge, "there are %d items, which is all that there is room for here: start again", MaxItems)
	}
	return s.decide(core.Submit{
		Type: events.Type(word), NewID: s.newID(), Params: o.Params, Priority: o.Priority, DedupKey: o.DedupKey, DedupPolicy: o.DedupPolicy,
		IdempotencyKey: o.IdempotencyKey, Delay: o.Delay.Duration, ExpiresAt: o.ExpiresAt, MaxAttempts: o.MaxAttempts, Timeout: o.Timeout.Duration,
		Tenant: o.Tenant, Labels: o.Labels,
	})
}

// item returns the item of a number.
func (s *Session) item(word string) (*events.Item, error) {
	n, err := strconv.Atoi(strings.TrimPrefix(word, "#"))
	if err != nil || n < 1 || n > len(s.items) {
		return nil, events.Refuse(events.CodeNotFound, "there is no item %q: give its number, from 1 to %d", events.Clip(word, 40), len(s.items))
	}
	return s.state.Item(s.items[n-1])
}

// run returns the item of a number, or without one the item whose run began first.
func (s *Session) run(word string) (*events.Item, core.Run, error) {
	var it *events.Item
	var err error
	if word != "" {
		it, err = s.item(word)
	} else {
		var runs []*events.Item
		if runs, err = s.runs(); err == nil && len(runs) == 0 {
			err = events.Refuse(events.CodeWrongState, "nothing runs")
		}
		if err == nil {
			it = runs[0]
		}
	}
	if err != nil {
		return nil, core.Run{}, err
	}
	return it, core.Run{ID: it.ID, Token: it.Token, Worker: it.Worker}, nil
}

func (s *Session) complete(word string, options []byte) error {
	var o struct {
		Result json.RawMessage `json:"result"`
	}
	if err := read(options, &o); err != nil {
		return err
	}
	_, run, err := s.run(word)
	if err != nil {
		return err
	}
	return s.decide(core.Complete{Run: run, Result: o.Result})
}

func (s *Session) fail(word string, options []byte) error {
	o := struct {
		Code       string          `json:"code"`
		Error      string          `json:"error"`
		Retryable  bool            `json:"retryable"`
		RetryAfter events.Duration `json:"retry_after_ms"`
	}{Error: "it failed", Retryable: true}
	if err := read(options, &o); err != nil {
		return err
	}
	_, run, err := s.run(word)
	if err != nil {
		return err
	}
	return s.decide(core.Fail{Run: run, Error: o.Error, Code: o.Code, Retryable: o.Retryable, RetryAfter: o.RetryAfter.Duration, Random: s.random()})
}

func (s *Session) lose(word string, _ []byte) error {
	it, run, err := s.run(word)
	if err != nil {
		return err
	}
	if !running(it) {
		return events.Refuse(events.CodeWrongState, "the item is %s: no worker has it", it.State)
	}
	return s.decide(core.ExpireLease{ID: run.ID, Token: run.Token, Random: s.random()})
}

func (s *Session) cancel(word string, _ []byte) error {
	it, err := s.item(word)
	if err != nil {
		return err
	}
	return s.decide(core.Cancel{ID: it.ID})
}

// advance lets time pass, and stops on the way wherever something is due.
func (s *Session) advance(word string, _ []byte) error {
	at, err := s.next()
	if err != nil {
		return err
	}
	until := at
	if word != "next" {
		d, err := time.ParseDuration(word)
		if err != nil || d <= 0 || d > events.MaxDelay {
			return events.Refuse(events.CodeBadTime, "%q is no time to let pass: give one such as 10s, or next", events.Clip(word, 40))
		}
		until = s.now.Add(d)
	} else if at.IsZero() {
		return events.Refuse(events.CodeWrongState, "nothing is due, whatever time passes")
	}
	for !at.IsZero() && !at.After(until) {
		s.now = at
		if err := s.settle(); err != nil {
			return err
		}
		if at, err = s.next(); err != nil {
			return err
		}
	}
	s.now = until
	return nil
}

func (s *Session) setSlots(word string, _ []byte) error {
	n, err := strconv.Atoi(word)
	if err != nil || n < 0 || n > MaxSlots {
		return events.Refuse(events.CodeBadRequest, "the worker can't have %q slots: give a number from 0 to %d", events.Clip(word, 40), MaxSlots)
	}
	s.slots = n
	return nil
}

func (s *Session) pause(word string, _ []byte) error {
	return s.decide(core.PauseType{Type: events.Type(word)})
}

func (s *Session) resume(word string, _ []byte) error {
	return s.decide(core.ResumeType{Type: events.Type(word)})
}

func (s *Session) reset(word string, _ []byte) error {
	return s.decide(core.ResetCircuit{Type: events.Type(word)})
}

func (s *Session) view() (View, error) {
	v := View{Now: s.now, Passed: s.now.Sub(begins).Round(time.Millisecond).String(), Slots: s.slots, Items: []Item{}, Held: map[string]string{}}
	its, err := s.all()
	if err != nil {
		return v, err
	}
	for i, it := range its {
		row := Item{Number: i + 1, Type: string(it.Type), Priority: int(it.Priority), State: it.State.String(), Attempt: int(it.Attempt), MaxAttempts: int(it.MaxAttempts), Note: it.Reason}
		if at := it.TimerAt(); at.After(s.now) {
			row.Due = at.Sub(s.now).Round(time.Millisecond).String()
		}
		if it.State == events.StateMerged {
			row.Note = fmt.Sprintf("into %d", slices.Index(s.items, it.MergedInto)+1)
		}
		v.Items = append(v.Items, row)
	}
	for _, t := range s.state.TypeNames() {
		info, _ := s.state.Type(t)
		switch c := info.Circuit; {
		case info.Paused != nil:
			v.Held[string(t)] = "paused"
		case c.State == events.CircuitOpen:
			v.Held[string(t)] = "circuit open for another " + c.Until.Sub(s.now).Round(time.Millisecond).String()
		case c.State == events.CircuitHalfOpen:
			v.Held[string(t)] = "circuit half open"
		}
	}
	v.Digest, err = s.Digest()
	return v, err
}
