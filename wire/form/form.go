// Package form checks the forms of questions, which are JSON schemas, and holds values against
// them.
//
// A schema is of draft 2020-12 unless its $schema names another that is built in. It can't refer to
// others: nothing is loaded. Formats are checked.
package form

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/streamwright/streamwright/events"
)

// maxFaults bounds the faults that an error names.
const maxFaults = 5

// Check refuses (CodeBadRequest) what is no schema of a JSON object.
func Check(schema json.RawMessage) error {
	if _, err := compile(schema); err != nil {
		return events.Refuse(events.CodeBadRequest, "the question's form is no JSON schema: %s", events.Shorten(err.Error(), 512))
	}
	return nil
}

// Validate refuses (CodeBadRequest) a value that does not match a schema, and says where.
func Validate(schema, value json.RawMessage) error {
	s, err := compile(schema)
	if err != nil {
		return fmt.Errorf("the form of a question that was checked: %w", err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		return events.Refuse(events.CodeBadRequest, "the answer's value is no JSON document: %v", err)
	}
	var invalid *jsonschema.ValidationError
	if err := s.Validate(doc); errors.As(err, &invalid) {
		return events.Refuse(events.CodeBadRequest, "the answer's value does not match the form: %s", strings.Join(faults(nil, invalid), "; "))
	} else if err != nil {
		return events.Refuse(events.CodeBadRequest, "the answer's value can't be held against the form: %v", err)
	}
	return nil
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
	c := jsonschema.NewCompiler()
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
