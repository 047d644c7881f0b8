package rest

import (
	"net/http"
	"sync/atomic"
	"time"
)

// reply writes to a client that has to take each part in time: else the write fails, and the
// connection is closed. A handler that sets a deadline goes by its own from then on.
type reply struct {
	http.ResponseWriter
	rc       *http.ResponseController // of ResponseWriter
	patience time.Duration            // for each part of at most documentPart bytes
	own      atomic.Bool              // the handler sets its deadlines
}

// Unwrap is for http.ResponseController.
func (r *reply) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// SetWriteDeadline is for http.ResponseController.
func (r *reply) SetWriteDeadline(at time.Time) error {
	r.own.Store(true)
	return r.rc.SetWriteDeadline(at)
}

// Write implements io.Writer.
func (r *reply) Write(p []byte) (n int, err error) {
	for {
		r.renew()
		part := p[:min(len(p), documentPart)]
		m, err := r.ResponseWriter.Write(part)
		n += m
		if p = p[len(part):]; err != nil || len(p) == 0 {
			return n, err
		}
	}
}

// renew gives the client time for what is written next.
func (r *reply) renew() {
	if !r.own.Load() {
		_ = r.rc.SetWriteDeadline(time.Now().Add(r.patience)) // not of a connection: a test's recorder
	}
}
