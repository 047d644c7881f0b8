package eventlog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// ackBuffer bounds the acks that can wait to be taken: one of the append under way,
// and those of appends that were given up. An ack that finds no room is lost, as if it
// had come too late.
const ackBuffer = 16

// session is one append connection. It belongs to the appending goroutine,
// but for close. A session whose connection has broken once is never used
// again, even if it comes back: what was in flight then is unsettled.
type session struct {
	nc    *nats.Conn
	inbox string // of the acks, with a trailing dot
	acks  chan *nats.Msg
	down  chan nats.Status // something once the connection has broken
	stop  <-chan struct{}  // closed when the log is
	next  uint64           // token of the next ack
}

func newSession(connect func() (*nats.Conn, error), stop <-chan struct{}) (*session, error) {
	nc, err := connect()
	if err != nil {
		return nil, err
	}
	s := &session{nc: nc, inbox: nc.NewInbox() + ".", acks: make(chan *nats.Msg, ackBuffer), stop: stop}
	s.down = nc.StatusChanged(nats.DISCONNECTED, nats.RECONNECTING, nats.CLOSED)
	if _, err = nc.ChanSubscribe(s.inbox+"*", s.acks); err == nil {
		// The first append's ack must find the subscription, and a dial that came
		// back with no connection yet (nats.RetryOnFailedConnect) is no session.
		err = nc.Flush()
	}
	if err != nil {
		nc.Close()
		return nil, err
	}
	return s, nil
}

func (s *session) close() { s.nc.Close() }

// token names the reply subject of the next ack wanted.
func (s *session) token() string {
	s.next++
	return s.inbox + strconv.FormatUint(s.next, 36)
}

// The reasons for having no ack.
var (
	errConnectionLost = errors.New("the connection was lost")
	errAckTimeout     = errors.New("the server did not acknowledge it in time")
	errNoStream       = errors.New("no server holds the stream")
	errDeposed        = errors.New("another server leads the stream now, and has not acknowledged it")
)

// ack is the server's answer to a publish.
type ack struct {
	Seq   uint64    `json:"seq"`
	Error *apiError `json:"error"`
}

// await waits for the message on a reply subject; messages on others are
// stale and dropped.
func (s *session) await(ctx context.Context, token string, timeout time.Duration) (*nats.Msg, error) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for {
		select {
		case m := <-s.acks:
			if m.Subject == token {
				return m, nil
			}
		case <-s.down:
			return nil, errConnectionLost
		case <-s.stop:
			return nil, ErrClosed
		case <-timer.C:
			return nil, errAckTimeout
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// broken reports whether the connection has ever been lost.
func (s *session) broken() bool {
	select {
	case <-s.down:
		return true
	default:
		return !s.nc.IsConnected()
	}
}

func parseAck(m *nats.Msg) (ack, error) {
	if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
		return ack{}, errNoStream
	}
	if seq, ok := plainAck(m.Data); ok {
		return ack{Seq: seq}, nil
	}
	var a ack
	if err := json.Unmarshal(m.Data, &a); err != nil {
		return ack{}, fmt.Errorf("unreadable acknowledgement: %w", err)
	}
	return a, nil
}

// plainAck reads the acknowledgement that the server gives on its usual path,
// {"stream":"NAME","seq":N}, with a domain between if it has one, and nothing else.
func plainAck(b []byte) (uint64, bool) {
	const mark = `"seq":`
	i := bytes.LastIndex(b, []byte(mark))
	if i < 0 || !bytes.HasPrefix(b, []byte(`{"stream":"`)) || b[len(b)-1] != '}' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b[i+len(mark):len(b)-1]), 10, 64)
	return n, err == nil
}

// apiError is an error of the JetStream API.
type apiError struct {
	Status      int    `json:"code"`
	Code        int    `json:"err_code"`
	Description string `json:"description"`
}

func (e *apiError) Error() string { return fmt.Sprintf("%s (%d)", e.Description, e.Code) }

// The server's refusals that an append tells apart.
const (
	codeAccountResources = 10002
	codeResources        = 10023
	codeMemoryResources  = 10028
	codeStorageResources = 10047
	codeWrongLastSeq     = 10071
	codeStoreFailed      = 10077
)

func (e *apiError) fenced() bool {
	return e.Code == codeWrongLastSeq
}

// full covers the store's own refusals by limit ("maximum bytes exceeded"), but
// not its other refusals, such as that a store is being closed.
func (e *apiError) full() bool {
	switch e.Code {
	case codeAccountResources, codeResources, codeMemoryResources, codeStorageResources:
		return true
	case codeStoreFailed:
		return strings.HasPrefix(e.Description, "maximum")
	}
	return false
}

// found returns the sequence that a refusal names, 0 for none.
func (e *apiError) found() uint64 {
	if e.Code != codeWrongLastSeq {
		return 0
	}
	_, s, _ := strings.Cut(e.Description, ": ")
	n, err := strconv.ParseUint(strings.TrimSpace(s), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
