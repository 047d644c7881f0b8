package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/internal/sleep"
	"github.com/streamwright/streamwright/wire"
)

// Bounds of reading a stream.
const (
	maxWindow   = 256      // messages asked for at once
	windowBytes = 16 << 20 // and roughly their bytes
	// silence is the time without any answer after which all that is open is asked again.
	silence = 5 * time.Second
	// maxSilences bounds them in a row: longer than an election takes.
	maxSilences = 12
	againAfter  = 250 * time.Millisecond
	// maxMissing is the number of sequences in a row that are found missing before the next
	// one that is there is asked for.
	maxMissing = 16
)

// ErrUnreachable means that the NATS server, or a stream's leader, does not answer.
var ErrUnreachable = errors.New("the stream can't be read")

// reader reads the messages of one stream, by a request each, which its leader answers.
type reader struct {
	nc     *nats.Conn
	get    string // subject of the requests
	stream string
}

func newReader(nc *nats.Conn, names wire.Names, stream string) *reader {
	return &reader{nc: nc, get: names.JetStream("STREAM.MSG.GET." + stream), stream: stream}
}

// answer is what the leader says of a sequence. missing: it is not there. again: ask
// once more.
type answer struct {
	rec     Record
	missing bool
	again   bool
	err     error
}

func readAnswer(m *nats.Msg) (a answer) {
	if len(m.Data) == 0 { // nobody answers just now
		return answer{again: true}
	}
	var reply struct {
		Error   *jetstream.APIError `json:"error"`
		Message *struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Header  []byte    `json:"hdrs"`
			Data    []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
	}
	if err := json.Unmarshal(m.Data, &reply); err != nil {
		return answer{err: fmt.Errorf("unreadable answer of the server: %w", err)}
	}
	switch {
	case reply.Error != nil && reply.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return answer{missing: true}
	case reply.Error != nil && reply.Error.Code >= 500:
		return answer{again: true}
	case reply.Error != nil:
		return answer{err: reply.Error}
	case reply.Message == nil:
		return answer{err: errors.New("unreadable answer of the server: it has no message")}
	}
	got := reply.Message
	a.rec = Record{Seq: got.Seq, Time: got.Time, Subject: got.Subject, Header: got.Header, Data: got.Data}
	return a
}

// fetch is one reading.
type fetch struct {
	r       *reader
	to      uint64
	next    uint64 // to be handed on
	asked   uint64 // the first that is not asked for
	window  uint64
	mean    uint64 // bytes of a message, of late
	missing int    // in a row

	inbox string
	sub   *nats.Subscription
	in    chan *nats.Msg
	got   map[uint64]answer
}

// read gives fn the messages from one sequence to another, both inclusive, in order.
// Those that are missing are skipped; gap, if not nil, hears of the first of each run of
// them, and ends the reading by an error.
func (r *reader) read(ctx context.Context, from, to uint64, gap func(seq uint64) error, fn func(*Record) error) error {
	f := &fetch{r: r, next: from, to: to, window: 16}
	defer f.leave()
	silences := 0
	for f.next <= f.to {
		before := f.next
		err := f.run(ctx, gap, fn)
		if err == nil || !errors.Is(err, errAgain) {
			return err
		}
		if f.next > before {
			silences = 0
		}
		if silences++; silences > maxSilences {
			return fmt.Errorf("%w: %s does not answer for message %d%s", ErrUnreachable, r.stream, f.next, refusal(r.nc))
		}
		if err := sleep.For(ctx, againAfter); err != nil {
			return err
		}
	}
	return nil
}

// refusal returns what the server has said against a connection's requests, for an error.
func refusal(nc *nats.Conn) string {
	if err := nc.LastError(); err != nil && strings.Contains(strings.ToLower(err.Error()), "permission") {
		return fmt.Sprintf(" (%v): a backup takes the role operate", err)
	}
	return ""
}

// errAgain has all that is open asked again.
var errAgain = errors.New("ask again")

func (f *fetch) leave() {
	if f.sub != nil {
		_ = f.sub.Unsubscribe()
	}
}

// run reads until the end, or until something must be asked again.
func (f *fetch) run(ctx context.Context, gap func(uint64) error, fn func(*Record) error) (err error) {
	f.leave()
	f.inbox, f.in = f.r.nc.NewInbox(), make(chan *nats.Msg, 4*maxWindow)
	f.got, f.asked = map[uint64]answer{}, f.next
	if f.sub, err = f.r.nc.ChanSubscribe(f.inbox+".*", f.in); err != nil {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	quiet := time.NewTimer(silence)
	defer quiet.Stop()
	for f.next <= f.to {
		if err := f.ask(); err != nil {
			return err
		}
		select {
		case m := <-f.in:
			if err := f.take(m); err != nil {
				return err
			}
			quiet.Reset(silence)
		case <-quiet.C:
			return errAgain
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := f.handOn(ctx, gap, fn); err != nil {
			return err
		}
	}
	return nil
}

// ask sends requests up to the window.
func (f *fetch) ask() error {
	for f.asked <= f.to && f.asked < f.next+f.window {
		n := strconv.FormatUint(f.asked, 10)
		if err := f.r.nc.PublishRequest(f.r.get, f.inbox+"."+n, []byte(`{"seq":`+n+`}`)); err != nil {
			return errAgain
		}
		f.asked++
	}
	return nil
}

// take notes an answer.
func (f *fetch) take(m *nats.Msg) error {
	seq, err := strconv.ParseUint(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:], 10, 64)
	if err != nil || seq < f.next {
		return nil // it was jumped over
	}
	a := readAnswer(m)
	switch {
	case a.again:
		return errAgain
	case a.err != nil:
		return fmt.Errorf("read message %d of %s: %w", seq, f.r.stream, a.err)
	}
	f.got[seq] = a
	return nil
}

// handOn gives fn what has come, in order.
func (f *fetch) handOn(ctx context.Context, gap func(uint64) error, fn func(*Record) error) error {
	for {
		a, ok := f.got[f.next]
		if !ok {
			return nil
		}
		delete(f.got, f.next)
		if a.missing {
			if f.missing == 0 && gap != nil {
				if err := gap(f.next); err != nil {
					return err
				}
			}
			f.next++
			if f.missing++; f.missing >= maxMissing {
				return f.jump(ctx)
			}
			continue
		}
		f.missing = 0
		f.next++
		if err := fn(&a.rec); err != nil {
			return err
		}
		f.resize(uint64(len(a.rec.Data) + len(a.rec.Header) + 256))
	}
}

// resize lets the window grow slowly, and shrink at once for large messages.
func (f *fetch) resize(size uint64) {
	f.mean = max(size, f.mean-f.mean/16+size/16)
	f.window = max(min(f.window+1, maxWindow, windowBytes/f.mean), 4)
}

// jump goes on with the next message that is there.
func (f *fetch) jump(ctx context.Context) error {
	if f.next > f.to {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	m, err := f.r.nc.RequestWithContext(ctx, f.r.get, fmt.Appendf(nil, `{"seq":%d,"next_by_subj":">"}`, f.next))
	if err != nil {
		return errAgain
	}
	switch a := readAnswer(m); {
	case a.again:
		return errAgain
	case a.err != nil:
		return fmt.Errorf("read %s behind message %d: %w", f.r.stream, f.next, a.err)
	case a.missing:
		f.next = f.to + 1
	default:
		f.next = max(f.next, a.rec.Seq)
	}
	f.asked, f.missing = max(f.asked, f.next), 0
	for seq := range f.got {
		if seq < f.next {
			delete(f.got, seq)
		}
	}
	return nil
}
