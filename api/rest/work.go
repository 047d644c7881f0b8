package rest

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// call makes a request of an endpoint of the engine, and reads its reply.
func call[Reply any](ctx context.Context, s *Server, endpoint string, request any) (reply Reply, err error) {
	body, err := json.Marshal(request)
	if err != nil {
		return reply, problemOf(events.Refuse(events.CodeBadRequest, "%v", err))
	}
	data, err := s.cfg.Engine.Call(ctx, endpoint, body)
	if err == nil {
		err = json.Unmarshal(data, &reply)
	}
	if err != nil {
		return reply, problemOf(err)
	}
	return reply, nil
}

// needs is the metadata of an operation that stands for an endpoint.
func needs(endpoint string) map[string]any {
	return map[string]any{needsKey: access.Needs(endpoint)}
}

// registerWork adds the operations on items.
func (s *Server) registerWork() {
	huma.Register(s.api, huma.Operation{
		OperationID: "get-work", Method: http.MethodGet, Path: "/api/v1/work/{id}", Summary: "An item", Metadata: needs(wire.APIGet),
	}, func(ctx context.Context, in *struct {
		ID string `path:"id"`
	}) (*struct{ Body json.RawMessage }, error) {
		reply, err := call[json.RawMessage](ctx, s, wire.APIGet, wire.Get{ID: in.ID})
		return &struct{ Body json.RawMessage }{reply}, err
	})
}
