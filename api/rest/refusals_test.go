package rest_test

import (
	"regexp"
	"strings"
	"testing"
)

// What the engine refuses an operation for is declared: send holds each answer against the
// document.
func TestRefusalsAreDeclared(t *testing.T) {
	r := start(t, "[limits]\ntypes = [\"mine\"]\n[types.mine]\ncapacity = 3\n[schedules.filed]\ntype = \"mine\"\nevery = \"1h\"\n")
	id := r.submit(`{"type":"mine"}`)
	long := strings.Repeat("x", 3000)
	r.send("PUT", "/api/v1/schedules/other", `{"type":"other","every_ms":3600000}`)
	for _, c := range []struct {
		status             int
		code               string
		method, path, body string
	}{
		{422, "type_not_allowed", "POST", "/work", `{"type":"other"}`},
		{422, "type_not_allowed", "POST", "/types/other/pause", ""},
		{422, "type_not_allowed", "PATCH", "/types/other", `{"capacity":1}`},
		{422, "type_not_allowed", "POST", "/workers", `{"types":["other"],"slots":1}`},
		{422, "type_not_allowed", "POST", "/schedules/other/fire", ""},
		{404, "not_found", "POST", "/types/other/resume", ""},
		{404, "not_found", "POST", "/work", `{"type":"mine","after":["` + nobody + `"]}`},
		{404, "not_found", "GET", "/state?at=2001-01-31T08:00:00Z", ""},
		{409, "set_in_file", "PATCH", "/types/mine", `{"capacity":9}`},
		{409, "set_in_file", "PUT", "/schedules/filed", `{"type":"mine","every_ms":60000}`},
		{409, "set_in_file", "DELETE", "/schedules/filed", ""},
		{409, "set_in_file", "POST", "/schedules/filed/pause", ""},
		{409, "set_in_file", "POST", "/schedules/filed/resume", ""},
		{409, "id_conflict", "POST", "/schedules/filed/fire", `{"id":"` + id + `"}`},
		{409, "wrong_state", "POST", "/work/" + id + "/replay", ""},
		{413, "too_large", "GET", "/work?q=" + long, ""},
		{413, "too_large", "GET", "/dead?q=" + long, ""},
		{413, "too_large", "GET", "/events?id=" + strings.Repeat(nobody+"&id=", 100) + nobody, ""},
		{413, "too_large", "DELETE", "/work/" + id + "?reason=" + long, ""},
		{413, "too_large", "PUT", "/schedules/large", `{"type":"mine","every_ms":60000,"params":"` + strings.Repeat("x", 70_000) + `"}`},
	} {
		r.refused(c.status, c.code, "", c.method, "/api/v1"+c.path, c.body)
	}
}

// Every schema of the document is reached from a path.
func TestSchemasAreReached(t *testing.T) {
	d, _ := readDocument(t, start(t, ""))
	ref := regexp.MustCompile(`"#/components/schemas/([^"]+)"`)
	reached := map[string]bool{}
	var follow func(text []byte)
	follow = func(text []byte) {
		for _, m := range ref.FindAllSubmatch(text, -1) {
			if name := string(m[1]); !reached[name] {
				reached[name] = true
				follow(d.Components.Schemas[name])
			}
		}
	}
	for _, item := range d.Paths {
		for _, o := range item {
			if o.RequestBody != nil {
				for _, c := range o.RequestBody.Content {
					follow(c.Schema)
				}
			}
			for _, reply := range o.Responses {
				for _, c := range reply.Content {
					follow(c.Schema)
				}
			}
			for _, p := range o.Parameters {
				follow(p.Schema)
			}
		}
	}
	for name := range d.Components.Schemas {
		if !reached[name] {
			t.Errorf("no operation leads to the schema %s", name)
		}
	}
	if len(reached) < 50 {
		t.Errorf("only %d schemas are reached", len(reached))
	}
}
