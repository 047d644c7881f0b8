package rest_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/events"
)

// unknown stands for each kind of name in a path, and bodies are what the
// operations take that need one.
var (
	unknown = map[string]string{"id": "01JD3V6YB2M4C9W8ZK5T7QXRNE", "type": "nosuchtype", "name": "nosuchname", "seq": "999999999", "node": "nosuchnode", "token": "01JD3V6YB2M4C9W8ZK5T7QXRNE-NOSUCHTOKEN"}
	bodies  = map[string]string{
		"PATCH /api/v1/work/{id}":             `{"priority":1}`,
		"PATCH /api/v1/types/{type}":          `{"capacity":1}`,
		"PUT /api/v1/schedules/{name}":        `{"type":"nosuchtype","every_ms":60000}`,
		"POST /api/v1/workers/{id}/report":    `{"session":"s","reports":[]}`,
		"POST /api/v1/workers/{id}/poll":      `{"session":"s"}`,
		"POST /api/v1/workers/{id}/heartbeat": `{"session":"s"}`,
		"POST /api/v1/workers/{id}/probe":     `{"session":"s"}`,
		"POST /api/v1/workers/{id}/log":       `{"session":"s","records":[]}`,
		"POST /api/v1/workers/{id}/output":    `{"session":"s","id":"01ARZ3NDEKTSV4RRFFQ69G5FAV","token":"1"}`,
	}
	// known are the operations that answer 200 all the same: they make what they
	// name, or take away what is not there. They are called last.
	known = []string{"PATCH /api/v1/types/{type}", "PUT /api/v1/schedules/{name}", "PUT /api/v1/namespaces/{name}", "POST /api/v1/types/{type}/pause", "POST /api/v1/workers/{id}/undrain"}
)

var inPath = regexp.MustCompile(`\{(\w+)\}`)

// Every operation that names something answers 404 where there is nothing of that
// name, unless it makes it; and the document declares what it answers.
func TestUnknownNamesAreDeclared(t *testing.T) {
	r := start(t, "")
	d, _ := readDocument(t, r)
	var patterns []string
	for path, operations := range d.Paths {
		for method := range operations {
			if pattern := strings.ToUpper(method) + " " + path; inPath.MatchString(path) && !slices.Contains(known, pattern) {
				patterns = append(patterns, pattern)
			}
		}
	}
	if slices.Sort(patterns); len(patterns) < 25 {
		t.Errorf("only these operations name something: %q", patterns)
	}
	for _, pattern := range append(patterns, known...) {
		method, path, _ := strings.Cut(pattern, " ")
		at := inPath.ReplaceAllStringFunc(path, func(p string) string {
			name := unknown[strings.Trim(p, "{}")]
			if name == "" {
				t.Errorf("%s: what is an unknown %s? add it to this test", pattern, p)
			}
			return name
		})
		if strings.HasSuffix(path, "/holder") {
			at += "?key=k"
		}
		res := r.send(method, at, bodies[pattern], "Work-Session", "nosuchsession")
		answers := d.Paths[path][strings.ToLower(method)].Responses
		if _, declared := answers[strconv.Itoa(res.status)]; !declared {
			t.Errorf("%s answers %d, which the document does not declare: %s", pattern, res.status, res.body)
		}
		_, declared := answers["404"]
		if want := !slices.Contains(known, pattern); declared != want || (res.status == http.StatusNotFound) != want {
			t.Errorf("%s answers %d where there is nothing of the name, and 404 is declared: %v: %s", pattern, res.status, declared, res.body)
		}
	}
}

// The document's parameters are all that the live feeds take.
func TestLiveParametersAreDeclared(t *testing.T) {
	r := start(t, "")
	d, _ := readDocument(t, r)
	for path, want := range map[string][]string{"/api/v1/live": {"types"}, "/api/v1/trends": {"minutes", "types"}} {
		var got []string
		for _, p := range d.Paths[path]["get"].Parameters {
			got = append(got, p.Name)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s is said to take %v, not %v", path, got, want)
		}
	}
	r.refused(400, "bad_request", `"hours"`, "GET", "/api/v1/trends?hours=1", "")
}

// A body is one item or a list of them: the schema allows both, and not both at
// once, which the engine refuses too.
func TestSubmissionSchemaHasBothForms(t *testing.T) {
	r := start(t, "")
	d, _ := readDocument(t, r)
	type form struct {
		Ref                  string `json:"$ref"`
		Required             []string
		AdditionalProperties *bool
		Properties           map[string]struct {
			MaxItems int
			Items    struct {
				Ref string `json:"$ref"`
			}
		}
	}
	var schema struct{ OneOf []form }
	if err := json.Unmarshal(d.Paths["/api/v1/work"]["post"].RequestBody.Content["application/json"].Schema, &schema); err != nil {
		t.Fatal(err)
	}
	if len(schema.OneOf) != 2 {
		t.Fatalf("the body has %d forms", len(schema.OneOf))
	}
	const submit = "#/components/schemas/Submit"
	one, many := schema.OneOf[0], schema.OneOf[1]
	if one.Ref != submit {
		t.Errorf("one item is %+v", one)
	}
	items := many.Properties["items"]
	if !slices.Equal(many.Required, []string{"items"}) || many.AdditionalProperties == nil || *many.AdditionalProperties || len(many.Properties) != 1 ||
		items.Items.Ref != submit || items.MaxItems != events.MaxSubmitBatch {
		t.Errorf("many items are %+v", many)
	}
}
