package backup

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/nats-io/nats-server/v2/server/archive"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/internal/directget"
	"github.com/streamwright/streamwright/internal/sleep"
)

// Bounds of what is on its way to a server that restores a stream.
const (
	chunkBytes  = 128 << 10
	chunkWindow = 16
	// chunkPatience bounds the wait for a server to take a chunk, and finalPatience that for
	// it to end a restore.
	chunkPatience = 30 * time.Second
	finalPatience = 5 * time.Minute
	// compareBatch is the number of messages read back at once, and compareBytes roughly
	// their bytes.
	compareBatch = 1000
	compareBytes = 4 << 20
	// comparePatience bounds the wait for a replica to have what the leader has.
	comparePatience = 30 * time.Second
)

// fill has the server restore one stream, and returns the number of its messages.
func (r *restore) fill(ctx context.Context, p *part) (n int64, err error) {
	size := uint64(0)
	err = r.each(ctx, p, func(rec *Record) error {
		n++
		size += uint64(len(rec.Subject) + len(rec.Header) + len(rec.Data) + 64)
		return nil
	})
	if err != nil {
		return 0, err
	}
	state := struct {
		Msgs     uint64 `json:"messages"`
		Bytes    uint64 `json:"bytes"`
		FirstSeq uint64 `json:"first_seq"`
		LastSeq  uint64 `json:"last_seq"`
	}{uint64(n), size, p.first, p.last}
	if p.last == 0 {
		state.FirstSeq = 0 // as the server has it for a stream that never had a message
	}
	u, err := r.open(ctx, p.cfg)
	if err != nil {
		return 0, err
	}
	defer u.close()
	zw := s2.NewWriter(u, s2.WriterConcurrency(1))
	aw := archive.NewWriter(zw)
	head, err := json.Marshal(state)
	if err != nil {
		return 0, err
	}
	if err := entry(aw, &archive.Header{Name: "state.json", Timestamp: time.Now().UnixNano(), PayloadSize: int64(len(head))}, head); err != nil {
		return 0, err
	}
	done, report := int64(0), r.progress("restore ")
	err = r.each(ctx, p, func(rec *Record) error {
		if done++; done%progressEvery == 0 || done == n {
			report(p.kind, done, n)
		}
		return entry(aw, &archive.Header{
			Name: rec.Subject, Timestamp: rec.Time.UnixNano(), Sequence: rec.Seq, HeaderSize: int64(len(rec.Header)), PayloadSize: int64(len(rec.Data)),
		}, rec.Header, rec.Data)
	})
	if err == nil {
		err = entry(aw, &archive.Header{}) // which ends it
	}
	if err = errors.Join(err, aw.Flush(), zw.Close()); err != nil {
		return 0, err
	}
	if err := u.end(); err != nil {
		return 0, err
	}
	return n, r.await(ctx, p.cfg.Name, p.last)
}

func entry(w *archive.Writer, h *archive.Header, parts ...[]byte) error {
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	for _, b := range parts {
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// upload sends the chunks of one stream to the server that restores it.
type upload struct {
	ctx     context.Context
	nc      *nats.Conn
	to      string
	inbox   string
	sub     *nats.Subscription
	in      chan *nats.Msg
	flying  int
	pending bytes.Buffer
}

// open begins the restore of a stream.
func (r *restore) open(ctx context.Context, cfg jetstream.StreamConfig) (*upload, error) {
	body, err := json.Marshal(map[string]any{"config": cfg, "state": struct{}{}})
	if err != nil {
		return nil, err
	}
	asking, cancel := context.WithTimeout(ctx, chunkPatience)
	defer cancel()
	m, err := r.o.Conn.RequestWithContext(asking, r.o.Names.JetStream("STREAM.RESTORE."+cfg.Name), body)
	if err != nil {
		return nil, fmt.Errorf("ask the server to restore it: %w", err)
	}
	var reply struct {
		Error   *jetstream.APIError `json:"error"`
		Deliver string              `json:"deliver_subject"`
	}
	if err := json.Unmarshal(m.Data, &reply); err != nil {
		return nil, fmt.Errorf("ask the server to restore it: unreadable answer: %w", err)
	}
	if reply.Error != nil {
		return nil, fmt.Errorf("the server refuses to restore it: %w", reply.Error)
	}
	u := &upload{ctx: ctx, nc: r.o.Conn, to: reply.Deliver, inbox: r.o.Conn.NewInbox(), in: make(chan *nats.Msg, 2*chunkWindow)}
	u.sub, err = u.nc.ChanSubscribe(u.inbox, u.in)
	return u, err
}

func (u *upload) close() { _ = u.sub.Unsubscribe() }

// Write implements io.Writer.
func (u *upload) Write(p []byte) (int, error) {
	u.pending.Write(p)
	for u.pending.Len() >= chunkBytes {
		if err := u.send(bytes.Clone(u.pending.Next(chunkBytes))); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

func (u *upload) send(chunk []byte) error {
	for u.flying >= chunkWindow {
		if err := u.land(); err != nil {
			return err
		}
	}
	if err := u.nc.PublishRequest(u.to, u.inbox, chunk); err != nil {
		return fmt.Errorf("send a part to the server: %w", err)
	}
	u.flying++
	return nil
}

// land awaits that the server has taken one chunk.
func (u *upload) land() error {
	m, err := u.next(chunkPatience)
	if err != nil {
		return err
	}
	u.flying--
	return restoreError(m)
}

func (u *upload) next(patience time.Duration) (*nats.Msg, error) {
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case m := <-u.in:
		return m, nil
	case <-t.C:
		return nil, fmt.Errorf("%w: the server that restores the stream has not answered for %s", ErrUnreachable, patience)
	case <-u.ctx.Done():
		return nil, u.ctx.Err()
	}
}

// restoreError is the error in what the server answers, if any.
func restoreError(m *nats.Msg) error {
	if len(m.Data) == 0 {
		if m.Header.Get("Status") == "503" {
			return fmt.Errorf("%w: the server that restores the stream has gone: restore again", ErrUnreachable)
		}
		return nil
	}
	var reply struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &reply); err != nil {
		return fmt.Errorf("unreadable answer of the server: %w", err)
	}
	if reply.Error != nil {
		return fmt.Errorf("the server can't restore it (nats-server 2.15 or later can): %w", reply.Error)
	}
	return nil
}

// end sends the rest, and returns once the server has all of it.
func (u *upload) end() error {
	if u.pending.Len() > 0 {
		if err := u.send(bytes.Clone(u.pending.Bytes())); err != nil {
			return err
		}
	}
	for u.flying > 0 {
		if err := u.land(); err != nil {
			return err
		}
	}
	if err := u.nc.PublishRequest(u.to, u.inbox, nil); err != nil {
		return fmt.Errorf("end the restore: %w", err)
	}
	m, err := u.next(finalPatience)
	if err != nil {
		return err
	}
	if len(m.Data) == 0 && m.Header.Get("Status") == "" {
		return errors.New("the server has ended the restore without an answer")
	}
	return restoreError(m)
}

// compare reads a restored stream back, and compares each message with the backup's.
func (r *restore) compare(ctx context.Context, p *part) error {
	back := make(chan Record, compareBatch)
	reading, stop := context.WithCancel(ctx)
	defer stop()
	var readErr error
	go func() {
		defer close(back)
		give := func(rec *Record) error {
			select {
			case back <- *rec:
				return nil
			case <-reading.Done():
				return reading.Err()
			}
		}
		if p.cfg.AllowDirect {
			readErr = r.readDirect(reading, p, give)
		} else {
			readErr = newReader(r.o.Conn, r.o.Names, p.cfg.Name).read(reading, p.first, p.last, nil, give)
		}
	}()
	report, n := r.progress("compare "), int64(0)
	err := r.each(ctx, p, func(rec *Record) error {
		if n++; n%progressEvery == 0 {
			report(p.kind, n, p.from.Records())
		}
		got, ok := <-back
		for ok && got.Seq < rec.Seq {
			return fmt.Errorf("it holds a message %d that the backup does not have", got.Seq)
		}
		if !ok || got.Seq != rec.Seq {
			if p.kind == Logs || p.kind == Output { // its limits may have dropped it
				return errLimited
			}
			lacks := fmt.Errorf("it lacks message %d after the restore", rec.Seq)
			if !ok { // the reading has ended
				lacks = errors.Join(lacks, readErr)
			}
			return lacks
		}
		if got.Subject != rec.Subject || !got.Time.Equal(rec.Time) || !bytes.Equal(got.Data, rec.Data) {
			return fmt.Errorf("its message %d is not that of the backup", rec.Seq)
		}
		return nil
	})
	stop()
	for range back {
	}
	if errors.Is(err, errLimited) {
		return nil
	}
	return err
}

// errLimited: the items' logs and outputs have limits of age, number and size, which apply at once.
var errLimited = errors.New("limited")

// readDirect reads a stream by batches of direct gets.
func (r *restore) readDirect(ctx context.Context, p *part, give func(*Record) error) error {
	subject, begun := r.o.Names.JetStream("DIRECT.GET."+p.cfg.Name), time.Now()
	for next := p.first; next <= p.last; {
		msgs, _, err := directget.Get(ctx, r.o.Conn, subject, directget.Request{Seq: max(next, 1), Batch: compareBatch, MaxBytes: compareBytes})
		if err != nil && (!errors.Is(err, directget.ErrUnreachable) || time.Since(begun) > comparePatience) {
			return err
		}
		for _, m := range msgs {
			rec := Record{Seq: m.Seq, Time: m.Time, Subject: m.Subject, Data: m.Data}
			if err := give(&rec); err != nil {
				return err
			}
			next, begun = m.Seq+1, time.Now()
		}
		if len(msgs) == 0 {
			if time.Since(begun) > comparePatience || p.kind != Events && err == nil {
				return err
			}
			if err := sleep.For(ctx, againAfter); err != nil {
				return err
			}
		}
	}
	return nil
}
