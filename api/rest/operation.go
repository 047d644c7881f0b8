package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// operation is one operation of the API, as the OpenAPI document shows it.
type operation struct {
	id, method, path string
	tag              string
	summary, about   string

	endpoint string       // of the engine; says which roles are needed
	roles    access.Roles // where there is no endpoint
	open     bool         // for everyone, known or not
	pace     pace

	body         reflect.Type // nil: none
	omit         []string     // fields of body that the path says
	bodyOptional bool
	reply        reflect.Type // of 200
	created      bool         // may also answer 201
	stream       bool         // the reply is a text/event-stream of these
	refusals     []int        // statuses beside the usual ones and those of the endpoints
}

// JSONBody is embedded in the input of an operation with a body. The engine reads
// it, as strictly and with the same errors as over NATS.
type JSONBody struct {
	RawBody []byte `contentType:"application/json"`
}

// output is the reply of an operation: the engine's JSON, unchanged.
type output struct {
	Status int
	Body   []byte
}

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }

// handle adds an operation.
func handle[In any](s *Server, o operation, handler func(context.Context, *In) (*output, error)) {
	huma.Register(s.api, s.doc.operation(o), handler)
	s.doc.describeBody(o)
}

// reply makes a request of the engine and replies with its answer.
func (s *Server) reply(ctx context.Context, endpoint string, request any) (*output, error) {
	data, err := s.ask(ctx, endpoint, request)
	if err != nil {
		return nil, problemOf(err)
	}
	return &output{Status: http.StatusOK, Body: data}, nil
}

// ask makes a request of the engine.
func (s *Server) ask(ctx context.Context, endpoint string, request any) ([]byte, error) {
	body, raw := request.(json.RawMessage) // goes as it came
	if !raw {
		var err error
		if body, err = json.Marshal(request); err != nil {
			return nil, events.Refuse(events.CodeBadRequest, "%v", err)
		}
	}
	data, err := s.cfg.Engine.Call(ctx, endpoint, body)
	return data, s.whyEnded(ctx, err)
}

// whyEnded returns the error to reply with. If the request was ended because the
// server stops, or its maker lost the right to it, the error says so.
func (s *Server) whyEnded(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	if refused := refusal(ctx); refused != nil {
		return refused
	}
	if s.stopping.Err() != nil {
		return events.ErrShuttingDown
	}
	return err
}

// call is ask with the reply read.
func call[Reply any](ctx context.Context, s *Server, endpoint string, request any) (reply Reply, err error) {
	data, err := s.ask(ctx, endpoint, request)
	if err == nil {
		err = json.Unmarshal(data, &reply)
	}
	return reply, err
}

// field is a member of a request that the path says.
type field struct {
	name  string
	value any
}

// withFields adds to a body what the path says. A body that says it too is
// refused: the two could differ. What is in the rest of it is the engine's to
// judge.
func withFields(body []byte, fields ...field) (any, error) {
	m, err := members(body)
	if err != nil {
		return nil, err
	}
	for _, f := range fields {
		if _, both := m[f.name]; both {
			return nil, events.Refuse(events.CodeBadRequest, "the request has the field %q, which the path says already: leave it out", f.name)
		}
		if m[f.name], err = json.Marshal(f.value); err != nil {
			return nil, events.Refuse(events.CodeBadRequest, "%v", err)
		}
	}
	return m, nil
}

// members reads a body that is an object; an empty one has none.
func members(body []byte) (map[string]json.RawMessage, error) {
	m := map[string]json.RawMessage{}
	if len(bytes.TrimSpace(body)) == 0 {
		return m, nil
	}
	err := wire.ReadStrict(body, &m)
	switch {
	case err == nil && m != nil:
		return m, nil
	case errors.As(err, new(*events.Error)):
		return nil, err
	case json.Valid(body):
		return nil, events.Refuse(events.CodeBadRequest, "the request's body is no JSON object: it must be one")
	}
	return nil, events.Refuse(events.CodeBadRequest, "the request can't be read as JSON: %s", wire.JSONFault(err))
}

// number reads a query parameter that may be left out.
func number(name, text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n == 0 {
		return 0, events.Refuse(events.CodeBadRequest, "%s must be a whole number above 0", name)
	}
	return n, nil
}

// The parts of inputs have exported names because huma reads no others.

// ItemPath is the input of an operation on an item.
type ItemPath struct {
	ID string `path:"id" doc:"The item's id: a ULID." example:"01JD3V6YB2M4C9W8ZK5T7QXRNE"`
}

// After is the input of an operation that can wait for the projection.
type After struct {
	MinPosition wire.Position `query:"min_position" doc:"Answer once the queries have reached this position, which an earlier reply gave."`
}
