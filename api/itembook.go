package api

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/eventlog/pages"
	"github.com/streamwright/streamwright/events"
)

// maxBookItems bounds the items that an itemBook keeps.
const maxBookItems = 8192

// itemBook knows the tenant and the labels of the items that events are about. They are said
// when the item is submitted, and never change. The projection knows those of each item that
// it keeps; for the events of an item that was pruned the book looks up its submission in the
// log.
type itemBook struct {
	s     *Service
	pages *pages.Reader

	mu    sync.Mutex // guards known
	known map[events.ID]traits
}

// traits are an item's tenant and labels. They are zero if its submission has been cut from
// the log.
type traits struct {
	tenant string
	labels map[string]string
}

// of returns a filter for the events of a tenant's items, or of those with a label,
// name=value; nil if neither is given.
func (b *itemBook) of(tenant, label string) (pages.Filter, error) {
	if tenant == "" && label == "" {
		return nil, nil
	}
	name, value, ok := strings.Cut(label, "=")
	if label != "" && (!ok || name == "") {
		return nil, events.Refuse(events.CodeBadRequest, "label must have the form name=value")
	}
	return func(ctx context.Context, ev *events.Event) (bool, error) {
		if ev.ID.IsZero() {
			return false, nil // of no item
		}
		of, err := b.traits(ctx, ev)
		if err != nil || tenant != "" && of.tenant != tenant {
			return false, err
		}
		v, has := of.labels[name]
		return label == "" || has && v == value, nil
	}, nil
}

// traits returns those of an event's item.
func (b *itemBook) traits(ctx context.Context, ev *events.Event) (traits, error) {
	if of, ok := traitsIn(ev); ok {
		return b.note(ev.ID, of), nil
	}
	b.mu.Lock()
	of, ok := b.known[ev.ID]
	b.mu.Unlock()
	if ok {
		return of, nil
	}
	if it, err := b.s.Queries.Item(ev.ID); it != nil || err != nil {
		return b.noteItem(it, err)
	}
	// The reader may be ahead of the projection.
	if err := b.s.Core.Await(ctx, ev.Seq); err != nil {
		return traits{}, err
	}
	if it, err := b.s.Queries.Item(ev.ID); it != nil || err != nil {
		return b.noteItem(it, err)
	}
	of, err := b.submission(ctx, ev)
	if err != nil {
		return traits{}, err
	}
	return b.note(ev.ID, of), nil
}

// traitsIn returns what an event itself says.
func traitsIn(ev *events.Event) (of traits, ok bool) {
	switch body := ev.Body.(type) {
	case *events.Created:
		return traits{body.Tenant, body.Labels}, true
	case *events.Carried:
		if body.Item != nil {
			return traits{body.Item.Tenant, body.Item.Labels}, true
		}
	}
	return of, false
}

func (b *itemBook) noteItem(it *events.Item, err error) (traits, error) {
	if err != nil {
		return traits{}, err
	}
	return b.note(it.ID, traits{it.Tenant, it.Labels}), nil
}

func (b *itemBook) note(id events.ID, of traits) traits {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known == nil || len(b.known) >= maxBookItems {
		b.known = map[events.ID]traits{}
	}
	b.known[id] = of
	return of
}

// submission looks for the submission of an event's item in the log: from the time on that its
// id names, which is that of the submission where the engine or a client of ours made it, else
// from the log's beginning.
func (b *itemBook) submission(ctx context.Context, ev *events.Event) (traits, error) {
	q := pages.Query{ID: ev.ID, Kinds: []events.Kind{events.KindCreated, events.KindCarried}}
	if made := ulid.Time(ulid.ULID(ev.ID).Time()); !made.After(ev.At) {
		q.Since = made.Add(-time.Second)
		if of, found, err := b.search(ctx, q, ev.Seq); found || err != nil {
			return of, err
		}
	}
	q.From, q.Since = 1, time.Time{}
	of, _, err := b.search(ctx, q, ev.Seq)
	return of, err
}

// search reads what a query asks for, up to a position.
func (b *itemBook) search(ctx context.Context, q pages.Query, to events.Seq) (of traits, found bool, err error) {
	for {
		page, err := b.pages.Read(ctx, q, nil)
		var behind *eventlog.BehindError
		if errors.As(err, &behind) {
			return of, false, nil
		}
		if err != nil {
			return of, false, err
		}
		for i := range page.Events {
			if of, found = traitsIn(&page.Events[i]); found {
				return of, true, nil
			}
		}
		if !page.More && page.First == 0 || page.Next > to {
			return of, false, nil
		}
		q.From, q.Since = page.Next, time.Time{}
	}
}
