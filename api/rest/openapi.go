package rest

import (
	"encoding/json"
	"iter"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/schemas"
	"github.com/streamwright/streamwright/wire"
)

const about = `The API of a work engine. It is the same as over NATS, in the same JSON: see docs/guides/HTTP.md for examples.

Times are RFC 3339. Requests with a body take JSON, whatever their Content-Type; a field or a query parameter that the engine does not know is refused. Errors are problem documents (RFC 9457) with the engine's code, which docs/reference/ERRORS.md explains. x-role names the roles any one of which an operation needs, where the engine is not open to all: none means that nobody has to say who he is.`

// priority stands for wire.Priority in the document.
type priority struct{}

// Schema implements huma.SchemaProvider.
func (priority) Schema(huma.Registry) *huma.Schema {
	least, most := 0.0, float64(events.MaxPriority)
	return &huma.Schema{AnyOf: []*huma.Schema{
		{Type: huma.TypeInteger, Minimum: &least, Maximum: &most}, {Type: huma.TypeString, Enum: []any{"low", "medium", "high"}},
	}}
}

// describe is the beginning of the OpenAPI document.
func describe(version string) huma.Config {
	c := huma.DefaultConfig("Streamwright", version)
	c.CreateHooks = nil // no $schema links in replies
	c.DocsPath, c.OpenAPIPath, c.SchemasPath = "", "", ""
	c.RejectUnknownQueryParameters = true
	c.Info.Description = about
	c.Info.License = nil
	c.Components.Schemas = huma.NewMapRegistry(schemaPrefix, schemaName)
	c.Components.Schemas.RegisterTypeAlias(typeOf[wire.Priority](), typeOf[priority]())
	c.Components.Schemas.RegisterTypeAlias(typeOf[events.Duration](), typeOf[int64]())
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"bearer":    {Type: "http", Scheme: "bearer", Description: "A token of the engine's configuration: Authorization: Bearer TOKEN."},
		"mutualTLS": {Type: "mutualTLS", Description: "A client certificate that the engine's configuration knows."},
	}
	c.Servers = []*huma.Server{{URL: "/", Description: "The engine that serves this document."}}
	for _, t := range tags {
		c.Tags = append(c.Tags, &huma.Tag{Name: t[0], Description: t[1]})
	}
	return c
}

const schemaPrefix = "#/components/schemas/"

// The tags of operations.
const (
	tagWork       = "work"
	tagApprovals  = "approvals"
	tagEvents     = "events"
	tagEngine     = "engine"
	tagTypes      = "types"
	tagWorkers    = "workers"
	tagDead       = "dead letters"
	tagRejected   = "rejected"
	tagSchedules  = "schedules"
	tagNamespaces = "namespaces"
	tagWorkerAPI  = "workers over HTTP"
	tagOther      = "other"
)

var tags = [][2]string{
	{tagWork, "Work items: submit, see, wait for, cancel, order anew."},
	{tagApprovals, "The questions that items ask people."},
	{tagEvents, "The log of events, live."},
	{tagEngine, "The engine as a whole."},
	{tagTypes, "Types of work and their settings."},
	{tagWorkers, "Who does the work."},
	{tagDead, "What has failed for good, by cause, and its replay."},
	{tagRejected, "Submissions that became no item."},
	{tagSchedules, "Periodic work."},
	{tagNamespaces, "Logs of their own in the same engine: see docs/guides/NAMESPACES.md."},
	{tagWorkerAPI, "To be a worker with nothing but HTTP: see docs/guides/HTTPWORKERS.md."},
	{tagOther, "What is served beside the API."},
}

// schemaNames names the types of package events whose own name is taken by a type of
// package wire.
var schemaNames = map[reflect.Type]string{
	typeOf[events.Pause](): "PauseInEffect", typeOf[events.Schedule](): "ScheduleState", typeOf[events.Circuit](): "CircuitState",
	typeOf[events.Cause](): "CauseState", typeOf[events.NamespaceInfo](): "NamespaceRecord", typeOf[events.Retention](): "RetentionSettings",
}

func schemaName(t reflect.Type, hint string) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if name, ok := schemaNames[t]; ok {
		return name
	}
	return huma.DefaultSchemaNamer(t, hint)
}

// always are the statuses with which any operation may refuse a request.
var always = []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestEntityTooLarge, http.StatusInternalServerError, http.StatusServiceUnavailable}

// bodyBounded tells huma that the bounds of a body are the server's: its own are
// 1 MiB and 5 seconds.
const bodyBounded = -1

// document is the OpenAPI document.
type document struct {
	*huma.OpenAPI
	once sync.Once
	json []byte // once it was asked for
}

// schema returns the schema of a type, by reference if it has a name.
func (d *document) schema(t reflect.Type, hint string) *huma.Schema {
	return d.Components.Schemas.Schema(t, true, hint)
}

// operation returns the operation for huma, but for the schema of its body.
func (d *document) operation(o operation) huma.Operation {
	if o.endpoint != "" && !o.open {
		o.roles = access.Needs(o.endpoint)
	}
	op := huma.Operation{
		OperationID: o.id, Method: o.method, Path: o.path, Summary: o.summary, Description: o.about, Tags: []string{o.tag},
		Metadata:  map[string]any{needsKey: o.roles, paceKey: o.pace, endpointKey: o.endpoint},
		Security:  []map[string][]string{{"bearer": {}}, {"mutualTLS": {}}},
		Responses: map[string]*huma.Response{}, SkipValidateBody: true,
		MaxBodyBytes: bodyBounded, BodyReadTimeout: bodyBounded,
		Extensions: map[string]any{"x-role": strings.Split(o.roles.String(), ",")},
	}
	content := "application/json"
	if o.stream {
		content = "text/event-stream"
	}
	ok := &huma.Response{Description: "What was asked for.", Content: map[string]*huma.MediaType{content: {Schema: d.schema(o.reply, o.id+"Reply")}}}
	if o.stream {
		ok.Description = "A stream of server-sent events; the schema is that of the data of each."
	}
	op.Responses["200"] = ok
	if o.created {
		op.Responses["201"] = &huma.Response{Description: "It was created.", Content: ok.Content}
	}
	d.refusals(&op, append(slices.Clone(always), o.refusals...))
	if o.open {
		op.Extensions["x-role"], op.Security = []string{"none"}, nil
		d.refusals(&op, []int{http.StatusTooManyRequests}) // see admitAnyone
	}
	return op
}

// refusalsOf adds the problem documents that follow from what an operation takes and does.
func (d *document) refusalsOf(op *huma.Operation) {
	needed := rolesOf(op)
	if pace, _ := op.Metadata[paceKey].(pace); needed != 0 && (needed != access.RolesOf(access.Work) || pace != ordinary) {
		d.refusals(op, []int{http.StatusTooManyRequests}) // by quota: see countRequest and guarded
	}
	if op.RequestBody != nil {
		d.refusals(op, []int{http.StatusRequestTimeout})
	}
	positioned := func(p *huma.Param) bool { return p.In == "query" && p.Name == "min_position" }
	name, _ := op.Metadata[endpointKey].(string)
	e, ok := wire.EndpointOf(name)
	if !ok {
		return // what is mounted has none
	}
	for _, code := range e.Refusals() {
		if code != events.CodePositionAhead || op.RequestBody != nil || slices.ContainsFunc(op.Parameters, positioned) {
			d.refusals(op, []int{statuses[code]})
		}
	}
}

// refusals adds the problem documents that an operation may answer.
func (d *document) refusals(op *huma.Operation, statuses []int) {
	problem := d.schema(typeOf[Problem](), "Problem")
	for _, status := range statuses {
		op.Responses[strconv.Itoa(status)] = &huma.Response{
			Description: http.StatusText(status),
			Content:     map[string]*huma.MediaType{"application/problem+json": {Schema: problem}},
		}
	}
}

// describeBody puts into the document what huma can't know of a body that the
// engine reads.
func (d *document) describeBody(o operation) {
	if o.body == nil {
		return
	}
	d.find(o.method, o.path).RequestBody = &huma.RequestBody{
		Required: !o.bodyOptional,
		Content:  map[string]*huma.MediaType{"application/json": {Schema: d.bodySchema(o.body, o.omit)}},
	}
}

// bodySchema returns the schema of a request's body: the schema of the type, without
// the fields that are in the path, and closed to other fields.
func (d *document) bodySchema(t reflect.Type, omit []string) *huma.Schema {
	if t == typeOf[submission]() {
		return d.submissionSchema()
	}
	body := *d.Components.Schemas.Schema(t, false, t.Name())
	if body.Type != huma.TypeObject {
		return &body
	}
	body.Properties = maps.Clone(body.Properties)
	body.Required = slices.DeleteFunc(slices.Clone(body.Required), func(name string) bool { return slices.Contains(omit, name) })
	for _, name := range omit {
		delete(body.Properties, name)
	}
	body.AdditionalProperties = false
	return &body
}

// methods are the methods of operations.
var methods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// find returns an operation of the document, nil if it is not there.
func (d *document) find(method, path string) *huma.Operation {
	item := d.Paths[path]
	if item == nil {
		return nil
	}
	return map[string]*huma.Operation{
		http.MethodGet: item.Get, http.MethodPost: item.Post, http.MethodPut: item.Put, http.MethodPatch: item.Patch, http.MethodDelete: item.Delete,
	}[method]
}

// all yields the document's operations, by pattern.
func (d *document) all() iter.Seq2[string, *huma.Operation] {
	return func(yield func(string, *huma.Operation) bool) {
		for path := range d.Paths {
			for _, method := range methods {
				if op := d.find(method, path); op != nil && !yield(method+" "+path, op) {
					return
				}
			}
		}
	}
}

// Doc describes a mounted handler.
type Doc struct {
	Summary, Description string
	Content              string // of the reply, such as text/plain
	Query                []*huma.Param
	Refusals             []int // statuses beside the usual ones
}

// Describe documents a mounted pattern with a method in the OpenAPI document. Call it
// after Mount.
func (s *Server) Describe(pattern string, d Doc) {
	method, path, _ := strings.Cut(pattern, " ")
	op := s.doc.find(method, path)
	if op == nil {
		panic("rest: Describe of " + pattern + ", which is not mounted")
	}
	op.Summary, op.Description = d.Summary, d.Description
	for _, q := range d.Query {
		q.In = "query"
		op.Parameters = append(op.Parameters, q)
	}
	s.doc.refusals(op, d.Refusals)
	if d.Content != "" {
		op.Responses["200"].Content = map[string]*huma.MediaType{d.Content: {Schema: &huma.Schema{}}}
	}
}

// mounted adds a mounted pattern to the document, unless it is a page.
func (d *document) mounted(pattern string, needed access.Roles) {
	method, path, ok := strings.Cut(pattern, " ")
	if !ok || strings.HasSuffix(path, "/") || strings.Contains(path, "...}") || strings.Contains(path, "{$}") || needed == 0 && !strings.HasSuffix(path, "z") {
		return
	}
	id := strings.ToLower(method) + strings.NewReplacer("/", "-", "{", "", "}", "").Replace(path)
	op := d.operation(operation{id: id, method: method, path: path, tag: tagOther, summary: path, about: "See docs/guides/HTTP.md.", roles: needed, reply: typeOf[any]()})
	for _, name := range pathParameters(path) {
		op.Parameters = append(op.Parameters, &huma.Param{Name: name, In: "path", Description: "See docs/guides/HTTP.md.", Required: true, Schema: &huma.Schema{Type: huma.TypeString}})
	}
	if needed == 0 {
		op.Extensions["x-role"], op.Security = []string{"none"}, nil
	}
	d.AddOperation(&op)
}

func pathParameters(path string) (names []string) {
	for part := range strings.SplitSeq(path, "/") {
		if strings.HasPrefix(part, "{") && strings.HasSuffix(part, "}") {
			names = append(names, part[1:len(part)-1])
		}
	}
	return names
}

// OpenAPI is the document, made when it is first asked for: Mount comes before.
func (s *Server) OpenAPI() []byte {
	s.doc.once.Do(func() {
		s.doc.complete()
		data, err := json.Marshal(s.doc.OpenAPI)
		if err == nil {
			data, err = openReplies(data)
		}
		if err != nil {
			s.cfg.Logger.Error("the OpenAPI document can't be made", "error", err)
		}
		s.doc.json = data
	})
	return s.doc.json
}

// describeSchemas gives the document's schemas the descriptions that the same
// types have in the schemas of the wire.
func (d *document) describeSchemas() {
	known := schemas.Types()
	for name, schema := range d.Components.Schemas.Map() {
		t, ok := known[name]
		if !ok {
			continue
		}
		if schema.Description == "" {
			schema.Description = t.Description
		}
		for field, p := range schema.Properties {
			if p.Description == "" {
				p.Description = t.Properties[field].Description
			}
		}
	}
}

// complete puts into the document what operations lack that were registered
// with huma itself.
func (d *document) complete() {
	for _, op := range d.all() {
		delete(op.Responses, "422") // huma's own: here it is 400
		d.refusalsOf(op)
		for _, tag := range op.Tags {
			if !slices.ContainsFunc(d.Tags, func(t *huma.Tag) bool { return t.Name == tag }) {
				d.Tags = append(d.Tags, &huma.Tag{Name: tag})
			}
		}
		if _, said := op.Extensions["x-role"]; said {
			continue
		}
		if op.Extensions == nil {
			op.Extensions = map[string]any{}
		}
		op.Extensions["x-role"] = strings.Split(rolesOf(op).String(), ",")
		op.Security = []map[string][]string{{"bearer": {}}, {"mutualTLS": {}}}
	}
}

// rolesOf returns the roles for an operation: any one of them suffices.
func rolesOf(op *huma.Operation) access.Roles {
	if needed, ok := op.Metadata[needsKey].(access.Roles); ok {
		return needed
	}
	return access.RolesOf(access.Operate)
}

// openReplies says in a document that what is only ever replied may have
// further fields: a later engine may say more. Requests may not. It leaves out
// the schemas that no operation refers to.
func openReplies(doc []byte) ([]byte, error) {
	var d map[string]any
	if err := json.Unmarshal(doc, &d); err != nil {
		return nil, err
	}
	components, _ := d["components"].(map[string]any)
	schemas, _ := components["schemas"].(map[string]any)
	asked := map[string]bool{}
	eachKey(d["paths"], "requestBody", func(body any) { reach(schemas, body, asked) })
	used := map[string]bool{}
	reach(schemas, d["paths"], used)
	maps.DeleteFunc(schemas, func(name string, _ any) bool { return !used[name] })
	for name, schema := range schemas {
		if s, ok := schema.(map[string]any); ok && !asked[name] && s["additionalProperties"] == false {
			delete(s, "additionalProperties")
		}
	}
	return json.Marshal(d)
}

// eachKey calls fn with what stands under a key, wherever it is.
func eachKey(v any, key string, fn func(any)) {
	switch v := v.(type) {
	case map[string]any:
		for k, below := range v {
			if k == key {
				fn(below)
			}
			eachKey(below, key, fn)
		}
	case []any:
		for _, below := range v {
			eachKey(below, key, fn)
		}
	}
}

// reach notes the schemas that something refers to, directly or through others.
func reach(schemas map[string]any, v any, seen map[string]bool) {
	eachKey(v, "$ref", func(ref any) {
		text, _ := ref.(string)
		name := strings.TrimPrefix(text, schemaPrefix)
		if !seen[name] {
			seen[name] = true
			reach(schemas, schemas[name], seen)
		}
	})
}
