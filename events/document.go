package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// document checks params or a result (what says which) and returns it without
// the blanks around it. An empty document is null.
func document(what string, p json.RawMessage, limit int, advice string) (json.RawMessage, error) {
	p = bytes.TrimSpace(p)
	if len(p) == 0 {
		return json.RawMessage("null"), nil
	}
	if len(p) > limit {
		return nil, Refuse(CodeTooLarge, "%s has %d bytes: at most %d are allowed; %s", what, len(p), limit, advice)
	}
	// The depth comes before the syntax, since encoding/json calls what is
	// too deep for it a syntax error.
	if n := depth(p); n > MaxJSONDepth {
		return nil, Refuse(CodeBadParams, "%s is nested %d deep, the limit is %d: flatten it, or send it as a JSON string", what, n, MaxJSONDepth)
	}
	if !json.Valid(p) || !utf8.Valid(p) {
		return nil, Refuse(CodeBadParams, "%s is no JSON document in UTF-8: %s", what, DocumentFault(p))
	}
	return p, nil
}

// DocumentFault says where a document that can't be taken stops being JSON.
func DocumentFault(doc []byte) string {
	var v any
	err := json.Unmarshal(doc, &v)
	var at *json.SyntaxError
	switch {
	case errors.As(err, &at):
		return fmt.Sprintf("%v, at byte %d; a text must be in double quotes", at, at.Offset)
	case err != nil:
		return err.Error()
	}
	return "a string in it has bytes that are no UTF-8"
}

// depth is how deep arrays and objects nest in a JSON document. Of a text that
// is no JSON it is a bound for what a decoder would have to nest.
func depth(p []byte) int {
	deepest, now := 0, 0
	for i := 0; i < len(p); i++ {
		switch p[i] {
		case '"':
			for i++; i < len(p) && p[i] != '"'; i++ {
				if p[i] == '\\' {
					i++
				}
			}
		case '[', '{':
			now++
			deepest = max(deepest, now)
		case ']', '}':
			now--
		}
	}
	return deepest
}
