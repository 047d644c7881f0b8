package backup

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/sleep"
	"github.com/streamwright/streamwright/wire"
)

// Bounds of a run.
const (
	requestTimeout = 10 * time.Second
	// maxPasses bounds how often a stream is read anew because its leader changed, and the
	// log because it was cut.
	maxPasses = 5
	// tipPatience bounds the wait for a leader that knows the position that the engine has
	// answered with: a leader that the others have deposed may not.
	tipPatience = 20 * time.Second
	// progressEvery is the number of messages between two calls of Options.Progress.
	progressEvery = 16
)

// Options say what to back up, and where to.
type Options struct {
	// Conn is a connection with the rights of the role operate, or of the engine.
	Conn  *nats.Conn
	Names wire.Names // as the connection's account has them
	// Target is a folder, the name of a new file that ends in .tar, or Stdout.
	Target string
	Out    io.Writer // for Stdout
	// Full begins anew in a folder that holds a backup, in place of adding to it.
	Full bool
	// Engine, if set, asks the engine about itself. A backup waits until the log reaches
	// the position that it names, and is made all the same if nobody answers.
	Engine func(context.Context) (Source, error)
	// SegmentBytes bounds the content of a segment before compression; 0: 32 MiB, the most.
	SegmentBytes int64
	// Program is the version of this program, for the manifest.
	Program string
	// Progress, if set, hears how many messages of what are copied, of how many.
	Progress func(what string, done, total int64)
}

// Source describes the engine that is backed up.
type Source struct {
	Position   events.Seq // of its last event
	Durability string
}

// Taken is the outcome of a Take.
type Taken struct {
	Manifest *Manifest
	// Added counts the messages that this run has copied, by what they hold.
	Added map[string]int64
	// Continued reports whether this run added to an earlier backup, and Resumed whether
	// it went on with what an interrupted run had copied.
	Continued, Resumed bool
	Elapsed            time.Duration
}

// ErrOtherLog is wrapped by the error of a folder that holds a backup of another log.
var ErrOtherLog = errors.New("it is a backup of another log")

// Take makes a backup, while engines work. It is as of one position of the log; nothing
// that was accepted before Take was called is missing. See the package's comment.
func Take(ctx context.Context, o Options) (done Taken, err error) {
	start := time.Now()
	var t target
	if IsFile(o.Target) {
		t, err = openTar(o.Target, o.Out)
	} else {
		t, err = openFolder(o.Target)
	}
	if err != nil {
		return done, err
	}
	if o.SegmentBytes <= 0 || o.SegmentBytes > maxSegmentBytes {
		o.SegmentBytes = maxSegmentBytes
	}
	r := &run{o: o, t: t, added: map[string]int64{}}
	defer func() { err = errors.Join(err, r.drop(), t.close()) }()
	if err := r.begin(start); err != nil {
		return done, err
	}
	for _, copy := range []func(context.Context) error{r.intake, r.log, r.documents, r.logs, r.output} {
		if err := copy(ctx); err != nil {
			return done, fmt.Errorf("back up: %w", err)
		}
	}
	r.m.Finished = time.Now().UTC()
	if err := t.commit(r.m); err != nil {
		return done, fmt.Errorf("back up: write the manifest: %w", err)
	}
	return Taken{Manifest: r.m, Added: r.added, Continued: r.m.Previous != "", Resumed: r.resumed, Elapsed: time.Since(start)}, nil
}

// run is one Take. It belongs to one goroutine.
type run struct {
	o       Options
	t       target
	m       *Manifest // of this backup
	old     *Manifest // to continue; nil: none
	whole   *Manifest // the last one that is whole, for what old does not have yet
	resumed bool
	added   map[string]int64
	engine  Source

	w *segmentWriter // of the segment that is being written; nil: none
	s *Stream        // that it belongs to
}

func (r *run) begin(start time.Time) error {
	r.m = &Manifest{Format: FormatVersion, ID: rand.Text(), Prefix: r.o.Names.Prefix, Started: start.UTC(), Program: r.o.Program}
	if r.o.Full {
		return nil
	}
	if r.old, r.whole = r.t.before(); r.old == nil {
		return nil
	}
	if r.old.Prefix != r.m.Prefix {
		return fmt.Errorf("back up into %s: %w, with the prefix %q, and this one has %q: choose another folder", r.o.Target, ErrOtherLog, r.old.Prefix, r.m.Prefix)
	}
	if r.resumed = r.old.Finished.IsZero(); r.resumed {
		r.m.Previous = r.old.Previous
	} else {
		r.m.Previous = r.old.ID
	}
	return nil
}

// before returns what the backup to continue has of a kind, if it is of the stream that
// is there now; nil: begin anew.
func (r *run) before(kind string, now *jetstream.StreamInfo) *Stream {
	for _, m := range []*Manifest{r.old, r.whole} {
		if m == nil {
			continue
		}
		if s := m.Stream(kind); s != nil && s.Created.Equal(now.Created) {
			return s
		}
	}
	return nil
}

// reign names a leadership: as long as it is the same, what a stream's leader has said
// was complete.
func reign(i *jetstream.StreamInfo) string {
	if i.Cluster == nil {
		return ""
	}
	return fmt.Sprint(i.Cluster.Leader, " ", i.Cluster.LeaderSince)
}

// errNoStream: there is no such stream.
var errNoStream = errors.New("there is no such stream")

// info asks for a stream's configuration and state.
func info(ctx context.Context, nc *nats.Conn, names wire.Names, stream string) (*jetstream.StreamInfo, error) {
	var last error
	for range maxSilences {
		asking, cancel := context.WithTimeout(ctx, silence)
		m, err := nc.RequestWithContext(asking, names.JetStream("STREAM.INFO."+stream), nil)
		cancel()
		var i struct {
			jetstream.StreamInfo
			Error *jetstream.APIError `json:"error"`
		}
		if err == nil {
			err = json.Unmarshal(m.Data, &i)
		}
		switch {
		case err == nil && i.Error == nil:
			return &i.StreamInfo, nil
		case err == nil && i.Error.ErrorCode == jetstream.JSErrCodeStreamNotFound:
			return nil, fmt.Errorf("%s: %w", stream, errNoStream)
		case err == nil && i.Error.Code < 500:
			return nil, fmt.Errorf("ask for the stream %s: %w", stream, i.Error)
		case err == nil:
			err = i.Error
		}
		if last = err; refusal(nc) != "" {
			break
		}
		if err := sleep.For(ctx, againAfter); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("ask for the stream %s: %w%s: %w", stream, ErrUnreachable, refusal(nc), last)
}

// side copies a stream beside the log, as it is now.
func (r *run) side(ctx context.Context, kind string, incremental bool) error {
	name := streamOf(kind, r.o.Names)
	for pass := 0; ; pass++ {
		tip, err := eventlog.TipOf(ctx, r.o.Conn, r.o.Names, name)
		if errors.Is(err, eventlog.ErrNoLog) {
			return nil // the engine makes it when it is needed
		}
		if err != nil {
			return fmt.Errorf("%w%s", err, refusal(r.o.Conn))
		}
		now, err := info(ctx, r.o.Conn, r.o.Names, name)
		if err != nil {
			return err
		}
		if err := r.pass(ctx, kind, incremental, tip, now); err != nil {
			return err
		}
		then, err := info(ctx, r.o.Conn, r.o.Names, name)
		switch {
		case err != nil:
			return err
		case reign(then) == reign(now) || pass == maxPasses:
			if err := r.keepStream(); err != nil {
				return err
			}
			return r.note()
		}
		// A new leader may have missed messages for a moment, which then look deleted.
	}
}

func (r *run) pass(ctx context.Context, kind string, incremental bool, tip eventlog.Tip, now *jetstream.StreamInfo) error {
	s := &Stream{Kind: kind, Name: now.Config.Name, Created: now.Created, Config: now.Config, First: tip.First, Last: tip.Seq}
	r.s, r.added[kind] = s, 0
	if old := r.before(kind, now); incremental && old != nil {
		s.Segments = r.carried(old, s)
	}
	from := s.First
	if n := len(s.Segments); n > 0 {
		from = max(from, s.Segments[n-1].Last+1)
	}
	return r.copy(ctx, from, nil)
}

// carried returns the segments of an earlier backup that a stream goes on with. A small one
// at the end is copied again, if the stream still has all of it, so that frequent backups do
// not leave many small files.
func (r *run) carried(old, now *Stream) (segs []Segment) {
	for _, seg := range old.Segments {
		if seg.Last >= now.First && seg.Last <= now.Last {
			segs = append(segs, seg)
		}
	}
	if n := len(segs); n > 0 && segs[n-1].Raw < r.o.SegmentBytes/2 && segs[n-1].First >= now.First && segs[n-1].Last < now.Last {
		segs = segs[:n-1]
	}
	return segs
}

// copy copies the messages of r.s from a sequence on, up to its last.
func (r *run) copy(ctx context.Context, from uint64, gap func(uint64) error) error {
	s := r.s
	total := int64(s.Last) - int64(from) + 1
	err := newReader(r.o.Conn, r.o.Names, s.Name).read(ctx, from, s.Last, gap, func(rec *Record) error {
		if n := int64(rec.Seq - from + 1); r.o.Progress != nil && (n%progressEvery == 0 || n == total) {
			r.o.Progress(s.Kind, n, total)
		}
		r.added[s.Kind]++
		return r.add(rec)
	})
	if err != nil {
		return err
	}
	return r.cut()
}

// add puts a record into the segment that is being written.
func (r *run) add(rec *Record) error {
	if r.w == nil {
		f, err := r.t.file()
		if err != nil {
			return fmt.Errorf("write a segment: %w", err)
		}
		if r.w, err = newSegmentWriter(f); err != nil {
			return fmt.Errorf("write a segment: %w", err)
		}
	}
	if err := r.w.add(rec); err != nil {
		return fmt.Errorf("write a segment: %w", err)
	}
	if !r.w.full(r.o.SegmentBytes) {
		return nil
	}
	if err := r.cut(); err != nil {
		return err
	}
	if r.s.Kind != Events {
		return nil
	}
	r.m.put(*r.s)
	return r.note()
}

// cut ends the segment that is being written, if any.
func (r *run) cut() error {
	if r.w == nil {
		return nil
	}
	seg, err := r.w.finish(r.s.Kind, r.m.ID)
	if err != nil {
		return fmt.Errorf("write a segment: %w", err)
	}
	f := r.w.f
	r.w = nil
	if err := r.t.keep(f, &seg); err != nil {
		return fmt.Errorf("write the segment %s: %w", seg.File, err)
	}
	r.s.Segments = append(r.s.Segments, seg)
	return nil
}

// drop removes a segment that was not finished.
func (r *run) drop() error {
	if r.w == nil {
		return nil
	}
	f := r.w.f
	r.w = nil
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// keepStream puts what was copied of a stream into the manifest.
func (r *run) keepStream() error {
	s := r.s
	segs := s.Segments[:0:0]
	for _, seg := range s.Segments {
		if seg.Last >= s.First && seg.First <= s.Last {
			segs = append(segs, seg)
		}
	}
	s.Segments = segs
	r.m.put(*s)
	return nil
}

// note remembers what was copied, for a run that goes on if this one is interrupted.
func (r *run) note() error {
	if err := r.t.note(r.m); err != nil {
		return fmt.Errorf("note what is copied: %w", err)
	}
	return nil
}

// intake copies the submissions that are not decided. They are few, and change all the
// time: all of them, each time.
func (r *run) intake(ctx context.Context) error { return r.side(ctx, Intake, false) }

func (r *run) documents(ctx context.Context) error { return r.side(ctx, Documents, true) }

func (r *run) output(ctx context.Context) error { return r.side(ctx, Output, true) }

func (r *run) logs(ctx context.Context) error { return r.side(ctx, Logs, true) }

// errCut: the log was cut beyond what was read.
var errCut = errors.New("the log was cut")

// log copies the event log up to its end.
func (r *run) log(ctx context.Context) error {
	name := streamOf(Events, r.o.Names)
	if r.o.Engine != nil {
		asking, cancel := context.WithTimeout(ctx, requestTimeout)
		e, err := r.o.Engine(asking)
		cancel()
		if err == nil {
			r.engine = e
			r.m.Durability = e.Durability
		}
	}
	for pass := 0; ; pass++ {
		tip, err := r.tip(ctx, name)
		if err != nil {
			return err
		}
		now, err := info(ctx, r.o.Conn, r.o.Names, name)
		if err != nil {
			return err
		}
		if err := r.logPass(ctx, tip, now); !errors.Is(err, errCut) || pass == maxPasses {
			if err == nil {
				err = r.keepStream()
			}
			if err == nil {
				err = r.note()
			}
			return err
		}
	}
}

// tip returns the end of the log, which has at least what the engine has answered with.
func (r *run) tip(ctx context.Context, name string) (eventlog.End, error) {
	for begun := time.Now(); ; {
		tip, err := eventlog.EndOf(ctx, r.o.Conn, r.o.Names, name)
		switch {
		case errors.Is(err, eventlog.ErrNoLog):
			return tip, fmt.Errorf("there is no event log %s: is this the engine's NATS server, and its account? (%w)", name, err)
		case err != nil && time.Since(begun) > tipPatience:
			return tip, fmt.Errorf("%w%s", err, refusal(r.o.Conn))
		case err == nil && tip.Last >= r.engine.Position:
			return tip, nil
		case err == nil && time.Since(begun) > tipPatience:
			return tip, fmt.Errorf("the log %s ends at %d, and the engine has appended %d: is this the engine's NATS server?", name, tip.Last, r.engine.Position)
		}
		if refusal(r.o.Conn) != "" {
			return tip, fmt.Errorf("%w%s", err, refusal(r.o.Conn))
		}
		if err := sleep.For(ctx, againAfter); err != nil {
			return tip, err
		}
	}
}

func (r *run) logPass(ctx context.Context, tip eventlog.End, now *jetstream.StreamInfo) error {
	if tip.First > tip.Seq || tip.Last == 0 {
		return fmt.Errorf("the event log %s holds no event: there is nothing to back up", now.Config.Name)
	}
	had := r.s
	s := &Stream{Kind: Events, Name: now.Config.Name, Created: tip.Created, Config: now.Config, First: tip.First, Last: tip.Seq}
	switch old, err := r.continued(ctx, s); {
	case err != nil:
		return err
	case had != nil && had.Kind == Events: // a pass that a cut ended
		s.Segments = r.carried(had, s)
	case old != nil:
		s.Segments = r.carried(old, s)
	}
	r.s, r.added[Events] = s, 0
	r.m.First, r.m.Last = events.SeqOf(tip.First, 0), tip.Last
	from := s.First
	if n := len(s.Segments); n > 0 {
		from = max(from, s.Segments[n-1].Last+1)
	}
	return r.copy(ctx, from, func(seq uint64) error { return r.hole(ctx, s, seq) })
}

// hole says why the log lacks a position that it had.
func (r *run) hole(ctx context.Context, s *Stream, seq uint64) error {
	tip, err := r.tip(ctx, s.Name)
	if err != nil {
		return err
	}
	if tip.First > seq {
		if err := r.cut(); err != nil {
			return err
		}
		return fmt.Errorf("%w: it begins at %d", errCut, tip.First)
	}
	return errAgain // a new leader has not applied it yet
}

// continued returns what the earlier backup has of the log, if it is this one.
func (r *run) continued(ctx context.Context, s *Stream) (*Stream, error) {
	if r.old == nil || r.old.Stream(Events) == nil {
		return nil, nil
	}
	old := r.old.Stream(Events)
	other := func(why string) error {
		return fmt.Errorf("back up into %s: %w: %s: choose another folder, or begin anew with --full, which removes that backup", r.o.Target, ErrOtherLog, why)
	}
	switch {
	case !old.Created.Equal(s.Created):
		return nil, other(fmt.Sprintf("its stream was made on %s, this one on %s", old.Created.Format(time.RFC3339), s.Created.Format(time.RFC3339)))
	case !r.resumed && old.Last > s.Last:
		return nil, other(fmt.Sprintf("it goes up to %d, and this log ends at %d", old.Last, s.Last))
	}
	// A log that has lost its end has other messages there since.
	var last Segment
	for _, seg := range old.Segments {
		if seg.Last >= s.First && seg.Last <= s.Last {
			last = seg
		}
	}
	if last.Last == 0 {
		return old, nil
	}
	var found string
	err := newReader(r.o.Conn, r.o.Names, s.Name).read(ctx, last.Last, last.Last, nil, func(rec *Record) error {
		found = rec.sum()
		return nil
	})
	if err == nil && found != "" && found != last.LastSum {
		err = other(fmt.Sprintf("this log has another event at %d", last.Last))
	}
	return old, err
}
