package command

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/wire/form"
)

// Report is a report with what is made of it.
type Report struct {
	*wire.Report
	// Submissions are what Prepare has made of a spawn's children. They may be changed
	// before Command.
	Submissions []core.Submit
	question    *events.Question // of a wait; see Prepare
	declared    int              // how many children there are behind ChildrenRef; see InParts
}

// Reports returns the reports of a list, which it does not copy. Prepare has yet to be
// called for them.
func Reports(list []wire.Report) []Report {
	out := make([]Report, len(list))
	for i := range list {
		out[i].Report = &list[i]
	}
	return out
}

// Prepare checks what a wait asks, or a spawn and its children, and gives these fresh ids by newID, whose ids
// rise. It must have been called before Command; for any other report it does nothing.
// Whoever takes a report from outside calls it, so that the checks don't hold up
// decisions. maxParams bounds the params of a child in bytes.
func (r *Report) Prepare(newID func() events.ID, maxParams int) (err error) {
	if r.Event == wire.ReportWait && r.Wait != nil {
		r.question, err = question(r.Wait.Ask)
		return err
	}
	if r.Event != wire.ReportSpawn {
		return nil
	}
	if err = r.CheckSpawn(); err == nil {
		r.Submissions, err = OfChildren(r.Children, newID, maxParams)
	}
	return err
}

// OfChildren checks the children of a spawn and makes commands of them, as Prepare does.
func OfChildren(children []wire.Submit, newID func() events.ID, maxParams int) ([]core.Submit, error) {
	cmds := make([]core.Submit, len(children))
	total := 0
	for i, sub := range children {
		if total += len(sub.Params); total > wire.MaxSpawnBytes {
			return nil, events.Refuse(events.CodeTooLarge, "the params of the spawn's children have more than %d bytes together: store them elsewhere and give the children references", wire.MaxSpawnBytes)
		}
		if sub.Batch != "" {
			return nil, events.Refuse(events.CodeBadRequest, "child %d of the spawn is to be in a batch: a child belongs to its parent; submit it instead", i+1)
		}
		if sub.Signal != nil {
			return nil, events.Refuse(events.CodeBadRequest, "child %d of the spawn has a signal: submit it instead, or put what it says into the params", i+1)
		}
		c, err := OfSubmit(sub, newID(), maxParams)
		if err != nil {
			return nil, events.Refuse(events.CodeOf(err), "child %d of the spawn: %s", i+1, wire.FromError(err).Message)
		}
		cmds[i] = c
	}
	return cmds, nil
}

// TooMany reports whether the children, which Prepare has checked, are too many
// for one decision, or too large: InParts is to be called then.
func (r *Report) TooMany() bool {
	total := 0
	for i := range r.Submissions {
		total += len(r.Submissions[i].Params)
	}
	return len(r.Submissions) > events.MaxWholeSpawn || total > wire.MaxWholeSpawnBytes
}

// InParts has the children, which Prepare has checked, made from the object that
// ref refers to.
func (r *Report) InParts(ref json.RawMessage) {
	r.declared, r.ChildrenRef = len(r.Submissions), ref
	r.Children, r.Submissions = nil, nil
}

// Command checks a report against every bound and makes the command of it.
// random is for the jitter of a retry. Texts that are too long are cut, so that a
// failure can always be told; a result that is too large is refused.
func (r *Report) Command(random uint64) (core.Command, error) {
	run, err := r.run()
	if err != nil {
		return nil, err
	}
	switch r.Event {
	case wire.ReportStart:
		return core.Start{Run: run}, nil
	case wire.ReportComplete:
		if err := checkResult(r.Result); err != nil {
			return nil, err
		}
		return core.Complete{Run: run, Result: r.Result, Strict: r.Strict}, nil
	case wire.ReportFail:
		return r.fail(run, random)
	case wire.ReportRelease:
		return core.Release{Run: run, Reason: events.CutText(r.Reason, events.MaxNameLen)}, nil
	case wire.ReportSnooze:
		if r.Delay.Duration <= 0 || r.Delay.Duration > events.MaxDelay {
			return nil, events.Refuse(events.CodeBadTime, "delay_ms of the snooze is %d: it must be 1 to %d", r.Delay.Milliseconds(), events.MaxDelay.Milliseconds())
		}
		return core.Snooze{Run: run, Delay: r.Delay.Duration, Reason: events.CutText(r.Reason, events.MaxNameLen)}, nil
	case wire.ReportProgress:
		if r.Percent < 0 || r.Percent > 100 {
			return nil, events.Refuse(events.CodeBadRequest, "percent is %d: it must be 0 to 100", r.Percent)
		}
		return core.ReportProgress{Run: run, Percent: r.Percent, Message: events.CutText(r.Message, events.MaxProgressText)}, nil
	case wire.ReportCheckpoint:
		if err := wire.CheckCheckpoint(r.Checkpoint); err != nil {
			return nil, err
		}
		return core.SaveCheckpoint{Run: run, Checkpoint: r.Checkpoint}, nil
	case wire.ReportToken:
		t := r.WaitToken
		if t == nil {
			return nil, events.Refuse(events.CodeBadRequest, "the report has no wait_token: give the name of the signal, and the token's hash")
		}
		return core.GiveToken{Run: run, Name: t.Name, Hash: t.Hash, For: t.For}, nil
	case wire.ReportSpawn:
		return r.spawn(run)
	case wire.ReportWait:
		return r.wait(run)
	}
	return nil, events.Refuse(events.CodeBadRequest, "%q is no report: use %s, %s, %s, %s, %s, %s, %s, %s, %s or %s", events.Clip(r.Event, 64),
		wire.ReportStart, wire.ReportComplete, wire.ReportFail, wire.ReportRelease, wire.ReportSnooze, wire.ReportSpawn, wire.ReportWait, wire.ReportProgress, wire.ReportCheckpoint, wire.ReportToken)
}

// run reads which run the report is about.
func (r *Report) run() (core.Run, error) {
	id, err := parseID(r.ID)
	if err != nil {
		return core.Run{}, err
	}
	token, err := wire.ParseToken(r.Token)
	if err != nil {
		return core.Run{}, err
	}
	worker, err := events.ParseWorkerID(r.Worker)
	if err != nil {
		return core.Run{}, events.Refuse(events.CodeBadRequest, "%v", err)
	}
	if r.Attempt < 0 {
		return core.Run{}, events.Refuse(events.CodeBadRequest, "attempt is %d: send the attempt of the assigned item back, or leave it out", r.Attempt)
	}
	return core.Run{ID: id, Token: token, Worker: worker, Attempt: events.Attempt(r.Attempt)}, nil
}

func (r *Report) fail(run core.Run, random uint64) (core.Command, error) {
	if r.RetryAfter.Duration < 0 || r.RetryAfter.Duration > events.MaxDelay {
		return nil, events.Refuse(events.CodeBadTime, "retry_after_ms is %d: it must be 0 to %d", r.RetryAfter.Milliseconds(), events.MaxDelay.Milliseconds())
	}
	return core.Fail{
		Run: run, Error: events.CutText(r.Error, events.MaxErrorText), Code: events.CutText(r.Code, events.MaxNameLen),
		Retryable: r.Retryable == nil || *r.Retryable, RetryAfter: r.RetryAfter.Duration,
		Random: random,
	}, nil
}

func checkResult(result json.RawMessage) error {
	if len(result) > events.MaxResultBytes {
		return events.Refuse(events.CodeTooLarge, "the result has %d bytes: at most %d are allowed; store it elsewhere and report a reference to it", len(result), events.MaxResultBytes)
	}
	if len(result) > 0 && !(json.Valid(result) && utf8.Valid(result)) {
		return events.Refuse(events.CodeBadRequest, "the result is no JSON document in UTF-8: %s", events.DocumentFault(result))
	}
	return nil
}

func (r *Report) spawn(run core.Run) (core.Command, error) {
	if r.declared > 0 {
		c := core.SpawnInParts{Run: run, Declared: r.declared, Pending: string(r.ChildrenRef), Policy: r.ChildPolicy}
		if r.Continuation != nil {
			c.Continues, c.Continuation = true, r.Continuation.Name
		}
		return c, nil
	}
	if len(r.Submissions) != len(r.Children) || len(r.Submissions) == 0 {
		return nil, events.Refuse(events.CodeBadRequest, "the spawn has no children that were checked: report complete instead, or give it some")
	}
	c := core.Spawn{Run: run, Children: r.Submissions, Policy: r.ChildPolicy}
	if r.Continuation != nil {
		c.Continues, c.Continuation = true, r.Continuation.Name
	}
	return c, nil
}

// wait makes the command of a wait, whose terms the core checks.
func (r *Report) wait(run core.Run) (core.Command, error) {
	w := r.Wait
	if w == nil {
		return nil, events.Refuse(events.CodeBadRequest, "the report has no wait: say what the item waits for")
	}
	if len(w.Ask) > 0 && r.question == nil {
		return nil, events.Refuse(events.CodeBadRequest, "the wait has a question that was not checked")
	}
	return core.Park{Run: run, For: w.For.Duration, Ask: r.question, Wait: events.WaitTerms{
		Names: w.Names, All: w.All, Until: w.Until, Then: w.Then, Code: w.Code, Error: events.CutText(w.Error, events.MaxErrorText), Result: w.Result,
	}}, nil
}

// question reads what a wait asks, and checks of it what the core can't; nil for nothing.
func question(doc json.RawMessage) (*events.Question, error) {
	if len(doc) == 0 || string(doc) == "null" {
		return nil, nil
	}
	q := &events.Question{}
	if err := wire.ReadStrict(doc, q); err != nil {
		return nil, events.Refuse(events.CodeBadRequest, "ask of the wait can't be read: %s", wire.FromError(err).Message)
	}
	for _, r := range q.Who.Roles {
		if _, err := wire.ParseRole(r); err != nil {
			return nil, events.Refuse(events.CodeBadRequest, "who may answer the question: %v", err)
		}
	}
	if len(q.Form) == 0 || string(q.Form) == "null" || len(q.Form) > events.MaxForm {
		return q, nil
	}
	return q, form.Check(q.Form)
}
