package rest

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/streamwright/streamwright/events"
)

// Bounds of requests' bodies.
const (
	// MaxBodyBytes bounds the body of a request: what NATS would carry.
	MaxBodyBytes = 8 << 20
	// LargeBody is the size, in bytes, from which a body counts as large.
	// MaxLargeBodies bounds the requests with a large body that are in memory at
	// once; more are refused with "unavailable" before they are read.
	LargeBody      = 256 << 10
	MaxLargeBodies = 32
)

var errTooManyBodies = &events.Error{
	Code: events.CodeUnavailable, RetryAfter: time.Second,
	Message: "too many large requests at once: send it again in a moment, or send large documents to /api/v1/blobs",
}

// body is the body of a request, which is read into memory as a whole: it has
// at most MaxBodyBytes, comes in the server's time, and has a place among the
// large ones once it is one. It is read by one goroutine.
type body struct {
	io.ReadCloser               // of at most MaxBodyBytes
	places        chan struct{} // holds one for each large body
	header        http.Header   // of the reply
	deadline      func(time.Time) error
	patience      time.Duration // for all of it
	declared      int64
	read          int64
	most          int64 // fewer than MaxBodyBytes, if set
	begun, large  bool
	err           error
}

// bound gives a request such a body. The caller calls the function that it returns
// once the request has been answered.
func (s *Server) bound(w http.ResponseWriter, r *http.Request) (*http.Request, func()) {
	if r.Body == nil || r.Body == http.NoBody || isUpload(r) {
		return r, func() {}
	}
	if to, ok := w.(*reply); ok {
		w = to.ResponseWriter // MaxBytesReader has the server close the connection
	}
	b := &body{
		ReadCloser: http.MaxBytesReader(w, r.Body, MaxBodyBytes), places: s.bodies, declared: r.ContentLength, header: w.Header(),
		deadline: http.NewResponseController(w).SetReadDeadline, patience: s.readTime,
	}
	copied := *r
	copied.Body = b
	return &copied, b.forget
}

// Read implements io.Reader. Its error is an *events.Error where there is no
// place.
func (b *body) Read(p []byte) (int, error) {
	if !b.begun {
		b.begun = true
		_ = b.deadline(time.Now().Add(b.patience)) // not of a connection: a test's recorder
	}
	size := max(b.read, b.declared)
	switch {
	case b.most > 0 && size > b.most:
		b.err = &http.MaxBytesError{Limit: b.most}
	case b.err != nil || b.large || size <= LargeBody:
	case b.declared > MaxBodyBytes:
		b.err = &http.MaxBytesError{Limit: MaxBodyBytes}
	default:
		select {
		case b.places <- struct{}{}:
			b.large = true
		default:
			b.err = errTooManyBodies
			problemOf(b.err).headers(b.header) // huma does not
		}
	}
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	if errors.Is(err, io.EOF) {
		// What the request waits for from now on is not its body: the deadline would
		// end it as if its client had left.
		_ = b.deadline(time.Time{})
	}
	return n, err
}

// forget gives the place back.
func (b *body) forget() {
	if b.large {
		b.large = false
		<-b.places
	}
}
