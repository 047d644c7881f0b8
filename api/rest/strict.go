package rest

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/streamwright/streamwright/events"
)

// takes lists what an operation takes beside its path.
type takes struct {
	query map[string]bool // its parameters; true for one that may be repeated
	body  bool
}

// takesOf reads from the document what each operation takes, by its pattern. Call it
// once all operations are registered.
func (d *document) takesOf() map[string]takes {
	all := map[string]takes{}
	for pattern, op := range d.all() {
		t := takes{query: map[string]bool{}, body: op.RequestBody != nil}
		for _, p := range op.Parameters {
			if p.In == "query" {
				t.query[p.Name] = p.Schema != nil && p.Schema.Type == huma.TypeArray
			}
		}
		all[pattern] = t
	}
	return all
}

// strict refuses what the operation that a request is for would ignore.
func (s *Server) strict(r *http.Request) error {
	if t, ok := s.takes[r.Pattern]; ok {
		return t.check(r)
	}
	return nil // a page
}

// check refuses what the operation would ignore: a parameter that it does not
// know or that says two things, and a body where none is read.
func (t takes) check(r *http.Request) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return events.Refuse(events.CodeBadRequest, "the query string can't be read: %v", err)
	}
	for name, values := range query {
		many, known := t.query[name]
		switch {
		case !known && name == "session":
			return events.Refuse(events.CodeBadRequest, "a session is a secret, and URLs are logged: send it in the header Work-Session, or in the body where there is one")
		case !known:
			return events.Refuse(events.CodeBadRequest, "the request has the parameter %q, which the engine does not know: check its spelling, %s", events.Clip(name, 64), t.known())
		case len(values) > 1 && !many:
			return events.Refuse(events.CodeBadRequest, "the parameter %s is given %d times: give it once", name, len(values))
		}
	}
	if t.body || isUpload(r) || r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxIgnoredBody+1))
	switch body = bytes.TrimSpace(body); {
	case errors.As(err, new(*events.Error)):
		return err
	case err != nil:
		return events.Refuse(events.CodeBadRequest, "the body can't be read: %v", err)
	case len(body) > 0 && string(body) != "{}" && string(body) != "null":
		return events.Refuse(events.CodeBadRequest, "the request has a body, and %s %s takes none: leave it out", r.Method, events.Clip(r.URL.Path, 200))
	}
	return nil
}

// maxIgnoredBody bounds the bytes that are read of a body where only an empty one is
// taken.
const maxIgnoredBody = 1 << 10

func (t takes) known() string {
	if len(t.query) == 0 {
		return "it takes none"
	}
	return "it takes " + strings.Join(slices.Sorted(maps.Keys(t.query)), ", ")
}
