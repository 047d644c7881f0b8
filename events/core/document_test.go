package core

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/events"
)

func nested(n int) json.RawMessage {
	return json.RawMessage(strings.Repeat("[", n) + strings.Repeat("]", n))
}

// What is valid JSON on its own may be too deep for the decoder once it stands
// inside an event; a log that can't be read back stops the partition.
func TestDeepDocumentsAreRefusedNotLogged(t *testing.T) {
	w := newWorld(t)
	for _, n := range []int{events.MaxJSONDepth + 1, 9_999, 10_001} {
		w.refused(events.CodeBadParams, Submit{Type: "email", NewID: w.newID(), Params: nested(n)})
	}
	id := w.submit(Submit{Params: nested(events.MaxJSONDepth)})
	run := w.claim(id, 1)
	w.refused(events.CodeBadParams, Complete{Run: run, Result: nested(9_999)})
	w.do(Complete{Run: run, Result: nested(events.MaxJSONDepth)})
	w.readBack()
}

func TestDocumentsMustBeUTF8(t *testing.T) {
	w := newWorld(t)
	w.refused(events.CodeBadParams, Submit{Type: "email", NewID: w.newID(), Params: json.RawMessage("\"\xff\"")})
	w.refused(events.CodeBadParams, Submit{Type: "email", NewID: w.newID(), Params: json.RawMessage("hello")})
}

func TestNoResultIsNoResult(t *testing.T) {
	w := newWorld(t)
	for i, c := range []struct {
		result string
		has    bool
	}{{"", false}, {" \n", false}, {"null", true}, {"{}", true}} {
		id := w.submit(Submit{})
		w.do(Complete{Run: w.claim(id, events.Token(i+1)), Result: json.RawMessage(c.result)})
		if got := w.item(id).HasResult; got != c.has {
			t.Errorf("result %q: HasResult is %v", c.result, got)
		}
	}
	w.readBack()
}
