package rest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// The operations that are more than one request of an endpoint, or whose
// parameters are not the fields of one. All others are in the table of endpoints
// (package wire) and registered from there.

// registerComposed adds them.
func (s *Server) registerComposed() {
	s.registerSubmit()
	s.registerShow()
	s.registerWait()
	s.registerState()
	s.registerOneType()
	s.registerOneSchedule()
}

// AtQuery is the input of a look at the past.
type AtQuery struct {
	At string `query:"at" doc:"As it was then: a position of the log, or a time (RFC 3339)."`
}

// moment reads it.
func (q AtQuery) moment() (wire.Position, time.Time, error) {
	if q.At == "" {
		return "", time.Time{}, nil
	}
	if _, err := strconv.ParseUint(q.At, 10, 64); err == nil {
		return wire.Position(q.At), time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, q.At)
	if err != nil {
		return "", t, events.Refuse(events.CodeBadTime, "at must be a position, or a time such as 2030-01-31T08:00:00Z")
	}
	return "", t, nil
}

// registerShow adds the operation that shows an item.
func (s *Server) registerShow() {
	handle(s, operation{
		id: "get-work", method: http.MethodGet, path: "/api/v1/work/{id}", tag: tagWork, endpoint: wire.APIGet,
		summary: "An item", about: "The item as it is, or as it was at a moment.", reply: typeOf[wire.Item](),
	}, func(ctx context.Context, in *struct {
		ItemPath
		AtQuery
		After
	}) (*output, error) {
		pos, when, err := in.moment()
		if err != nil {
			return nil, problemOf(err)
		}
		return s.reply(ctx, wire.APIGet, wire.Get{ID: in.ID, AtPosition: pos, AtTime: when, MinPosition: in.MinPosition})
	})
}

// registerWait adds the long poll for an item's end.
func (s *Server) registerWait() {
	handle(s, operation{
		id: "wait-work", method: http.MethodGet, path: "/api/v1/work/{id}/wait", tag: tagWork, endpoint: wire.APIWait, pace: waiting,
		summary: "Wait for an item to end", about: "The item once it is completed, dead or cancelled, or as it is when the time is up: look at its state, and ask again. Where it was merged into another it is the other that is waited for.",
		reply: typeOf[wire.Item](),
	}, func(ctx context.Context, in *struct {
		ItemPath
		Timeout string `query:"timeout" doc:"How long: a number of seconds, or as 1m30s. At most 300 seconds, 30 if left out."`
		After
	}) (*output, error) {
		wait, err := waitTime(in.Timeout)
		if err != nil {
			return nil, problemOf(err)
		}
		it, err := s.waitFor(ctx, wire.Wait{IDs: []string{in.ID}, Timeout: events.DurationOf(wait.Truncate(time.Millisecond)), MinPosition: in.MinPosition})
		if err != nil {
			return nil, problemOf(err)
		}
		return &output{Status: http.StatusOK, Body: it}, nil
	})
}

// waitFor returns an item once it has ended, or as it is when the time is over.
func (s *Server) waitFor(ctx context.Context, req wire.Wait) ([]byte, error) {
	reply, err := call[waited](ctx, s, wire.APIWait, req)
	if err != nil {
		return nil, err
	}
	if len(reply.Ended) > 0 {
		return reply.Ended[0], nil
	}
	return s.ask(ctx, wire.APIGet, wire.Get{ID: cmp.Or(reply.Pending[0].MergedInto, req.IDs[0])})
}

// waited is a wire.Waited whose items are passed on as they are.
type waited struct {
	Ended   []json.RawMessage  `json:"ended"`
	Pending []wire.PendingItem `json:"pending"`
}

// waitTime reads a time to wait; 0 is the engine's default.
func waitTime(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		d, err = time.ParseDuration(text + "s")
	}
	if err != nil || d < time.Millisecond || d > MaxWait {
		return 0, events.Refuse(events.CodeBadTime, "timeout must be a number of seconds, or a duration such as 1m30s, and at most %v", MaxWait)
	}
	return d, nil
}

// registerState adds the look at the engine's past.
func (s *Server) registerState() {
	handle(s, operation{
		id: "state", method: http.MethodGet, path: "/api/v1/state", tag: tagEngine, endpoint: wire.APIState, pace: waiting,
		summary: "The engine as it was", about: "The state as of a position or a time, by replaying the log up to there: it takes as long as that takes, and one is made at a time.",
		reply: typeOf[wire.State](),
	}, func(ctx context.Context, in *AtQuery) (*output, error) {
		pos, when, err := in.moment()
		if err == nil && in.At == "" {
			err = events.Refuse(events.CodeBadRequest, "at is missing: give a position, or a time")
		}
		if err != nil {
			return nil, problemOf(err)
		}
		reply, err := call[struct{ State json.RawMessage }](ctx, s, wire.APIState, wire.StateAt{AtPosition: pos, AtTime: when})
		if err != nil {
			return nil, problemOf(err)
		}
		return &output{Status: http.StatusOK, Body: reply.State}, nil
	})
}

// TypePath is the input of an operation on a type.
type TypePath struct {
	Type string `path:"type" doc:"The type's name." example:"email"`
}

// registerOneType adds the operations on one type that are several requests.
func (s *Server) registerOneType() {
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
		summary: "Change a type's settings", about: "The settings that the body names are changed, the others stay; an object is merged member by member. A setting that engine.toml makes is refused (set_in_file).",
		body: typeOf[events.TypeSettings](), reply: typeOf[wire.TypeReply](),
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
}

func (s *Server) oneType(ctx context.Context, name string, min wire.Position) (*output, error) {
	types, err := call[struct {
		Types    []json.RawMessage
		Defaults json.RawMessage
		Unset    json.RawMessage
		Stale    string
	}](ctx, s, wire.APITypes, wire.StatsRequest{MinPosition: min})
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
	return nil, absent(types.Stale, "no type %s: it comes to be with its first item, its first worker, or its first setting", events.Clip(name, 64))
}

// absent returns the problem of what a list lacks; stale says why, where the list may lack it.
func absent(stale, format string, args ...any) error {
	if err := wire.StaleError(fmt.Sprintf(format, args...), stale); err != nil {
		return problemOf(err)
	}
	return problemOf(events.Refuse(events.CodeNotFound, format, args...))
}

// patchType changes settings, and returns the type as it is then.
func (s *Server) patchType(ctx context.Context, name string, settings []byte) (*output, error) {
	m, err := members(settings)
	if err == nil && len(m) == 0 {
		err = events.Refuse(events.CodeBadRequest, "nothing to change: give settings")
	}
	if err == nil {
		_, err = s.ask(ctx, wire.APIConfigure, wire.Configure{Type: name, Settings: settings})
	}
	if err != nil {
		return nil, err
	}
	return s.oneType(ctx, name, "")
}

// SchedulePath is the input of an operation on a schedule.
type SchedulePath struct {
	Name string `path:"name" doc:"The schedule's name." example:"nightly"`
}

// registerOneSchedule adds the operation that shows one schedule.
func (s *Server) registerOneSchedule() {
	handle(s, operation{
		id: "get-schedule", method: http.MethodGet, path: "/api/v1/schedules/{name}", tag: tagSchedules, endpoint: wire.APISchedules,
		summary: "One schedule", about: "With its next tick and what became of the last.", reply: typeOf[wire.ScheduleInfo](), refusals: []int{http.StatusNotFound},
	}, func(ctx context.Context, in *struct {
		SchedulePath
		After
	}) (*output, error) {
		list, err := call[struct {
			Schedules []json.RawMessage
			Stale     string
		}](ctx, s, wire.APISchedules, wire.StatsRequest{MinPosition: in.MinPosition})
		if err != nil {
			return nil, problemOf(err)
		}
		for _, raw := range list.Schedules {
			var v struct{ Name string }
			if err := json.Unmarshal(raw, &v); err == nil && v.Name == in.Name {
				return &output{Status: http.StatusOK, Body: raw}, nil
			}
		}
		return nil, absent(list.Stale, "no schedule has the name %s", events.Clip(in.Name, 64))
	})
}
