package eventlog

import (
	"context"
	"time"

	"github.com/streamwright/streamwright/events"
)

// Log is a partition's event stream, as its owner uses it. Append, Reset and
// Settle belong to one goroutine; the other methods may be called from any.
type Log interface {
	// Append stores a frame directly behind the stream's sequence after. When it returns
	// nil the events are durable, as durable as the server's sync policy makes an
	// acknowledged message, at the positions [events.SeqOf](after+1, 0) and up.
	//
	// It fails with ErrFenced, ErrFull, ErrAmbiguous or ErrCorrupt, whose comments say
	// what may be stored then; any other error means that nothing was sent. It does not
	// keep w.
	Append(ctx context.Context, after uint64, w *Write) (Appended, error)

	// Last asks the stream's leader for the end of the log and the time.
	Last(ctx context.Context) (Tip, error)

	// Confirm is Last, but its answer is never that of a leader which the other
	// servers have deposed and which does not know yet: most of them have agreed
	// during the call. If they don't, it fails with ErrUnreachable.
	Confirm(ctx context.Context) (Tip, error)

	// Read replays the frames with the sequences from to to, both inclusive, to fn, in
	// order and from the caller's goroutine; from 0 means the first that is kept. to must
	// not be past Last. Foreign messages are passed over. It ends early with fn's error,
	// unwrapped; with ErrTrimmed; with one that wraps events.ErrCorrupt or
	// events.ErrNewer; or with the context's. When it returns nil, all up to to has been
	// handed over.
	Read(ctx context.Context, from, to uint64, fn func(Frame) error) error

	// Follow hands over everything from a sequence on, as Read does, and then what is
	// appended, as it comes. It ends with fn's error, the context's, ErrTrimmed, one that
	// wraps events.ErrCorrupt, or ErrUnreachable: then follow again behind the last
	// frame. That the log has come to another end than a known one is for the caller to
	// find out (Last).
	Follow(ctx context.Context, from uint64, fn func(Frame) error) error

	// End is the position of the log's last event, and how many there are, those that
	// have been cut off included. Its answer comes from the stream's leader.
	End(ctx context.Context) (End, error)

	// Purge drops all frames below a sequence for good. That the rest can stand alone is
	// for the caller to know (see [events.Snapshot]). After an error other than ErrClosed
	// it may have been done all the same. It may be done again, and by anyone.
	Purge(ctx context.Context, below uint64) error

	// Reset abandons the append connection and everything in flight on it, and
	// takes a new one. It makes Append possible again after ErrAmbiguous, but
	// see Settle for what must be done before that.
	Reset(ctx context.Context) error

	// Checksum is events.Checksum of the frame at a sequence, which a projection compares
	// with its own. ErrTrimmed: it is no longer kept.
	Checksum(ctx context.Context, seq uint64) (uint64, error)

	// Close ends the log's connections. It may be called more than once, and at
	// any time; a running Append then ends with ErrAmbiguous.
	Close() error
}

// Appended is the result of an Append.
type Appended struct {
	Last     events.Seq // of the last event
	Lines    []byte     // the events' JSON as stored, one a line; the caller's
	Checksum uint64     // events.Checksum of Lines
}

// Tip is the end of the log as its leader sees it, in the stream's sequences.
type Tip struct {
	Seq     uint64    // last stored; 0 for an empty log
	First   uint64    // first that is still kept; Seq+1 when none is
	Time    time.Time // the server's clock
	Bytes   uint64    // stored, as the server counts against the limit
	Created time.Time // of the stream: its identity, since a new one has another
}

// Identity names the log: no other one has the same. A stream that was restored
// elsewhere may have another.
func (t Tip) Identity() string { return t.Created.UTC().Format(time.RFC3339Nano) }

// Check reports whether from to to lies within what the log keeps.
func (t Tip) Check(from, to uint64) error {
	switch {
	case from < t.First && from <= t.Seq:
		return &TrimmedError{Asked: from, First: t.First}
	case to > t.Seq:
		return &BehindError{Known: to, Last: t.Seq}
	}
	return nil
}

// Range returns where a read of from to to begins: 0 stands for the first that the log keeps.
// It errs as Check does.
func (t Tip) Range(from, to uint64) (uint64, error) {
	if from == 0 {
		from = t.First
	}
	return from, t.Check(from, to)
}

// End looks for the last frame, from the end: there may be foreign messages behind it.
func (t Tip) End(get func(seq uint64) (Stored, error)) (End, error) {
	end := End{Tip: t}
	for seq := t.Seq; seq >= max(t.First, 1); seq-- {
		m, err := get(seq)
		if err != nil {
			return end, err
		}
		h, foreign, err := readHeader(&m)
		if err != nil {
			return end, err
		}
		if foreign == "" {
			end.Last, end.Events = events.SeqOf(seq, h.count-1), h.Before+uint64(h.count)
			break
		}
	}
	return end, nil
}

// End is where a log ends.
type End struct {
	Tip
	Last   events.Seq // of the last event; 0 for none
	Events uint64     // in the log so far
}
