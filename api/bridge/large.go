package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/oklog/ulid/v2"

	"github.com/streamwright/streamwright/blobs"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Documents is the object store of what is too large for an event, implemented by
// *blobs.Store.
type Documents interface {
	PutBytes(ctx context.Context, id events.ID, kind blobs.Kind, doc []byte) (blobs.Ref, error)
}

// storeLarge puts the results, and the params of spawned children, that are too
// large for an event into the object store, and leaves references in their places,
// as workers over NATS do themselves. It answers the reports whose documents can't
// be stored.
//
// An object whose report is refused is left where it is: the same result of an
// earlier report has the same name. It is removed with its item, or, for a child that
// was not made, by the next sweep.
func (p *passage) storeLarge(ctx context.Context) {
	docs := p.s.b.cfg.Documents
	if docs == nil {
		return
	}
	p.todo = slices.DeleteFunc(p.todo, func(i int) bool {
		err := storeLarge(ctx, docs, &p.reports[i])
		if err != nil {
			p.replies[i].Error = wire.FromError(err)
		}
		return err != nil
	})
}

func storeLarge(ctx context.Context, docs Documents, r *wire.Report) error {
	switch r.Event {
	case wire.ReportComplete:
		if len(r.Result) <= events.MaxResultBytes {
			return nil
		}
		id, err := events.ParseID(r.ID)
		if err != nil {
			return events.Refuse(events.CodeBadID, "%v", err)
		}
		r.Result, err = put(ctx, docs, id, blobs.Result, r.Result)
		return err
	case wire.ReportSpawn:
		return storeChildren(ctx, docs, r)
	}
	return nil
}

// storeChildren stores the large params of a spawn's children. What is not the
// documents' fault the engine finds.
func storeChildren(ctx context.Context, docs Documents, r *wire.Report) error {
	if len(r.Children) > events.MaxChildren {
		return nil
	}
	for i := range r.Children {
		c := &r.Children[i]
		if len(c.Params) <= events.MaxParamsBytes {
			continue
		}
		var id events.ID
		if c.ID == "" {
			id = events.ID(ulid.Make())
		} else if known, err := events.ParseID(c.ID); err == nil {
			id = known
		} else {
			return events.Refuse(events.CodeBadID, "child %d of the spawn: %v", i+1, err)
		}
		params, err := put(ctx, docs, id, blobs.Params, c.Params)
		if err != nil {
			return err
		}
		c.ID, c.Params = id.String(), params
	}
	return nil
}

// put stores a document and returns its reference.
func put(ctx context.Context, docs Documents, id events.ID, kind blobs.Kind, doc json.RawMessage) (json.RawMessage, error) {
	if !utf8.Valid(doc) {
		return nil, events.Refuse(events.CodeBadRequest, "the %s of item %s are no JSON document in UTF-8", kind, id)
	}
	ref, err := docs.PutBytes(ctx, id, kind, bytes.TrimSpace(doc))
	if err != nil {
		if ctx.Err() != nil {
			return nil, events.Refuse(events.CodeTimeout, "the %s of item %s could not be stored in time: report it again", kind, id)
		}
		return nil, fmt.Errorf("store the %s of item %s: %w", kind, id, err)
	}
	return ref.Document(), nil
}
