package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/dispatcher"
	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector"
)

const (
	// salvageFolder is the folder that Salvage works in, below the data folder.
	salvageFolder = "salvage"
	// salvageCopy and salvageProof are the folders in that.
	salvageCopy  = "copy"
	salvageProof = "proof"
)

// SalvageOptions say what to salvage.
type SalvageOptions struct {
	// Options configure the engine that is to go on with the new log: its data
	// folder, and the existing NATS, if it uses one.
	Options Options
	// Store is the folder of a store to write from, such as one that was set
	// aside; empty: the store of the data folder.
	Store string
	// Confirm is asked before anything is written; nil, or false, ends Salvage.
	Confirm func(Salvageable) bool
	// Progress, if set, hears how many items are written, of how many.
	Progress func(done, total int64)
}

// Salvageable describes the content of a store.
type Salvageable struct {
	Store     string           `json:"store"`
	Position  events.Seq       `json:"position"` // of the last event in it
	At        time.Time        `json:"at"`       // of that event
	Items     int64            `json:"items"`
	States    map[string]int64 `json:"states"` // items by state, zeros left out
	Types     int              `json:"types"`
	Schedules int              `json:"schedules"`
	Rejected  int64            `json:"rejected"`
	Intake    uint64           `json:"intake_seq"` // the last published submission that it has answered
}

// Salvaged is the result of a Salvage.
type Salvaged struct {
	Salvageable
	Written bool       `json:"written"` // false: Confirm has said no
	First   events.Seq `json:"first,omitempty"`
	Last    events.Seq `json:"last,omitempty"` // of the new log
	Digest  string     `json:"digest,omitempty"`
	Aside   string     `json:"set_aside,omitempty"` // where the data folder's store is now
}

// Salvage writes a new event log of what a store holds, for when the log is
// lost: the store is as of its last flush, at most half a minute before the
// engine ended. No engine may run on the data folder. Items with their
// histories, documents, keys, types, pauses, schedules and counters are as the
// store has them; what was claimed or running counts as lost when an engine
// starts. The new log is replayed and compared with the store before it counts.
// A log that holds events is refused ([eventlog.ErrNotEmpty]), and a Salvage
// that was interrupted is begun anew by the next. The store is only read, but
// at the end the data folder's store is set aside, since it does not belong to
// the new log.
func Salvage(ctx context.Context, o SalvageOptions) (done Salvaged, err error) {
	l := newLedger(newBase(o.Options))
	life := lifecycle{log: l.log}
	// The server is for this process alone, and what is written must stay.
	l.cfg.Server.Durability = config.Always
	l.cfg.Server.NATSListen, l.cfg.Server.HTTP, l.cfg.Server.PProf = config.Off, config.Off, config.Off
	if err := errors.Join(l.cfg.Validate(), l.resolve()); err != nil {
		return done, events.WithCode(events.CodeBadConfig, err)
	}
	if _, err := os.Stat(l.cfg.Server.Dir); o.Store == "" && errors.Is(err, fs.ErrNotExist) {
		return done, fmt.Errorf("salvage: there is no folder %s: give the engine's data folder (--dir), or a store (--store)", l.cfg.Server.Dir)
	}
	var work string
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		err = errors.Join(err, life.stop(end))
	}()
	err = life.start(ctx, part{"the data folder", l.openDir, l.closeDir}, part{"the folder for a copy of the store", func(context.Context) error {
		work = filepath.Join(l.dir.path, salvageFolder)
		return errors.Join(os.RemoveAll(work), os.MkdirAll(work, 0o700))
	}, func(context.Context) error { return os.RemoveAll(work) }})
	if err != nil {
		return done, err
	}
	from := cmp.Or(o.Store, l.dir.store())
	if err := projector.Copy(from, filepath.Join(work, salvageCopy)); err != nil {
		return done, err
	}
	err = life.start(ctx, part{"the store", func(context.Context) (err error) {
		l.store, err = projector.Open(filepath.Join(work, salvageCopy), storeOptions(l.o.Memory, l.log))
		return err
	}, l.closeStore})
	if err != nil {
		return done, err
	}
	if done.Salvageable, err = salvageable(l.store, from); err != nil {
		return done, err
	}
	if o.Confirm == nil || !o.Confirm(done.Salvageable) {
		return done, nil
	}
	if err := l.writeSalvaged(ctx, &life, &done, o.Progress); err != nil {
		return done, err
	}
	if o.Store == "" {
		done.Aside, err = setAside(l.dir.store())
	}
	return done, err
}

func salvageable(s *projector.Store, from string) (out Salvageable, err error) {
	m, err := s.Meta()
	if err != nil {
		return out, err
	}
	if m.Applied == 0 {
		return out, fmt.Errorf("salvage: the store %s holds nothing", from)
	}
	state, err := core.NewState(s)
	if err != nil {
		return out, err
	}
	out = Salvageable{Store: from, Position: m.Applied, At: m.LastAt, States: map[string]int64{}, Intake: m.IntakeSeq, Rejected: m.Rejected}
	for _, name := range state.TypeNames() {
		info, _ := state.Type(name)
		out.Types++
		for st, n := range info.Counts {
			if n != 0 {
				out.States[events.ItemState(st).String()] += n
				out.Items += n
			}
		}
	}
	out.Schedules = len(state.ScheduleNames())
	return out, nil
}

// writeSalvaged writes the new log from the store, and proves it.
func (l *ledger) writeSalvaged(ctx context.Context, life *lifecycle, done *Salvaged, progress func(done, total int64)) error {
	if err := life.start(ctx, l.serverParts()...); err != nil {
		return err
	}
	log, err := eventlog.Create(ctx, l.logConfig(), l.store.Applied().Frame()+1)
	if err != nil {
		return err
	}
	defer log.Close()
	done.First = events.SeqOf(l.store.Applied().Frame()+1, 0)
	err = dispatcher.Salvage(ctx, dispatcher.Config{
		Log: log, Store: l.store, Names: l.names(), Owner: "salvage", Version: Version, Alone: l.srv != nil,
		Defaults: l.cfg.TypeDefaults(), Limits: l.cfg.EngineLimits(), Logger: l.log,
	}, progress)
	if err != nil {
		return err
	}
	done.Last = l.store.Applied()
	if done.Digest, err = l.store.Digest(ctx); err != nil {
		return err
	}
	proof, err := projector.StateAt(ctx, log, done.Last, time.Time{}, filepath.Join(l.dir.path, salvageFolder, salvageProof), storeOptions(l.o.Memory, l.log), nil)
	if err != nil {
		return fmt.Errorf("salvage: replay the new log: %w", err)
	}
	digest, err := proof.Digest(ctx)
	if err = errors.Join(err, proof.Close()); err != nil {
		return fmt.Errorf("salvage: replay the new log: %w", err)
	}
	if digest != done.Digest {
		return fmt.Errorf("salvage: the new log gives a state with digest %s, the store has %s: the new log is not taken into use: keep the store", digest, done.Digest)
	}
	if err := log.Finish(ctx); err != nil {
		return err
	}
	done.Written = true
	return nil
}
