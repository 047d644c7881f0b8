package core

import (
	"bytes"
	"encoding/json"
	"math"

	"github.com/streamwright/streamwright/events"
)

// maxOutcomeError bounds the error text of one outcome, in bytes.
const maxOutcomeError = 512

// outcomes are how the children of a spawn ended, as JSON. Results that, with
// those before them, pass MaxOutcomesBytes are left out, and so are the texts
// of errors beyond as many bytes again: it becomes part of one event.
type outcomes struct{ list []events.Outcome }

// outcomes collects how children ended. kids are what they have become, nil
// for one that is not there any more.
func (d *decider) outcomes(ids []events.ID, kids []*events.Item) (*outcomes, error) {
	o := &outcomes{list: make([]events.Outcome, len(ids))}
	results, texts := events.MaxOutcomesBytes, events.MaxOutcomesBytes
	for i, k := range kids {
		out := &o.list[i]
		out.ID = ids[i]
		if k == nil {
			out.Omitted = true
			continue
		}
		out.State = k.State
		if len(ids) > events.MaxWholeSpawn {
			texts -= nameOutcome(out, k, texts)
		} else {
			nameOutcome(out, k, math.MaxInt)
		}
		if k.State == events.StateDead {
			if msg := events.Shorten(k.Error, maxOutcomeError); jsonLen(msg) <= texts {
				out.Error = msg
				texts -= jsonLen(msg)
			}
		}
		if !k.HasResult {
			continue
		}
		doc, err := d.state.Document(events.DocResult, k.ID)
		if err != nil {
			return nil, err
		}
		var n int
		if out.Result, n = compactJSON(doc); n > results || events.JSONDepth(doc) > events.MaxJSONDepth-2 {
			out.Result, out.Omitted = nil, true
			continue
		}
		results -= n
	}
	return o, nil
}

// name fills in an outcome's type, reason and code, if they have room in so many
// bytes, and returns how many they take. Few children always have the room.
func nameOutcome(out *events.Outcome, k *events.Item, room int) int {
	code := ""
	if k.State == events.StateDead {
		code = k.Code
	}
	n := jsonLen(string(k.Type)) + jsonLen(k.Reason) + jsonLen(code)
	if n > room {
		return 0
	}
	out.Type, out.Reason, out.Code = k.Type, k.Reason, code
	return n
}

// compactJSON is a document as json.Marshal writes it within another, so that
// nothing rewrites it later, and its length.
func compactJSON(doc []byte) (json.RawMessage, int) {
	var b, escaped bytes.Buffer
	if json.Compact(&b, doc) != nil {
		return nil, events.MaxOutcomesBytes + 1 // never: it was checked when it was reported
	}
	json.HTMLEscape(&escaped, b.Bytes())
	return escaped.Bytes(), escaped.Len()
}

func jsonLen(s string) int {
	b, _ := json.Marshal(s) // a string can't fail
	return len(b)
}

// all is the whole as JSON, with or without the results.
func (o *outcomes) all(results bool) json.RawMessage {
	list := o.list
	if !results {
		list = make([]events.Outcome, len(o.list))
		for i, out := range o.list {
			out.Omitted, out.Result, out.Error = out.Omitted || out.Result != nil, nil, ""
			list[i] = out
		}
	}
	data, err := json.Marshal(list)
	if err != nil {
		panic("outcomes that can't be written as JSON: " + err.Error()) // the results were checked
	}
	return data
}

// result is the whole as the result of an item: without the children's if they
// are too much, nil if it is too much even so.
func (o *outcomes) result() json.RawMessage {
	for _, with := range []bool{true, false} {
		if doc := o.all(with); len(doc) <= events.MaxResultBytes {
			return doc
		}
	}
	return nil
}
