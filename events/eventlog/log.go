package eventlog

import (
	"context"
	"time"

	"github.com/streamwright/streamwright/events"
)

// MaxAppend is the most events that one Append takes.
const MaxAppend = events.MaxDecisionEvents

// Log is a partition's event stream, as its owner uses it. Append, Reset and
// Settle belong to one goroutine; the other methods may be called from any.
type Log interface {
	// Append stores evs, 1 to MaxAppend events that are whole decisions,
	// directly behind the position after. When it returns nil they are durable,
	// as durable as the server's sync policy makes an acknowledged message.
	//
	// It fails with ErrFenced, ErrFull, ErrAmbiguous or ErrCorrupt, whose
	// comments say what may be stored then; any other error means that nothing
	// was sent. It does not keep evs.
	//
	// Foreign messages alone refuse nothing: behind them, and between its
	// decisions, the append goes on. Then Appended says where the events are.
	Append(ctx context.Context, after events.Seq, evs []events.Event) (Appended, error)

	// Last asks the stream's leader for the end of the log and the time.
	Last(ctx context.Context) (Tip, error)

	// Foreign reports whether the messages behind after, up to to, are all
	// foreign: written by no engine. An error means that it is not known.
	Foreign(ctx context.Context, after, to events.Seq) (bool, error)

	// Read replays the positions from to to, both inclusive, to fn, in order and
	// from the caller's goroutine; from 0 means the first that is kept. to must not be past Last. A group that is
	// still undecided at to is not handed over, nor counted as skipped: read on
	// from the last Group's Through+1, as Settle does. It ends early with fn's
	// error, unwrapped; with ErrTrimmed; with one that wraps events.ErrCorrupt;
	// or with the context's.
	Read(ctx context.Context, from, to events.Seq, fn func(Group) error) error

	// Follow hands over everything from the position from on, as Read does, and
	// then what is appended, as it comes. It ends with fn's error, the
	// context's, ErrTrimmed, one that wraps events.ErrCorrupt, or
	// ErrUnreachable: then follow again behind the last Group. That the log has
	// come to another end than a known one is for the caller to find out (Last).
	Follow(ctx context.Context, from events.Seq, fn func(Group) error) error

	// Purge drops all positions below one for good. That the rest can stand
	// alone is for the caller to know (see [events.Snapshot]). After an error
	// other than ErrClosed it may have been done all the same. It may be done
	// again, and by anyone.
	Purge(ctx context.Context, below events.Seq) error

	// Reset abandons the append connection and everything in flight on it, and
	// takes a new one. It makes Append possible again after ErrAmbiguous, but
	// see Settle for what must be done before that.
	Reset(ctx context.Context) error

	// Checksum is events.Checksum of the stored bytes of the event at seq, which
	// a projection compares with its own. ErrTrimmed: it is no longer kept.
	Checksum(ctx context.Context, seq events.Seq) (uint64, error)

	// Close ends the log's connections. It may be called more than once, and at
	// any time; a running Append then ends with ErrAmbiguous.
	Close() error
}

// Appended is the result of an Append.
type Appended struct {
	Last     events.Seq // of the last event
	Checksum uint64     // events.Checksum of the last event's stored bytes
	Bytes    int        // of all events' JSON
	// Places say where the events are, if foreign messages lie before or between
	// them; none: directly behind after.
	Places []Place
}

// Place says that the events of an append from the N-th on, counted from 0, are
// at the position Seq and those behind it.
type Place struct {
	N   int
	Seq events.Seq
}

// PlaceOf is the position of the n-th of events that were to go behind after.
func (a *Appended) PlaceOf(after events.Seq, n int) events.Seq {
	at := Place{Seq: after + 1}
	for _, p := range a.Places {
		if p.N <= n {
			at = p
		}
	}
	return at.Seq + events.Seq(n-at.N)
}

// Tip is the end of the log as its leader sees it.
type Tip struct {
	Seq     events.Seq // last stored; 0 for an empty log
	First   events.Seq // first that is still kept; Seq+1 when none is
	Time    time.Time  // the server's clock
	Bytes   uint64     // stored, as the server counts against the limit
	Created time.Time  // of the stream: its identity, since a new one has another
}

// Identity names the log: no other one has the same. A stream that was restored
// elsewhere may have another.
func (t Tip) Identity() string { return t.Created.UTC().Format(time.RFC3339Nano) }

// Group is a run of whole decisions.
type Group struct {
	// Events are the decisions' events, in order, with Seq set. There are none
	// if everything consumed was skipped.
	Events []events.Event
	// Through is the last position consumed. With events it is the position of
	// the last of them: skipped messages belong to the group of the next event.
	Through events.Seq
	// Skipped counts the messages consumed that belong to no decision: foreign
	// ones and the events of undecided groups.
	Skipped int
	// Bytes is the size of Events as stored.
	Bytes int
	// Checksum is events.Checksum of the message at Through.
	Checksum uint64
}
