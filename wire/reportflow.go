package wire

import (
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// Bounds of the params of a spawn's children together, in bytes.
const (
	MaxSpawnBytes = 16 << 20
	// MaxWholeSpawnBytes bounds a spawn that is made in one decision. Larger spawns,
	// and spawns of more than events.MaxWholeSpawn children, are made in parts.
	MaxWholeSpawnBytes = 1 << 20
)

// ReportFlow holds the fields of progress, checkpoint, snooze and spawn reports.
type ReportFlow struct {
	Percent    int             `json:"percent,omitempty"`    // of progress: 0 to 100
	Message    string          `json:"message,omitempty"`    // of progress
	Checkpoint json.RawMessage `json:"checkpoint,omitempty"` // of checkpoint
	DelayMS    int64           `json:"delay_ms,omitempty"`   // of snooze

	// Of spawn. No Continuation: the item completes when its children have.
	Children []Submit `json:"children,omitempty"`
	// ChildrenRef, in place of Children, refers to an object that holds them as
	// a JSON array: children too large for a message are put there first.
	ChildrenRef  json.RawMessage    `json:"children_ref,omitempty"`
	Continuation *ContinueWith      `json:"continuation,omitempty"`
	ChildPolicy  events.ChildPolicy `json:"child_policy,omitempty"`

	children []core.Submit // what Prepare has made of Children
	declared int           // how many there are behind ChildrenRef; see InParts
}

// ContinueWith says that an item runs again when its children have ended.
type ContinueWith struct {
	Name string `json:"name,omitempty"` // for the handler
}

// Prepare checks the children of a spawn and gives them fresh ids by newID,
// whose ids rise. It must have been called before Command; for any other report
// it does nothing. Whoever takes a report from outside calls it, so that the
// checks don't hold up decisions. The error is an *events.Error.
func (r *Report) Prepare(newID func() events.ID, maxParams int) error {
	if r.Event != ReportSpawn {
		return nil
	}
	if len(r.Children) == 0 {
		return events.Refuse(events.CodeBadRequest, "the spawn has no children: report complete instead, or give it some")
	}
	if len(r.Children) > events.MaxChildren {
		return events.Refuse(events.CodeTooLarge, "the spawn has %d children: at most %d are allowed; spawn items that spawn the rest", len(r.Children), events.MaxChildren)
	}
	if err := checkChildPolicy(r.ChildPolicy); err != nil {
		return err
	}
	if r.Continuation != nil {
		if err := checkText("the continuation's name", r.Continuation.Name, events.MaxNameLen); err != nil {
			return err
		}
	}
	var err error
	r.children, err = ChildCommands(r.Children, newID, maxParams)
	return err
}

// ChildCommands checks the children of a spawn and makes commands of them, as
// Prepare does.
func ChildCommands(children []Submit, newID func() events.ID, maxParams int) ([]core.Submit, error) {
	cmds := make([]core.Submit, len(children))
	total := 0
	for i, sub := range children {
		if total += len(sub.Params); total > MaxSpawnBytes {
			return nil, events.Refuse(events.CodeTooLarge, "the params of the spawn's children have more than %d bytes together: store them elsewhere and give the children references", MaxSpawnBytes)
		}
		if sub.Batch != "" {
			return nil, events.Refuse(events.CodeBadRequest, "child %d of the spawn is to be in a batch: a child belongs to its parent; submit it instead", i+1)
		}
		c, err := sub.Command(newID(), maxParams)
		if err != nil {
			return nil, events.Refuse(events.CodeOf(err), "child %d of the spawn: %s", i+1, FromError(err).Message)
		}
		cmds[i] = c
	}
	return cmds, nil
}

// TooMany reports whether the children, which Prepare has checked, are too many
// for one decision, or too large: InParts is to be called then.
func (r *Report) TooMany() bool {
	total := 0
	for i := range r.children {
		total += len(r.children[i].Params)
	}
	return len(r.children) > events.MaxWholeSpawn || total > MaxWholeSpawnBytes
}

// InParts has the children, which Prepare has checked, made from the object that
// ref refers to.
func (r *Report) InParts(ref json.RawMessage) {
	r.declared, r.ChildrenRef = len(r.children), ref
	r.Children, r.children = nil, nil
}

// Submissions returns what Prepare has made of a spawn's children, nil for any
// other report. What the caller changes of them, Command shows.
func (r *Report) Submissions() []core.Submit { return r.children }

// flow is Command for the reports of this file; nil for any other.
func (r *Report) flow(run core.Run) (core.Command, error) {
	switch r.Event {
	case ReportSnooze:
		if most := events.MaxDelay.Milliseconds(); r.DelayMS < 1 || r.DelayMS > most {
			return nil, events.Refuse(events.CodeBadTime, "delay_ms of the snooze is %d: it must be 1 to %d", r.DelayMS, most)
		}
		return core.Snooze{Run: run, Delay: time.Duration(r.DelayMS) * time.Millisecond, Reason: cut(r.Reason, events.MaxNameLen)}, nil
	case ReportProgress:
		if r.Percent < 0 || r.Percent > 100 {
			return nil, events.Refuse(events.CodeBadRequest, "percent is %d: it must be 0 to 100", r.Percent)
		}
		return core.ReportProgress{Run: run, Percent: r.Percent, Message: cut(r.Message, events.MaxProgressText)}, nil
	case ReportCheckpoint:
		if err := CheckCheckpoint(r.Checkpoint); err != nil {
			return nil, err
		}
		return core.SaveCheckpoint{Run: run, Checkpoint: r.Checkpoint}, nil
	case ReportSpawn:
		return r.spawn(run)
	}
	return nil, nil
}

func (r *Report) spawn(run core.Run) (core.Command, error) {
	if r.declared > 0 {
		c := core.SpawnInParts{Run: run, Declared: r.declared, Pending: string(r.ChildrenRef), Policy: r.ChildPolicy}
		if r.Continuation != nil {
			c.Continues, c.Continuation = true, r.Continuation.Name
		}
		return c, nil
	}
	if len(r.children) != len(r.Children) || len(r.children) == 0 {
		return nil, events.Refuse(events.CodeBadRequest, "the spawn has no children that were checked: report complete instead, or give it some")
	}
	c := core.Spawn{Run: run, Children: r.children, Policy: r.ChildPolicy}
	if r.Continuation != nil {
		c.Continues, c.Continuation = true, r.Continuation.Name
	}
	return c, nil
}

// CheckCheckpoint checks what a run wants to save. The error is an
// *events.Error.
func CheckCheckpoint(doc json.RawMessage) error {
	if len(doc) > events.MaxCheckpoint {
		return events.Refuse(events.CodeTooLarge, "the checkpoint has %d bytes: at most %d are allowed; store it elsewhere and save a reference to it", len(doc), events.MaxCheckpoint)
	}
	if len(doc) == 0 {
		return events.Refuse(events.CodeBadRequest, "the report has no checkpoint: send a JSON document")
	}
	if !(json.Valid(doc) && utf8.Valid(doc)) {
		return events.Refuse(events.CodeBadRequest, "the checkpoint is no JSON document in UTF-8: %s", events.DocumentFault(doc))
	}
	return nil
}

// Size is about how many bytes of documents the report carries.
func (r *Report) Size() int {
	n := len(r.Result) + len(r.Error) + len(r.Checkpoint) + len(r.Message)
	for i := range r.Children {
		n += 200 + len(r.Children[i].Params) + 30*len(r.Children[i].After)
	}
	return n
}
