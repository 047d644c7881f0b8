// Package feed tells the log's events as they become durable, on the subjects
// work.event.<p>.<type>.<kind>: at most once, and stored nowhere.
package feed

import (
	"bytes"
	"context"
	"strconv"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/semaphore"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/turns"
	"github.com/streamwright/streamwright/wire"
)

// maxWaiting bounds the events that wait to be told, in bytes of JSON. A frame that finds
// no room is not told.
const maxWaiting = 16 << 20

// maxFrames bounds the frames that wait.
const maxFrames = 1024

// maxSubjects bounds the subjects that a Feed remembers.
const maxSubjects = 8192

// Config configures a Feed.
type Config struct {
	Conn      *nats.Conn
	Names     wire.Names
	Partition int
	// Heard reports whether anybody subscribes to a subject; nil: it is not known.
	Heard func(subject string) bool
	Turns *turns.Share // of the processors; nil: it gives way to nobody in particular
}

// Name says where an event is told.
type Name struct {
	Type events.Type
	Kind events.Kind
}

// Feed tells events. Tell may be called from one goroutine, Run by another.
type Feed struct {
	cfg    Config
	in     chan frame
	budget *semaphore.Weighted

	turn     turns.Turn
	subjects map[Name]*subject
	header   nats.Header
	position [1]string
	previous [1]string
}

// subject is where events of a name are told.
type subject struct {
	text  string
	seq   uint64 // of the last frame with such an event
	heard bool   // whether anybody subscribed then
}

type frame struct {
	seq   uint64
	after events.Seq
	names []Name
	lines []byte
}

// New makes a Feed.
func New(cfg Config) *Feed {
	f := &Feed{cfg: cfg, turn: cfg.Turns.Turn(), in: make(chan frame, maxFrames), budget: semaphore.NewWeighted(maxWaiting), subjects: map[Name]*subject{}}
	f.header = nats.Header{wire.HeaderPosition: f.position[:], wire.HeaderPrevious: f.previous[:]}
	return f
}

// Tell has the events of a frame told: their names, and their JSON, one a line. after is the
// position of the last event before them; 0: it is not known. Tell does not wait, and keeps
// what it is given.
func (f *Feed) Tell(seq uint64, after events.Seq, names []Name, lines []byte) {
	if !f.budget.TryAcquire(int64(len(lines))) {
		return // those who hear the next one see the gap
	}
	select {
	case f.in <- frame{seq, after, names, lines}:
	default:
		f.budget.Release(int64(len(lines)))
	}
}

// Run tells until ctx ends.
func (f *Feed) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case t := <-f.in:
			f.tell(t)
			f.budget.Release(int64(len(t.lines)))
		}
	}
}

func (f *Feed) tell(t frame) {
	f.turn.Begin()
	defer f.turn.End()
	for i, name := range t.names {
		f.turn.Take()
		line, rest, _ := bytes.Cut(t.lines, []byte{'\n'})
		t.lines = rest
		at, to := events.SeqOf(t.seq, i), f.subject(name)
		if to.seq != t.seq { // asked once a frame, since it takes a lock of the server
			to.seq, to.heard = t.seq, f.cfg.Heard == nil || f.cfg.Heard(to.text)
		}
		if to.heard {
			f.position[0], f.previous[0] = strconv.FormatUint(uint64(at), 10), strconv.FormatUint(uint64(t.after), 10)
			// It fails when the connection is closed, or can't take more: nobody hears it then.
			_ = f.cfg.Conn.PublishMsg(&nats.Msg{Subject: to.text, Header: f.header, Data: line})
		}
		t.after = at
	}
}

func (f *Feed) subject(n Name) *subject {
	s := f.subjects[n]
	if s == nil {
		if len(f.subjects) >= maxSubjects {
			clear(f.subjects)
		}
		s = &subject{text: f.cfg.Names.Event(f.cfg.Partition, n.Type, n.Kind)}
		f.subjects[n] = s
	}
	return s
}
