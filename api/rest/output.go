package rest

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Output has the items' outputs, to be followed live.
type Output interface {
	// Follow gives the chunks of an item's output behind a sequence to fn, those already
	// there first. It returns nil once ended is closed and fn has had all that was stored by
	// then, or with the error of fn or ctx.
	Follow(ctx context.Context, t events.Type, id events.ID, behind uint64, ended <-chan struct{}, fn func(wire.OutputChunk) error) error
}

// outputQuery is the input of an item's output.
type outputQuery struct {
	ItemPath
	Follow      bool   `query:"follow" doc:"Stream the output as server-sent events: what is already there first, then live until the item has ended."`
	LastEventID string `header:"Last-Event-ID" doc:"With follow: go on behind this chunk."`
}

// outputReset is the data of the event reset.
type outputReset struct {
	Attempt int `json:"attempt"`
}

// registerOutput adds the operation on an item's output.
func (s *Server) registerOutput() {
	o := operation{
		id: "work-output", method: http.MethodGet, path: "/api/v1/work/{id}/output", tag: tagWork, endpoint: wire.APIOutput, pace: endless,
		summary: "An item's output",
		about: "The bytes that the item's last run that wrote output has written so far, as they are. With follow=true it is a stream of server-sent events: event output with a chunk as data, as text or in base64, and its seq as id; event reset, before the first chunk of each run: drop what came before; event end with the item once it has ended and all is told. " +
			"One who connects again with Last-Event-ID misses nothing, and gets 204 once there is nothing left to tell. The output of an item that was merged is that of the other.",
		reply: typeOf[wire.OutputChunk](),
	}
	op := s.doc.operation(o)
	content := op.Responses["200"].Content
	content["text/event-stream"] = content["application/json"]
	delete(content, "application/json")
	content["application/octet-stream"] = &huma.MediaType{Schema: &huma.Schema{Type: "string", Format: "binary"}}
	op.Responses["204"] = &huma.Response{Description: "With follow and Last-Event-ID: the item has ended, and nothing is left to tell."}
	huma.Register(s.api, op, func(ctx context.Context, in *outputQuery) (*streamed, error) {
		body, err := s.output(ctx, in)
		if err != nil {
			return nil, problemOf(err)
		}
		return &streamed{body}, nil
	})
}

func (s *Server) output(ctx context.Context, in *outputQuery) (func(huma.Context), error) {
	f := &followed{s: s}
	if !in.Follow {
		ctx, cancel := context.WithTimeout(ctx, RequestTime)
		defer cancel()
		item, err := f.find(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return s.wholeOutput(ctx, item.ID)
	}
	if s.cfg.Output == nil {
		return nil, s.lacks("can't follow outputs")
	}
	f.more = func(ctx context.Context) (bool, error) {
		page, err := call[wire.OutputReply](ctx, s, wire.APIOutput, wire.Output{ID: f.id.String(), After: f.behind})
		return len(page.Chunks) > 0, err
	}
	f.follow = func(ctx context.Context, ended <-chan struct{}, fn func(record) error) error {
		return s.cfg.Output.Follow(ctx, f.t, f.id, f.behind, ended, func(o wire.OutputChunk) error {
			if o.Reset {
				if err := fn(record{name: "reset", data: outputReset{o.Attempt}}); err != nil {
					return err
				}
			}
			return fn(record{name: "output", id: o.Seq, data: o})
		})
	}
	return f.stream(ctx, "output", in.ID, in.LastEventID)
}

// maxOutput bounds what is collected of one output, in bytes: what a run may write at most.
const maxOutput = 16 << 20

// wholeOutput returns what replies with all of an item's output.
func (s *Server) wholeOutput(ctx context.Context, id string) (func(huma.Context), error) {
	var body []byte
	for after, more := uint64(0), true; more; {
		page, err := call[wire.OutputReply](ctx, s, wire.APIOutput, wire.Output{ID: id, After: after})
		if err != nil {
			return nil, err
		}
		more = page.More
		for i := range page.Chunks {
			o := &page.Chunks[i]
			b, err := o.Bytes()
			if err != nil {
				return nil, fmt.Errorf("read the output of item %s: %w", id, err)
			}
			if o.Reset {
				body = nil
			}
			if body, after = append(body, b...), o.Seq; len(body) > maxOutput {
				return nil, events.Refuse(events.CodeTooLarge, "the output of item %s has more than %d bytes: follow it", id, maxOutput)
			}
		}
	}
	return func(hc huma.Context) {
		_, w := humago.Unwrap(hc)
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.WriteHeader(http.StatusOK)
		_, _ = w.Write(body) // the caller has gone: nobody to tell
	}, nil
}
