package form

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/events"
)

func TestCheck(t *testing.T) {
	for text, want := range map[string]string{
		`{"type":"object","properties":{"sum":{"type":"integer"}}}`:                                           "",
		`{"type":"object","$ref":"#/$defs/a","$defs":{"a":{"minProperties":1}}}`:                              "write out",
		`{"type":"object","multipleOf":1e9999999}`:                                                            "out of range",
		`{"type":"object","properties":{"a":{"pattern":".{0,900}.{0,900}.{0,900}.{0,900}.{0,900}.{0,900}"}}}`: "patterns",
		`{"type":"string"}`: `"type": "object"`,
		`true`:              `"type": "object"`,
		`{"type":"object","properties":{"a":{"$ref":"http://127.0.0.1/x"}}}`: "write out",
		`{"type":"object","properties":{"a":{"$ref":"file:///etc/passwd"}}}`: "write out",
		`{"type":"object","properties":{"a":{"pattern":"("}}}`:               "regex",
		`{"type":"object","$schema":"https://example.com/mine"}`:             "must be whole in itself",
	} {
		err := Check(json.RawMessage(text))
		if want == "" && err != nil || want != "" && (events.CodeOf(err) != events.CodeBadRequest || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestValidate(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","required":["sum"],"additionalProperties":false,"properties":{
		"sum":{"type":"integer","minimum":1},"when":{"type":"string","format":"date"},"lines":{"type":"array","items":{"enum":["a","b"]}}}}`)
	for text, want := range map[string]string{
		`{"sum":3,"when":"2026-11-27","lines":["a"]}`: "",
		`{"sum":12345678901234567890}`:                "",
		`{"sum":"3"}`:                                 "sum: ",
		`{"sum":0}`:                                   "sum: ",
		`{}`:                                          "sum",
		`{"sum":3,"lines":["a","c"]}`:                 "lines.1: ",
		`{"sum":3,"when":"tomorrow"}`:                 "when: ",
		`{"sum":3,"more":1}`:                          "more",
		`[]`:                                          "object",
		`{"sum":1e9999999}`:                           "out of range",
		`{"sum":1e-401}`:                              "out of range",
		`{"sum":1e2}`:                                 "",
	} {
		err := Validate(schema, json.RawMessage(text))
		if want == "" && err != nil || want != "" && (events.CodeOf(err) != events.CodeBadRequest || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
