package schemas

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// schema is a JSON Schema, or a part of one.
type schema = map[string]any

// dialect is the JSON Schema dialect of the schemas.
const dialect = "https://json-schema.org/draft/2020-12/schema"

const refPrefix = "#/$defs/"

// fixed are types whose JSON the fields do not tell.
var fixed = map[reflect.Type]schema{
	reflect.TypeFor[events.ID]():            {"type": "string", "pattern": "^[0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{26}$"},
	reflect.TypeFor[events.Token]():         {"type": "string", "pattern": "^[0-9a-z]*$"},
	reflect.TypeFor[events.NamespaceList](): {"type": "array", "items": schema{"type": "string"}, "maxItems": events.MaxAccepted},
	reflect.TypeFor[events.ItemState]():     {"type": "string", "enum": states()},
	reflect.TypeFor[events.Kind]():          {"type": "string"}, // further ones may come
	reflect.TypeFor[events.DedupPolicy]():   {"type": "string", "enum": []string{string(events.DedupMerge), string(events.DedupDistinct), string(events.DedupSupersede), string(events.DedupDefer)}},
	reflect.TypeFor[events.AfterPolicy]():   {"type": "string", "enum": []string{string(events.AfterCancel), string(events.AfterDead), string(events.AfterRun)}},
	reflect.TypeFor[events.ChildPolicy]():   {"type": "string", "enum": []string{string(events.ChildFail), string(events.ChildContinue)}},
	reflect.TypeFor[wire.Priority](): {"anyOf": []schema{
		{"type": "integer", "minimum": 0, "maximum": events.MaxPriority}, {"type": "string", "enum": []string{"low", "medium", "high"}},
	}},
	reflect.TypeFor[wire.WorkerStatus]():  {"type": "string", "enum": statuses()},
	reflect.TypeFor[wire.AlarmSeverity](): {"type": "string", "enum": []string{string(wire.AlarmCritical), string(wire.AlarmWarning)}},
}

// renamed names the types that share their name with another.
var renamed = map[reflect.Type]string{
	reflect.TypeFor[events.Pause]():         "PauseInfo",
	reflect.TypeFor[events.Schedule]():      "ScheduleRecord",
	reflect.TypeFor[events.NamespaceInfo](): "NamespaceRecord",
	reflect.TypeFor[events.Retention]():     "Retain",
}

func states() (names []string) {
	for s := events.ItemState(1); int(s) < events.NumStates; s++ {
		names = append(names, s.String())
	}
	return names
}

func statuses() (names []string) {
	for _, s := range wire.WorkerStatuses {
		names = append(names, string(s))
	}
	return names
}

// book collects the schemas of types that refer to each other.
type book struct {
	comments comments
	registry huma.Registry
	defs     map[string]schema
	types    map[string]reflect.Type
}

func newBook(c comments) *book {
	b := &book{comments: c, defs: map[string]schema{}, types: map[string]reflect.Type{}}
	b.registry = huma.NewMapRegistry(refPrefix, b.name)
	b.registry.RegisterTypeAlias(reflect.TypeFor[events.Duration](), reflect.TypeFor[int64]())
	return b
}

func (b *book) name(t reflect.Type, hint string) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	name := t.Name()
	if n := renamed[t]; n != "" {
		name = n
	}
	if name == "" {
		name = hint
	}
	b.types[name] = t
	return name
}

// add takes in a type with all that it refers to, and returns its name.
func (b *book) add(t reflect.Type) (string, error) {
	b.registry.Schema(t, true, t.Name())
	for name, s := range b.registry.Map() {
		if b.defs[name] != nil {
			continue
		}
		doc, err := json.Marshal(s)
		if err != nil {
			return "", fmt.Errorf("the schema of %s: %w", name, err)
		}
		var def schema
		if err := json.Unmarshal(doc, &def); err != nil {
			return "", fmt.Errorf("the schema of %s: %w", name, err)
		}
		b.defs[name] = def
		b.describe(def, b.types[name])
	}
	return b.name(t, ""), nil
}

// describe adds to a struct's schema what its Go type says beyond the shape.
func (b *book) describe(def schema, t reflect.Type) {
	delete(def, "additionalProperties")
	if text := b.comments.of(t); text != "" {
		def["description"] = text
	}
	properties, _ := def["properties"].(schema)
	for _, f := range fields(t) {
		p, _ := properties[jsonName(f.StructField)].(schema)
		if p == nil {
			continue
		}
		tidy(p, f.Type)
		if text := b.comments.ofField(f.owner, f.Name); text != "" {
			p["description"] = text
		}
	}
}

// tidy corrects the schema of a value of type t.
func tidy(s schema, t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if list, ok := s["type"].([]any); ok {
		s["type"] = list[0] // our fields are never null
	}
	delete(s, "format")
	if t == reflect.TypeFor[json.RawMessage]() {
		clear(s)
		return
	}
	if by, ok := fixed[t]; ok {
		clear(s)
		for k, v := range by {
			s[k] = v
		}
		return
	}
	switch t.Kind() {
	case reflect.Slice:
		if items, ok := s["items"].(schema); ok {
			tidy(items, t.Elem())
		}
	case reflect.Map:
		if values, ok := s["additionalProperties"].(schema); ok {
			tidy(values, t.Elem())
		}
	case reflect.Struct:
		if t.String() == "time.Time" {
			s["format"] = "date-time"
		}
	}
}

// field is a field and the struct that it is written in.
type field struct {
	reflect.StructField
	owner reflect.Type
}

// fields returns the fields of a struct's JSON, including fields of embedded structs.
func fields(t reflect.Type) (out []field) {
	if t == nil || t.Kind() != reflect.Struct {
		return nil
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous && f.Tag.Get("json") == "" {
			e := f.Type
			if e.Kind() == reflect.Pointer {
				e = e.Elem()
			}
			out = append(out, fields(e)...)
			continue
		}
		if f.IsExported() {
			out = append(out, field{f, t})
		}
	}
	return out
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// reach lists the names that a definition leads to, itself included.
func (b *book) reach(name string, seen map[string]bool) {
	if seen[name] {
		return
	}
	seen[name] = true
	for _, ref := range refs(b.defs[name]) {
		b.reach(ref, seen)
	}
}

// refs are the names that a schema refers to.
func refs(v any) (names []string) {
	switch v := v.(type) {
	case schema:
		for k, part := range v {
			if text, ok := part.(string); ok && k == "$ref" {
				names = append(names, strings.TrimPrefix(text, refPrefix))
				continue
			}
			names = append(names, refs(part)...)
		}
	case []any:
		for _, part := range v {
			names = append(names, refs(part)...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// close forbids other fields in what only requests have, and in an error reply.
func (b *book) close(requests, others map[string]bool) {
	for name, def := range b.defs {
		if requests[name] && !others[name] && def["properties"] != nil {
			def["additionalProperties"] = false
		}
	}
	// That it has nothing else tells it from an item, which may have a field of
	// that name, too.
	b.defs["ErrorReply"]["additionalProperties"] = false
}
