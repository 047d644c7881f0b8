package api

import (
	"context"
	"encoding/json"
	"time"

	"github.com/streamwright/streamwright/blobs"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/wire/command"
)

// Bounds of reports of spawns that are made in parts.
const (
	MaxLargeSpawns  = 8 // requests with such reports that are under way
	childrenTimeout = 30 * time.Second
)

// Blobs is the object store; *blobs.Store is it.
type Blobs interface {
	Get(ctx context.Context, ref blobs.Ref) ([]byte, error)
	PutBytes(ctx context.Context, id events.ID, kind blobs.Kind, doc []byte) (blobs.Ref, error)
}

// storesChildren reports whether the children of a spawn come from the object
// store, or may have to go there: what remains to be made must be durable before
// the first of them stands.
func storesChildren(r command.Report) bool {
	if r.Event != wire.ReportSpawn {
		return false
	}
	total := 0
	for i := range r.Children {
		total += len(r.Children[i].Params)
	}
	return len(r.ChildrenRef) > 0 || len(r.Children) > events.MaxWholeSpawn || total > wire.MaxWholeSpawnBytes
}

// fetchChildren reads the children that reports refer to, so that they are
// checked before the report is taken.
func (a *submitAPI) fetchChildren(ctx context.Context, reports []command.Report, errs []error) []error {
	return eachSound(reports, errs, func(r *command.Report) error {
		if r.Event != wire.ReportSpawn || len(r.ChildrenRef) == 0 {
			return nil
		}
		if len(r.Children) > 0 {
			return events.Refuse(events.CodeBadRequest, "the spawn has both children and children_ref: give one of them")
		}
		ref, err := blobs.Parse(r.ChildrenRef)
		if err != nil {
			return err
		}
		if ref.Item().String() != r.ID {
			return events.Refuse(events.CodeBadRequest, "children_ref names an object of item %s: put it under the id of the item that spawns, so that it lives as long", ref.Item())
		}
		r.Children, err = ReadChildren(ctx, a.Blobs, ref)
		return err
	})
}

// ReadChildren reads the children of a spawn from the object store. An
// *events.Error other than CodeUnavailable says that they can't be had.
func ReadChildren(ctx context.Context, from Blobs, ref blobs.Ref) ([]wire.Submit, error) {
	if from == nil {
		return nil, errNoDocuments
	}
	if ref.Size > MaxChildrenBytes {
		return nil, events.Refuse(events.CodeTooLarge, "the document with the spawn's children has %d bytes: at most %d are allowed", ref.Size, MaxChildrenBytes)
	}
	doc, err := from.Get(ctx, ref)
	if err != nil {
		if blobs.Permanent(err) {
			return nil, events.Refuse(events.CodeBadParams, "the document with the spawn's children can't be read: %v", err)
		}
		return nil, events.Refuse(events.CodeUnavailable, "the document with the spawn's children can't be read now: %v", err)
	}
	var children []wire.Submit
	if err := wire.ReadStrict(doc, &children); err != nil {
		return nil, events.Refuse(events.CodeBadParams, "the document with the spawn's children is no array of submissions: %v", err)
	}
	return children, nil
}

// MaxChildrenBytes bounds the document with the children of a spawn: their params
// (see wire.MaxSpawnBytes) and as much again.
const MaxChildrenBytes = 2 * wire.MaxSpawnBytes

var errNoDocuments = events.Refuse(events.CodeUnavailable, "the engine has no object store for the children of large spawns: spawn at most %d", events.MaxWholeSpawn)

// storeChildren puts the children of spawns that are too large for one decision
// into the object store, unless they came from there.
func (a *submitAPI) storeChildren(ctx context.Context, reports []command.Report, errs []error) []error {
	return eachSound(reports, errs, func(r *command.Report) error {
		if r.Event != wire.ReportSpawn || !r.TooMany() {
			return nil
		}
		if len(r.ChildrenRef) > 0 {
			r.InParts(r.ChildrenRef)
			return nil
		}
		if a.Blobs == nil {
			return errNoDocuments
		}
		id, err := events.ParseID(r.ID)
		if err != nil {
			return events.Refuse(events.CodeBadID, "%v", err)
		}
		doc, err := json.Marshal(r.Children)
		if err != nil {
			return err
		}
		ref, err := a.Blobs.PutBytes(ctx, id, blobs.Children, doc)
		if err != nil {
			return events.Refuse(events.CodeUnavailable, "the spawn's children can't be stored now: %v; report it again", err)
		}
		r.InParts(ref.Document())
		return nil
	})
}

// eachSound calls fn with each report that has no error yet, and returns the errors
// together with fn's.
func eachSound(reports []command.Report, errs []error, fn func(*command.Report) error) []error {
	for i := range reports {
		if errs != nil && errs[i] != nil {
			continue
		}
		if err := fn(&reports[i]); err != nil {
			if errs == nil {
				errs = make([]error, len(reports))
			}
			errs[i] = err
		}
	}
	return errs
}

// prepare checks what can be checked of reports before they wait for the
// engine. errs has an error for each report that can't be decided; nil if all
// can.
func (a *submitAPI) check(reports []command.Report, errs []error) []error {
	return eachSound(reports, errs, func(r *command.Report) error { return r.Prepare(a.Core.NewID, events.MaxParamsCeiling) })
}
