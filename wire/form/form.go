// Package form checks the forms of questions, which are JSON schemas, and holds values against
// them.
//
// A schema is of draft 2020-12 unless its $schema names another that is built in. It can't refer to
// others, nor to parts of itself: nothing is loaded, and what it takes to check a value is bounded by
// the size of both. Formats are checked.
package form

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/streamwright/streamwright/events"
)

const (
	maxFaults = 5 // that an error names
	// A number of more digits, or with a larger exponent, is refused: arithmetic on it would be exact.
	maxDigits, maxExponent = 100, 400
	// maxProgram bounds the instructions of a schema's regular expressions, together.
	maxProgram = 5000
)

// Check refuses (CodeBadRequest) what is no schema of a JSON object.
func Check(schema json.RawMessage) (err error) {
	defer caught(&err)
	if _, err := compile(schema); err != nil {
		return events.Refuse(events.CodeBadRequest, "the question's form is no JSON schema: %s", events.Shorten(err.Error(), 512))
	}
	return nil
}

// Validate refuses (CodeBadRequest) a value that does not match a schema, and says where.
func Validate(schema, value json.RawMessage) (err error) {
	defer caught(&err)
	s, err := compile(schema)
	if err != nil {
		return fmt.Errorf("the form of a question that was checked: %w", err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		return events.Refuse(events.CodeBadRequest, "the answer's value is no JSON document: %v", err)
	}
	if err := bounded(doc, false); err != nil {
		return events.Refuse(events.CodeBadRequest, "the answer's value: %v", err)
	}
	var invalid *jsonschema.ValidationError
	if err := s.Validate(doc); errors.As(err, &invalid) {
		return events.Refuse(events.CodeBadRequest, "the answer's value does not match the form: %s", strings.Join(faults(nil, invalid), "; "))
	} else if err != nil {
		return events.Refuse(events.CodeBadRequest, "the answer's value can't be held against the form: %v", err)
	}
	return nil
}

// caught makes an error of a panic: the library is given what strangers write.
func caught(err *error) {
	if r := recover(); r != nil {
		*err = events.Refuse(events.CodeBadRequest, "the form, or the answer's value, can't be checked: %s", events.Clip(fmt.Sprint(r), 200))
	}
}

// bounded refuses what would take long to compute with, and in a schema what refers to another part.
func bounded(doc any, schema bool) error {
	switch v := doc.(type) {
	case json.Number:
		digits, exponent, _ := strings.Cut(strings.ToLower(v.String()), "e")
		if n, err := strconv.Atoi(cmp.Or(exponent, "0")); len(digits) > maxDigits || err != nil || max(n, -n) > maxExponent {
			return fmt.Errorf("the number %s is out of range", events.Clip(v.String(), 40))
		}
	case []any:
		for _, e := range v {
			if err := bounded(e, schema); err != nil {
				return err
			}
		}
	case map[string]any:
		for name, e := range v {
			if text, is := e.(string); schema && is && (name == "$ref" || name == "$dynamicRef" || name == "$recursiveRef") {
				return fmt.Errorf("it refers to %s: write out what it stands for", events.Clip(text, 80))
			}
			if err := bounded(e, schema); err != nil {
				return err
			}
		}
	}
	return nil
}

// patterns compiles the regular expressions of a schema, of a bounded size together.
func patterns() jsonschema.RegexpEngine {
	left := maxProgram
	return func(text string) (jsonschema.Regexp, error) {
		parsed, err := syntax.Parse(text, syntax.Perl)
		if err != nil {
			return nil, err
		}
		prog, err := syntax.Compile(parsed.Simplify())
		if err != nil {
			return nil, err
		}
		if left -= len(prog.Inst); left < 0 {
			return nil, errors.New("its patterns are too large: shorten them, or repeat less in them")
		}
		return regexp.Compile(text)
	}
}

// nothing loads no schema.
type nothing struct{}

func (nothing) Load(url string) (any, error) {
	return nil, fmt.Errorf("it refers to %s: a form must be whole in itself", url)
}

func compile(schema json.RawMessage) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil, err
	}
	if m, ok := doc.(map[string]any); !ok || m["type"] != "object" {
		return nil, errors.New(`it must have "type": "object"`)
	}
	if err := bounded(doc, true); err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.UseRegexpEngine(patterns())
	c.UseLoader(nothing{})
	c.AssertFormat()
	const name = "urn:streamwright:form"
	if err := c.AddResource(name, doc); err != nil {
		return nil, err
	}
	return c.Compile(name)
}

var printer = message.NewPrinter(language.English)

// faults lists what is wrong: the innermost causes, with their places.
func faults(list []string, e *jsonschema.ValidationError) []string {
	for _, c := range e.Causes {
		if len(list) < maxFaults {
			list = faults(list, c)
		}
	}
	if len(e.Causes) > 0 {
		return list
	}
	text := e.ErrorKind.LocalizedString(printer)
	if len(e.InstanceLocation) > 0 {
		text = strings.Join(e.InstanceLocation, ".") + ": " + text
	}
	return append(list, events.Shorten(text, 200))
}
