package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/tracing"
	"github.com/streamwright/streamwright/wire"
)

// registerSubmit adds the operation that submits items.
func (s *Server) registerSubmit() {
	handle(s, operation{
		id: "submit", method: http.MethodPost, path: "/api/v1/work", tag: tagWork, endpoint: wire.APISubmit,
		summary: "Submit an item, or many",
		about: "The body is one item, or {\"items\":[…]} with at most 10,000 of them, which are decided in order, each on its own: the reply then has one element for each, with error where it was refused. " +
			"The status is 201 if an item was created, 200 if nothing was: a repeat, or a merge into another by its dedup key. When this is answered, the item is durable.\n\n" +
			"ahead and estimated_wait_ms are a snapshot: of the first 100 items, as far as they can be counted in a tenth of a second.",
		body: typeOf[submission](), reply: typeOf[submissionReply](), created: true,
	}, s.submit)
}

// submitInput is the input of a submission.
type submitInput struct {
	JSONBody
	Traceparent string `header:"traceparent" doc:"The trace (W3C Trace Context) that the items go on in, unless they name one."`
}

// submission is the body of POST /api/v1/work, for the document: see
// submissionSchema.
type submission struct{}

// submissionSchema is the schema of one item, or of a list of them in place of all
// other fields.
func (d *document) submissionSchema() *huma.Schema {
	one := d.schema(typeOf[wire.Submit](), "Submit")
	least, most := 1, events.MaxSubmitBatch
	return &huma.Schema{OneOf: []*huma.Schema{one, {
		Type: huma.TypeObject, Required: []string{"items"}, AdditionalProperties: false,
		Properties: map[string]*huma.Schema{"items": {
			Type: huma.TypeArray, Items: one, MinItems: &least, MaxItems: &most, Description: "Many items, which are decided in order, each on its own.",
		}},
	}}}
}

// submissionReply is the reply, for the document.
type submissionReply struct {
	PlacedItem
	Items []PlacedItem `json:"items,omitempty" doc:"The replies to many items, in their order."`
}

// PlacedItem is the answer to one item.
type PlacedItem struct {
	wire.Submitted
	Ahead         *int             `json:"ahead,omitempty" doc:"Items of its type that go first; 10,000 means so many or more. Left out if it is not queued, or not due yet."`
	EstimatedWait *events.Duration `json:"estimated_wait_ms,omitempty" doc:"Until it is likely to run: by the slots of its workers and the run times of those in front of it: their estimated_duration_ms, else the mean of their type. Left out where nothing is known of either."`
}

func (s *Server) submit(ctx context.Context, in *submitInput) (*output, error) {
	list, many, err := itemsOf(in.RawBody)
	if err == nil {
		list, err = traced(list, many, in.Traceparent)
	}
	if err != nil {
		return nil, problemOf(err)
	}
	replies, err := s.submitList(ctx, list, many)
	if err != nil {
		return nil, problemOf(err)
	}
	s.place(ctx, replies)
	out := &output{Status: http.StatusOK}
	for i := range replies {
		if r := &replies[i]; r.Error == nil && !r.Repeat && r.MergedInto == "" {
			out.Status = http.StatusCreated
		}
	}
	var reply any = replies[0]
	if many {
		out.Status = http.StatusOK // each element says what became of it
		reply = struct {
			Items []PlacedItem `json:"items"`
		}{replies}
	}
	out.Body, err = json.Marshal(reply)
	return out, err
}

// submitList submits one item or many, their params in the object store where
// they are large.
func (s *Server) submitList(ctx context.Context, list json.RawMessage, many bool) (replies []PlacedItem, err error) {
	o := &offload{s: s}
	if list, err = o.store(ctx, list, many); err != nil {
		return nil, err
	}
	defer func() { o.settle(ctx, replies, err) }()
	data, err := s.ask(ctx, wire.APISubmit, list)
	if err != nil {
		return nil, err
	}
	if many {
		err = json.Unmarshal(data, &replies)
		return replies, err
	}
	replies = make([]PlacedItem, 1)
	err = json.Unmarshal(data, &replies[0])
	return replies, err
}

// traced gives the trace of the request to the items that name none. A traceparent
// that can't be read is ignored, as the standard asks.
func traced(list json.RawMessage, many bool, traceparent string) (json.RawMessage, error) {
	if !tracing.Parse(traceparent).IsValid() {
		return list, nil
	}
	var raws []json.RawMessage
	if !many {
		raws = []json.RawMessage{list}
	} else if err := json.Unmarshal(list, &raws); err != nil {
		return list, nil // the engine says what is wrong
	}
	for i, raw := range raws {
		m, err := members(raw)
		if err != nil {
			continue // as above
		}
		if _, has := m[wire.HeaderTrace]; !has {
			m[wire.HeaderTrace], _ = json.Marshal(traceparent) // a string can always be written
			if raws[i], err = json.Marshal(m); err != nil {
				return nil, events.Refuse(events.CodeInternal, "%v", err)
			}
		}
	}
	if !many {
		return raws[0], nil
	}
	return json.Marshal(raws)
}

// itemsOf returns what the engine is sent: the body, or the items in it.
func itemsOf(body []byte) (list json.RawMessage, many bool, err error) {
	if t := bytes.TrimSpace(body); len(t) > 0 && t[0] == '[' {
		return nil, false, events.Refuse(events.CodeBadRequest, `the body is an array: send {"items":[…]}`)
	}
	m, err := members(body)
	if err != nil {
		return nil, false, err
	}
	items, many := m["items"]
	if !many {
		return body, false, nil
	}
	for name := range m {
		if name != "items" {
			return nil, true, events.Refuse(events.CodeBadRequest, "the request has the field %q beside items: give it in each of the items", events.Clip(name, 64))
		}
	}
	if t := bytes.TrimSpace(items); t[0] != '[' || bytes.Equal(bytes.TrimSpace(t[1:]), []byte("]")) {
		return nil, true, events.Refuse(events.CodeBadRequest, "items must be a list of 1 to %d items", events.MaxSubmitBatch)
	}
	return items, true, nil
}

// placeTime bounds the look at where items stand: the reply to a submission
// must not wait for it.
const placeTime = 500 * time.Millisecond

// place adds the items' places in their queues to replies, where they are known.
func (s *Server) place(ctx context.Context, replies []PlacedItem) {
	var ask wire.QueuePositions
	var at []int
	for i := range replies {
		r := &replies[i]
		if r.Error == nil && r.Namespace == "" && r.State == events.StateQueued && len(at) < wire.MaxPlaces {
			ask.IDs, at = append(ask.IDs, r.ID), append(at, i)
			if r.Position != "" {
				ask.MinPosition = r.Position
			}
		}
	}
	if len(at) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, placeTime)
	defer cancel()
	places, err := call[wire.PlaceReply](ctx, s, wire.APIPlace, ask)
	if err != nil || len(places.Places) != len(at) {
		s.cfg.Logger.Debug("where submitted items stand can't be told", "error", err)
		return
	}
	for n, p := range places.Places {
		replies[at[n]].Ahead, replies[at[n]].EstimatedWait = p.Ahead, p.EstimatedWait
	}
}
