package rest

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// SchedulePath is the input of an operation on a schedule.
type SchedulePath struct {
	Name string `path:"name" doc:"The schedule's name." example:"nightly"`
}

// registerSchedules adds the operations on schedules.
func (s *Server) registerSchedules() {
	register(s, operation{
		id: "schedules", method: http.MethodGet, path: "/api/v1/schedules", tag: tagSchedules, endpoint: wire.APISchedules,
		summary: "The schedules", about: "By name, with their next tick and what became of the last.", reply: typeOf[wire.SchedulesReply](),
	}, func(in *After) (any, error) { return wire.See{MinPosition: in.MinPosition}, nil })
	handle(s, operation{
		id: "get-schedule", method: http.MethodGet, path: "/api/v1/schedules/{name}", tag: tagSchedules, endpoint: wire.APISchedules,
		summary: "One schedule", about: "With its next tick and what became of the last.", reply: typeOf[wire.ScheduleInfo](), refusals: []int{http.StatusNotFound},
	}, func(ctx context.Context, in *struct {
		SchedulePath
		After
	}) (*output, error) {
		list, err := call[struct{ Schedules []json.RawMessage }](ctx, s, wire.APISchedules, wire.See{MinPosition: in.MinPosition})
		if err != nil {
			return nil, problemOf(err)
		}
		for _, raw := range list.Schedules {
			var v struct{ Name string }
			if err := json.Unmarshal(raw, &v); err == nil && v.Name == in.Name {
				return &output{Status: http.StatusOK, Body: raw}, nil
			}
		}
		return nil, problemOf(events.Refuse(events.CodeNotFound, "no schedule has the name %s", clip(in.Name, 64)))
	})
	register(s, operation{
		id: "put-schedule", method: http.MethodPut, path: "/api/v1/schedules/{name}", tag: tagSchedules, endpoint: wire.APIScheduleSet,
		summary: "Set a schedule", about: "A new one, or another in place of the one of this name; the same again changes nothing. One that engine.toml makes is refused (set_in_file).",
		body: typeOf[wire.Schedule](), omit: []string{"name"}, reply: typeOf[wire.ScheduleReply](), refusals: []int{http.StatusConflict},
	}, func(in *struct {
		SchedulePath
		JSONBody
	}) (any, error) {
		return withFields(in.RawBody, field{"name", in.Name})
	})
	register(s, operation{
		id: "delete-schedule", method: http.MethodDelete, path: "/api/v1/schedules/{name}", tag: tagSchedules, endpoint: wire.APIScheduleRemove,
		summary: "Remove a schedule", about: "The items that it has made stay.", reply: typeOf[wire.ScheduleReply](), refusals: []int{http.StatusNotFound, http.StatusConflict},
	}, func(in *SchedulePath) (any, error) { return wire.ScheduleName{Name: in.Name}, nil })
	register(s, operation{
		id: "fire-schedule", method: http.MethodPost, path: "/api/v1/schedules/{name}/fire", tag: tagSchedules, endpoint: wire.APIScheduleFire,
		summary: "Make an item beside the ticks", about: "With an id in the body, the same request again gives the same item.",
		body: typeOf[wire.ScheduleFire](), bodyOptional: true, omit: []string{"name"}, reply: typeOf[wire.Submitted](), refusals: []int{http.StatusNotFound, http.StatusConflict, http.StatusTooManyRequests},
	}, func(in *struct {
		SchedulePath
		JSONBody
	}) (any, error) {
		return withFields(in.RawBody, field{"name", in.Name})
	})
	register(s, operation{
		id: "ticks", method: http.MethodGet, path: "/api/v1/ticks", tag: tagSchedules, endpoint: wire.APITicks,
		summary: "When a schedule would tick next", about: "A preview of a timing: no schedule is needed. Each tick has the offset of the time zone.", reply: typeOf[wire.TicksReply](),
	}, func(in *ticksQuery) (any, error) { return in.ticks() })
	for _, o := range []operation{
		{id: "pause-schedule", endpoint: wire.APISchedulePause, path: "/api/v1/schedules/{name}/pause", summary: "Pause a schedule", about: "Its ticks pass without an item."},
		{id: "resume-schedule", endpoint: wire.APIScheduleResume, path: "/api/v1/schedules/{name}/resume", summary: "Resume a schedule", about: "Its ticks make items again."},
	} {
		o.method, o.tag, o.reply, o.refusals = http.MethodPost, tagSchedules, typeOf[wire.ScheduleReply](), []int{http.StatusNotFound}
		register(s, o, func(in *SchedulePath) (any, error) { return wire.ScheduleName{Name: in.Name}, nil })
	}
}

// ticksQuery is the input of a preview of ticks.
type ticksQuery struct {
	Cron    string    `query:"cron" doc:"An expression of five fields, or @hourly and the like."`
	EveryMS string    `query:"every_ms" doc:"An interval in milliseconds, in place of cron."`
	Anchor  time.Time `query:"anchor" doc:"One of the interval's ticks; now if left out."`
	Zone    string    `query:"zone" doc:"The time zone of cron, such as Europe/Berlin; UTC if left out."`
	Count   string    `query:"count" doc:"How many: 1 to 100, 5 if left out."`
}

func (q *ticksQuery) ticks() (wire.Ticks, error) {
	count, err := number("count", q.Count)
	if err != nil {
		return wire.Ticks{}, err
	}
	every, err := number("every_ms", q.EveryMS)
	return wire.Ticks{Cron: q.Cron, EveryMS: int64(every), Anchor: q.Anchor, Zone: q.Zone, Count: count}, err
}
