package events

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// document checks params or a result (what says which) and returns it without
// the blanks around it. An empty document is null.
func CheckDocument(what string, p json.RawMessage, limit int, advice string) (json.RawMessage, error) {
	p = bytes.TrimSpace(p)
	if len(p) == 0 {
		return json.RawMessage("null"), nil
	}
	if len(p) > limit {
		return nil, Refuse(CodeTooLarge, "%s has %d bytes, the limit is %d: %s", what, len(p), limit, advice)
	}
	// The depth comes before the syntax, since encoding/json calls what is
	// too deep for it a syntax error.
	if n := JSONDepth(p); n > MaxJSONDepth {
		return nil, Refuse(CodeBadParams, "%s is nested %d deep, the limit is %d: flatten it, or send it as a JSON string", what, n, MaxJSONDepth)
	}
	if !json.Valid(p) || !utf8.Valid(p) {
		return nil, Refuse(CodeBadParams, "%s is no JSON document in UTF-8: quote strings, and send null or nothing for none", what)
	}
	return p, nil
}

// depth is how deep arrays and objects nest in a JSON document. Of a text that
// is no JSON it is a bound for what a decoder would have to nest.
func JSONDepth(p []byte) int {
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

// name checks a short text field.
func CheckText(field, v string, limit int) (string, error) {
	if len(v) > limit {
		return "", Refuse(CodeTooLarge, "%s has %d bytes: at most %d are allowed", field, len(v), limit)
	}
	if !utf8.ValidString(v) {
		return "", Refuse(CodeBadRequest, "%s is no valid UTF-8: encode it, for instance in base64", field)
	}
	return v, nil
}

// text cuts a long text to a bound, at a character.
func Shorten(v string, limit int) string {
	v = strings.ToValidUTF8(v, "\uFFFD")
	if len(v) <= limit {
		return v
	}
	const mark = " … (cut)"
	return Cut(v, limit-len(mark)) + mark
}

// cutText is the longest part of v, from its beginning, that has at most limit
// bytes and ends with a whole character.
func Cut(v string, limit int) string {
	for limit > 0 && !utf8.RuneStart(v[limit]) {
		limit--
	}
	return v[:limit]
}

func BadPriority(p Priority) error {
	return Refuse(CodeBadPriority, "priority %d is outside 0 to %d", p, MaxPriority)
}

// capabilities returns them sorted, each once.
func CheckCapabilities(in []string) ([]string, error) {
	if len(in) == 0 {
		return nil, nil
	}
	if len(in) > MaxCapabilities {
		return nil, Refuse(CodeTooLarge, "the item asks for %d capabilities: at most %d", len(in), MaxCapabilities)
	}
	for _, c := range in {
		if !words(c, "-") || len(c) > MaxCapabilityLen {
			return nil, Refuse(CodeBadRequest, "%q is no capability: use at most %d characters of a-z and 0-9 with single - between them", Clip(c, 80), MaxCapabilityLen)
		}
	}
	out := slices.Clone(in)
	slices.Sort(out)
	out = slices.Compact(out)
	if n := len(LaneOf(out)); n > MaxLaneLen {
		return nil, Refuse(CodeTooLarge, "the item's capabilities have %d bytes together: at most %d", n, MaxLaneLen)
	}
	return out, nil
}

// labels checks them and returns a copy: the submitter's map is not ours.
func CheckLabels(in map[string]string) (map[string]string, error) {
	if len(in) == 0 {
		return nil, nil // not an empty map, which the log doesn't tell from none
	}
	if len(in) > MaxLabels {
		return nil, Refuse(CodeTooLarge, "the item has %d labels: at most %d", len(in), MaxLabels)
	}
	for _, k := range slices.Sorted(maps.Keys(in)) { // in order, so that the refusal is the same each time
		v := in[k]
		if k == "" || strings.ContainsAny(k, "=,") {
			return nil, Refuse(CodeBadRequest, "%q is no label name: it must not be empty nor have = or , in it", Clip(k, 80))
		}
		if _, err := CheckText("a label's name", k, MaxLabelLen); err != nil {
			return nil, err
		}
		if _, err := CheckText("label "+k, v, MaxLabelLen); err != nil {
			return nil, err
		}
	}
	return maps.Clone(in), nil
}
