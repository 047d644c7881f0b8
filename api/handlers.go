package api

import (
	"context"
	"reflect"
	"time"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/wire"
)

// handlers answer the endpoints. Each entry has a row in the table of
// endpoints of package wire, and each row an entry here.
type handlers struct {
	s  *Service
	by map[string]handler
}

// handler answers an endpoint. serve must reply once.
type handler struct {
	serve   func(*call)
	request reflect.Type
}

// raw has fn answer an endpoint. It is called by the endpoint's subscription, so it
// must be quick, and reads the request itself.
func raw[Request any](h *handlers, name string, fn func(*call)) {
	h.by[name] = handler{serve: fn, request: reflect.TypeFor[Request]()}
}

// at is raw with the request read.
func at[Request any](h *handlers, name string, fn func(*call, Request)) {
	raw[Request](h, name, func(c *call) {
		req, err := decode[Request](c.data)
		if err != nil {
			c.reply(nil, err)
			return
		}
		fn(c, req)
	})
}

// on has fn answer an endpoint, on a goroutine of its own while there is room for
// more requests of its kind: requests that change nothing, requests of workers, and
// all others. None of them waits behind another kind.
func on[Request any](h *handlers, name string, fn func(context.Context, *call, Request) (any, error)) {
	e, _ := wire.EndpointOf(name)
	room, within := h.s.actions, awaitTimeout+controlTimeout
	switch {
	case e.ReadOnly:
		room = h.s.queries
	case e.Roles == access.RolesOf(access.Work):
		room, within = h.s.control, controlTimeout
	}
	raw[Request](h, name, limited(h.s, room, within, fn))
}

// limited runs fn on a goroutine of its own, with the request read, if there is
// room.
func limited[Request any](s *Service, room chan struct{}, within time.Duration, fn func(context.Context, *call, Request) (any, error)) func(*call) {
	return s.async(room, within, func(ctx context.Context, c *call) (any, error) {
		req, err := decode[Request](c.data)
		if err != nil {
			return nil, err
		}
		return fn(ctx, c, req)
	})
}

// projected is on for what the projection answers: fn is called once that shows the
// request's MinPosition.
func projected[Request wire.Awaiting](h *handlers, name string, fn func(context.Context, *call, Request) (any, error)) {
	on(h, name, func(ctx context.Context, c *call, req Request) (any, error) {
		if err := h.s.engine.await(ctx, wire.MinPosition(req)); err != nil {
			return nil, err
		}
		return fn(ctx, c, req)
	})
}
