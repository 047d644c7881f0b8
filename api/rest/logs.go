package rest

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/sleep"
	"github.com/streamwright/streamwright/wire"
)

// Logs are the items' logs, to be read live.
type Logs interface {
	// Follow gives the records of an item's log behind a sequence, those already
	// there first, until ctx ends or fn errs; that is its error then.
	Follow(ctx context.Context, t events.Type, id events.ID, behind uint64, fn func(wire.LogRecord) error) error
	// LastSeq is the sequence of the last record of an item's log; 0 for none.
	LastSeq(ctx context.Context, t events.Type, id events.ID) (uint64, error)
}

// logsQuery is the input of an item's log.
type logsQuery struct {
	ItemPath
	Limit       string `query:"limit" doc:"The last so many, of 4 MiB together: 1 to 10,000, 1,000 if left out. Not with follow."`
	Follow      bool   `query:"follow" doc:"Stream the records as server-sent events: those already there first, then live until the item has ended."`
	LastEventID string `header:"Last-Event-ID" doc:"With follow: go on behind this record."`
}

// logsOutput is a reply or a stream.
type logsOutput struct {
	Body func(huma.Context)
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
	huma.Register(s.api, op, func(ctx context.Context, in *logsQuery) (*logsOutput, error) {
		body, err := s.logs(ctx, in)
		if err != nil {
			return nil, problemOf(err)
		}
		return &logsOutput{body}, nil
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

// followed is an item whose log, or output, a client follows.
type followed struct {
	s      *Server
	t      events.Type
	id     events.ID
	behind uint64
}

func (s *Server) followLogs(ctx context.Context, in *logsQuery) (func(huma.Context), error) {
	if s.cfg.Logs == nil {
		return nil, s.lacks("can't follow logs")
	}
	if in.Limit != "" {
		return nil, events.Refuse(events.CodeBadRequest, "both follow and limit are given: a followed log begins with its first record, or behind Last-Event-ID")
	}
	f := &followed{s: s}
	if in.LastEventID != "" {
		n, err := strconv.ParseUint(in.LastEventID, 10, 64)
		if err != nil {
			return nil, events.Refuse(events.CodeBadRequest, "the header Last-Event-ID must be the id of the last record received, a whole number")
		}
		f.behind = n
	}
	first, cancel := context.WithTimeout(ctx, RequestTime)
	defer cancel()
	item, err := f.find(first, in.ID)
	if err != nil {
		return nil, err
	}
	if in.LastEventID != "" && item.State.Terminal() {
		tip, err := s.cfg.Logs.LastSeq(first, f.t, f.id)
		if err != nil {
			return nil, err
		}
		if tip <= f.behind {
			return nothingLeft, nil
		}
	}
	leave, err := s.enterStream()
	if err != nil {
		return nil, err
	}
	return func(hc huma.Context) {
		defer leave()
		s.serveStream(hc, "log", f.source)
	}, nil
}

// nothingLeft replies to who follows something that has ended, and has all of it.
func nothingLeft(hc huma.Context) {
	_, w := humago.Unwrap(hc)
	w.Header().Del("Content-Type")
	w.WriteHeader(http.StatusNoContent)
}

// maxMerges bounds how far merged items are followed.
const maxMerges = 16

// find looks the item up, or the one that it was merged into.
func (f *followed) find(ctx context.Context, id string) (item wire.Item, err error) {
	for range maxMerges {
		if item, err = call[wire.Item](ctx, f.s, wire.APIGet, wire.Get{ID: id}); err != nil || item.MergedInto == "" {
			break
		}
		id = item.MergedInto
	}
	if err == nil {
		f.t = events.Type(item.Type)
		f.id, err = events.ParseID(item.ID)
	}
	return item, err
}

// logEnd is the end of an ended item's log.
type logEnd struct {
	item wire.Item
	tip  uint64 // of its last record
	err  error
}

// source passes fn the records of the log and, once the item has ended and all its
// records are sent, its end.
func (f *followed) source(ctx context.Context, fn func(record) error) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer func() { cancel(); wg.Wait() }()
	records, broken, ended := make(chan wire.LogRecord), make(chan error, 1), make(chan logEnd, 1)
	wg.Go(func() {
		broken <- f.s.cfg.Logs.Follow(ctx, f.t, f.id, f.behind, func(r wire.LogRecord) error {
			select {
			case records <- r:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	})
	wg.Go(func() { ended <- f.end(ctx) })
	told := f.behind
	var end *logEnd
	for end == nil || told < end.tip {
		select {
		case r := <-records:
			if told = r.Seq; told <= f.behind {
				continue
			}
			if err := fn(record{name: "log", id: r.Seq, data: r}); err != nil {
				return err
			}
		case e := <-ended:
			if e.err != nil {
				return e.err
			}
			end = &e
		case err := <-broken:
			return err
		}
	}
	return fn(record{name: "end", data: end.item})
}

// ended waits until the item has ended.
func (f *followed) ended(ctx context.Context) (item wire.Item, err error) {
	for err == nil && !item.State.Terminal() {
		var doc []byte
		if doc, err = f.s.waitFor(ctx, wire.Wait{IDs: []string{f.id.String()}, Timeout: events.DurationOf(MaxWait)}); err == nil {
			item = wire.Item{}
			err = json.Unmarshal(doc, &item)
		}
	}
	return item, err
}

// end waits until the item has ended, and finds the end of its log.
func (f *followed) end(ctx context.Context) (end logEnd) {
	end.item, end.err = f.ended(ctx)
	if end.err == nil && time.Since(end.item.FinishedAt) < lateRecords {
		end.err = sleep.For(ctx, lateRecords)
	}
	if end.err == nil {
		end.tip, end.err = f.s.cfg.Logs.LastSeq(ctx, f.t, f.id)
	}
	return end
}

// lateRecords is the time that the last records of an item are given to be stored: a busy
// server may store them after the report that ended the item, which was sent behind them.
const lateRecords = 250 * time.Millisecond
