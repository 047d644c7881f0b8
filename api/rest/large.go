package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/oklog/ulid/v2"

	"github.com/streamwright/streamwright/blobs"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/wire/command"
)

// Documents is the object store of what is too large for an event, implemented by
// *blobs.Store with the engine's connection.
type Documents interface {
	Open(ctx context.Context, ref blobs.Ref) (io.ReadCloser, error)
	PutBytes(ctx context.Context, id events.ID, kind blobs.Kind, doc []byte) (blobs.Ref, error)
	PutFrom(ctx context.Context, id events.ID, kind blobs.Kind, doc io.Reader) (blobs.Ref, error)
	Remove(ctx context.Context, ref blobs.Ref) error
}

// removeTime bounds the removal of what a refused submission leaves.
const removeTime = 5 * time.Second

// offload puts the params of one request's submissions into the object store where
// they are too large for an event.
type offload struct {
	s   *Server
	put []stored
}

// stored is an object that was put for a submission which chose no id, so that
// nobody else can know of it.
type stored struct {
	element int
	ref     blobs.Ref
}

// store leaves references in the places of large params. A submission that would be
// refused anyway loses its params instead, so that the engine says why. If it fails,
// nothing has been submitted.
func (o *offload) store(ctx context.Context, list json.RawMessage, many bool) (json.RawMessage, error) {
	if o.s.cfg.Documents == nil || len(list) <= events.MaxParamsBytes {
		return list, nil
	}
	raws := []json.RawMessage{list}
	if many {
		if json.Unmarshal(list, &raws) != nil || len(raws) > events.MaxSubmitBatch {
			return list, nil // the engine says what is wrong
		}
	}
	asked := false
	for i, raw := range raws {
		large, ok := largeParams(raw)
		if !ok {
			continue
		}
		if !asked { // whether anything would be taken, before much is written
			if _, err := o.s.ask(ctx, wire.APISubmit, json.RawMessage(`[]`)); err != nil {
				return nil, err
			}
			asked = true
		}
		var err error
		if raws[i], err = o.storeOne(ctx, i, large); err != nil {
			o.remove(ctx, o.put)
			return nil, err
		}
	}
	if !many {
		return raws[0], nil
	}
	return json.Marshal(raws)
}

// largeParams reads a submission whose params are too large for an event.
func largeParams(raw json.RawMessage) (m map[string]json.RawMessage, ok bool) {
	if len(raw) <= events.MaxParamsBytes {
		return nil, false
	}
	m, err := members(raw)
	return m, err == nil && len(bytes.TrimSpace(m["params"])) > events.MaxParamsBytes
}

// storeOne is store for one submission.
func (o *offload) storeOne(ctx context.Context, element int, m map[string]json.RawMessage) (json.RawMessage, error) {
	params := bytes.TrimSpace(m["params"])
	m["params"] = json.RawMessage(`null`)
	if !utf8.Valid(params) {
		m["params"] = json.RawMessage("\"\xff\"") // refused as such
	}
	var sub wire.Submit
	rest, err := json.Marshal(m)
	if err != nil {
		return nil, events.Refuse(events.CodeBadRequest, "%v", err)
	}
	if !utf8.Valid(params) || wire.ReadStrict(rest, &sub) != nil {
		return rest, nil
	}
	cmd, err := command.OfSubmit(sub, events.ID(ulid.Make()), events.MaxParamsCeiling)
	if err != nil {
		return rest, nil
	}
	id := cmd.ID
	if sub.ID == "" {
		id = cmd.NewID
	}
	ref, err := o.s.cfg.Documents.PutBytes(ctx, id, blobs.Params, params)
	if err != nil {
		return nil, err
	}
	if sub.ID == "" {
		o.put = append(o.put, stored{element, ref})
	}
	m["id"], _ = json.Marshal(id.String()) // a string can always be written
	m["params"] = ref.Document()
	return json.Marshal(m)
}

// settle removes the objects of submissions that became no item: they were refused,
// or answered with an earlier item. Where that is not certain, the objects are left to
// the sweep.
func (o *offload) settle(ctx context.Context, replies []PlacedItem, err error) {
	o.remove(ctx, slices.DeleteFunc(o.put, func(p stored) bool {
		switch {
		case err != nil:
			return uncertain(wire.FromError(err).Code)
		case p.element >= len(replies):
			return true
		}
		r := &replies[p.element]
		if r.Error != nil {
			return uncertain(r.Error.Code)
		}
		return r.ID == p.ref.Item().String()
	}))
}

// uncertain reports whether a submission with such an error may have been
// decided all the same.
func uncertain(code events.Code) bool {
	switch code {
	case events.CodeUnavailable, events.CodeTimeout, events.CodeInternal:
		return true
	}
	return false
}

func (o *offload) remove(ctx context.Context, put []stored) {
	if len(put) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTime)
	defer cancel()
	for _, p := range put {
		if err := o.s.cfg.Documents.Remove(ctx, p.ref); err != nil {
			o.s.cfg.Logger.Debug("the params of a refused submission are left to the sweep", "object", p.ref.Name, "error", err)
		}
	}
}
