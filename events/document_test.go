package events

import (
	"encoding/json"
	"strings"
	"testing"
)

func nested(n int) json.RawMessage {
	return json.RawMessage(strings.Repeat("[", n) + strings.Repeat("]", n))
}

// What is valid JSON on its own may be too deep for the decoder once it stands
// inside an event; a log that can't be read back stops the partition.
func TestDeepDocumentsAreRefusedNotLogged(t *testing.T) {
	w := newWorld(t)
	for _, n := range []int{MaxJSONDepth + 1, 9_999, 10_001} {
		w.refused(CodeBadParams, Submit{Type: "email", NewID: w.newID(), Params: nested(n)})
	}
	id := w.submit(Submit{Params: nested(MaxJSONDepth)})
	run := w.claim(id, 1)
	w.refused(CodeBadParams, Complete{Run: run, Result: nested(9_999)})
	w.do(Complete{Run: run, Result: nested(MaxJSONDepth)})
	w.readBack()
}

func TestDocumentsMustBeUTF8(t *testing.T) {
	w := newWorld(t)
	w.refused(CodeBadParams, Submit{Type: "email", NewID: w.newID(), Params: json.RawMessage("\"\xff\"")})
	w.refused(CodeBadParams, Submit{Type: "email", NewID: w.newID(), Params: json.RawMessage("hello")})
}

func TestNoResultIsNoResult(t *testing.T) {
	w := newWorld(t)
	for i, c := range []struct {
		result string
		has    bool
	}{{"", false}, {" \n", false}, {"null", true}, {"{}", true}} {
		id := w.submit(Submit{})
		w.do(Complete{Run: w.claim(id, Token(i+1)), Result: json.RawMessage(c.result)})
		if got := w.item(id).HasResult; got != c.has {
			t.Errorf("result %q: HasResult is %v", c.result, got)
		}
	}
	w.readBack()
}

func TestDepth(t *testing.T) {
	for doc, want := range map[string]int{`1`: 0, `[]`: 1, `{"a":[{}]}`: 3, `"[[["`: 0, `["\"[[", []]`: 2, `"\\"`: 0, `[[],[]]`: 2, `"`: 0, `"\`: 0} {
		if got := depth([]byte(doc)); got != want {
			t.Errorf("depth of %s is %d, want %d", doc, got, want)
		}
	}
}
