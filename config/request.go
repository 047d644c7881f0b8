package config

import (
	"maps"
	"slices"
	"strings"
)

// Request returns the settings of a type as the API takes them, checked one by one.
// They are written as in engine.toml; an empty text stands for the engine's default.
// The error joins an [*Error] for each fault.
func Request(settings map[string]any) (map[string]any, error) {
	var t Type
	fields := append(t.Patch.fields(), fixed("retain", "", t.Patch.rows("retain.", retainSettings())))
	var c checker
	body := c.request("", fields, settings)
	return body, join(c.errs)
}

// request renders a table.
func (c *checker) request(path string, fields []field, t map[string]any) map[string]any {
	body := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(t)) {
		at, v := path+key, t[key]
		i := slices.IndexFunc(fields, func(f field) bool { return f.key == key })
		if i < 0 {
			c.failf(at, "%s", unknown(key, v, fields))
			continue
		}
		f := fields[i]
		sub, isTable := v.(map[string]any)
		switch {
		case v == "":
			body[key+unitOf(f.kind)] = f.unsetJSON()
		case f.table == nil:
			c.report(at, f.set(v))
			body[key+unitOf(f.kind)] = f.get()
		case !isTable:
			c.failf(at, "is %s: it must be a table", show(v))
		case f.each == "":
			body[key] = c.request(at+".", f.below(), sub)
		default:
			body[key] = c.requests(at, f, sub)
		}
	}
	return body
}

// requests renders the tables below one, such as codes.
func (c *checker) requests(path string, f field, t map[string]any) map[string]any {
	body := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(t)) {
		at := path + "." + name
		fields, err := f.table(name)
		sub, isTable := t[name].(map[string]any)
		switch {
		case err != nil:
			c.failf(at, "%v", err)
		case !isTable:
			c.failf(at, "is %s: it must be a table", show(t[name]))
		default:
			body[name] = c.request(at+".", fields, sub)
		}
	}
	return body
}

// unsetJSON returns the JSON of a setting for which the engine takes its default.
func (f field) unsetJSON() any {
	switch f.kind {
	case "string":
		return ""
	case "boolean":
		return false
	case "tables":
		return []any{}
	case "table":
		return nil
	}
	return 0
}

// Written returns JSON of the API, decoded with [encoding/json.Decoder.UseNumber], in
// the spelling of engine.toml: {"lease_ms": 30000} as {"lease": "30s"}.
func Written(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, x := range v {
			name, text := written(key, x)
			out[name] = text
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = Written(x)
		}
		return out
	}
	return v
}

func written(key string, v any) (string, any) {
	n, isNumber := v.(interface{ Int64() (int64, error) })
	if !isNumber {
		return key, Written(v)
	}
	i, err := n.Int64()
	if name, is := strings.CutSuffix(key, "_ms"); is && err == nil {
		return name, ofMillis(i)
	}
	if name, is := strings.CutSuffix(key, "_bytes"); is && err == nil {
		return name, FormatSize(i)
	}
	return key, v
}
