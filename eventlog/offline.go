package eventlog

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Replay hands over the frames of a whole log that do not come from a stream, as [Log.Read]
// does those of one: next returns their messages one by one, in order, and false behind the
// last; it is called from another goroutine than fn. A gap between two messages is corruption.
func Replay(ctx context.Context, foreign ForeignFunc, next func(context.Context) (Stored, bool, error), fn func(Frame) error) error {
	return replay(ctx, foreign, func(ctx context.Context, p *pipeline) error {
		for last := uint64(0); ; {
			m, ok, err := next(ctx)
			if err != nil || !ok {
				return err
			}
			if last > 0 && m.Seq != last+1 {
				return missing(last+1, m.Seq)
			}
			last = m.Seq
			if err := p.put(ctx, []Stored{m}); err != nil {
				return err
			}
		}
	}, fn)
}

// TipOf asks the leader of a stream, as [Log.Last] asks that of the log, for the
// stream's end. [ErrNoLog]: there is no such stream. It is for readers that have no
// more than the right to ask for a stream's state; the connection stays the
// caller's.
func TipOf(ctx context.Context, nc *nats.Conn, names wire.Names, stream string) (Tip, error) {
	l := newJetStream(Config{Names: names}.WithDefaults())
	l.stream, l.reader = stream, nc
	return l.Last(ctx)
}

// EndOf is [Log.End] as TipOf is [Log.Last].
func EndOf(ctx context.Context, nc *nats.Conn, names wire.Names, stream string) (End, error) {
	l := newJetStream(Config{Names: names}.WithDefaults())
	l.stream, l.reader = stream, nc
	return l.End(ctx)
}

// EndFrame drops the events behind a position from the message of a frame that has it, and
// returns its header, as NATS writes it, and its data. A foreign message stays as it is.
func EndFrame(header, data []byte, last events.Seq) ([]byte, []byte) {
	h, err := nats.DecodeHeadersMsg(header)
	if err != nil {
		return header, data
	}
	f, foreign, err := readHeader(&Stored{Seq: last.Frame(), Header: h, Data: data})
	n := last.Index() + 1
	if foreign != "" || err != nil || n >= f.count {
		return header, data
	}
	h[headerEvents] = []string{strconv.Itoa(n)}
	end := 0
	for range n {
		end += bytes.IndexByte(data[end:], '\n') + 1
	}
	b := []byte("NATS/1.0\r\n")
	for _, key := range slices.Sorted(maps.Keys(h)) {
		for _, v := range h[key] {
			b = fmt.Appendf(b, "%s: %s\r\n", key, v)
		}
	}
	return append(b, "\r\n"...), data[:end]
}

// RestoreKey is the key in a stream's metadata under which a restore says what it
// has restored, and that it is not done yet: see [RestoreUnfinished].
const RestoreKey = "streamwright-restore"

// RestoreUnfinished begins the value of RestoreKey while a restore is under way, or
// when one was interrupted. Open refuses such a log with [ErrUnrestored].
const RestoreUnfinished = "unfinished"

// checkRestored refuses a log that a restore has not finished.
func checkRestored(metadata map[string]string) error {
	if strings.HasPrefix(metadata[RestoreKey], RestoreUnfinished) {
		return fmt.Errorf("%w: run engine restore again, which begins anew", ErrUnrestored)
	}
	return nil
}
