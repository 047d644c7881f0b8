package dispatcher

import (
	"context"
	"fmt"
	"maps"

	"github.com/streamwright/streamwright/dispatcher/table"
	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
)

// check verifies what must hold at rest: the projection is what the log says,
// and the loop's tables agree with it.
func (s *sim) check() {
	s.t.Helper()
	v, err := s.store.Verify(context.Background(), projectorLog{s.log}, nil)
	s.ok(err)
	if !v.Equal || v.Position != s.l.pipe.appended {
		s.t.Fatalf("the live store is at %d, the log at %d, and a replay differs: %s", v.Position, s.l.pipe.appended, v.Diff)
	}
	s.ok(s.consistent())
	left, err := s.store.FollowUps(events.ID{}, 1)
	s.ok(err)
	if len(left) > 0 {
		s.t.Fatalf("%+v still needs a follow-up", s.item(left[0]))
	}
}

// consistent compares the loop's tables with the items.
func (s *sim) consistent() error {
	t := s.l.table
	types, groups := map[events.Type]table.Load{}, map[table.GroupKey]table.Load{}
	for tok, d := range t.ByToken {
		if tok != d.Token || (t.ByID[d.ID] != d && !d.Lingering) {
			return fmt.Errorf("dispatch %s of %s is in the table under another name", d.Token, d.ID)
		}
		if !d.Ack && !d.Leased || d.Leased != (t.Leased[tok] == d) {
			return fmt.Errorf("nobody keeps the lease of dispatch %s", d.Token)
		}
		one := table.Load{All: 1}
		if !d.Claimed {
			one.Unclaimed = 1
		}
		load := types[d.Type]
		types[d.Type] = table.Load{All: load.All + 1, Unclaimed: load.Unclaimed + one.Unclaimed}
		if d.Group != "" {
			key := table.GroupKey{Type: d.Type, Group: d.Group}
			load := groups[key]
			groups[key] = table.Load{All: load.All + 1, Unclaimed: load.Unclaimed + one.Unclaimed}
		}
	}
	if !maps.Equal(t.ByGroup, groups) {
		return fmt.Errorf("groups count %v, have %v", t.ByGroup, groups)
	}
	if !maps.Equal(t.ByType, types) {
		return fmt.Errorf("types count %v, have %v", t.ByType, types)
	}
	if err := heldConsistent(&t.Held, t); err != nil {
		return err
	}
	if err := s.seatsConsistent(); err != nil {
		return err
	}
	for _, state := range []events.ItemState{events.StateClaimed, events.StateRunning} {
		err := s.store.InState(state, func(it *events.Item) error {
			if d := t.ByID[it.ID]; d == nil || d.Token != it.Token || !d.Claimed {
				return fmt.Errorf("item %s is %s under %s and holds no slot", it.ID, it.State, it.Token)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// projectorLog is a log as the projector reads it.
type projectorLog struct{ log eventlog.Log }

func (p projectorLog) Read(ctx context.Context, from, to uint64, fn func(eventlog.Frame) error) error {
	return p.log.Read(ctx, from, to, fn)
}

func (p projectorLog) Checksum(ctx context.Context, seq uint64) (uint64, error) {
	return p.log.Checksum(ctx, seq)
}
