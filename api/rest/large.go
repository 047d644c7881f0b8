package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"time"
	"unicode/utf8"

	"github.com/oklog/ulid/v2"

	"github.com/streamwright/streamwright/blobs"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Documents is the object store of what is too large for an event; *blobs.Store
// is it, with the engine's connection.
type Documents interface {
	Open(ctx context.Context, ref blobs.Ref) (io.ReadCloser, error)
	PutBytes(ctx context.Context, id events.ID, kind blobs.Kind, doc []byte) (blobs.Ref, error)
	PutFrom(ctx context.Context, id events.ID, kind blobs.Kind, doc io.Reader) (blobs.Ref, error)
	Remove(ctx context.Context, ref blobs.Ref) error
}

// removeTime bounds the removal of what a refused submission leaves.
const removeTime = 5 * time.Second

// stored is an object that was put for a submission which chose no id, so that
// nobody else can know of it.
type stored struct {
	element int
	ref     blobs.Ref
}

// storeParams puts the params of submissions that are too large for an event into
// the object store, and leaves references in their places. A submission that
// would be refused anyway loses its params instead, so that the engine says why.
// If it fails, nothing has been submitted.
func (s *Server) storeParams(ctx context.Context, list json.RawMessage, many bool) (json.RawMessage, []stored, error) {
	if s.cfg.Documents == nil || len(list) <= events.MaxParamsBytes {
		return list, nil, nil
	}
	raws := []json.RawMessage{list}
	if many {
		if json.Unmarshal(list, &raws) != nil || len(raws) > events.MaxSubmitBatch {
			return list, nil, nil // the engine says what is wrong
		}
	}
	var put []stored
	asked := false
	for i, raw := range raws {
		large, ok := largeParams(raw)
		if !ok {
			continue
		}
		if !asked { // whether anything would be taken, before much is written
			if _, err := s.ask(ctx, wire.APISubmit, json.RawMessage(`[]`)); err != nil {
				return nil, nil, err
			}
			asked = true
		}
		element, ref, err := s.storeOne(ctx, large)
		if ref != nil {
			put = append(put, stored{i, *ref})
		}
		if err != nil {
			s.removeStored(ctx, put)
			return nil, nil, err
		}
		raws[i] = element
	}
	if !many {
		return raws[0], put, nil
	}
	list, err := json.Marshal(raws)
	return list, put, err
}

// largeParams reads a submission whose params are too large for an event.
func largeParams(raw json.RawMessage) (m map[string]json.RawMessage, ok bool) {
	if len(raw) <= events.MaxParamsBytes {
		return nil, false
	}
	m, err := members(raw)
	return m, err == nil && len(bytes.TrimSpace(m["params"])) > events.MaxParamsBytes
}

// storeOne is storeParams for one submission. ref is that of an object that only
// this request knows of.
func (s *Server) storeOne(ctx context.Context, m map[string]json.RawMessage) (_ json.RawMessage, ref *blobs.Ref, err error) {
	params := bytes.TrimSpace(m["params"])
	m["params"] = json.RawMessage(`null`)
	if !utf8.Valid(params) {
		m["params"] = json.RawMessage("\"\xff\"") // refused as such
	}
	var sub wire.Submit
	rest, err := json.Marshal(m)
	if err != nil {
		return nil, nil, events.Refuse(events.CodeBadRequest, "%v", err)
	}
	if !utf8.Valid(params) || strictly(rest, &sub) != nil {
		return rest, nil, nil
	}
	if _, err := sub.Command(events.ID{}, events.MaxParamsCeiling); err != nil {
		return rest, nil, nil
	}
	fresh := sub.ID == ""
	if fresh {
		sub.ID = ulid.Make().String()
	}
	id, err := events.ParseID(sub.ID)
	if err != nil {
		return rest, nil, nil
	}
	put, err := s.cfg.Documents.PutBytes(ctx, id, blobs.Params, params)
	if err != nil {
		return nil, nil, err
	}
	if fresh {
		ref = &put
	}
	m["id"], _ = json.Marshal(sub.ID) // a string can always be written
	m["params"] = put.Document()
	rest, err = json.Marshal(m)
	return rest, ref, err
}

// settle removes the objects of submissions that have come to nothing: those
// that were refused, and those that were answered with an earlier item. Where
// that is not certain they are left to the sweep.
func (s *Server) settle(ctx context.Context, put []stored, replies []PlacedItem, err error) {
	if err != nil {
		if uncertain(wire.FromError(err).Code) {
			return
		}
		s.removeStored(ctx, put)
		return
	}
	var nothing []stored
	for _, p := range put {
		if p.element >= len(replies) {
			continue
		}
		switch r := &replies[p.element]; {
		case r.Error != nil && uncertain(r.Error.Code):
		case r.Error != nil, r.ID != p.ref.Item().String():
			nothing = append(nothing, p)
		}
	}
	s.removeStored(ctx, nothing)
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

func (s *Server) removeStored(ctx context.Context, put []stored) {
	if len(put) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTime)
	defer cancel()
	for _, p := range put {
		if err := s.cfg.Documents.Remove(ctx, p.ref); err != nil {
			s.cfg.Logger.Debug("the params of a refused submission are left to the sweep", "object", p.ref.Name, "error", err)
		}
	}
}
