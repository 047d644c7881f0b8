package eventlog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// Append implements Log.
func (l *JetStream) Append(ctx context.Context, after uint64, w *Write) (Appended, error) {
	l.appending.Lock()
	defer l.appending.Unlock()
	if l.readOnly {
		return Appended{}, fmt.Errorf("append %d events: %w", len(w.Events), ErrReadOnly)
	}
	s, err := l.session()
	if errors.Is(err, ErrClosed) {
		return Appended{}, err
	}
	ambiguous := func(cause error) (Appended, error) {
		l.abandon()
		return Appended{}, &AmbiguousError{Expected: after, Count: len(w.Events), Cause: cause}
	}
	switch {
	case err != nil:
		return ambiguous(err)
	case s.broken():
		return ambiguous(errConnectionLost)
	case ctx.Err() != nil:
		return Appended{}, ctx.Err()
	}
	m, err := l.enc.encode(w, s.nc.MaxPayload())
	if err != nil {
		return Appended{}, err
	}
	m.Header[nats.ExpectedLastSeqHdr] = []string{strconv.FormatUint(after, 10)}
	m.Reply = s.token()
	led := l.led.Load()
	if err := s.nc.PublishMsg(m); err != nil {
		return ambiguous(err)
	}
	k, err := l.await(ctx, s, m.Reply, led)
	switch {
	case err != nil:
		return ambiguous(err)
	case k.Error == nil && k.Seq == after+1:
		return appended(k.Seq, w, m), nil
	case k.Error == nil: // it can't be: the position was compared
		l.abandon()
		return Appended{}, &CorruptError{Frame: after + 1, Reason: fmt.Sprintf("an append was acknowledged as stored at %d", k.Seq)}
	case k.Error.fenced():
		return Appended{}, &FencedError{Expected: after, Found: k.Error.found(), Detail: k.Error.Description}
	case k.Error.full():
		return Appended{}, &FullError{Expected: after, Detail: k.Error.Error()}
	}
	return ambiguous(k.Error)
}

// await waits for the ack on a reply subject; an error means that there is none. On a
// replicated stream it gives up when it finds that another server leads than led: the last
// leader drops what reaches it too late, without a word.
func (l *JetStream) await(ctx context.Context, s *session, token string, led int64) (ack, error) {
	for end := time.Now().Add(l.cfg.AckTimeout); ; {
		wait := time.Until(end)
		if l.replicated {
			wait = min(slowAck, wait)
		}
		m, err := s.await(ctx, token, wait)
		switch {
		case err == nil:
			return parseAck(m)
		case !errors.Is(err, errAckTimeout) || !time.Now().Before(end):
			return ack{}, err
		case l.deposed(ctx, led):
			return ack{}, errDeposed
		}
	}
}

// FrameBytes returns how many bytes of events a frame may have where the server takes so
// many a message: half of them.
func FrameBytes(maxPayload int64) int {
	return int(maxPayload/2) - frameRoom
}
