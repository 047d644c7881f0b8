package eventlog

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/nats-io/nats-server/v2/server/archive"
	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
)

// A stretch that is most of a log comes as a snapshot of its stream: an archive
// of its messages, compressed, in chunks. That takes the server and the client
// much less CPU time than a consumer takes, which sends each message by itself.
// A snapshot locks nothing, and checks each record as any read does.

// Bounds of reading a snapshot.
const (
	bulkLeast    = 20_000 // events; fewer are read by a consumer
	bulkChunk    = 128 << 10
	bulkWindow   = 8 << 20          // sent and not acknowledged
	bulkPatience = 10 * time.Second // without a chunk
	bulkBlocks   = 4 << 20          // one block of a compressed archive
)

// errNoBulk ends an attempt to read in bulk: a consumer reads the rest.
var errNoBulk = errors.New("the log could not be read in bulk")

// worthBulk reports whether a stretch is most of what a snapshot brings.
func (l *JetStream) worthBulk(tip Tip, from, to events.Seq) bool {
	return to-from >= l.bulkLeast && from-tip.First <= (to-from)/2 && tip.Seq-to <= (to-from)/4
}

// runBulk is run, which reads what a snapshot has not brought.
func (f *fetcher) runBulk(ctx context.Context, p *pipeline) error {
	f.p, f.chunk = p, &chunk{}
	err := f.bulk(ctx)
	if err == nil {
		return f.flush(ctx)
	}
	if !errors.Is(err, errNoBulk) {
		return err
	}
	f.log.cfg.Logger.Debug("reading the event log by a consumer", "from", uint64(f.next), "because", err)
	if err := f.flush(ctx); err != nil {
		return err
	}
	return f.run(ctx, p)
}

// bulk takes the messages from a snapshot of the stream.
func (f *fetcher) bulk(ctx context.Context) error {
	src, err := f.log.openChunks(ctx)
	if err != nil {
		return err
	}
	defer src.close()
	r := archiveReader{r: bufio.NewReaderSize(s2.NewReader(src, s2.ReaderMaxBlockSize(bulkBlocks)), bulkChunk)}
	for {
		h, err := r.next()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return fmt.Errorf("%w: %w", errNoBulk, err)
		case h.subject == "" && h.seq == 0: // the end
			if f.next <= f.to {
				return fmt.Errorf("%w: it ends at %d", errNoBulk, f.next-1)
			}
			return nil
		case h.seq < f.next || f.next > f.to: // also what is no message: it has no sequence
			if _, err := r.r.Discard(h.header + h.data); err != nil {
				return fmt.Errorf("%w: %w", errNoBulk, err)
			}
			continue
		}
		data := f.room(h.header + h.data)
		if _, err := io.ReadFull(r.r, data); err != nil {
			return fmt.Errorf("%w: message %d: %w", errNoBulk, h.seq, err)
		}
		m := message{seq: h.seq, subject: h.subject, id: storedID(data[:h.header]), data: data[h.header:]}
		if err := f.add(ctx, m, f.to); err != nil {
			return err
		}
	}
}

// maxStored is more than any server takes for one message.
const maxStored = 256 << 20

// archived says what follows in an archive: a message's header and data.
type archived struct {
	subject      string
	seq          events.Seq
	header, data int // bytes
}

// archiveReader reads the archives of nats-server's package archive. That
// package's own reader allocates four times a message.
type archiveReader struct {
	r        *bufio.Reader
	begun    bool
	name     []byte
	subjects map[string]string // by themselves: few, and the same again and again
}

var errArchive = errors.New("malformed archive")

// next reads up to the bytes of the next entry.
func (a *archiveReader) next() (h archived, err error) {
	if !a.begun {
		magic := make([]byte, len(archive.MagicBytes))
		if _, err := io.ReadFull(a.r, magic); err != nil || string(magic) != archive.MagicBytes {
			return h, errors.Join(errArchive, err)
		}
		a.begun, a.subjects = true, map[string]string{}
	}
	var fields [5]uint64 // length of the name, time, sequence, bytes of the header and of the data
	for i := range fields {
		if fields[i], err = binary.ReadUvarint(a.r); err != nil {
			return h, errors.Join(errArchive, err)
		}
	}
	if fields[0] > maxName || fields[3] > maxStored || fields[4] > maxStored {
		return h, errArchive
	}
	a.name = slices.Grow(a.name[:0], int(fields[0]))[:fields[0]]
	if _, err := io.ReadFull(a.r, a.name); err != nil {
		return h, errors.Join(errArchive, err)
	}
	h = archived{seq: events.Seq(fields[2]), header: int(fields[3]), data: int(fields[4])}
	known := false
	if h.subject, known = a.subjects[string(a.name)]; !known {
		if len(a.subjects) >= maxSubjects {
			clear(a.subjects)
		}
		h.subject = string(a.name)
		a.subjects[h.subject] = h.subject
	}
	return h, nil
}

// maxName is more than the length of any subject.
const maxName = 1 << 16

// slabBytes is the memory that messages from a snapshot share.
const slabBytes = 256 << 10

// room returns n bytes for a message. What they hold lives until the last of the
// messages that share them has been decoded.
func (f *fetcher) room(n int) []byte {
	if n > slabBytes/4 {
		return make([]byte, n)
	}
	if len(f.slab) < n {
		f.slab = make([]byte, slabBytes)
	}
	b := f.slab[:n:n]
	f.slab = f.slab[n:]
	return b
}

// chunks are the bytes of a snapshot, as they come. It is an io.Reader for one
// goroutine.
type chunks struct {
	ctx   context.Context
	nc    *nats.Conn
	sub   *nats.Subscription
	in    chan *nats.Msg
	timer *time.Timer
	rest  []byte
	ended error
}

// openChunks asks the stream's leader for a snapshot. A server that can't make
// one, or one of a format that is not an archive, gives errNoBulk here or while
// it is read.
func (l *JetStream) openChunks(ctx context.Context) (*chunks, error) {
	nc, err := l.conn()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoBulk, err)
	}
	c := &chunks{ctx: ctx, nc: nc, in: make(chan *nats.Msg, bulkWindow/bulkChunk+8)}
	inbox := nc.NewInbox()
	if c.sub, err = nc.ChanSubscribe(inbox, c.in); err != nil {
		return nil, fmt.Errorf("%w: %w", errNoBulk, err)
	}
	req := fmt.Appendf(nil, `{"deliver_subject":%q,"no_consumers":true,"chunk_size":%d,"window_size":%d}`, inbox, bulkChunk, bulkWindow)
	asked, cancel := context.WithTimeout(ctx, l.cfg.AckTimeout)
	defer cancel()
	var answer struct {
		Error *apiError `json:"error"`
	}
	m, err := nc.RequestWithContext(asked, l.cfg.Names.JetStream("STREAM.SNAPSHOT."+l.stream), req)
	if err == nil {
		err = json.Unmarshal(m.Data, &answer)
	}
	if err == nil && answer.Error != nil {
		err = answer.Error
	}
	if err != nil {
		_ = c.sub.Unsubscribe()
		return nil, fmt.Errorf("%w: ask for a snapshot: %w", errNoBulk, err)
	}
	c.timer = time.NewTimer(bulkPatience)
	return c, nil
}

// close ends it. The server notices that nobody listens.
func (c *chunks) close() {
	c.timer.Stop()
	_ = c.sub.Unsubscribe() // fails when the connection is closed
}

// Read implements io.Reader. A chunk is acknowledged when it is taken, so that the
// server sends no more than what is read.
func (c *chunks) Read(p []byte) (int, error) {
	for len(c.rest) == 0 {
		if c.ended != nil {
			return 0, c.ended
		}
		if err := c.take(); err != nil {
			c.ended = err
		}
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

func (c *chunks) take() error {
	c.timer.Reset(bulkPatience)
	select {
	case m := <-c.in:
		if len(m.Data) == 0 { // the end
			if status := m.Header.Get("Status"); status != "204" && status != "" {
				return fmt.Errorf("the server answers %s %s", status, m.Header.Get("Description"))
			}
			return io.EOF
		}
		c.rest = m.Data
		if m.Reply == "" {
			return nil // the last one
		}
		return c.nc.Publish(m.Reply, nil)
	case <-c.timer.C:
		return fmt.Errorf("the server has sent nothing for %s", bulkPatience)
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
}

// storedID is headerID of a header as it is stored.
func storedID(header []byte) (id string) {
	const version = "NATS/1.0"
	line, rest, ok := headerLine(header)
	if !ok || !bytes.HasPrefix(line, []byte(version)) {
		return ""
	}
	if len(line) > len(version) && len(bytes.TrimSpace(line[len(version):])) < len("503") { // a status
		return ""
	}
	for found := false; ; {
		if line, rest, ok = headerLine(rest); !ok {
			return ""
		}
		if len(line) == 0 {
			return id
		}
		key, value, ok := bytes.Cut(line, []byte(":"))
		switch {
		case !ok, string(key) == nats.JSStream:
			return ""
		case !found && string(key) == nats.MsgIdHdr:
			found, id = true, string(bytes.TrimLeft(value, " \t"))
		}
	}
}

// headerLine cuts off a line.
func headerLine(b []byte) (line, rest []byte, ok bool) {
	line, rest, ok = bytes.Cut(b, []byte("\n"))
	return bytes.TrimSuffix(line, []byte("\r")), rest, ok
}
