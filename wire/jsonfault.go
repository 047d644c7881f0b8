package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/streamwright/streamwright/events"
)

// jsonFaults maps the decoder's own words for what it was looking for to advice on
// what to write there.
var jsonFaults = []struct{ looking, write string }{
	{"looking for beginning of value", "expected a value: a text must be in double quotes"},
	{"looking for beginning of object key string", "expected the name of a field, in double quotes"},
	{"after object key:value pair", "expected a comma or }"},
	{"after object key", "expected a colon"},
	{"after array element", "expected a comma or ]"},
	{"after top-level value", "expected nothing: send one document"},
	{"in string escape code", `use \" \\ \/ \b \f \n \r \t or \u and four hex digits`},
	{`in \u hexadecimal character escape`, "use four hex digits"},
	{"in string literal", `a control character in a text: write a new line as \n`},
	{"in literal", "expected true, false or null"},
	{"in numeric literal", "expected a digit"},
	{"after decimal point in numeric literal", "expected a digit"},
	{"in exponent of numeric literal", "expected a digit"},
}

// JSONFault says what is wrong with a document that encoding/json could not read,
// and what is expected: "'t' at byte 2: expected the name of a field, in double
// quotes".
func JSONFault(err error) string {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	var refused *events.Error
	switch {
	case errors.As(err, &refused):
		return refused.Message
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), err.Error() == "unexpected end of JSON input":
		return "it ends too soon: a quote, a bracket or a value is missing"
	case errors.As(err, &syntax):
		return syntaxFault(syntax)
	case errors.As(err, &kind):
		return fmt.Sprintf("%s is a JSON %s: it must be %s", jsonField(kind), JSONValue(kind), JSONKind(kind))
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		if n, uerr := strconv.Unquote(name); uerr == nil {
			name = n
		}
		return fmt.Sprintf("the field %q is not known: check its spelling", name)
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

func syntaxFault(err *json.SyntaxError) string {
	text, ok := strings.CutPrefix(err.Error(), "invalid character ")
	if !ok {
		return err.Error()
	}
	for _, f := range jsonFaults {
		if what, _, found := strings.Cut(text, " "+f.looking); found {
			return fmt.Sprintf("%s at byte %d: %s", what, err.Offset, f.write)
		}
	}
	return fmt.Sprintf("invalid character %s at byte %d", text, err.Offset)
}

func jsonField(e *json.UnmarshalTypeError) string {
	if e.Field == "" {
		return "the document"
	}
	return "the field " + e.Field
}

// JSONValue is the kind of value that is there, without the value: the decoder adds that to
// a number.
func JSONValue(e *json.UnmarshalTypeError) string {
	kind, _, _ := strings.Cut(e.Value, " ")
	return kind
}

// JSONKind is the kind of value that is expected.
func JSONKind(e *json.UnmarshalTypeError) string {
	switch e.Type.Kind().String() {
	case "string":
		return "a string"
	case "bool":
		return "true or false"
	case "slice", "array":
		return "a list"
	case "struct", "map":
		return "an object"
	case "float32", "float64":
		return "a number"
	}
	return "a whole number in its range"
}
