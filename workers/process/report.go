package process

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

// MaxReportLine bounds a line on the report descriptor, in bytes: a spawn's
// children and the JSON around them.
const MaxReportLine = 8 << 20

// FailBadReport is the code of a run whose child has asked for an end (a spawn,
// a snooze, a retry) in a line that can't be read.
const FailBadReport = "bad_report"

// said is one line of the report descriptor. Exactly one field, besides Message
// and Reason, is set.
type said struct {
	Progress   *int            `json:"progress"`
	Message    string          `json:"message"` // of Progress
	Checkpoint json.RawMessage `json:"checkpoint"`
	Snooze     string          `json:"snooze"` // Go duration
	Reason     string          `json:"reason"` // of Snooze
	Wait       *waitFor        `json:"wait"`
	RetryAfter string          `json:"retry_after"`
	Spawn      *struct {
		Children     []wire.Submit      `json:"children"`
		Continuation json.RawMessage    `json:"continuation"` // a name, or true
		ChildPolicy  events.ChildPolicy `json:"child_policy"`
	} `json:"spawn"`
}

// waitFor is a wait that a child asks for.
type waitFor struct {
	Names  []string        `json:"names"`
	All    bool            `json:"all"`
	For    string          `json:"for"`  // Go duration
	Then   events.WaitThen `json:"then"` // empty: continue
	Code   string          `json:"code"`
	Error  string          `json:"error"`
	Result json.RawMessage `json:"result"`
	Ask    *asks           `json:"ask"`
}

// asks is a question that a child asks.
type asks struct {
	Title    string            `json:"title"`
	Text     string            `json:"text"`
	Choices  []workers.Choice  `json:"choices"`
	Form     json.RawMessage   `json:"form"`
	Proposal json.RawMessage   `json:"proposal"`
	Who      workers.Answerers `json:"who"`
	Remind   struct {
		Every  string          `json:"every"` // Go duration; empty: there are no reminders
		Type   string          `json:"type"`
		Params json.RawMessage `json:"params"`
		Most   int             `json:"most"`
	} `json:"remind"`
}

// question reads it.
func (a *asks) question() (workers.Question, error) {
	q := workers.Question{Title: a.Title, Text: a.Text, Choices: a.Choices, Form: orNil(a.Form), Proposal: orNil(a.Proposal), Who: a.Who}
	if r := &a.Remind; r.Every != "" || r.Type != "" {
		every, err := time.ParseDuration(r.Every)
		if err != nil {
			return q, fmt.Errorf("every of remind: %w", err)
		}
		q.Remind = workers.Reminders{Every: every, Type: r.Type, Params: orNil(r.Params), Most: r.Most}
	}
	return q, nil
}

// orNil is a document as a value, nil for none.
func orNil(doc json.RawMessage) any {
	if len(doc) == 0 {
		return nil
	}
	return doc
}

// ending is the end that a child has asked for. At most one field is set.
type ending struct {
	result     any // a workers.Spawned, workers.Snoozed or workers.Waits
	retryAfter time.Duration
	err        error // it could not be read
}

// reporter reads what a child says of its run. It belongs to the goroutine
// that reads, until that has ended.
type reporter struct {
	ctx  context.Context
	item *workers.RawItem
	end  *ending // the last one; nil for none
	part []byte
	long bool // the line being read is too long
}

// take takes in some bytes of what the child says.
func (r *reporter) take(b []byte) {
	for part, whole := range pieces(b) {
		if len(r.part)+len(part) > MaxReportLine {
			r.long = true
		} else if !r.long {
			r.part = append(r.part, part...)
		}
		if whole {
			r.line()
		}
	}
}

// line acts on the line that has been read.
func (r *reporter) line() {
	line, long := bytes.TrimSpace(r.part), r.long
	defer func() { r.part, r.long = r.part[:0], false }()
	switch {
	case long:
		// It can only have been a spawn.
		r.bad(fmt.Errorf("it has more than %d bytes", MaxReportLine), true)
		return
	case len(line) == 0:
		return
	}
	var s said
	err := wire.ReadStrict(line, &s)
	if err == nil {
		err = s.check()
	}
	if err == nil {
		err = r.obey(&s)
	}
	if err != nil {
		r.bad(fmt.Errorf("%w: %s", err, events.Clip(string(line), 200)), asksForEnd(line))
	}
}

// bad logs a line that can't be used. One that has asked for an end must not
// be taken for an end as usual.
func (r *reporter) bad(err error, asked bool) {
	err = fmt.Errorf("a line on the report descriptor counts for nothing: %w", err)
	if r.ctx.Err() == nil {
		r.item.Log(workers.LevelError, err.Error())
	}
	if asked {
		r.end = &ending{err: err}
	}
}

// asksForEnd reports whether a line that can't be used has asked for an end.
func asksForEnd(line []byte) bool {
	return bytes.Contains(line, []byte(`"spawn"`)) || bytes.Contains(line, []byte(`"snooze"`)) || bytes.Contains(line, []byte(`"wait"`)) || bytes.Contains(line, []byte(`"retry_after"`))
}

func (s *said) check() error {
	said := []bool{s.Progress != nil, s.Checkpoint != nil, s.Snooze != "", s.RetryAfter != "", s.Spawn != nil, s.Wait != nil}
	if len(slices.DeleteFunc(said, func(set bool) bool { return !set })) != 1 {
		return errors.New("write one of progress, checkpoint, snooze, wait, spawn and retry_after in a line")
	}
	if s.Progress != nil && (*s.Progress < 0 || *s.Progress > 100) {
		return fmt.Errorf("progress is %d: it must be 0 to 100", *s.Progress)
	}
	return nil
}

// obey does what a line says, or notes the end that it asks for.
func (r *reporter) obey(s *said) error {
	switch {
	case s.Progress != nil:
		workers.Progress(r.ctx, *s.Progress, s.Message)
	case s.Checkpoint != nil:
		return workers.Checkpoint(r.ctx, s.Checkpoint)
	case s.Snooze != "":
		d, err := duration("snooze", s.Snooze)
		if err != nil {
			return err
		}
		r.end = &ending{result: workers.Snooze(d).Because(s.Reason)}
	case s.RetryAfter != "":
		d, err := duration("retry_after", s.RetryAfter)
		if err != nil {
			return err
		}
		r.end = &ending{retryAfter: d}
	case s.Spawn != nil:
		return r.spawn(s)
	case s.Wait != nil:
		return r.wait(s.Wait)
	}
	return nil
}

func (r *reporter) wait(w *waitFor) error {
	d, err := duration("the wait's for", w.For)
	if err != nil {
		return err
	}
	end := workers.WaitAny(w.Names...)
	switch {
	case w.Ask != nil && (w.All || len(w.Names) == 0):
		return errors.New("a wait that asks something names the answer first, and is not for all of its names")
	case w.Ask != nil:
		q, err := w.Ask.question()
		if err != nil {
			return err
		}
		end = workers.Ask(w.Names[0], q, w.Names[1:]...)
	case w.All:
		end = workers.WaitAll(w.Names...)
	}
	end = end.For(d)
	if w.Then != events.WaitFail && (w.Code != "" || w.Error != "") || w.Then != events.WaitComplete && len(w.Result) > 0 {
		return errors.New("a wait has a code and an error with then fail, a result with then complete")
	}
	switch w.Then {
	case "", events.WaitContinue:
	case events.WaitFail:
		end = end.OrFail(w.Code, w.Error)
	case events.WaitComplete:
		end = end.OrComplete(nil)
		if len(w.Result) > 0 {
			end = end.OrComplete(w.Result)
		}
	default:
		return fmt.Errorf("then of the wait is %q: use continue, fail or complete", w.Then)
	}
	r.end = &ending{result: end}
	return nil
}

func duration(name, text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%s %q is no duration: write it as 90s, 5m or 1h30m", name, text)
	}
	return d, nil
}

func (r *reporter) spawn(s *said) error {
	children := make([]workers.Child, len(s.Spawn.Children))
	for i, sub := range s.Spawn.Children {
		children[i] = workers.Child{Type: sub.Type, With: sub}
		if len(sub.Params) > 0 {
			children[i].Params = sub.Params
		}
	}
	end := workers.Spawn(children...).OnFailure(s.Spawn.ChildPolicy)
	switch c := s.Spawn.Continuation; {
	case len(c) == 0, bytes.Equal(c, []byte("null")), bytes.Equal(c, []byte("false")):
	case bytes.Equal(c, []byte("true")):
		end = end.Then("")
	default:
		var name string
		if err := json.Unmarshal(c, &name); err != nil {
			return errors.New("the continuation of a spawn must be its name, or true")
		}
		end = end.Then(name)
	}
	r.end = &ending{result: end}
	return nil
}

// outcome returns the outcome of the end that a child has asked for, once it has
// exited with 0, or (retry) with ExitRetryLater. It reports whether there is one.
func (r *reporter) outcome(retry bool, err error) (any, error, bool) {
	e := r.end
	switch {
	case e == nil, retry && e.retryAfter == 0:
		return nil, nil, false
	case e.err != nil:
		return nil, workers.Permanent(workers.WithCode(e.err, FailBadReport)), true
	case e.retryAfter > 0:
		if err == nil {
			err = fmt.Errorf("the child asked for another try after %v", e.retryAfter)
		}
		return nil, workers.RetryAfter(workers.WithCode(err, FailRetryLater), e.retryAfter), true
	}
	return e.result, nil, true
}

// listFile writes a list for the child to a file, since an environment is bounded. The
// caller removes it.
func listFile[T any](name string, list []T) (path string, err error) {
	if list == nil {
		list = []T{}
	}
	doc, err := json.Marshal(list)
	if err == nil {
		var f *os.File
		if f, err = os.CreateTemp("", "work-"+name+"-*.json"); err == nil {
			_, err = f.Write(doc)
			if err = errors.Join(err, f.Close()); err == nil {
				return f.Name(), nil
			}
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}
	return "", fmt.Errorf("write the %s for the command: %w", name, err)
}
