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

// An event is one line of its frame, so a document is too, whatever it was sent as.
func TestDocumentsAreOneLine(t *testing.T) {
	w := newWorld(t)
	const sent, kept = "{\r\n\t\"a\": \"\\n\",\n\"b\": [1,\n2]\n}\n", "{\r \t\"a\": \"\\n\", \"b\": [1, 2] }"
	doc := json.RawMessage(sent)
	id := w.submit(Submit{Params: doc})
	run := w.claim(id, 1)
	w.do(SaveCheckpoint{Run: run, Checkpoint: doc})
	w.do(Complete{Run: run, Result: doc})
	dead := w.submit(Submit{})
	w.do(Cancel{ID: dead})
	w.do(Replay{ID: dead, Params: doc})
	found := 0
	for _, ev := range w.log {
		line, err := ev.AppendJSON(nil)
		if err != nil || strings.Contains(string(line), "\n") {
			t.Errorf("%v\n%s", err, line)
		}
		if strings.Contains(string(line), kept) {
			found++
		}
	}
	if found != 4 {
		t.Errorf("%d of 4 documents are kept as %s", found, kept)
	}
	w.readBack()
}
