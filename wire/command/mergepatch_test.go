package command_test

import (
	"testing"

	"github.com/streamwright/streamwright/wire/command"
)

// The cases of RFC 7396, appendix A, and what is ours.
func TestMergePatch(t *testing.T) {
	for _, c := range [][3]string{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`["a","b"]`, `["c","d"]`, `["c","d"]`},
		{`{"a":"b"}`, `["c"]`, `["c"]`},
		{`{"a":"foo"}`, `null`, `null`},
		{`{"a":"foo"}`, `"bar"`, `"bar"`},
		{`{"e":null}`, `{"a":1}`, `{"a":1,"e":null}`},
		{`[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
		{``, `{"a":1}`, `{"a":1}`},
		{`{"n": 1.50, "big": 12345678901234567890, "t": "a <b>"}`, ` {"x": 1} `, `{"big":12345678901234567890,"n":1.50,"t":"a <b>","x":1}`},
	} {
		got, err := command.MergePatch([]byte(c[0]), []byte(c[1]))
		if err != nil || string(got) != c[2] {
			t.Errorf("%s patched with %s is %s (%v), want %s", c[0], c[1], got, err, c[2])
		}
	}
	for _, c := range [][2]string{
		{`{`, `{"a":1}`}, {`{}`, `{"a"`}, {`{}`, `{"a":1,"a":2}`}, {`{}`, `{"a":{"b":1,"b":2}}`}, {`{"a":1,"a":2}`, `{"b":1}`}, {`{"a":{"b":1,"b":2}}`, `{"a":{"c":1}}`},
	} {
		if _, err := command.MergePatch([]byte(c[0]), []byte(c[1])); err == nil {
			t.Errorf("%s patched with %s is no error", c[0], c[1])
		}
	}
}
