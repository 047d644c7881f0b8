package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/streamwright/streamwright/events"
)

// Bounds of streams.
const (
	// MaxStreams bounds the feeds (events, followed logs) that are open at once.
	// More are refused with unavailable.
	MaxStreams = 256
	// WriteTime bounds the time for which a client may leave a part of its feed
	// unread. Then it is dropped; it comes back with Last-Event-ID and misses
	// nothing.
	WriteTime = 10 * time.Second
	// Heartbeat is the time between two comments of an idle feed, by which each
	// side knows that the other lives.
	Heartbeat = 15 * time.Second
	// streamBuffer is the number of records that a feed reads ahead of its writes.
	streamBuffer = 64
	// retryAfter is the time after which a dropped client comes back.
	retryAfter = time.Second
)

// errStreams refuses a feed beyond MaxStreams.
var errStreams = &events.Error{Code: events.CodeUnavailable, Message: fmt.Sprintf("the engine has %d feeds open, as many as it takes: close one, or ask again later", MaxStreams), RetryAfter: 5 * time.Second}

// streamed is the output of an operation that streams.
type streamed struct {
	Body func(huma.Context)
}

// enterStream takes a place among the feeds; leave gives it back.
func (s *Server) enterStream() (leave func(), err error) {
	select {
	case s.streams <- struct{}{}:
		return func() { <-s.streams }, nil
	default:
		return nil, errStreams
	}
}

// record is one event of a stream. One without a name is a comment.
type record struct {
	name string
	id   uint64 // 0: none
	data any
}

// stream writes records to a client; it belongs to the request's goroutine.
type stream struct {
	w         http.ResponseWriter
	rc        *http.ResponseController
	b         strings.Builder
	writeTime time.Duration
	heartbeat time.Duration
}

// openStream begins the reply.
func (srv *Server) openStream(hc huma.Context) (*stream, error) {
	_, w := humago.Unwrap(hc)
	s := &stream{w: w, rc: http.NewResponseController(w), writeTime: srv.writeTime, heartbeat: srv.heartbeat}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // proxies must pass it on at once
	w.WriteHeader(http.StatusOK)
	fmt.Fprintf(&s.b, "retry: %d\n\n", retryAfter.Milliseconds())
	return s, s.flush()
}

// add adds a record to what the next flush sends.
func (s *stream) add(r record) error {
	data, err := json.Marshal(r.data)
	if err != nil {
		return err
	}
	if r.id > 0 {
		fmt.Fprintf(&s.b, "id: %d\n", r.id)
	}
	fmt.Fprintf(&s.b, "event: %s\ndata: %s\n\n", r.name, data) // JSON has no line ends
	return nil
}

// flush sends what was added. A client that does not take it in time is given
// up, and so is its connection.
func (s *stream) flush() error {
	// Without a deadline (a test's recorder) nobody can stall.
	_ = s.rc.SetWriteDeadline(time.Now().Add(s.writeTime))
	_, err := s.w.Write([]byte(s.b.String()))
	s.b.Reset()
	if err != nil {
		return err
	}
	return s.rc.Flush()
}

// source gives the records of a feed to fn until ctx ends, or fn errs, or there
// are no more.
type source func(ctx context.Context, fn func(record) error) error

// pump sends what a source gives, in order and with none left out, until the
// source or the client ends, and comments while there is nothing. The source
// reads no further ahead than streamBuffer records.
func (s *stream) pump(ctx context.Context, from source) error {
	ctx, cancel := context.WithCancel(ctx)
	records, ended := make(chan record, streamBuffer), make(chan error, 1)
	go func() {
		err := from(ctx, func(r record) error {
			select {
			case records <- r:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		close(records)
		ended <- err
	}()
	err := s.send(records)
	cancel()
	for range records { // the source is not to hang on them
	}
	if serr := <-ended; err == nil {
		err = serr
	}
	return err
}

// send writes records until there are no more.
func (s *stream) send(records <-chan record) error {
	idle := time.NewTicker(s.heartbeat)
	defer idle.Stop()
	for {
		select {
		case r, more := <-records:
			if !more {
				return nil
			}
			idle.Reset(s.heartbeat)
			if err := s.sendBatch(r, records); err != nil {
				return err
			}
		case <-idle.C:
			s.b.WriteString(": alive\n\n")
			if err := s.flush(); err != nil {
				return err
			}
		}
	}
}

// sendBatch sends a record together with others that are waiting.
func (s *stream) sendBatch(r record, records <-chan record) error {
	for n := 1; ; n++ {
		if err := s.add(r); err != nil {
			return err
		}
		if n == streamBuffer {
			return s.flush()
		}
		var more bool
		select {
		case r, more = <-records:
		default:
		}
		if !more {
			return s.flush() // a closed channel is seen again by send
		}
	}
}
