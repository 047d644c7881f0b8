package replicas

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/bits"
	"os"
	"slices"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/streamwright/streamwright/eventlog/blocks"
	"github.com/streamwright/streamwright/internal/sleep"
)

const (
	// maxBlock bounds a block file, and what a compressed one holds: a block is 8 MiB and a
	// message.
	maxBlock = 64 << 20
	// chunk is read at once; then the reader keeps its pace.
	chunk = 1 << 20
	// maxTracked bounds the sequences between a stream's first and last message whose
	// deletes are followed: 16 MiB of bits.
	maxTracked = 1 << 27
	// tries is how often a replica that looks damaged is read, tryPause apart: it may have been
	// written meanwhile.
	tries    = 5
	tryPause = time.Second
	// settle is the time after which the server has written what it says that it holds: it
	// gathers a replicated stream's messages for some milliseconds.
	settle = 100 * time.Millisecond
)

// State is what the server says that a stream holds.
type State struct {
	First, Last uint64 // sequences
	Messages    uint64
	Lost        int // messages that the server could not read at its start
}

// Replica is what was found in one server's files of a stream.
type Replica struct {
	Stream     string
	At         time.Time // when the reading ended
	Took       time.Duration
	Blocks     int
	Bytes      int64
	Messages   int
	Compressed int // blocks that are
	// Damage says what is wrong; empty: every message that there should be was read, and has
	// its hash.
	Damage string
}

// Reader reads the block files of one stream. It opens them by itself: the server that
// writes them meanwhile is not held up, keeps nothing in its caches for that, and repairs nothing on
// the way.
type Reader struct {
	Dir    string // the stream's folder
	Stream string
	// State returns what the server says now; false: it has no such stream. nil: there is no server.
	State func() (State, bool)
	// Gapless says that no message between the first and the last is ever deleted.
	Gapless bool
	Rate    int64 // bytes per second at most; 0: no bound
}

// Read reads the replica. What looks damaged is so if it does a second time, in the same
// place: the server may write there meanwhile. Its error is that of ctx, or of a folder that
// can't be read.
func (r Reader) Read(ctx context.Context) (Replica, error) {
	began := time.Now()
	var rep Replica
	var last string
	for i := range tries {
		if i > 0 {
			if err := sleep.For(ctx, tryPause); err != nil {
				return rep, err
			}
		}
		var err error
		if rep, err = r.once(ctx); err != nil || rep.Damage == "" || rep.Damage == last {
			rep.At, rep.Took = time.Now(), time.Since(began)
			return rep, err
		}
		last = rep.Damage
	}
	rep.Damage = "" // it was elsewhere each time: that is the server, which writes
	rep.At, rep.Took = time.Now(), time.Since(began)
	return rep, nil
}

func (r Reader) once(ctx context.Context) (Replica, error) {
	rep := Replica{Stream: r.Stream}
	damaged := func(format string, args ...any) {
		if rep.Damage == "" {
			rep.Damage = fmt.Sprintf(format, args...)
		}
	}
	before, there := r.state()
	if !there {
		return rep, nil
	}
	if r.State != nil {
		if err := sleep.For(ctx, settle); err != nil {
			return rep, err
		}
	}
	indexes, err := blocks.Indexes(r.Dir)
	if err != nil {
		return rep, fmt.Errorf("read replica of %s: %w", r.Stream, err)
	}
	seen := tracker{first: before.First, gapless: r.Gapless}
	var b []byte // of one block after the other
	for _, index := range indexes {
		var err error
		b, err = r.block(ctx, index, b)
		switch {
		case errors.Is(err, fs.ErrNotExist): // all of it was deleted meanwhile
			continue
		case ctx.Err() != nil:
			return rep, ctx.Err()
		case err != nil:
			damaged("block %d can't be read: %v", index, err)
			continue
		}
		rep.Blocks++
		rep.Bytes += int64(len(b))
		plain, compressed, err := decode(b)
		if compressed {
			rep.Compressed++
		}
		if err == nil {
			err = records(r.Stream, index, plain, func(rec blocks.Record) {
				if !rec.Erased && !rec.Tomb {
					rep.Messages++
				}
				seen.add(rec)
			})
		}
		if err != nil {
			damaged("block %d: %v", index, err)
		}
	}
	after, there := r.state()
	if !there {
		return Replica{Stream: r.Stream}, nil
	}
	if after.Lost > 0 {
		damaged("the server lost %d messages that it could not read at its start", after.Lost)
	}
	if r.State == nil {
		after = State{Last: seen.last}
	}
	if why := seen.missing(before, after); why != "" {
		damaged("%s", why)
	}
	return rep, nil
}

func (r Reader) state() (State, bool) {
	if r.State == nil {
		return State{}, true
	}
	return r.State()
}

// block reads one block file at the reader's pace, into b if that is large enough. It
// returns the memory also with an error.
func (r Reader) block(ctx context.Context, index uint32, b []byte) ([]byte, error) {
	f, err := os.Open(blocks.File(r.Dir, index))
	if err != nil {
		return b, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return b, err
	}
	if info.Size() > maxBlock {
		return b, fmt.Errorf("its file has %d bytes, more than a block ever has", info.Size())
	}
	b = slices.Grow(b[:0], int(info.Size()))[:info.Size()]
	for at := 0; at < len(b); {
		began := time.Now()
		n, err := io.ReadFull(f, b[at:min(at+chunk, len(b))])
		at += n
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return b[:at], nil // it was cut meanwhile
		}
		if err != nil {
			return b, err
		}
		if r.Rate > 0 {
			err = sleep.For(ctx, time.Duration(n)*time.Second/time.Duration(r.Rate)-time.Since(began))
		} else {
			err = ctx.Err()
		}
		if err != nil {
			return b, err
		}
	}
	return b, nil
}

// decode returns the records of a block file, and whether it was compressed.
func decode(b []byte) (plain []byte, was bool, err error) {
	var meta natsserver.CompressionInfo
	n, err := meta.UnmarshalMetadata(b)
	if err != nil || n == 0 {
		return b, err != nil, err
	}
	if meta.OriginalSize > maxBlock {
		return nil, true, fmt.Errorf("it is compressed, and would have %d bytes", meta.OriginalSize)
	}
	plain, err = meta.Algorithm.Decompress(b[n:])
	if err == nil && uint64(len(plain)) != meta.OriginalSize {
		err = fmt.Errorf("%d bytes in place of %d", len(plain), meta.OriginalSize)
	}
	if err != nil {
		return nil, true, fmt.Errorf("it is compressed, and can't be decompressed: %w", err)
	}
	return plain, true, nil
}

// records calls each for each record of a block. Its error says where the first bad one is.
func records(stream string, index uint32, b []byte, each func(blocks.Record)) error {
	d, err := blocks.NewDecoder(stream, index)
	if err != nil {
		return err
	}
	for at := 0; at < len(b); {
		rec, size, err := d.Next(b[at:])
		if err != nil {
			return fmt.Errorf("%w at byte %d", err, at)
		}
		each(rec)
		at += size
	}
	return nil
}

// tracker finds messages that are missing.
type tracker struct {
	first   uint64 // of the stream
	gapless bool
	last    uint64
	gaps    []span // of a gapless stream
	more    bool   // gaps are not all
	live    []uint64
	beyond  bool // live is not all
}

// span is a run of sequences.
type span struct{ from, to uint64 }

// maxGaps bounds the gaps that are remembered.
const maxGaps = 64

func (t *tracker) add(rec blocks.Record) {
	seq := rec.Seq
	if rec.Tomb {
		t.mark(seq, false)
		return
	}
	if seq == 0 {
		return
	}
	t.mark(seq, !rec.Erased)
	if seq <= t.last {
		return
	}
	next := t.last + 1
	if t.last == 0 {
		if next = t.first; next == 0 { // not known
			next = seq
		}
	}
	if t.gapless && seq > next {
		if len(t.gaps) < maxGaps {
			t.gaps = append(t.gaps, span{next, seq - 1})
		} else {
			t.more = true
		}
	}
	t.last = seq
}

// mark notes whether a message is there.
func (t *tracker) mark(seq uint64, there bool) {
	if t.gapless || seq < t.first {
		return
	}
	at := seq - t.first
	if at >= maxTracked {
		t.beyond = true
		return
	}
	for uint64(len(t.live)) <= at/64 {
		if !there {
			return
		}
		t.live = append(t.live, 0)
	}
	if bit := uint64(1) << (at % 64); there {
		t.live[at/64] |= bit
	} else {
		t.live[at/64] &^= bit
	}
}

// missing says which messages that the server counts were not in the files, between two
// looks at what it says; empty: none.
func (t *tracker) missing(before, after State) string {
	if t.gapless {
		first, last := max(before.First, after.First), min(before.Last, after.Last)
		for _, g := range append(t.gaps, span{t.last + 1, last}) {
			if from, to := max(g.from, first), min(g.to, last); from <= to {
				return fmt.Sprintf("messages %d to %d are missing", from, to)
			}
		}
		return ""
	}
	if before != after || t.beyond {
		return "" // messages came and went, or there is no telling
	}
	live := uint64(0)
	for _, word := range t.live {
		live += uint64(bits.OnesCount64(word))
	}
	if live < after.Messages { // there may be more: what limits delete leaves no trace
		return fmt.Sprintf("%d of %d messages are missing", after.Messages-live, after.Messages)
	}
	return ""
}
