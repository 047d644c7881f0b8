package query

import (
	"errors"
	"fmt"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector/internal/layout"
	"github.com/streamwright/streamwright/wire"
)

// MaxFold bounds the events of one item that ItemAt folds.
const MaxFold = 100_000

// ItemAt returns an item as it was at a moment: the position through (0: any; one
// within a decision means the whole of it), or, if until is set, the last of its events
// not after that time, whichever comes first. It is folded from the item's own history, and exact in what that
// holds; Notes say what it does not hold. found is false for an unknown item,
// and for one that was not there yet.
func (s Reader) ItemAt(id events.ID, through events.Seq, until time.Time) (full wire.Item, found bool, err error) {
	err = s.snapshot(func(v layout.View) error {
		now, err := v.Item(id)
		if now == nil || err != nil {
			return err
		}
		evs, later, err := ownEvents(v, now, through, until)
		if len(evs) == 0 || err != nil {
			return err
		}
		it, err := core.FoldItem(evs)
		if err != nil {
			return fmt.Errorf("fold the history of item %s: %w", id, err)
		}
		it.HasResult = it.State == events.StateCompleted && now.HasResult // which ends its life
		at := evs[len(evs)-1]
		full, err = asOf(v, it, at, later, through, until)
		found = err == nil
		return err
	})
	return full, found && err == nil, err
}

// laterChanges says whether a history has events behind a moment, and whether
// any of them changed the params.
type laterChanges struct {
	any, params bool
}

// ownEvents are an item's events up to a moment, without the documents that the
// store keeps elsewhere.
func ownEvents(v layout.View, now *events.Item, through events.Seq, until time.Time) (evs []events.Event, later laterChanges, err error) {
	meta, err := v.Meta()
	if err != nil {
		return nil, later, err
	}
	whole, prefix := layout.WholeTo(meta, until), layout.IDKey(layout.PrefixHistory, now.ID)
	err = v.Scan(prefix, prefix, func(key, value []byte) (bool, error) {
		r := layout.KeyReader{B: key[len(prefix):]}
		seq := r.Seq()
		h, err := layout.DecodeHistory(now.ID, now.Type, seq, value)
		if err != nil || r.Err != nil {
			return false, errors.Join(err, r.Err)
		}
		ev := events.Event{Seq: seq, Kind: h.Kind, ID: now.ID, Type: now.Type, At: h.At, Attempt: events.Attempt(h.Attempt), Worker: events.WorkerID(h.Worker)}
		together := len(evs) > 0 && evs[len(evs)-1].Together(&ev)
		if through > 0 && seq > through && !together || !until.IsZero() && seq >= whole && h.At.After(until) {
			later.any = true
			later.params = later.params || h.Kind == events.KindReplayed && layout.ReplacesParams(h.Data)
			return true, nil
		}
		if len(evs) == MaxFold {
			return false, events.Refuse(events.CodeTooLarge, "item %s has more than %d events: ask for its history instead", now.ID, MaxFold)
		}
		if h.Kind == events.KindCarried {
			return false, events.Refuse(events.CodeTooLarge, "the history of item %s was so long that a part of it, up to event %d, is only counted: ask for a moment before that part", now.ID, seq)
		}
		ev.Body, err = events.DecodeBody(h.Kind, h.Data)
		evs = append(evs, ev)
		return true, err
	})
	return evs, later, err
}

// asOf returns a folded item with its params, result and merged submissions, as
// of the moment.
func asOf(v layout.View, it *events.Item, at events.Event, later laterChanges, through events.Seq, until time.Time) (full wire.Item, err error) {
	var params, result []byte
	if !later.params {
		if params, err = v.Document(layout.PrefixParams, it.ID); err != nil {
			return full, err
		}
	}
	if it.HasResult {
		if result, err = v.Document(layout.PrefixResult, it.ID); err != nil {
			return full, err
		}
	}
	it.MergedCount = MaxMergedShown // that there may be some
	merged, err := mergedInto(v, it)
	if err != nil {
		return full, err
	}
	upTo := 0
	for _, m := range merged {
		if (through == 0 || m.Seq <= through) && (until.IsZero() || !m.At.After(until)) {
			upTo++
		}
	}
	it.MergedCount = upTo
	full = wire.FromItem(it, params, result, merged[:upTo])
	full.AsOf = &wire.PastPosition{Position: wire.PositionOf(at.Seq), At: at.At, Latest: !later.any}
	full.Awaited = 0
	if c := full.Children; c != nil {
		c.Live, c.Failed = 0, 0
		full.Notes = append(full.Notes, "children: how many of them had ended stands in their histories, not in this item's")
	}
	if later.params {
		full.Notes = append(full.Notes, "params: they were replaced by a later replay; those of then stand in the created or replayed event of the log")
	}
	if upTo == MaxMergedShown {
		full.Notes = append(full.Notes, fmt.Sprintf("merged_count: %d or more", MaxMergedShown))
	}
	return full, nil
}
