package rest

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/sleep"
	"github.com/streamwright/streamwright/wire"
)

// followed is an item whose log, or output, a client follows.
type followed struct {
	s      *Server
	t      events.Type
	id     events.ID
	behind uint64        // what the client has
	late   time.Duration // after the item's end until all is stored

	more   func(context.Context) (bool, error) // whether anything is stored behind
	follow func(ctx context.Context, ended <-chan struct{}, fn func(record) error) error
}

// stream replies with what the item's runs have written, and will write until it ends.
func (f *followed) stream(ctx context.Context, name, id, lastEventID string) (func(huma.Context), error) {
	first, cancel := context.WithTimeout(ctx, RequestTime)
	defer cancel()
	item, err := f.find(first, id)
	if err != nil {
		return nil, err
	}
	if lastEventID != "" {
		if f.behind, err = strconv.ParseUint(lastEventID, 10, 64); err != nil {
			return nil, events.Refuse(events.CodeBadRequest, "the header Last-Event-ID must be the id of the last event received, a whole number")
		}
		if item.State.Terminal() {
			if more, err := f.more(first); err != nil || !more {
				return nothingLeft, err
			}
		}
	}
	leave, err := f.s.enterStream()
	if err != nil {
		return nil, err
	}
	return func(hc huma.Context) {
		defer leave()
		f.s.serveStream(hc, name, f.source)
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

// source passes fn what the runs write and, once the item has ended and all is sent, its end.
func (f *followed) source(ctx context.Context, fn func(record) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended, end := make(chan struct{}), wire.Item{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		var err error
		if end, err = f.ended(ctx); err != nil {
			cancel(err)
			return
		}
		close(ended)
	}()
	err := f.follow(ctx, ended, fn)
	if errors.Is(err, context.Canceled) {
		err = context.Cause(ctx)
	}
	cancel(nil)
	<-done
	if err != nil {
		return err
	}
	return fn(record{name: "end", data: end})
}

// ended waits until the item has ended, and all that its runs have written is stored.
func (f *followed) ended(ctx context.Context) (item wire.Item, err error) {
	for err == nil && !item.State.Terminal() {
		var doc []byte
		if doc, err = f.s.waitFor(ctx, wire.Wait{IDs: []string{f.id.String()}, Timeout: events.DurationOf(MaxWait)}); err == nil {
			item = wire.Item{}
			err = json.Unmarshal(doc, &item)
		}
	}
	if err == nil && time.Since(item.FinishedAt) < f.late {
		err = sleep.For(ctx, f.late)
	}
	return item, err
}
