package pagetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
)

// schemaForm is a script that makes a form of a schema and a first value (both JSON, or empty),
// puts it on the page, and calls f, a function of the form.
func schemaForm(schema, first, keep, f string) string {
	if first == "" {
		first = "undefined"
	} else {
		first = "parseExact(" + quote(first) + ")"
	}
	return fmt.Sprintf(`Promise.all([%s, %s]).then(([{ schemaForm }, { parseExact }]) => {
		const form = schemaForm(parseExact(%s), %s, %s);
		document.querySelector('main').replaceChildren(form.el);
		return (%s)(form);
	})`, module("schemaform.js"), module("api.js"), quote(schema), first, keep, f)
}

// A form gives back the value that it began with, whatever its fields make of it.
func TestFormsKeepTheirFirstValue(t *testing.T) {
	t.Parallel()
	w := start(t)
	p := open(t, desktop, w.url)
	p.see("h1", "Overview")
	for _, c := range []struct{ name, schema, first, keep, want string }{
		{"no value", `{"properties":{"a":{"type":"string"},"b":{"type":"integer"},"c":{"type":"boolean"},"d":{"enum":[1]},"e":{"type":"array","items":{"type":"string"}},"f":{"type":"array","items":{"enum":["x"]}},"g":{"type":"object"}}}`, ``, "false", `{}`},
		{"defaults", `{"properties":{"a":{"type":"string","default":"x"},"b":{"type":"integer","default":3},"c":{"type":"boolean","default":true}}}`, `{"b":4}`, "false", `{"a":"x","b":4,"c":true}`},
		{"exact numbers", `{"properties":{"a":{"type":"integer"},"b":{"type":"number"},"c":{"enum":[1.50,2]},"d":{}}}`, `{"a":12345678901234567890,"b":1.50,"c":1.50,"d":[1.0]}`, "false", "{\"a\":12345678901234567890,\"b\":1.50,\"c\":1.50,\"d\":[\n  1.0\n]}"},
		{"required flags and lists", `{"required":["a","b","c"],"properties":{"a":{"type":"boolean"},"b":{"type":"array","items":{"type":"string"}},"c":{"type":"array","items":{"enum":["x"]}}}}`, ``, "false", `{"a":false,"b":[],"c":[]}`},
		{"texts", `{"properties":{"a":{"type":"string"},"b":{"type":"string","maxLength":300},"c":{"type":"string"}}}`, `{"a":"","b":" x\n","c":"y\r\nz"}`, "false", `{"a":"","b":" x\n","c":"y\r\nz"}`},
		{"formats", `{"properties":{"a":{"type":"string","format":"date"},"b":{"type":"string","format":"date-time"},"c":{"type":"string","format":"email"},"d":{"type":"string","format":"uri"},"e":{"type":"string","format":"date"},"f":{"type":"string","format":"date-time"}}}`,
			`{"a":"2030-01-02","b":"2030-01-02T03:04:05.123456+02:00","c":" a@b.c","d":"urn:x","e":"tomorrow","f":"noon"}`, "false", `{"a":"2030-01-02","b":"2030-01-02T03:04:05.123456+02:00","c":" a@b.c","d":"urn:x","e":"tomorrow","f":"noon"}`},
		{"other types than the schema's", `{"properties":{"a":{"type":"string"},"b":{"type":"integer"},"c":{"type":"boolean"},"d":{"enum":["x"]},"e":{"type":"array","items":{"type":"string"}},"f":{"type":"array","items":{"enum":["x","y"]}}}}`,
			`{"a":5,"b":"5","c":"no","d":"y","e":["a\nb",""],"f":["y","x"]}`, "false", "{\"a\":5,\"b\":\"5\",\"c\":\"no\",\"d\":\"y\",\"e\":[\n  \"a\\nb\",\n  \"\"\n],\"f\":[\n  \"y\",\n  \"x\"\n]}"},
		{"null", `{"properties":{"a":{"type":["string","null"]},"b":{"enum":[null,"x"]}}}`, `{"a":null,"b":null}`, "false", `{"a":null,"b":null}`},
		{"other members are left out", `{"properties":{"a":{"type":"integer"}}}`, `{"z":1.0,"a":2}`, "false", `{"a":2}`},
		{"other members are kept", `{"properties":{"a":{"type":"integer"}}}`, `{"z":1.0,"a":2}`, "true", `{"z":1.0,"a":2}`},
		{"other members are forbidden", `{"properties":{"a":{"type":"integer"}},"additionalProperties":false}`, `{"z":1.0,"a":2}`, "true", `{"a":2}`},
		{"odd names", `{"properties":{"__proto__":{"type":"integer"},"constructor":{"type":"string","title":""}}}`, `{"__proto__":1,"constructor":"x"}`, "false", `{"__proto__":1,"constructor":"x"}`},
		{"no properties", `{"type":"object"}`, `{"a":1.0}`, "true", "{\n  \"a\": 1.0\n}"},
		{"alternatives", `{"properties":{"a":{"type":"integer"}},"oneOf":[{"required":["a"]}]}`, `{"a":1}`, "true", "{\n  \"a\": 1\n}"},
		{"a list", `{"properties":{"a":{"type":"integer"}}}`, `[1]`, "true", `{}`},
		{"odd schemas", `{"required":["a"],"properties":{"a":true,"b":{"type":"array"},"c":{"type":"string","pattern":"["},"d":{"type":"string","maxLength":2e2}}}`, `{"a":{},"c":"x","d":"y"}`, "false", `{"a":{},"c":"x","d":"y"}`},
	} {
		var got struct {
			Value   *string
			Changed bool
		}
		p.eval(schemaForm(c.schema, c.first, c.keep, `(f) => ({ Value: f.read(), Changed: f.changed() })`), &got)
		if got.Value == nil || *got.Value != c.want || got.Changed {
			t.Errorf("%s: %s becomes %s (changed: %v), want %s; %s", c.name, c.first, str(got.Value), got.Changed, c.want, p.text("main"))
		}
	}
}

func str(s *string) string {
	if s == nil {
		return "nothing"
	}
	return *s
}

// What is typed is read as the schema's type, and what is plain to see is complained of.
func TestFormsReadAndComplain(t *testing.T) {
	t.Parallel()
	w := start(t)
	p := open(t, desktop, w.url)
	call(p, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Europe/Berlin"})
	t.Cleanup(func() { call(p, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{}) }) // of the tab, which others use
	p.see("h1", "Overview")
	for _, c := range []struct{ schema, typed, value, complaint string }{
		{`{"type":"string"}`, `x "y"`, `"x \"y\""`, ``},
		{`{"type":"string"}`, ``, ``, `fill`},
		{`{"type":"string","minLength":3}`, `ab`, ``, `at least 3`},
		{`{"type":"string","maxLength":3}`, `äöü`, `"äöü"`, ``},
		{`{"type":"string","maxLength":3}`, `abcd`, ``, `at most 3`},
		{`{"type":"string","pattern":"[0-9]{2}"}`, `a12`, `"a12"`, ``},
		{`{"type":"string","pattern":"^[0-9]{2}$"}`, `a12`, ``, `form ^[0-9]{2}$`},
		{`{"type":"string","format":"email"}`, `nobody`, ``, `@`},
		{`{"type":"string","format":"uri"}`, `nowhere`, ``, `URL`},
		{`{"type":"string","format":"date"}`, `2030-01-02`, `"2030-01-02"`, ``},
		{`{"type":"string","format":"date-time"}`, `2030-01-02T03:04:05`, `"2030-01-02T02:04:05.000Z"`, ``},
		{`{"type":"string","x-multiline":true}`, "a\nb", `"a\nb"`, ``},
		{`{"type":"integer"}`, `98765432109876543210`, `98765432109876543210`, ``},
		{`{"type":"integer"}`, `1.5`, ``, `valid value`},
		{`{"type":"integer"}`, `007`, ``, `12`},
		{`{"type":"number"}`, `1.50`, `1.50`, ``},
		{`{"type":"number","minimum":2}`, `1`, ``, `2`},
		{`{"type":"number","maximum":2}`, `3`, ``, `2`},
		{`{"enum":["a",7]}`, `7`, `7`, ``},
		{`{"enum":["a",7]}`, ``, ``, `select`},
		{`{"type":"array","items":{"type":"string"}}`, "a\n\nb c\n", `["a","b c"]`, ``},
		{`{"type":"object"}`, `{"n":1.0}`, `{"n":1.0}`, ``},
		{`{"type":"object"}`, `{"n":}`, ``, `column 6`},
		{`{"type":"object"}`, ` `, ``, `Not JSON`},
	} {
		var got struct {
			Value *string
			Said  string
		}
		p.eval(schemaForm(fmt.Sprintf(`{"required":["x"],"properties":{"x":%s}}`, c.schema), "", "false", fmt.Sprintf(`(f) => {
			const el = f.el.querySelector('input, textarea, select');
			el.value = %s;
			el.dispatchEvent(new Event('input', { bubbles: true }));
			return { Value: f.read(), Said: f.el.querySelector('.field-error').textContent };
		}`, quote(c.typed))), &got)
		want := fmt.Sprintf(`{"x":%s}`, c.value)
		if c.complaint == "" && (str(got.Value) != want || got.Said != "") {
			t.Errorf("%s of %q: %s, want %s; it says %q", c.schema, c.typed, str(got.Value), want, got.Said)
		}
		if c.complaint != "" && (got.Value != nil || !strings.Contains(got.Said, c.complaint)) {
			t.Errorf("%s of %q: %s, complaint %q, want one of %q", c.schema, c.typed, str(got.Value), got.Said, c.complaint)
		}
	}
}
