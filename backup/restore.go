package backup

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/sleep"
	"github.com/streamwright/streamwright/wire"
)

// replicaPatience bounds the wait for all replicas of a restored stream; once it is over a
// majority suffices.
const replicaPatience = 2 * time.Minute

// RestoreOptions say where to restore, and up to when.
type RestoreOptions struct {
	// Conn is a connection with the engine's rights to the JetStream to fill.
	Conn  *nats.Conn
	Names wire.Names
	// Rename has what the backup holds get Names, if it is of another namespace, or of an
	// engine with another prefix. Else such a backup is refused.
	Rename bool
	// Replicas is the number of replicas of each stream; 0: 1.
	Replicas  int
	Placement *jetstream.Placement // of the streams; nil: anywhere
	// To is the position, and At the time, at which the restored log ends: see
	// [Restore]. At most one is set; neither: at the backup's end.
	To events.Seq
	At time.Time
	// Progress, if set, hears how far what has come.
	Progress func(what string, done, total int64)
}

// Restored is the outcome of a Restore.
type Restored struct {
	Backup string     `json:"backup"` // its id
	First  events.Seq `json:"first"`
	Last   events.Seq `json:"last"` // of the log
	At     time.Time  `json:"at"`   // of its last event
	// End reports that the log ends where the backup's does.
	End       bool  `json:"end"`
	Events    int64 `json:"events"` // messages of the log
	Intake    int64 `json:"intake"`
	Logs      int64 `json:"logs"`
	Output    int64 `json:"output"`    // chunks
	Documents int64 `json:"documents"` // messages of the object store
	// Already: the log had been restored from this very backup, and nothing was done.
	Already bool `json:"already,omitempty"`
}

var (
	// ErrExists is wrapped by the error of a Restore over streams that exist.
	ErrExists = errors.New("nothing is restored over what exists")
	// ErrTaken is wrapped by the error of a Restore whose streams another one has removed,
	// to begin anew.
	ErrTaken = errors.New("another restore has begun anew meanwhile")
)

// Restore fills the streams of a JetStream from a backup, before an engine opens its log.
// First of all it verifies the backup's files.
//
// If the log exists it must have been restored from this very backup, to the same
// position: then nothing is done (see Restored.Already), so that of several nodes of a new
// cluster each may call Restore, one after the other. Any other log is refused with
// [ErrExists], and so is another stream of the engine that holds messages. What a
// restore that was interrupted has left is removed, and begun anew. Two at once may undo each
// other, until one of them ends; the other fails.
//
// A log that ends before the backup does is that of an earlier moment: the state is
// exactly that of then. The undecided submissions of the backup are not restored then, as
// most were accepted later and those that were decided in between would run twice; the
// items' logs are restored up to the time of the last event; documents are restored all, and
// the engine removes those that nothing refers to.
func (b *Backup) Restore(ctx context.Context, o RestoreOptions) (Restored, error) {
	m := b.Manifest
	names := rename{wire.WithPrefix(m.Prefix), o.Names}
	if !o.Rename && !names.isNone() {
		return Restored{}, fmt.Errorf("restore: the backup has the prefix %q, and this engine %q: set prefix in engine.toml, or --prefix", m.Prefix, o.Names.Prefix)
	}
	js, err := connect.JetStream(o.Conn, o.Names)
	if err != nil {
		return Restored{}, fmt.Errorf("restore: %w", err)
	}
	r := &restore{b: b, o: o, js: js, names: names, mark: eventlog.RestoreUnfinished + " " + m.ID + " " + rand.Text()}
	if err := r.verify(ctx); err != nil {
		return Restored{}, fmt.Errorf("restore: %w", err)
	}
	done, err := r.run(ctx)
	if err != nil {
		return Restored{}, fmt.Errorf("restore: %w", err)
	}
	return done, nil
}

// restore is one Restore.
type restore struct {
	b     *Backup
	o     RestoreOptions
	js    jetstream.JetStream
	names rename
	mark  string // of the streams, until they are whole
	till  moment
}

// verify reads the backup, and finds the moment.
func (r *restore) verify(ctx context.Context) (err error) {
	if r.till, err = r.b.moment(ctx, r.o.To, r.o.At, r.progress("check ")); err != nil {
		return err
	}
	if !r.till.end { // the search has ended earlier
		if err := r.b.sums(ctx, r.progress("check "), Events); err != nil {
			return err
		}
	}
	return r.b.sums(ctx, r.progress("check "), Intake, Logs, Output, Documents)
}

func (r *restore) progress(doing string) func(string, int64, int64) {
	return func(what string, done, total int64) {
		if r.o.Progress != nil {
			r.o.Progress(doing+what, done, total)
		}
	}
}

func (r *restore) run(ctx context.Context) (Restored, error) {
	m := r.b.Manifest
	out := Restored{Backup: m.ID, First: m.First, Last: r.till.last, At: r.till.at, End: r.till.end}
	already, err := r.clear(ctx)
	if err != nil || already {
		out.Already = already
		return out, err
	}
	counts := map[string]*int64{Events: &out.Events, Intake: &out.Intake, Logs: &out.Logs, Output: &out.Output, Documents: &out.Documents}
	for _, kind := range kinds { // the log first: without it, nothing else is taken for an engine's
		p := r.part(kind)
		if p == nil {
			continue
		}
		if err := r.names.config(&p.cfg); err != nil {
			return out, fmt.Errorf("%s: %w", p.from.Name, err)
		}
		if *counts[kind], err = r.fill(ctx, p); err != nil {
			return out, fmt.Errorf("%s: %w", p.cfg.Name, err)
		}
		if err := r.mine(ctx, streamOf(Events, r.o.Names)); err != nil {
			return out, err
		}
	}
	for _, kind := range kinds {
		if p := r.part(kind); p != nil {
			if err := r.compare(ctx, p); err != nil {
				return out, fmt.Errorf("%s: %w", p.cfg.Name, err)
			}
		}
	}
	return out, r.finish(ctx)
}

// doneMark is the mark of a log that is whole.
func (r *restore) doneMark() string {
	return fmt.Sprintf("%s at %d", r.b.Manifest.ID, r.till.last)
}

// clear makes sure that nothing is in the way, and removes what an interrupted restore has
// left. already: the log is the one to be made.
func (r *restore) clear(ctx context.Context) (already bool, err error) {
	var remove []string
	for _, kind := range kinds {
		name := streamOf(kind, r.o.Names)
		i, err := info(ctx, r.o.Conn, r.o.Names, name)
		if errors.Is(err, errNoStream) {
			continue
		}
		if err != nil {
			return false, err
		}
		mark, st := i.Config.Metadata[eventlog.RestoreKey], i.State
		unfinished := strings.HasPrefix(mark, eventlog.RestoreUnfinished)
		switch {
		case kind == Events && mark == r.doneMark():
			return true, nil
		case unfinished, kind == Events && st.LastSeq == 0, kind != Events && st.Msgs == 0:
			remove = append(remove, name)
		case kind == Events:
			return false, fmt.Errorf("%w: the event log %s holds the frames %d to %d%s: use an empty folder or account, or remove that engine's streams first", ErrExists, name, st.FirstSeq, st.LastSeq, restoredFrom(mark))
		default:
			return false, fmt.Errorf("%w: the stream %s holds %d messages: use an empty folder or account, or remove that stream first", ErrExists, name, st.Msgs)
		}
	}
	for i := len(remove) - 1; i >= 0; i-- { // the log last: its mark keeps engines off
		if err := r.js.DeleteStream(ctx, remove[i]); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return false, fmt.Errorf("remove the stream %s, which holds nothing or is of a restore that was interrupted: %w: remove it by hand", remove[i], err)
		}
	}
	return false, nil
}

func restoredFrom(mark string) string {
	if mark == "" {
		return ""
	}
	return " (restored from the backup " + mark + ")"
}

// part is what is restored of one stream.
type part struct {
	kind        string
	from        *Stream
	cfg         jetstream.StreamConfig
	first, last uint64             // of the stream
	wants       func(*Record) bool // of those between
}

// part returns what is to be restored of a kind, nil for nothing.
func (r *restore) part(kind string) *part {
	s := r.b.Manifest.Stream(kind)
	if s == nil {
		return nil
	}
	p := &part{kind: kind, from: s, cfg: r.config(s), first: s.First, last: s.Last, wants: func(*Record) bool { return true }}
	switch {
	case kind == Events:
		p.last = r.till.last.Frame()
		p.wants = func(rec *Record) bool {
			if rec.Seq == p.last { // it may end within a frame
				rec.Header, rec.Data = eventlog.EndFrame(rec.Header, rec.Data, r.till.last)
			}
			return true
		}
	case kind == Intake && !r.till.end:
		// Its numbers go on behind those that have been given out.
		p.first, p.wants = s.Last+1, func(*Record) bool { return false }
	case (kind == Logs || kind == Output) && !r.till.end:
		at := r.till.at
		p.wants = func(rec *Record) bool { return !rec.Time.After(at) }
	}
	return p
}

// each gives fn the messages of a part as they are restored.
func (r *restore) each(ctx context.Context, p *part, fn func(*Record) error) error {
	return r.b.each(ctx, p.from, p.first, p.last, func(rec *Record) error {
		if !p.wants(rec) {
			return nil
		}
		if err := r.names.record(rec); err != nil {
			return err
		}
		return fn(rec)
	})
}

// config returns the configuration of a restored stream. Limits of bytes are those of the
// place where it was; an engine sets its own when it starts.
func (r *restore) config(s *Stream) jetstream.StreamConfig {
	c := s.Config
	c.Name = streamOf(s.Kind, r.o.Names)
	c.Replicas, c.Placement = max(r.o.Replicas, 1), r.o.Placement
	c.Storage, c.MaxBytes, c.FirstSeq = jetstream.FileStorage, -1, 0
	c.Compression = jetstream.NoCompression // by the server it can destroy a replica: see package eventlog
	c.Mirror, c.Sources, c.Sealed = nil, nil, false
	if c.PersistMode = jetstream.DefaultPersistMode; s.Kind == Logs && c.Replicas == 1 {
		c.PersistMode = jetstream.AsyncPersistMode // as the engine makes it; it can't be changed later
	}
	c.Metadata = maps.Clone(c.Metadata)
	if c.Metadata == nil {
		c.Metadata = map[string]string{}
	}
	maps.DeleteFunc(c.Metadata, func(k, _ string) bool { return strings.HasPrefix(k, "_nats.") })
	c.Metadata[eventlog.RestoreKey] = r.mark
	return c
}

// mine checks that a stream is of this restore.
func (r *restore) mine(ctx context.Context, name string) error {
	i, err := info(ctx, r.o.Conn, r.o.Names, name)
	if errors.Is(err, errNoStream) || err == nil && i.Config.Metadata[eventlog.RestoreKey] != r.mark {
		return fmt.Errorf("%w: %s is not the stream that this one has made", ErrTaken, name)
	}
	return err
}

// await returns once a stream's replicas have all of it, up to a sequence.
func (r *restore) await(ctx context.Context, name string, last uint64) error {
	for begun := time.Now(); ; {
		i, err := info(ctx, r.o.Conn, r.o.Names, name)
		if err != nil && !errors.Is(err, errNoStream) {
			return err
		}
		if err == nil && i.State.LastSeq == last {
			current, all := 1, max(i.Config.Replicas, 1)
			if i.Cluster != nil {
				for _, p := range i.Cluster.Replicas {
					if p.Current && p.Lag == 0 {
						current++
					}
				}
			}
			if current >= all || 2*current > all && time.Since(begun) > replicaPatience {
				return nil
			}
		}
		if time.Since(begun) > 2*replicaPatience {
			return fmt.Errorf("its replicas do not have all of it after %s: look at the servers of the cluster, and restore again", 2*replicaPatience)
		}
		if err := sleep.For(ctx, againAfter); err != nil {
			return err
		}
	}
}

// finish takes the marks off, the log's last.
func (r *restore) finish(ctx context.Context) error {
	for i := len(kinds) - 1; i >= 0; i-- {
		if r.part(kinds[i]) == nil {
			continue
		}
		name := streamOf(kinds[i], r.o.Names)
		if err := r.mine(ctx, name); err != nil {
			return err
		}
		s, err := r.js.Stream(ctx, name)
		if err != nil {
			return fmt.Errorf("finish %s: %w", name, err)
		}
		cfg := s.CachedInfo().Config
		if delete(cfg.Metadata, eventlog.RestoreKey); kinds[i] == Events {
			cfg.Metadata[eventlog.RestoreKey] = r.doneMark()
		}
		if _, err := r.js.UpdateStream(ctx, cfg); err != nil {
			return fmt.Errorf("finish %s: %w", name, err)
		}
	}
	return nil
}
