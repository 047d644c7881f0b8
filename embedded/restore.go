package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/streamwright/streamwright/backup"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/dispatcher"
	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector"
	"github.com/streamwright/streamwright/wire"
)

// restoreFile marks a data folder that a restore has begun to fill.
const restoreFile = "RESTORE"

// ErrUnrestored is wrapped by the error of a data folder that a restore has begun to
// fill, and not finished.
var ErrUnrestored = errors.New("the data folder is what a restore that was interrupted has left")

// checkRestored refuses a folder that a restore has not finished.
func (d *dataDir) checkRestored() error {
	if d == nil {
		return nil
	}
	if _, err := os.Stat(filepath.Join(d.path, restoreFile)); err == nil {
		return errors.Join(fmt.Errorf("open data folder %s: %w: run engine restore again, which begins anew", d.path, ErrUnrestored), d.Close())
	}
	return nil
}

// RestoreOptions say what to restore into a data folder, or an existing NATS.
type RestoreOptions struct {
	// Options configure the engine that is to go on: its data folder, or the existing
	// NATS.
	Options Options
	Backup  string // the backup's folder or file
	// Namespace is the one to fill, from the backup of any; empty: the default one, from a
	// backup of that.
	Namespace events.Namespace
	// To, At, Replicas and Progress are those of backup.RestoreOptions. Replicas is for an
	// existing NATS.
	To       events.Seq
	At       time.Time
	Replicas int
	Progress func(what string, done, total int64)
}

// Restored is the outcome of a Restore.
type Restored struct {
	backup.Restored
	Dir       string           `json:"dir,omitempty"`       // the data folder
	Namespace events.Namespace `json:"namespace,omitempty"` // if it is not the default one
	Digest    string           `json:"digest,omitempty"`
	Items     int64            `json:"items"` // in the restored state
	// InFlight counts the items that were claimed or running: they count as lost when an
	// engine starts.
	InFlight int64 `json:"in_flight"`
}

// Restore fills an empty data folder, or an existing NATS that has no engine's streams,
// from a backup. It reads everything back, and builds the projection from the restored log,
// which the engine goes on with where it has a data folder. No engine may run there. A
// folder that holds anything is refused, except what an interrupted Restore has left.
//
// A namespace beside the default one is filled in the data folder of an engine that is
// stopped, or on the NATS that has the log of an engine, which may run. Nothing else there
// is touched, and there must be nothing of that namespace yet. The engine takes it when the
// namespace is added.
func Restore(ctx context.Context, o RestoreOptions) (done Restored, err error) {
	b, err := backup.Open(o.Backup)
	if err != nil {
		return done, err
	}
	defer b.Close()
	e := newBase(o.Options)
	life := lifecycle{log: e.log}
	// Everything is synced at the end: see syncTree.
	e.cfg.Server.Durability = config.Interval
	e.cfg.Server.NATSListen, e.cfg.Server.HTTP, e.cfg.Server.PProf = config.Off, config.Off, config.Off
	of := wire.WithPrefix(b.Manifest.Prefix)
	if o.Namespace == "" && of.InNamespace() != events.DefaultNamespace {
		return done, fmt.Errorf("restore: the backup is of the namespace %s: say which namespace to fill: --namespace %[1]s in an engine that there is, or --namespace default in a new one", of.InNamespace())
	}
	if o.Options.Config.Server.Prefix == "" {
		e.cfg.Server.Prefix = of.Namespace(events.DefaultNamespace).Prefix
	}
	if err := errors.Join(e.cfg.Validate(), e.resolve()); err != nil {
		return done, events.WithCode(events.CodeBadConfig, err)
	}
	other := o.Namespace != "" && o.Namespace != events.DefaultNamespace
	parts, whole := e.serverParts(), false
	open, finish := func(context.Context) error { return e.openRestoreDir(b.Manifest.ID) }, func() error { return restored(e.dir.path) }
	if other {
		open, finish = e.openUsedDir, func() error { return e.dir.restoredNamespace(o.Namespace) }
	}
	if e.cfg.Server.NATSURL == "" {
		parts = slices.Insert(parts, 0, part{"the data folder", open, e.closeDir}, part{"the mark on the folder", nil, func(context.Context) error {
			if !whole {
				return nil
			}
			return finish()
		}})
	}
	if err := life.start(ctx, parts...); err != nil {
		return done, err
	}
	done.Dir = e.dir.root()
	into := e
	if other {
		done.Namespace = o.Namespace
		into, err = e.emptyNamespace(ctx, o.Namespace, b.Manifest.ID)
	}
	if err == nil {
		err = into.restore(ctx, b, o, &done)
	}
	whole = err == nil
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	return done, errors.Join(err, life.stop(end))
}

func (b *base) restore(ctx context.Context, from *backup.Backup, o RestoreOptions, done *Restored) (err error) {
	done.Restored, err = from.Restore(ctx, backup.RestoreOptions{
		Conn: b.nc, Names: b.names(), Rename: o.Namespace != "", Replicas: o.Replicas, To: o.To, At: o.At, Progress: o.Progress,
	})
	if err != nil {
		return err
	}
	if err := b.project(ctx, done, o.Progress); err != nil {
		return fmt.Errorf("restore: replay the restored log: %w", err)
	}
	return ctx.Err() // whoever has given up does not find it done
}

// restoresFolder reports whether the data folder of an engine that stands alone is to be
// filled from the backup of Options.RestoreFrom: it is empty, or what an interrupted restore
// has left. Else restoreFirst looks at that backup.
func (b *base) restoresFolder() bool {
	if b.o.RestoreFrom == "" || b.o.Memory || b.cfg.Server.NATSURL != "" || b.cfg.Cluster.On() {
		return false
	}
	entries, _ := os.ReadDir(b.cfg.Server.Dir) // what can't be read is refused later
	_, err := os.Stat(filepath.Join(b.cfg.Server.Dir, restoreFile))
	return len(entries) == 0 || err == nil
}

// restoreFolder does that before the engine's own server starts, since that may sync each
// message, and here one sync at the end does.
func (b *base) restoreFolder(ctx context.Context) error {
	b.does("the data folder is filled from the backup %s", b.o.RestoreFrom)
	done, err := Restore(ctx, RestoreOptions{Options: b.o, Backup: b.o.RestoreFrom})
	if err == nil {
		b.log.Info("restored from the backup", "folder", b.o.RestoreFrom, "first", uint64(done.First), "last", uint64(done.Last), "digest", done.Digest)
	}
	return err
}

// restoreFirst fills the streams from the backup of Options.RestoreFrom, before there is a
// log. One that was restored from that backup before is left alone.
func (b *base) restoreFirst(ctx context.Context) error {
	if b.o.RestoreFrom == "" {
		return nil
	}
	from, err := backup.Open(b.o.RestoreFrom)
	if err != nil {
		return err
	}
	defer from.Close()
	done, err := from.Restore(ctx, backup.RestoreOptions{Conn: b.nc, Names: b.names(), Rename: b.other(), Replicas: b.copies.replicas, Placement: connect.Placement(b.copies.placement)})
	switch {
	case errors.Is(err, backup.ErrExists) && b.other():
		return fmt.Errorf("%w: start without --restore-namespace %s=…, or remove the namespace and add it again", err, b.namespaceName())
	case errors.Is(err, backup.ErrExists):
		return fmt.Errorf("%w: start without --restore, or with empty folders on all nodes", err)
	case err != nil:
		return err
	case !done.Already:
		b.log.Info("restored from the backup", "folder", b.o.RestoreFrom, "first", uint64(done.First), "last", uint64(done.Last))
	}
	return nil
}

// stopTimeout bounds the end of a restore's server, which writes what it holds.
const stopTimeout = 2 * time.Minute

// project builds the projection of the restored log: in the data folder, or, on an
// existing NATS, in one that is removed.
func (b *base) project(ctx context.Context, done *Restored, progress func(string, int64, int64)) (err error) {
	log, err := eventlog.Open(ctx, eventlog.Config{Connect: b.logConnect, Names: b.names(), Existing: true, Logger: b.log})
	if err != nil {
		return err
	}
	defer log.Close()
	end, err := log.End(ctx)
	if err != nil {
		return err
	}
	dir := ""
	if b.dir != nil {
		dir = b.dir.store()
	} else {
		tmp, err := os.MkdirTemp("", "streamwright-restore-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(tmp)
		dir = filepath.Join(tmp, storeFolder)
	}
	store, err := projector.StateAt(ctx, log, end.Last, time.Time{}, dir, storeOptions(false, b.log), func(n, total uint64) {
		if progress != nil {
			progress("replay events", int64(n), int64(total))
		}
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }() // before its folder may go
	if err := store.SetIdentity(end.Identity()); err != nil {
		return err
	}
	if done.Digest, err = store.Digest(ctx); err != nil {
		return err
	}
	s, err := salvageable(store, dir)
	if err != nil {
		return err
	}
	done.Items = s.Items
	done.InFlight = s.States[events.StateClaimed.String()] + s.States[events.StateRunning.String()]
	return nil
}

// openRestoreDir takes an empty data folder, or one that an interrupted restore has left,
// and marks it.
func (b *base) openRestoreDir(id string) (err error) {
	path := b.cfg.Server.Dir
	entries, err := os.ReadDir(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("restore: %w", err)
	}
	_, begun := os.Stat(filepath.Join(path, restoreFile))
	if len(entries) > 0 && begun != nil {
		return fmt.Errorf("restore: %w: the folder %s is not empty: name a folder that is empty or does not exist", backup.ErrExists, path)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	// First of all: from here on no engine takes the folder.
	if err := replaceFile(filepath.Join(path, restoreFile), id+"\n", true); err != nil {
		return fmt.Errorf("restore: mark the folder: %w", err)
	}
	if b.dir, err = openDataDir(path); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.dir.Close())
		}
	}()
	for _, left := range []string{"jetstream", storeFolder} { // of a restore that was interrupted
		if err := os.RemoveAll(filepath.Join(b.dir.path, left)); err != nil {
			return fmt.Errorf("restore: remove what an interrupted restore has left: %w", err)
		}
	}
	return nil
}

// restored has a whole data folder outlive a power loss, and takes the mark off.
func restored(dir string) error {
	if err := syncTree(dir); err != nil {
		return fmt.Errorf("restore: sync the data folder: %w", err)
	}
	if err := os.Remove(filepath.Join(dir, restoreFile)); err != nil {
		return fmt.Errorf("restore: take the mark off the folder: %w", err)
	}
	return syncDir(dir)
}

// syncTree syncs all files and folders below one.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return syncDir(path)
	})
}

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
	// Namespace is the one whose log is lost; empty: the default one.
	Namespace events.Namespace
	// Store is the folder of a store to write from, such as one that was set
	// aside; empty: the namespace's, in the data folder.
	Store string
	// Confirm is asked before anything is written; nil, or false, ends Salvage.
	Confirm func(Salvageable) bool
	// Progress, if set, hears how many items are written, of how many, and then how much of
	// the new log is replayed.
	Progress func(what string, done, total int64)
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
	b := newBase(o.Options)
	life := lifecycle{log: b.log}
	// The server is for this process alone, and what is written must stay.
	b.cfg.Server.Durability = config.Always
	b.cfg.Server.NATSListen, b.cfg.Server.HTTP, b.cfg.Server.PProf = config.Off, config.Off, config.Off
	if err := errors.Join(b.cfg.Validate(), b.resolve()); err != nil {
		return done, events.WithCode(events.CodeBadConfig, err)
	}
	dir := &dataDir{path: b.cfg.Server.Dir}
	if o.Namespace != "" {
		dir.path = dir.namespacePath(o.Namespace)
	}
	if _, err := os.Stat(dir.path); o.Store == "" && errors.Is(err, fs.ErrNotExist) {
		return done, fmt.Errorf("salvage: there is no folder %s: give the engine's data folder (--dir), or a store (--store)", dir.path)
	}
	work := filepath.Join(dir.path, salvageFolder)
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		err = errors.Join(err, life.stop(end))
	}()
	err = life.start(ctx, part{"the data folder", b.openDir, b.closeDir}, part{"the folder for a copy of the store", func(context.Context) error {
		return errors.Join(os.RemoveAll(work), os.MkdirAll(work, 0o700))
	}, func(context.Context) error { return os.RemoveAll(work) }})
	if err != nil {
		return done, err
	}
	from := cmp.Or(o.Store, dir.store())
	if err := projector.Copy(from, filepath.Join(work, salvageCopy)); err != nil {
		return done, err
	}
	var store *projector.Store
	err = life.start(ctx, part{"the store", func(context.Context) (err error) {
		store, err = projector.Open(filepath.Join(work, salvageCopy), storeOptions(b.o.Memory, b.log))
		return err
	}, func(context.Context) error { return store.Close() }})
	if err != nil {
		return done, err
	}
	if done.Salvageable, err = salvageable(store, from); err != nil {
		return done, err
	}
	if o.Confirm == nil || !o.Confirm(done.Salvageable) {
		return done, nil
	}
	if err := life.start(ctx, b.serverParts()...); err != nil {
		return done, err
	}
	of := b
	if o.Namespace != "" {
		if of, err = b.namespace(events.NamespaceInfo{Name: o.Namespace}); err != nil {
			return done, err
		}
		of.nc = b.nc
	}
	l := newLedger(of)
	l.store = store
	if err := l.writeSalvaged(ctx, &done, filepath.Join(work, salvageProof), o.Progress); err != nil {
		return done, err
	}
	if o.Store == "" {
		done.Aside, err = setAside(from)
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

// writeSalvaged writes the new log from the store, and proves it with a store in a folder of its
// own.
func (l *ledger) writeSalvaged(ctx context.Context, done *Salvaged, proofFolder string, progress func(what string, done, total int64)) error {
	if progress == nil {
		progress = func(string, int64, int64) {}
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
	}, func(done, total int64) { progress("write items", done, total) })
	if err != nil {
		return err
	}
	done.Last = l.store.Applied()
	if done.Digest, err = l.store.Digest(ctx); err != nil {
		return err
	}
	proof, err := projector.StateAt(ctx, log, done.Last, time.Time{}, proofFolder, storeOptions(l.o.Memory, l.log), func(n, total uint64) { progress("replay events", int64(n), int64(total)) })
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
