package rest_test

import (
	"encoding/json"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
)

// document is the OpenAPI document, as far as the tests look.
type document struct {
	OpenAPI    string
	Servers    []struct{ URL string }
	Paths      map[string]map[string]op
	Tags       []struct{ Name string }
	Components struct {
		Schemas         map[string]json.RawMessage
		SecuritySchemes map[string]struct{ Type string }
	}
}

type op struct {
	OperationID string `json:"operationId"`
	Summary     string
	Description string
	Tags        []string
	Role        []string `json:"x-role"`
	Security    []map[string][]string
	Parameters  []parameter
	RequestBody *struct {
		Content map[string]struct{ Schema json.RawMessage }
	}
	Responses map[string]struct {
		Description string
		Content     map[string]struct{ Schema json.RawMessage }
	}
}

type parameter struct {
	Name, In, Description string
	Required              bool
	Schema                json.RawMessage
}

// routes are all that the contract of the API names.
const routes = `
POST /api/v1/work
GET /api/v1/work
GET /api/v1/work/{id}
DELETE /api/v1/work/{id}
PATCH /api/v1/work/{id}
GET /api/v1/work/{id}/wait
POST /api/v1/work/wait
GET /api/v1/work/{id}/history
GET /api/v1/work/{id}/logs
GET /api/v1/work/{id}/why
GET /api/v1/work/{id}/tree
POST /api/v1/work/{id}/replay
GET /api/v1/audit
GET /api/v1/stats
GET /api/v1/info
GET /api/v1/clock
POST /api/v1/clock/accept
GET /api/v1/state
GET /api/v1/types
GET /api/v1/types/{type}
GET /api/v1/types/{type}/holder
PATCH /api/v1/types/{type}
DELETE /api/v1/types/{type}
POST /api/v1/types/{type}/pause
POST /api/v1/types/{type}/resume
POST /api/v1/types/{type}/circuit/reset
GET /api/v1/workers
POST /api/v1/workers/{id}/drain
POST /api/v1/workers/{id}/circuit/reset
GET /api/v1/dead
GET /api/v1/causes
POST /api/v1/dead/{id}/replay
DELETE /api/v1/dead/{id}
POST /api/v1/dead/replay
POST /api/v1/dead/purge
POST /api/v1/work/cancel
POST /api/v1/work/reschedule
GET /api/v1/rejected
GET /api/v1/rejected/{seq}
POST /api/v1/rejected/{seq}/replay
DELETE /api/v1/rejected/{seq}
GET /api/v1/schedules
GET /api/v1/schedules/{name}
PUT /api/v1/schedules/{name}
DELETE /api/v1/schedules/{name}
POST /api/v1/schedules/{name}/fire
POST /api/v1/schedules/{name}/pause
POST /api/v1/schedules/{name}/resume
GET /api/v1/ticks
GET /api/v1/events
GET /healthz
GET /readyz
GET /metrics
`

func readDocument(t *testing.T, r *rig) (document, string) {
	t.Helper()
	res := r.send("GET", "/openapi.json", "")
	if res.status != http.StatusOK || res.header.Get("Content-Type") != "application/openapi+json" {
		t.Fatalf("/openapi.json: status %d, %s", res.status, res.header.Get("Content-Type"))
	}
	var d document
	if err := json.Unmarshal(res.body, &d); err != nil {
		t.Fatal(err)
	}
	return d, string(res.body)
}

func TestOpenAPIIsWhole(t *testing.T) {
	r := start(t, "")
	d, text := readDocument(t, r)
	if d.OpenAPI != "3.1.0" {
		t.Errorf("the document is of OpenAPI %q", d.OpenAPI)
	}
	if d.Components.SecuritySchemes["bearer"].Type != "http" || d.Components.SecuritySchemes["mutualTLS"].Type != "mutualTLS" {
		t.Errorf("the document has the security schemes %v", d.Components.SecuritySchemes)
	}
	for _, ref := range regexp.MustCompile(`"\$ref":"([^"]*)"`).FindAllStringSubmatch(text, -1) {
		name, ok := strings.CutPrefix(ref[1], "#/components/schemas/")
		if !ok || len(d.Components.Schemas[name]) < len(`{"type":"x"}`) {
			t.Errorf("%s leads nowhere", ref[1])
		}
	}
	for _, route := range strings.Split(strings.TrimSpace(routes), "\n") {
		method, path, _ := strings.Cut(route, " ")
		if _, ok := d.Paths[path][strings.ToLower(method)]; !ok {
			t.Errorf("%s is not in the document", route)
		}
	}
	if len(d.Servers) != 1 || d.Servers[0].URL != "/" {
		t.Errorf("the document has the servers %v", d.Servers)
	}
	tags, ids := map[string]bool{}, map[string]string{}
	for _, tag := range d.Tags {
		tags[tag.Name] = true
	}
	for path, item := range d.Paths {
		for method, o := range item {
			what := strings.ToUpper(method) + " " + path
			if other, taken := ids[o.OperationID]; taken || o.OperationID == "" {
				t.Errorf("%s has the id %q, as %s", what, o.OperationID, other)
			}
			ids[o.OperationID] = what
			checkOperation(t, what, path, &o, tags)
		}
	}
}

func checkOperation(t *testing.T, what, path string, o *op, tags map[string]bool) {
	t.Helper()
	if o.Summary == "" || o.Description == "" || len(o.Tags) != 1 || !tags[o.Tags[0]] {
		t.Errorf("%s has no summary, no description, or no tag of the list: %+v", what, o)
	}
	if len(o.Role) == 0 || o.Role[0] == "" || (o.Role[0] != "none") != (len(o.Security) == 2) {
		t.Errorf("%s does not say which role it needs, or how to prove it: %v, %v", what, o.Role, o.Security)
	}
	named := map[string]bool{}
	for _, p := range o.Parameters {
		if named[p.In+p.Name] = true; p.Description == "" && strings.HasPrefix(path, "/api/v1/") {
			t.Errorf("%s: the parameter %s is not described", what, p.Name)
		}
	}
	for _, m := range regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(path, -1) {
		if !named["path"+m[1]] {
			t.Errorf("%s does not describe the parameter %s of its path", what, m[1])
		}
	}
	if o.RequestBody != nil && len(o.RequestBody.Content["application/json"].Schema) < len(`{"type":"object"}`) {
		t.Errorf("%s has a body without a schema", what)
	}
	if !strings.HasPrefix(path, "/api/v1/") {
		return
	}
	for status, reply := range o.Responses {
		switch {
		case status == "204":
		case status < "300":
			for kind, c := range reply.Content {
				if o.Tags[0] != "other" && len(c.Schema) < len(`{"$ref":""}`) {
					t.Errorf("%s: the %s of %s has no schema", what, kind, status)
				}
			}
		case string(reply.Content["application/problem+json"].Schema) != `{"$ref":"#/components/schemas/Problem"}`:
			t.Errorf("%s: status %s is no problem document: %v", what, status, reply.Content)
		}
	}
	_, ok := o.Responses["200"]
	if _, created := o.Responses["201"]; !ok && !created {
		t.Errorf("%s does not say what it answers when all is well", what)
	}
	for _, status := range []string{"400", "401", "403", "503"} {
		if _, ok := o.Responses[status]; !ok {
			t.Errorf("%s does not say that it may answer %s", what, status)
		}
	}
}

// The guide has every status that the document declares for a refusal.
func TestGuideHasAllStatuses(t *testing.T) {
	d, _ := readDocument(t, start(t, ""))
	guide, err := os.ReadFile("../../docs/guides/HTTP.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(guide), "| status | when |")
	table, _, _ = strings.Cut(table, "\n\n")
	for path, item := range d.Paths {
		for method, o := range item {
			for status := range o.Responses {
				if listed, _ := regexp.MatchString(`(?m)^\| ([0-9, ]+, )?`+status+`[ ,|]`, table); status >= "400" && !listed {
					t.Errorf("%s %s may answer %s, which docs/guides/HTTP.md does not list", method, path, status)
				}
			}
		}
	}
}

// What waits for a position refuses one that the log has not, and the document says so.
func TestPositionsAheadAreDeclared(t *testing.T) {
	r := start(t, "")
	d, _ := readDocument(t, r)
	asked := 0
	for path, item := range d.Paths {
		for _, p := range item["get"].Parameters {
			if p.Name != "min_position" {
				continue
			}
			asked++
			at := inPath.ReplaceAllStringFunc(path, func(p string) string { return unknown[strings.Trim(p, "{}")] }) + "?min_position=99999999999&key=k"
			if !strings.HasSuffix(path, "/holder") {
				at = strings.TrimSuffix(at, "&key=k")
			}
			r.refused(http.StatusConflict, "position_ahead", "min_position", "GET", at, "")
		}
	}
	if asked < 12 {
		t.Errorf("only %d operations wait for a position", asked)
	}
}

// The types that are not what Go's kinds say.
func TestSchemasSayWhatIsSent(t *testing.T) {
	r := start(t, "")
	d, _ := readDocument(t, r)
	var item struct{ Properties map[string]map[string]any }
	if err := json.Unmarshal(d.Components.Schemas["Item"], &item); err != nil {
		t.Fatal(err)
	}
	for field, kind := range map[string]any{"state": "string", "id": "string", "created_at": "string", "attempt": "integer", "params": nil, "result": nil, "position": "string"} {
		if got := item.Properties[field]["type"]; got != kind {
			t.Errorf("an item's %s is said to be of type %v, not %v", field, got, kind)
		}
	}
	if f := item.Properties["created_at"]["format"]; f != "date-time" {
		t.Errorf("an item's created_at has the format %v", f)
	}
}

// The page is served whole by this server, and lets nothing else in.
func TestDocsPageNeedsNoOtherHost(t *testing.T) {
	r := start(t, "")
	page := r.send("GET", "/docs/api/", "")
	if page.status != http.StatusOK || !strings.Contains(string(page.body), "Streamwright API") {
		t.Fatalf("/docs/api/: status %d: %s", page.status, page.body)
	}
	policy := page.header.Get("Content-Security-Policy")
	if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") {
		t.Errorf("the page's policy is %q", policy)
	}
	for _, m := range regexp.MustCompile(`(?:src|href)="([^"#]+)"`).FindAllStringSubmatch(string(page.body), -1) {
		at := m[1]
		if !strings.HasPrefix(at, "/") {
			at = "/docs/api/" + at
		}
		if res := r.send("GET", at, ""); res.status != http.StatusOK {
			t.Errorf("the page asks for %s: status %d", at, res.status)
		}
		if strings.Contains(m[1], "//") {
			t.Errorf("the page asks another host: %s", m[1])
		}
	}
	if os.Getenv("STREAMWRIGHT_SHOW") != "" {
		t.Logf("%s/docs/api/", r.base)
	}
}
