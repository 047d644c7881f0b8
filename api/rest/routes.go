package rest

import (
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/schemas"
	"github.com/streamwright/streamwright/wire"
)

// registerRoutes adds the routes of the table of endpoints.
func (s *Server) registerRoutes() {
	for _, e := range wire.Endpoints() {
		for _, r := range e.Routes {
			s.registerRoute(&e, r)
		}
	}
}

// route is a wire.Route with its parameters.
type route struct {
	s        *Server
	endpoint string
	wire.Route
	params []param
	body   bool // the other fields are in a body
}

// param is a parameter of the path or query that becomes a field of the request.
type param struct {
	name, in, field string
	kind            reflect.Type
}

func (s *Server) registerRoute(e *wire.Endpoint, r wire.Route) {
	o := operation{
		id: r.ID, method: r.Method, path: r.Path, tag: r.Tag, summary: r.Summary, about: r.About, endpoint: e.Name, reply: e.Reply, bodyOptional: true,
	}
	if o.open = r.Open; r.Slow {
		o.pace = waiting
	}
	rt := &route{s: s, endpoint: e.Name, Route: r}
	var rest []reflect.StructField
	for _, f := range requestFields(e.Request) {
		name := fieldName(f)
		if _, fixed := r.Fixed[name]; fixed || slices.Contains(r.Hidden, name) {
			o.omit = append(o.omit, name)
			continue
		}
		if at := rt.inPath(name); at != "" {
			o.omit = append(o.omit, name)
			rt.params = append(rt.params, param{at, "path", name, f.Type})
			continue
		}
		rest = append(rest, f)
		if !optional(f) {
			o.bodyOptional = false
		}
	}
	switch {
	case r.Method == http.MethodGet || r.Method == http.MethodDelete:
		for _, f := range rest {
			rt.params = append(rt.params, param{fieldName(f), "query", fieldName(f), f.Type})
		}
	case len(rest) > 0:
		rt.body, o.body = true, e.Request
	}
	op := s.doc.operation(o)
	for _, p := range rt.params {
		op.Parameters = append(op.Parameters, s.doc.parameter(e.Request, p, rest))
	}
	s.doc.AddOperation(&op)
	s.doc.describeBody(o)
	s.api.Adapter().Handle(&op, s.api.Middlewares().Handler(rt.serve))
}

// requestFields lists the fields of a request's JSON, including fields of embedded
// structs.
func requestFields(t reflect.Type) []reflect.StructField {
	return slices.DeleteFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool { return f.Anonymous || !f.IsExported() })
}

func fieldName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// optional reports whether a field may be left out.
func optional(f reflect.StructField) bool { return strings.Contains(f.Tag.Get("json"), ",omit") }

// inPath returns the parameter of the path that is a field, empty for none.
func (r *route) inPath(field string) string {
	for _, name := range pathParameters(r.Path) {
		if to, renamed := r.Renamed[name]; name == field && !renamed || to == field {
			return name
		}
	}
	return ""
}

// usual describes the fields that many requests have, where their types say
// nothing.
var usual = map[string]string{
	"id":           "The item's id: a ULID.",
	"type":         "The name of a type.",
	"worker":       "The worker's id.",
	"limit":        "How many at most: 1 to 1,000, 50 if left out.",
	"cursor":       "The next_cursor of the page before.",
	"reason":       "Why. The event records it.",
	"token":        "The token: ID-SECRET.",
	"min_position": "Answer once the queries have reached this position, which an earlier reply gave.",
}

// parameter describes a parameter of a route.
func (d *document) parameter(request reflect.Type, p param, queried []reflect.StructField) *huma.Param {
	about := schemas.Types()[request.Name()].Properties[p.field].Description
	if about == "" {
		about = usual[p.field]
	}
	about = sentence(about)
	required := p.in == "path" || slices.ContainsFunc(queried, func(f reflect.StructField) bool { return fieldName(f) == p.field && !optional(f) })
	return &huma.Param{Name: p.name, In: p.in, Required: required, Description: about, Schema: d.schema(p.kind, p.field)}
}

// sentence makes a field's comment a sentence.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + strings.TrimSuffix(text[1:], ".") + "."
}

// serve makes the engine's request of an HTTP request and answers it.
func (r *route) serve(hc huma.Context) {
	reply, err := r.answer(hc)
	if err != nil {
		req, w := humago.Unwrap(hc)
		if r.Open {
			r.s.missed(req, err)
		}
		writeProblem(w, err)
		return
	}
	hc.SetStatus(http.StatusOK)
	_, _ = hc.BodyWriter().Write(reply) // the caller has gone: nobody to tell
}

func (r *route) answer(hc huma.Context) ([]byte, error) {
	var body []byte
	if r.body && hc.BodyReader() != nil {
		var err error
		if body, err = io.ReadAll(hc.BodyReader()); err != nil {
			return nil, refusedByHuma(http.StatusInternalServerError, unreadBody, []error{err})
		}
	}
	fields := make([]field, 0, len(r.params)+len(r.Fixed))
	for _, p := range r.params {
		text := hc.Param(p.name)
		if p.in == "query" {
			if text = hc.Query(p.name); text == "" {
				continue
			}
		}
		v, err := p.read(text)
		if err != nil {
			return nil, err
		}
		fields = append(fields, field{p.field, v})
	}
	for name, v := range r.Fixed {
		fields = append(fields, field{name, v})
	}
	request, err := withFields(body, fields...)
	if err != nil {
		return nil, err
	}
	return r.s.ask(hc.Context(), r.endpoint, request)
}

// read returns the value of a parameter as JSON has it.
func (p param) read(text string) (any, error) {
	bad := func(use string) error {
		return events.Refuse(events.CodeBadRequest, "the %s parameter %s must be %s", p.in, p.name, use)
	}
	if p.kind == typeOf[time.Time]() {
		if _, err := time.Parse(time.RFC3339, text); err != nil {
			return nil, bad("a time such as 2030-01-31T08:00:00Z")
		}
		return text, nil
	}
	kind := p.kind.Kind()
	if p.kind == typeOf[events.Duration]() {
		kind = reflect.Int64 // milliseconds
	}
	switch kind {
	case reflect.Bool:
		v, err := strconv.ParseBool(text)
		if err != nil {
			return nil, bad("true or false")
		}
		return v, nil
	case reflect.Int, reflect.Int64:
		v, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, bad("a whole number")
		}
		return v, nil
	case reflect.Uint64:
		v, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return nil, bad("a whole number, 0 or more")
		}
		return json.Number(strconv.FormatUint(v, 10)), nil
	}
	return text, nil
}
