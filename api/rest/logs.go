package rest

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Logs are the items' logs, to be read live.
type Logs interface {
	// Follow gives the records of an item's log behind a sequence to fn, as Output's Follow
	// gives chunks.
	Follow(ctx context.Context, t events.Type, id events.ID, behind uint64, ended <-chan struct{}, fn func(wire.LogRecord) error) error
}

// logsQuery is the input of an item's log.
type logsQuery struct {
	ItemPath
	Limit       string `query:"limit" doc:"The last so many, of 4 MiB together: 1 to 10,000, 1,000 if left out. Not with follow."`
	Follow      bool   `query:"follow" doc:"Stream the records as server-sent events: those already there first, then live until the item has ended."`
	LastEventID string `header:"Last-Event-ID" doc:"With follow: go on behind this record."`
}

// registerLogs adds the operation on an item's log.
func (s *Server) registerLogs() {
	o := operation{
		id: "work-logs", method: http.MethodGet, path: "/api/v1/work/{id}/logs", tag: tagWork, endpoint: wire.APILogs, pace: endless,
		summary: "An item's log",
		about: "What its runs have written, oldest first. With follow=true it is a stream of server-sent events: event log with the record's sequence as id and the record as data; event end with the item once it has ended and all is told. " +
			"One who connects again with Last-Event-ID after that gets 204, which ends a browser's EventSource. The log of an item that was merged is that of the other.",
		reply: typeOf[wire.LogsReply](),
	}
	op := s.doc.operation(o)
	op.Responses["200"].Content["text/event-stream"] = &huma.MediaType{Schema: s.doc.schema(typeOf[wire.LogRecord](), "LogRecord")}
	op.Responses["204"] = &huma.Response{Description: "With follow and Last-Event-ID: the item has ended, and nothing is left to tell."}
	huma.Register(s.api, op, func(ctx context.Context, in *logsQuery) (*streamed, error) {
		body, err := s.logs(ctx, in)
		if err != nil {
			return nil, problemOf(err)
		}
		return &streamed{body}, nil
	})
}

func (s *Server) logs(ctx context.Context, in *logsQuery) (func(huma.Context), error) {
	if in.Follow {
		return s.followLogs(ctx, in)
	}
	limit, err := number("limit", in.Limit)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, RequestTime)
	defer cancel()
	data, err := s.ask(ctx, wire.APILogs, wire.Logs{ID: in.ID, Limit: limit})
	return func(hc huma.Context) {
		hc.SetStatus(http.StatusOK)
		_, _ = hc.BodyWriter().Write(data) // the caller has gone: nobody to tell
	}, err
}

func (s *Server) followLogs(ctx context.Context, in *logsQuery) (func(huma.Context), error) {
	if s.cfg.Logs == nil {
		return nil, s.lacks("can't follow logs")
	}
	if in.Limit != "" {
		return nil, events.Refuse(events.CodeBadRequest, "both follow and limit are given: a followed log begins with its first record, or behind Last-Event-ID")
	}
	f := &followed{s: s, late: lateRecords}
	f.more = func(ctx context.Context) (bool, error) {
		page, err := call[wire.LogsReply](ctx, s, wire.APILogs, wire.Logs{ID: f.id.String(), After: &f.behind, Limit: 1})
		return len(page.Records) > 0, err
	}
	f.follow = func(ctx context.Context, ended <-chan struct{}, fn func(record) error) error {
		return s.cfg.Logs.Follow(ctx, f.t, f.id, f.behind, ended, func(r wire.LogRecord) error {
			return fn(record{name: "log", id: r.Seq, data: r})
		})
	}
	return f.stream(ctx, "log", in.ID, in.LastEventID)
}

// lateRecords is the time that the last records of an item are given to be stored: a busy
// server may store them after the report that ended the item, which was sent behind them.
const lateRecords = 250 * time.Millisecond
