package measure

import (
	"context"
	"errors"
	"sync/atomic"
)

// Spread is one queue over several, which take turns, item by item or batch by batch.
type Spread struct {
	parts []Queue
	given []atomic.Int64 // to each
	turn  atomic.Int64
}

var _ Queue = (*Spread)(nil)

// NewSpread returns the queue over some, which it closes with it.
func NewSpread(parts ...Queue) *Spread {
	return &Spread{parts: parts, given: make([]atomic.Int64, len(parts))}
}

// next says where so many items go.
func (s *Spread) next(items int) Queue {
	i := int(s.turn.Add(1)) % len(s.parts)
	s.given[i].Add(int64(items))
	return s.parts[i]
}

// Submit implements [Queue].
func (s *Spread) Submit(ctx context.Context, p Payload) error { return s.next(1).Submit(ctx, p) }

// SubmitMany implements [Queue].
func (s *Spread) SubmitMany(ctx context.Context, ps []Payload) error {
	return s.next(len(ps)).SubmitMany(ctx, ps)
}

// Work implements [Queue]: each part has workers of its own.
func (s *Spread) Work(ctx context.Context, handle func(Payload)) (stop func() error, err error) {
	var stops []func() error
	stop = func() error {
		var err error
		for _, one := range stops {
			err = errors.Join(err, one())
		}
		return err
	}
	for _, q := range s.parts {
		one, err := q.Work(ctx, handle)
		if err != nil {
			return nil, errors.Join(err, stop())
		}
		stops = append(stops, one)
	}
	return stop, nil
}

// Drained implements [Queue]: each part has recorded what it was given.
func (s *Spread) Drained(ctx context.Context, _ int) (bool, error) {
	for i, q := range s.parts {
		if done, err := q.Drained(ctx, int(s.given[i].Load())); !done || err != nil {
			return false, err
		}
	}
	return true, nil
}

// Close implements [Queue].
func (s *Spread) Close() error {
	var err error
	for _, q := range s.parts {
		err = errors.Join(err, q.Close())
	}
	return err
}
