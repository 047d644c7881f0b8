package rest

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// TypePath is the input of an operation on a type.
type TypePath struct {
	Type string `path:"type" doc:"The type's name." example:"email"`
}

// typePatch is the body of PATCH /api/v1/types/{type}, for the document.
type typePatch struct {
	events.TypeSettings
	Paused *bool        `json:"paused,omitempty" doc:"true pauses the type, false resumes it."`
	Pause  *pauseFields `json:"pause,omitempty" doc:"With paused: who, why, and until when."`
}

type pauseFields struct {
	Reason string `json:"reason,omitempty" doc:"Why; at most 256 bytes."`
	By     string `json:"by,omitempty" doc:"Who; at most 256 bytes."`

	Until time.Time `json:"until,omitzero" doc:"When the pause ends by itself; none: when the type is resumed."`
	ForMS int64     `json:"for_ms,omitempty" doc:"In place of until: how long it lasts, in milliseconds."`
}

// registerTypes adds the operations on types.
func (s *Server) registerTypes() {
	register(s, operation{
		id: "types", method: http.MethodGet, path: "/api/v1/types", tag: tagTypes, endpoint: wire.APITypes,
		summary: "The types and their settings", about: "With what is paused, and the circuits that are not closed.", reply: typeOf[wire.TypesReply](),
	}, func(in *After) (any, error) { return wire.See{MinPosition: in.MinPosition}, nil })
	handle(s, operation{
		id: "get-type", method: http.MethodGet, path: "/api/v1/types/{type}", tag: tagTypes, endpoint: wire.APITypes,
		summary: "One type", about: "Its settings, where they come from, its pause and circuit.", reply: typeOf[wire.TypeReply](), refusals: []int{http.StatusNotFound},
	}, func(ctx context.Context, in *struct {
		TypePath
		After
	}) (*output, error) {
		return s.oneType(ctx, in.Type, in.MinPosition)
	})
	handle(s, operation{
		id: "patch-type", method: http.MethodPatch, path: "/api/v1/types/{type}", tag: tagTypes, endpoint: wire.APIConfigure,
		summary: "Change a type's settings", about: "The settings that the body names are changed, the others stay; an object is merged member by member. paused pauses or resumes the type, behind the settings. A setting that engine.toml makes is refused (set_in_file).",
		body: typeOf[typePatch](), reply: typeOf[wire.TypeReply](), refusals: []int{http.StatusConflict},
	}, func(ctx context.Context, in *struct {
		TypePath
		JSONBody
	}) (*output, error) {
		out, err := s.patchType(ctx, in.Type, in.RawBody)
		if err != nil {
			return nil, problemOf(err)
		}
		return out, nil
	})
	register(s, operation{
		id: "type-holder", method: http.MethodGet, path: "/api/v1/types/{type}/holder", tag: tagTypes, endpoint: wire.APIHeld,
		summary: "The item that holds a dedup key", about: "The live item of the type that a submission with this dedup key would be a duplicate of, 404 if there is none. The submission alone decides: what is read here may be over by then.",
		reply: typeOf[wire.Holder](), refusals: []int{http.StatusNotFound},
	}, func(in *struct {
		TypePath
		Key string `query:"key" required:"true" doc:"The dedup key." example:"project-17"`
		After
	}) (any, error) {
		return wire.Held{Type: in.Type, Key: in.Key, MinPosition: in.MinPosition}, nil
	})
	register(s, operation{
		id: "delete-type", method: http.MethodDelete, path: "/api/v1/types/{type}", tag: tagTypes, endpoint: wire.APITypeRemove,
		summary: "Remove a type that nothing uses", about: "Its settings and its pause go with it. Refused while it has items (those that have ended and are still kept, too), a schedule or a worker (wrong_state), or a table in engine.toml (set_in_file). Its next submission makes it known again.",
		reply: typeOf[wire.Changed](), refusals: []int{http.StatusNotFound, http.StatusConflict},
	}, func(in *TypePath) (any, error) { return wire.TypeRemove{Type: in.Type}, nil })
	s.registerPauses()
}

func (s *Server) registerPauses() {
	register(s, operation{
		id: "pause-type", method: http.MethodPost, path: "/api/v1/types/{type}/pause", tag: tagTypes, endpoint: wire.APIPause,
		summary: "Pause a type", about: "Its items wait until it is resumed, or until the time given; what runs goes on. Of a type that is paused the time is changed.",
		body: typeOf[wire.Pause](), bodyOptional: true, omit: []string{"type"}, reply: typeOf[wire.Changed](), refusals: []int{http.StatusNotFound},
	}, ofType)
	register(s, operation{
		id: "resume-type", method: http.MethodPost, path: "/api/v1/types/{type}/resume", tag: tagTypes, endpoint: wire.APIResume,
		summary: "Resume a paused type", about: "Its items run again.",
		body: typeOf[wire.Resume](), bodyOptional: true, omit: []string{"type"}, reply: typeOf[wire.Changed](), refusals: []int{http.StatusNotFound},
	}, ofType)
	register(s, operation{
		id: "reset-type-circuit", method: http.MethodPost, path: "/api/v1/types/{type}/circuit/reset", tag: tagTypes, endpoint: wire.APICircuitReset,
		summary: "Close a type's circuit", about: "Its items run again at once.", reply: typeOf[wire.Changed](), refusals: []int{http.StatusNotFound},
	}, func(in *TypePath) (any, error) { return wire.CircuitReset{Type: in.Type}, nil })
}

// typeInput is a request about a type: its name in the path, the rest in a body.
type typeInput struct {
	TypePath
	JSONBody
}

// ofType is the engine's request for it.
func ofType(in *typeInput) (any, error) { return withFields(in.RawBody, field{"type", in.Type}) }

func (s *Server) oneType(ctx context.Context, name string, min wire.Position) (*output, error) {
	types, err := call[struct {
		Types    []json.RawMessage
		Defaults json.RawMessage
		Unset    json.RawMessage
	}](ctx, s, wire.APITypes, wire.See{MinPosition: min})
	if err != nil {
		return nil, problemOf(err)
	}
	for _, raw := range types.Types {
		var t struct{ Type string }
		if err := json.Unmarshal(raw, &t); err != nil {
			return nil, problemOf(err)
		}
		if t.Type == name {
			m, err := members(raw)
			if err != nil {
				return nil, problemOf(err)
			}
			m["defaults"], m["unset"] = types.Defaults, types.Unset
			if raw, err = json.Marshal(m); err != nil {
				return nil, problemOf(err)
			}
			return &output{Status: http.StatusOK, Body: raw}, nil
		}
	}
	return nil, problemOf(events.Refuse(events.CodeNotFound, "no type %s: it comes to be with its first item, its first worker, or its first setting", clip(name, 64)))
}

// patchType changes settings first, and pauses or resumes behind that.
func (s *Server) patchType(ctx context.Context, name string, body []byte) (*output, error) {
	m, err := members(body)
	if err != nil {
		return nil, err
	}
	change, err := pauseChange(m, name)
	if err != nil {
		return nil, err
	}
	delete(m, "paused")
	delete(m, "pause")
	if len(m) == 0 && change == nil {
		return nil, events.Refuse(events.CodeBadRequest, "nothing to change: give settings, or paused")
	}
	var at wire.Position
	if len(m) > 0 {
		settings, err := json.Marshal(m)
		if err != nil {
			return nil, err
		}
		if _, err := s.ask(ctx, wire.APIConfigure, wire.Configure{Type: name, Settings: settings}); err != nil {
			return nil, err
		}
	}
	if change != nil {
		reply, err := call[wire.Changed](ctx, s, change.endpoint, change.request)
		if err != nil {
			return nil, err
		}
		at = reply.Position
	}
	return s.oneType(ctx, name, at)
}

// pausing is a pause or a resume that a patch asks for.
type pausing struct {
	endpoint string
	request  any
}

func pauseChange(m map[string]json.RawMessage, name string) (*pausing, error) {
	raw, given := m["paused"]
	if !given {
		if _, alone := m["pause"]; alone {
			return nil, events.Refuse(events.CodeBadRequest, "the request has pause without paused: give paused")
		}
		return nil, nil
	}
	var paused *bool
	if err := json.Unmarshal(raw, &paused); err != nil || paused == nil {
		return nil, events.Refuse(events.CodeBadRequest, "the request's field paused must be true or false")
	}
	request, err := withFields(m["pause"], field{"type", name})
	if err != nil {
		return nil, err
	}
	if *paused {
		return &pausing{wire.APIPause, request}, nil
	}
	return &pausing{wire.APIResume, request}, nil
}
