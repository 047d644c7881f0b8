package wire

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/streamwright/streamwright/events"
)

// Bounds of the params of a spawn's children together, in bytes.
const (
	MaxSpawnBytes = 16 << 20
	// MaxWholeSpawnBytes bounds a spawn that is made in one decision. Larger spawns,
	// and spawns of more than events.MaxWholeSpawn children, are made in parts.
	MaxWholeSpawnBytes = 1 << 20
)

// ReportFlow holds the fields of progress, checkpoint, snooze, wait, token and spawn reports.
type ReportFlow struct {
	Percent    int             `json:"percent,omitempty"`    // of progress: 0 to 100
	Message    string          `json:"message,omitempty"`    // of progress
	Checkpoint json.RawMessage `json:"checkpoint,omitempty"` // of checkpoint
	Delay      events.Duration `json:"delay_ms,omitzero"`    // of snooze
	Wait       *WaitFor        `json:"wait,omitempty"`       // of wait
	WaitToken  *WaitToken      `json:"wait_token,omitempty"` // of token

	// Of spawn. No Continuation: the item completes when its children have.
	Children []Submit `json:"children,omitempty"`
	// ChildrenRef, in place of Children, refers to an object that holds them as
	// a JSON array: children too large for a message are put there first.
	ChildrenRef  json.RawMessage    `json:"children_ref,omitempty"`
	Continuation *ContinueWith      `json:"continuation,omitempty"`
	ChildPolicy  events.ChildPolicy `json:"child_policy,omitempty"`
}

// ContinueWith says that an item runs again when its children have ended.
type ContinueWith struct {
	Name string `json:"name,omitempty"` // for the handler
}

// CheckSpawn checks a spawn, but for what each of its children says. The error is an
// *events.Error.
func (r *Report) CheckSpawn() error {
	if len(r.Children) == 0 {
		return events.Refuse(events.CodeBadRequest, "the spawn has no children: report complete instead, or give it some")
	}
	if len(r.Children) > events.MaxChildren {
		return events.Refuse(events.CodeTooLarge, "the spawn has %d children: at most %d are allowed; spawn items that spawn the rest", len(r.Children), events.MaxChildren)
	}
	switch r.ChildPolicy {
	case "", events.ChildFail, events.ChildContinue:
	default:
		return events.Refuse(events.CodeBadRequest, "%q is no child_policy: use %s or %s", events.Clip(string(r.ChildPolicy), maxQuoted), events.ChildFail, events.ChildContinue)
	}
	if r.Continuation == nil {
		return nil
	}
	_, err := events.CheckText("the continuation's name", r.Continuation.Name, events.MaxNameLen)
	return err
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
	if r.Wait != nil {
		n += len(r.Wait.Result) + len(r.Wait.Error)
	}
	for i := range r.Children {
		n += 200 + len(r.Children[i].Params) + 30*len(r.Children[i].After)
	}
	return n
}

// ParseToken reads a token that must be there. The error is an *events.Error.
func ParseToken(s string) (events.Token, error) {
	var t events.Token
	if err := t.UnmarshalText([]byte(s)); err != nil {
		return 0, events.Refuse(events.CodeBadRequest, "%v", err)
	}
	if t == 0 {
		return 0, events.Refuse(events.CodeBadRequest, "the report has no token: send the token of the assigned item back unchanged")
	}
	return t, nil
}
