package schemas

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/streamwright/streamwright/wire"
)

const tsHead = `// Rendered from the Go types of the protocol: do not edit.
// UPDATE_DOCS=1 go test ./internal/schemas writes it anew.
`

// tsState is the name of the type of an item's state.
const tsState = "ItemState"

// typeScript renders a book as interfaces.
func typeScript(types *book) []byte {
	var out bytes.Buffer
	out.WriteString(tsHead)
	fmt.Fprintf(&out, "\n/** Where an item is in its life. */\nexport type %s = %s;\n", tsState, union(states()))
	for _, name := range slices.Sorted(maps.Keys(types.defs)) {
		writeInterface(&out, name, types.defs[name])
	}
	out.WriteString("\n/** Requests of which two do more than one: they are not repeated unless nobody has taken them. */\nexport const onlyOnce: ReadonlySet<string> = new Set([\n")
	for _, e := range wire.Endpoints() {
		if e.Once {
			fmt.Fprintf(&out, "  %q,\n", e.Name)
		}
	}
	out.WriteString("]);\n")
	return out.Bytes()
}

func writeInterface(out *bytes.Buffer, name string, def schema) {
	out.WriteString("\n")
	writeComment(out, "", def["description"])
	fmt.Fprintf(out, "export interface %s {\n", name)
	required := map[string]bool{}
	list, _ := def["required"].([]any)
	for _, field := range list {
		required[field.(string)] = true
	}
	properties, _ := def["properties"].(schema)
	for _, field := range slices.Sorted(maps.Keys(properties)) {
		p, _ := properties[field].(schema)
		writeComment(out, "  ", p["description"])
		mark := "?"
		if required[field] {
			mark = ""
		}
		fmt.Fprintf(out, "  %s%s: %s;\n", field, mark, tsType(p))
	}
	out.WriteString("}\n")
}

func writeComment(out *bytes.Buffer, indent string, text any) {
	s, _ := text.(string)
	if s == "" {
		return
	}
	lines := strings.Split(strings.ReplaceAll(s, "*/", "*\u200b/"), "\n")
	if len(lines) == 1 {
		fmt.Fprintf(out, "%s/** %s */\n", indent, lines[0])
		return
	}
	fmt.Fprintf(out, "%s/**\n", indent)
	for _, l := range lines {
		fmt.Fprintf(out, "%s *%s\n", indent, strings.TrimRight(" "+l, " "))
	}
	fmt.Fprintf(out, "%s */\n", indent)
}

// tsType is the TypeScript type of a schema. Documents of users are unknown.
func tsType(s schema) string {
	if ref, ok := s["$ref"].(string); ok {
		return strings.TrimPrefix(ref, refPrefix)
	}
	if names, ok := s["enum"].([]string); ok {
		if slices.Equal(names, states()) {
			return tsState
		}
		return union(names)
	}
	if either, ok := s["anyOf"].([]schema); ok {
		types := make([]string, len(either))
		for i, e := range either {
			types[i] = tsType(e)
		}
		return strings.Join(types, " | ")
	}
	switch s["type"] {
	case "string":
		return "string"
	case "boolean":
		return "boolean"
	case "integer", "number":
		return "number"
	case "array":
		items, _ := s["items"].(schema)
		if t := tsType(items); strings.Contains(t, " ") {
			return "(" + t + ")[]"
		} else {
			return t + "[]"
		}
	case "object":
		values, _ := s["additionalProperties"].(schema)
		return "{ [key: string]: " + tsType(values) + " }"
	}
	return "unknown"
}

// union is the type of some strings.
func union(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = strconv.Quote(n)
	}
	return strings.Join(quoted, " | ")
}
