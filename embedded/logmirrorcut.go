package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/internal/sleep"
	"github.com/streamwright/streamwright/projector"
	"github.com/streamwright/streamwright/wire"
)

// cut has the copy begin where the hub's log does.
func (m *Mirror) cut(ctx context.Context, first uint64) error {
	tip, err := m.log.Last(ctx)
	if err != nil || tip.First >= first {
		return err
	}
	if err := m.e.ledger.store.Flush(); err != nil { // else a crash would have it made anew
		return err
	}
	m.e.log.Info("the mirror drops what its hub has dropped", "below", first)
	return m.log.Trim(ctx, first)
}

const (
	// roundsFile, in the data folder of a mirror with Keep, holds its rounds.
	roundsFile = "rounds.json"
	// roundsKept bounds the rounds that are remembered: they are at least this part of Keep
	// apart.
	roundsKept = 100
	// roundsLook is the time between two looks at them, and trimWithin bounds a cut.
	roundsLook = time.Second
	trimWithin = time.Minute
)

// round is one of the hub's: the log from its begin on stands alone.
type round struct {
	Begin events.Seq `json:"begin"`
	End   events.Seq `json:"end"`
	At    time.Time  `json:"at"` // when it ended
}

// rounds are where the copy can be cut, in order. JetStream alone, by a maximal age, would cut
// it anywhere, and a log that begins anywhere can't be replayed. If the file is lost the copy
// is kept for longer.
type rounds struct {
	file string
	list []round
}

func (m *Mirror) openRounds(context.Context) error {
	if m.o.Keep == 0 {
		return nil
	}
	m.rounds.file = filepath.Join(m.e.dir.path, roundsFile)
	data, err := os.ReadFile(m.rounds.file)
	if err == nil {
		err = json.Unmarshal(data, &m.rounds.list)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read where the copy can be cut: %w: remove %s", err, m.rounds.file)
	}
	return nil
}

func (r *rounds) save() error {
	data, err := json.Marshal(r.list)
	if err == nil {
		err = replaceFile(r.file, string(data), true)
	}
	if err != nil {
		return fmt.Errorf("note where the copy can be cut: %w", err)
	}
	return nil
}

// note adds the last round that is projected.
func (r *rounds) note(meta events.Meta, keep time.Duration) error {
	if n := len(r.list); meta.CutEnd == 0 || n > 0 && meta.CutTime.Sub(r.list[n-1].At) <= keep/roundsKept {
		return nil
	}
	r.list = append(r.list, round{meta.CutAt, meta.CutEnd, meta.CutTime})
	return r.save()
}

// old returns the last round that ended longer than keep ago, and drops those before it.
func (r *rounds) old(keep time.Duration) (at round, found bool) {
	for len(r.list) > 1 && time.Since(r.list[1].At) > keep {
		r.list = r.list[1:]
	}
	if len(r.list) == 0 || time.Since(r.list[0].At) <= keep {
		return at, false
	}
	return r.list[0], true
}

// cutRounds cuts the copy and the store, now and then, until the mirror stops.
func (m *Mirror) cutRounds() {
	for sleep.For(m.ctx, roundsLook) == nil {
		if err := m.cutRound(); err != nil && !errors.Is(err, projector.ErrProving) && m.ctx.Err() == nil {
			m.e.log.Warn("the mirror can't drop what it has kept for long enough: trying again", "error", err)
		}
	}
}

// cutRound cuts the copy and the store at the last round that ended longer than Keep ago:
// what was pruned by then has been kept for that long.
func (m *Mirror) cutRound() error {
	meta, err := m.e.ledger.store.Meta()
	if err == nil {
		err = m.rounds.note(meta, m.o.Keep)
	}
	at, found := m.rounds.old(m.o.Keep)
	if err != nil || !found {
		return err
	}
	trim, cancel := context.WithTimeout(m.ctx, trimWithin)
	defer cancel()
	tip, err := m.log.Last(trim)
	if err != nil || tip.First >= at.Begin.Frame() {
		return err
	}
	err = m.e.ledger.store.DropPruned(at.End, func() error {
		trim, cancel := context.WithTimeout(m.ctx, trimWithin)
		defer cancel()
		return m.log.Trim(trim, at.Begin.Frame())
	})
	if err != nil {
		return err
	}
	m.e.log.Info("the mirror drops what it has kept for long enough", "below", at.Begin.Frame(), "pruned_before", at.End)
	return m.rounds.save()
}

// whyPruned explains an item that the hub has pruned, nil for any other.
func (m *Mirror) whyPruned(request []byte) *wire.WhyReply {
	var q wire.Why
	if json.Unmarshal(request, &q) != nil {
		return nil
	}
	id, err := events.ParseID(q.ID)
	if err != nil {
		return nil
	}
	it, err := m.e.ledger.store.Item(id)
	if err != nil || it == nil || it.PrunedSeq == 0 {
		return nil
	}
	return &wire.WhyReply{
		ID: it.ID.String(), Type: string(it.Type), State: it.State, At: time.Now().UTC(), Position: wire.PositionOf(m.e.ledger.store.Applied()),
		Reasons: core.Explain(nil, it, time.Time{}),
	}
}
