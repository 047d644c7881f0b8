package query

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/projector/internal/layout"
	"github.com/streamwright/streamwright/wire"
)

// DedupHeld calls fn with each dedup key that a live item holds, that item and
// its state, as of one position, which it returns. A key that a completed item
// keeps for its window is not among them. It ends with fn's error or ctx's.
func (s Reader) DedupHeld(ctx context.Context, fn func(t events.Type, key string, id events.ID, state events.ItemState) error) (at events.Seq, err error) {
	prefix := []byte{layout.PrefixKey, byte(events.KeyDedup)}
	err = s.snapshot(func(v layout.View) error {
		m, err := v.Meta()
		if err != nil {
			return err
		}
		at = m.Applied
		return v.Scan(prefix, prefix, func(key, value []byte) (bool, error) {
			if err := ctx.Err(); err != nil {
				return false, err
			}
			r := layout.KeyReader{B: key[1:]}
			ref := r.Ref()
			if r.Err != nil {
				return false, fmt.Errorf("%s: %w", layout.DescribeKey(key), r.Err)
			}
			held, err := layout.DecodeHeld(ref, value)
			if err != nil {
				return false, err
			}
			if !held.Until.IsZero() {
				return true, nil
			}
			it, err := v.Item(held.ID)
			if err != nil {
				return false, err
			}
			if it == nil {
				return false, fmt.Errorf("dedup key %q of type %s leads to item %s, which is not there", ref.Key, ref.Type, held.ID)
			}
			return true, fn(ref.Type, ref.Key, held.ID, it.State)
		})
	})
	return at, err
}

// DedupHolder returns the live item that holds a dedup key, nil if there is
// none. A key that a completed item keeps for its window has no live holder.
func (s Reader) DedupHolder(t events.Type, key string) (it *events.Item, err error) {
	err = s.snapshot(func(v layout.View) error {
		held, has, err := v.HeldKey(events.KeyRef{Kind: events.KeyDedup, Type: t, Key: key})
		if err != nil || !has || !held.Until.IsZero() {
			return err
		}
		it, err = v.Item(held.ID)
		return err
	})
	return it, err
}

// maxHolders bounds the holders of dedup keys with one prefix that a question
// reads: the first by key.
const maxHolders = 1000

// EachLive calls fn with the live items of a type, each as [Reader.Full]
// returns it, the last touched first, until fn returns false. With a keyPrefix
// these are the holders of dedup keys with that prefix, of at most maxHolders
// keys. All are as of one moment.
func (s Reader) EachLive(t events.Type, keyPrefix string, fn func(wire.Item) (more bool)) error {
	return s.snapshot(func(v layout.View) error {
		each := eachListed
		if keyPrefix != "" {
			each = eachHolder
		}
		return each(v, t, keyPrefix, func(it *events.Item) (bool, error) {
			full, err := fullItem(v, it)
			return err == nil && fn(full), err
		})
	})
}

// eachListed calls fn with the live items of a type, the last touched first.
func eachListed(v layout.View, t events.Type, _ string, fn func(*events.Item) (more bool, err error)) (err error) {
	l := &listing{typ: t, limit: DefaultListLimit}
	for _, st := range []events.ItemState{events.StateQueued, events.StateWaiting, events.StateClaimed, events.StateRunning} {
		l.states |= 1 << st
	}
	s := &scan{v: v, budget: MaxListScan}
	defer func() { err = errors.Join(err, s.close()) }()
	m, err := s.listed(l, allRanges)
	if err != nil {
		return err
	}
	for at := m.spot(); at.ok && s.budget > 0; at = m.spot() {
		it, err := v.Item(at.place.ID)
		if err != nil {
			return err
		}
		if it == nil {
			return fmt.Errorf("item %s is listed, but not there: %w", at.place.ID, layout.ErrRecord)
		}
		if more, err := fn(it); !more || err != nil {
			return err
		}
		if err := m.pop(); err != nil {
			return err
		}
	}
	return nil
}

// eachHolder calls fn with the live holders of dedup keys with a prefix, the last
// touched first.
func eachHolder(v layout.View, t events.Type, keyPrefix string, fn func(*events.Item) (more bool, err error)) error {
	var holders []*events.Item
	from := layout.AppendHeldKey(nil, events.KeyRef{Kind: events.KeyDedup, Type: t, Key: keyPrefix})
	err := v.Scan(from, from, func(key, value []byte) (bool, error) {
		r := layout.KeyReader{B: key[1:]}
		held, err := layout.DecodeHeld(r.Ref(), value)
		if err != nil || !held.Until.IsZero() {
			return true, err
		}
		it, err := v.Item(held.ID)
		if it != nil && err == nil {
			holders = append(holders, it)
		}
		return len(holders) < maxHolders, err
	})
	if err != nil {
		return err
	}
	slices.SortFunc(holders, func(a, b *events.Item) int { return cmp.Compare(b.Seq, a.Seq) })
	for _, it := range holders {
		if more, err := fn(it); !more || err != nil {
			return err
		}
	}
	return nil
}
