package wire

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// What the decoder says is never told as it is.
func TestJSONFaults(t *testing.T) {
	for doc, want := range map[string]string{
		``:                    "it ends too soon",
		`{`:                   "it ends too soon",
		`{"a":"b`:             "it ends too soon",
		`{to:1}`:              "'t' at byte 2: expected the name of a field, in double quotes",
		`{"a":x}`:             "'x' at byte 6: expected a value",
		`'a'`:                 `'\'' at byte 1: expected a value: a text must be in double quotes`,
		`{"a":1 "b":2}`:       "expected a comma or }",
		`{"a" 1}`:             "expected a colon",
		`{"list":[1 2]}`:      "expected a comma or ]",
		`{"a":tru}`:           "expected true, false or null",
		"{\"a\":\"x\ny\"}":    "a control character in a text",
		`{"a":"\q"}`:          `'q' at byte 8: use \"`,
		`{"a":"\u00zz"}`:      "use four hex digits",
		`{"a":1.x}`:           "expected a digit",
		`{"a":1ex}`:           "expected a digit",
		`{"a":-}`:             "expected a digit",
		`{"b":1}`:             `the field "b" is not known`,
		`{"a":1}`:             "the field a is a JSON number: it must be a string",
		`{"list":"x"}`:        "the field list is a JSON string: it must be a list",
		`{"n":1.5}`:           "the field n is a JSON number: it must be a whole number in its range",
		`7`:                   "the document is a JSON number: it must be an object",
		`{"flag":"yes"}`:      "it must be true or false",
		`{"inner":{"r":"x"}}`: "the field inner.r is a JSON string: it must be a number",
	} {
		var v struct {
			A     string `json:"a"`
			List  []int  `json:"list"`
			N     int    `json:"n"`
			Flag  bool   `json:"flag"`
			Inner struct {
				R float64 `json:"r"`
			} `json:"inner"`
		}
		d := json.NewDecoder(bytes.NewReader([]byte(doc)))
		d.DisallowUnknownFields()
		err := d.Decode(&v)
		if err == nil {
			t.Errorf("%s: no error", doc)
			continue
		}
		got := JSONFault(err)
		if !strings.Contains(got, want) || strings.Contains(got, "looking for") || strings.Contains(got, "json:") || strings.Contains(got, "Go ") {
			t.Errorf("%s: got %q, want %q", doc, got, want)
		}
	}
	var v any
	if got := JSONFault(json.Unmarshal([]byte(`{} x`), &v)); got != "'x' at byte 4: expected nothing: send one document" {
		t.Errorf("got %q", got)
	}
}
