package standing

import (
	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/repeat"
	"github.com/streamwright/streamwright/wire"
)

// FromEngine reports whether a message to a worker is the engine's. Others are answers of the
// NATS server to somebody who has named this subject for his reply.
func FromEngine(m *nats.Msg) bool { return m.Reply == "" && wire.ServerHeader(m.Header) == "" }

// Transient reports whether the refusal of a report or a registration may end by itself.
func Transient(c events.Code) bool {
	return repeat.Passes(c) || c == events.CodeInternal || c == events.CodeQueueFull || c == events.CodeRateLimited
}

// Over reports whether the refusal of a report says that the run does not count any
// more.
func Over(c events.Code) bool {
	switch c {
	case events.CodeStaleToken, events.CodeWrongState, events.CodeWrongAttempt, events.CodeWrongWorker, events.CodeNotFound:
		return true
	}
	return false
}
