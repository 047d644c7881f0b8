package rest

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// itemReply is an item with its history, for the document.
type itemReply struct {
	wire.Item
	History *wire.HistoryReply `json:"history,omitempty" doc:"Its events, if asked for."`
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
		return "", t, events.Refuse(events.CodeBadTime, "at is %q: it must be a position, or a time as 2030-01-31T08:00:00Z", clip(q.At, 64))
	}
	return "", t, nil
}

// registerItem adds the operations on one item.
func (s *Server) registerItem() {
	s.registerSeeing()
	s.registerChanging()
	s.registerBatches()
	s.registerLogs()
}

func (s *Server) registerSeeing() {
	handle(s, operation{
		id: "get-work", method: http.MethodGet, path: "/api/v1/work/{id}", tag: tagWork, endpoint: wire.APIGet,
		summary: "An item", about: "The item as it is, or as it was at a moment; with history=true its events are beside it.",
		reply: typeOf[itemReply](), refusals: []int{http.StatusNotFound},
	}, func(ctx context.Context, in *struct {
		ItemPath
		History bool `query:"history" doc:"Its events as well."`
		AtQuery
		After
	}) (*output, error) {
		pos, when, err := in.moment()
		if err != nil {
			return nil, problemOf(err)
		}
		out, err := s.reply(ctx, wire.APIGet, wire.Get{ID: in.ID, AtPosition: pos, AtTime: when, MinPosition: in.MinPosition})
		if err != nil || !in.History {
			return out, err
		}
		return s.withHistory(ctx, in.ID, out)
	})
	handle(s, operation{
		id: "wait-work", method: http.MethodGet, path: "/api/v1/work/{id}/wait", tag: tagWork, endpoint: wire.APIWait, pace: waiting,
		summary: "Wait for an item to end", about: "The item once it is completed, dead or cancelled, or as it is when the time is up: look at its state, and ask again. Where it was merged into another it is the other that is waited for.",
		reply: typeOf[wire.Item](), refusals: []int{http.StatusNotFound},
	}, func(ctx context.Context, in *struct {
		ItemPath
		Timeout string `query:"timeout" doc:"How long: a number of seconds, or as 1m30s. At most 300 seconds, 30 if left out."`
		After
	}) (*output, error) {
		ms, err := waitTime(in.Timeout)
		if err != nil {
			return nil, problemOf(err)
		}
		return s.reply(ctx, wire.APIWait, wire.Wait{ID: in.ID, TimeoutMS: ms, MinPosition: in.MinPosition})
	})
	register(s, operation{
		id: "work-history", method: http.MethodGet, path: "/api/v1/work/{id}/history", tag: tagWork, endpoint: wire.APIHistory,
		summary: "An item's events", about: "All that has happened to the item, oldest first, with what each of its states has taken.",
		reply: typeOf[wire.HistoryReply](), refusals: []int{http.StatusNotFound},
	}, func(in *struct {
		ItemPath
		After
	}) (any, error) {
		return wire.History{ID: in.ID, MinPosition: in.MinPosition}, nil
	})
	register(s, operation{
		id: "work-why", method: http.MethodGet, path: "/api/v1/work/{id}/why", tag: tagWork, endpoint: wire.APIWhy,
		summary: "Why an item is not running", about: "What stands in its way now, the most telling first.",
		reply: typeOf[wire.WhyReply](), refusals: []int{http.StatusNotFound},
	}, func(in *struct {
		ItemPath
		After
	}) (any, error) {
		return wire.Why{ID: in.ID, MinPosition: in.MinPosition}, nil
	})
	register(s, operation{
		id: "work-tree", method: http.MethodGet, path: "/api/v1/work/{id}/tree", tag: tagWork, endpoint: wire.APITree,
		summary: "What an item has spawned, and what has spawned it", about: "The item with the items below it, and the path of those above it.",
		reply: typeOf[wire.TreeReply](), refusals: []int{http.StatusNotFound},
	}, func(in *struct {
		ItemPath
		Depth string `query:"depth" doc:"Levels below the item: 1 to 100, 10 if left out."`
		Limit string `query:"limit" doc:"Items below it: 1 to 10,000, 200 if left out."`
		After
	}) (any, error) {
		depth, err := number("depth", in.Depth)
		if err != nil {
			return nil, err
		}
		limit, err := number("limit", in.Limit)
		return wire.Tree{ID: in.ID, Depth: depth, Limit: limit, MinPosition: in.MinPosition}, err
	})
}

// withHistory adds an item's events to the item.
func (s *Server) withHistory(ctx context.Context, id string, item *output) (*output, error) {
	history, err := s.ask(ctx, wire.APIHistory, wire.History{ID: id})
	if err != nil {
		return nil, problemOf(err)
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(item.Body, &m); err != nil {
		return nil, problemOf(err)
	}
	m["history"] = history
	item.Body, err = json.Marshal(m)
	return item, err
}

// waitTime reads how long to wait, in milliseconds; 0 is the engine's default.
func waitTime(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		d, err = time.ParseDuration(text + "s")
	}
	if err != nil || d < time.Millisecond || d > MaxWait {
		return 0, events.Refuse(events.CodeBadTime, "timeout is %q: it must be a number of seconds, or as 1m30s, and at most %v", clip(text, 64), MaxWait)
	}
	return d.Milliseconds(), nil
}

func (s *Server) registerChanging() {
	register(s, operation{
		id: "cancel-work", method: http.MethodDelete, path: "/api/v1/work/{id}", tag: tagWork, endpoint: wire.APICancel,
		summary: "Cancel an item", about: "It is cancelled at once. was_running says that it was claimed or running, worker_told that its worker was sent the cancel; a worker that missed it hears of it with its next heartbeat or report. Cancelling again changes nothing.",
		reply: typeOf[wire.Cancelled](), refusals: []int{http.StatusNotFound, http.StatusConflict},
	}, func(in *struct {
		ItemPath
		Reason string `query:"reason" doc:"Why; it is kept with the item."`
	}) (any, error) {
		return wire.Cancel{ID: in.ID, Reason: in.Reason}, nil
	})
	register(s, operation{
		id: "reschedule-work", method: http.MethodPatch, path: "/api/v1/work/{id}", tag: tagWork, endpoint: wire.APIReschedule,
		summary: "Change a queued item's order", about: "Its priority, or when it is due. Only what is queued can be changed.",
		body: typeOf[wire.Reschedule](), omit: []string{"id"}, reply: typeOf[wire.Rescheduled](), refusals: []int{http.StatusNotFound, http.StatusConflict},
	}, func(in *struct {
		ItemPath
		JSONBody
	}) (any, error) {
		return withFields(in.RawBody, field{"id", in.ID})
	})
	for _, at := range []struct{ id, path, tag string }{{"replay-work", "/api/v1/work/{id}/replay", tagWork}, {"replay-dead", "/api/v1/dead/{id}/replay", tagDead}} {
		register(s, operation{
			id: at.id, method: http.MethodPost, path: at.path, tag: at.tag, endpoint: wire.APIReplay,
			summary: "Queue a dead or cancelled item again", about: "What the body leaves out stays as it was; without a body all does.",
			body: typeOf[wire.Replay](), bodyOptional: true, omit: []string{"id"}, reply: typeOf[wire.ReplayReply](), refusals: []int{http.StatusNotFound, http.StatusConflict, http.StatusTooManyRequests},
		}, func(in *struct {
			ItemPath
			JSONBody
		}) (any, error) {
			return withFields(in.RawBody, field{"id", in.ID})
		})
	}
}
