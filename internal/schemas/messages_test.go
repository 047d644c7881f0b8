package schemas

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// compiler reads the schemas as they are committed.
func compiler(t *testing.T) *jsonschema.Compiler {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	for _, name := range []string{"types.json", "events.json", "headers.json"} {
		c2 := load(t, name)
		if err := c.AddResource(name, c2); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func load(t *testing.T, name string) any {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "schemas", Version, name))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return doc
}

func check(s *jsonschema.Schema, doc string) error {
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(doc))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

// The events of the golden log are valid, and so none of them has a field that
// its schema does not describe.
func TestGoldenEventsAreValid(t *testing.T) {
	s, err := compiler(t).Compile("events.json")
	if err != nil {
		t.Fatal(err)
	}
	const name = "golden.jsonl"
	log, err := os.ReadFile(filepath.Join(root, "events", "core", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(log)) {
		if line = strings.TrimSpace(line); line == "" {
			continue // between two frames
		}
		n++
		if err := check(s, line); err != nil {
			t.Errorf("%s, event %d: %v", name, n, err)
		}
		describedIn(t, name, []byte(line))
	}
	if n < 10 {
		t.Errorf("%s has %d events", name, n)
	}
}

// describedIn checks that the fields of an event's payload are in its schema.
func describedIn(t *testing.T, name string, line []byte) {
	t.Helper()
	var ev struct {
		Kind string                     `json:"kind"`
		Data map[string]json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(line, &ev); err != nil {
		t.Fatal(err)
	}
	for k, typ := range payloads {
		if k.String() != ev.Kind {
			continue
		}
		known := map[string]bool{}
		for _, f := range fields(typ) {
			known[jsonName(f.StructField)] = true
		}
		for field := range ev.Data {
			if !known[field] {
				t.Errorf("%s: %s has the field %s, which no schema describes", name, ev.Kind, field)
			}
		}
	}
}

// What is not an event is refused: the schemas say something.
func TestSchemasRefuse(t *testing.T) {
	c := compiler(t)
	for ref, docs := range map[string][]string{
		"events.json": {
			`{"kind":"created","at":"2026-01-02T03:04:05Z"}`,
			`{"v":2,"kind":"owned","at":"2026-01-02T03:04:05Z"}`,
			`{"v":1,"kind":"failed","at":"2026-01-02T03:04:05Z","data":{"error":1,"code":"x","retryable":true,"duration_ms":1}}`,
			`{"v":1,"kind":"completed","at":"yesterday","data":{"duration_ms":1}}`,
		},
		"types.json#/$defs/Submit":       {`{}`, `{"type":"a","nonsense":1}`, `{"type":"a","priority":"5"}`, `{"type":"a","dedup_policy":"maybe"}`},
		"types.json#/$defs/Item":         {`{"id":"x"}`},
		"types.json#/$defs/Reported":     {`{}`, `{"ok":"yes"}`},
		"headers.json#/$defs/Submission": {`{"Work-Nonsense":"1"}`, `{"Work-Delay":"soon"}`, `{"Work-Id":"1"}`},
		"headers.json#/$defs/Dispatched": {`{"Work-Id":"01KDYAK43G0000000000000001"}`},
	} {
		s, err := c.Compile(ref)
		if err != nil {
			t.Fatalf("%s: %v", ref, err)
		}
		for _, doc := range docs {
			if check(s, doc) == nil {
				t.Errorf("%s takes %s", ref, doc)
			}
		}
	}
}

// Replies are open for what later engines say, requests are not.
func TestOnlyRequestsAreClosed(t *testing.T) {
	c := compiler(t)
	for ref, doc := range map[string]string{
		"types.json#/$defs/Reported":       `{"ok":true,"later":1}`,
		"types.json#/$defs/HeartbeatReply": `{"should_drain":false,"later":{}}`,
		"types.json#/$defs/Control":        `{"later":1}`,
		"events.json":                      `{"v":1,"kind":"later","at":"2026-01-02T03:04:05Z","later":1,"data":{"x":1}}`,
		"headers.json#/$defs/Submission":   `{"X-Mine":"1","Work-Delay":"1h30m"}`,
	} {
		s, err := c.Compile(ref)
		if err != nil {
			t.Fatalf("%s: %v", ref, err)
		}
		if err := check(s, doc); err != nil {
			t.Errorf("%s refuses %s: %v", ref, doc, err)
		}
	}
}

// TestAssignedItemsAreValid checks a message of assigned items against its schema.
func TestAssignedItemsAreValid(t *testing.T) {
	s, err := compiler(t).Compile("types.json#/$defs/Assigned")
	if err != nil {
		t.Fatal(err)
	}
	all := wire.Assigned{
		ID: "01M841CVKQ3Q8DF3RSQ4DG7BGG", Type: "email", Token: "k", Attempt: 1, Lease: events.Millis(1), Timeout: events.Millis(1),
		Trace: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", Labels: map[string]string{"a": "b"}, Params: []byte(`{"n":1}`),
		Left: wire.Left{Checkpoint: []byte(`[1]`), Continuation: &wire.Continuation{Name: "n", Children: []byte(`[]`)}, Waited: &wire.EndedWait{Ended: events.WaitSignalled, Signals: []byte(`[]`)}},
	}
	least := wire.Assigned{ID: all.ID, Type: "email", Token: "k", Attempt: 1, Lease: events.Millis(1)}
	for _, a := range []wire.Assigned{all, least} {
		doc := string(wire.AppendAssigned(nil, &a))[1:] // behind the [ of the message
		if err := check(s, doc); err != nil {
			t.Errorf("%s: %v", doc, err)
		}
	}
	if check(s, `{"id":"x"}`) == nil {
		t.Error("an item without a token is valid")
	}
}
