package backup

import (
	"context"
	"math"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
)

// Checked is the outcome of a Verify.
type Checked struct {
	Files     int        `json:"files"`
	Bytes     int64      `json:"bytes"`
	First     events.Seq `json:"first"`
	Last      events.Seq `json:"last"`
	Events    int64      `json:"events"`
	Foreign   int64      `json:"foreign,omitempty"` // messages in the log that no engine wrote
	Stale     int64      `json:"stale,omitempty"`   // frames in it that readers pass over
	Intake    int64      `json:"intake"`
	Logs      int64      `json:"logs"`
	Output    int64      `json:"output"`    // chunks
	Documents int64      `json:"documents"` // messages of the object store: parts and descriptions
	LastAt    time.Time  `json:"last_at"`   // of the last event
}

// Verify reads all of a backup: every file has its checksum, every message is in order,
// the log has no hole, and its events decode. Errors wrap [ErrDamaged] and name the file,
// or events.ErrCorrupt.
func (b *Backup) Verify(ctx context.Context, progress func(what string, done, total int64)) (out Checked, err error) {
	m := b.Manifest
	out = Checked{First: m.First, Last: m.Last, Intake: m.Stream(Intake).Records(), Logs: m.Stream(Logs).Records(), Output: m.Stream(Output).Records(), Documents: m.Stream(Documents).Records()}
	out.Files = 1
	for _, s := range m.Streams {
		out.Files += len(s.Segments)
		out.Bytes += s.Size()
	}
	out.Foreign, out.Stale, err = b.events(ctx, progress, func(f eventlog.Frame) error {
		out.Events += int64(len(f.Events))
		out.LastAt = f.Events[len(f.Events)-1].At
		return nil
	})
	if err != nil {
		return out, err
	}
	return out, b.sums(ctx, progress, Intake, Logs, Output, Documents)
}

// sums reads streams without a look at what their messages are.
func (b *Backup) sums(ctx context.Context, progress func(string, int64, int64), kinds ...string) error {
	for _, kind := range kinds {
		s, n := b.Manifest.Stream(kind), int64(0)
		total := s.Records()
		err := b.each(ctx, s, 0, math.MaxUint64, func(r *Record) error {
			if n++; progress != nil && (n%progressEvery == 0 || n == total) {
				progress(kind, n, total)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// events gives fn the frames of the log in the backup, and returns the numbers of foreign
// messages in it, and of frames that readers pass over.
func (b *Backup) events(ctx context.Context, progress func(string, int64, int64), fn func(eventlog.Frame) error) (foreign, stale int64, err error) {
	s := b.Manifest.Stream(Events)
	if s == nil {
		return 0, 0, damaged(b.path+": "+manifestFile, "names no event log")
	}
	reading, stop := context.WithCancel(ctx)
	records, ended := make(chan eventlog.Stored, 1024), make(chan error, 1)
	go func() {
		defer close(records)
		next := s.First
		err := b.each(reading, s, s.First, s.Last, func(r *Record) error {
			if r.Seq != next {
				return damaged(b.path, "lacks the frames %d to %d", next, r.Seq-1)
			}
			next++
			select {
			case records <- r.stored():
				return nil
			case <-reading.Done():
				return reading.Err()
			}
		})
		if err == nil && next != s.Last+1 {
			err = damaged(b.path, "lacks the frames %d to %d", next, s.Last)
		}
		ended <- err
	}()
	defer func() {
		stop()
		for range records {
		}
	}()
	done, total := int64(0), int64(s.Last-s.First)+1
	next := func(context.Context) (eventlog.Stored, bool, error) {
		st, ok := <-records
		if ok {
			if done++; progress != nil && (done%progressEvery == 0 || done == total) {
				progress(Events, done, total)
			}
			return st, true, nil
		}
		return st, false, <-ended
	}
	var m events.Meta
	err = eventlog.Replay(ctx, func(uint64, string) { foreign++ }, next, func(f eventlog.Frame) error {
		if m.PassesOver(f.Seq, f.Epoch) {
			stale++
			return nil
		}
		m.Epoch = f.Epoch
		return fn(f)
	})
	return foreign, stale, err
}

// stored returns a record as the log has it. Headers that can't be read say nothing, so
// that the message counts as foreign.
func (r *Record) stored() eventlog.Stored {
	st := eventlog.Stored{Seq: r.Seq, Data: r.Data}
	if len(r.Header) > 0 {
		st.Header, _ = nats.DecodeHeadersMsg(r.Header)
	}
	return st
}
