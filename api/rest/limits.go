package rest

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// Bounds of requests' time.
const (
	// RequestTime bounds an ordinary operation.
	RequestTime = 60 * time.Second
	// MaxWait bounds the waiting that a request asks for, and LongTime a request
	// that waits, or that replays the log.
	MaxWait  = 300 * time.Second
	LongTime = MaxWait + 15*time.Second
)

// paceKey is the key of the pace in an operation's metadata.
const paceKey = "pace"

// pace bounds the time of an operation's requests, and says what Stop does to them.
type pace int

// The paces. An operation that is registered with huma itself and says none is
// taken for one that waits.
const (
	ordinary pace = iota // at most RequestTime; Stop lets it end
	waiting              // at most LongTime; Stop ends it
	endless              // until its client leaves; Stop ends it
)

// paceOf returns the pace of an operation.
func paceOf(hc huma.Context) pace {
	if speed, said := hc.Operation().Metadata[paceKey].(pace); said {
		return speed
	}
	return waiting
}

// limit is the middleware that bounds an operation's time.
func (s *Server) limit(hc huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(hc)
	repliesJSON(w)                                   // but for the feeds, which say so
	r.Header.Set("Content-Type", "application/json") // whatever curl says of a body
	ctx, cancel := hc.Context(), context.CancelFunc(func() {})
	switch paceOf(hc) {
	case ordinary:
		if r.Body == nil || r.Body == http.NoBody {
			unhurried(w)
		}
		ctx, cancel = s.peaceful(hc)
	case waiting:
		unhurried(w)
		ctx, cancel = context.WithTimeout(ctx, LongTime)
	case endless:
		unhurried(w)
	}
	defer cancel()
	next(huma.WithContext(hc, ctx))
}

// repliesJSON says that a reply is JSON, and that nobody is to keep it.
func repliesJSON(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
}

// peaceful is the context of an ordinary request: it outlives the beginning of
// Stop, and ends when its client leaves, or its time is up.
func (s *Server) peaceful(hc huma.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(hc.Context()), RequestTime)
	forget := context.AfterFunc(hc.Context(), func() {
		if s.stopping.Err() == nil {
			cancel()
		}
	})
	return ctx, func() { forget(); cancel() }
}

// unhurried lifts the server's bound on the time in which a request is read: it
// would end a request that takes longer as if its client had left. A body has
// the time that [Server.bound] gives it.
func unhurried(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // not of a connection: a test's recorder
}
