package dispatcher

import (
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// runHeader is the header of dispatched messages. Its memory is used again by
// the next, since publishing copies; the zero value is ready.
type runHeader struct {
	h nats.Header

	id, typ, attempt, token, lease, timeout, trace [1]string
	leaseOf, timeoutOf                             time.Duration // of the texts
}

// fill makes it the header of an item's dispatch. It is valid until the next
// call.
func (r *runHeader) fill(it *events.Item, token events.Token, lease time.Duration, trace string) nats.Header {
	if r.h == nil {
		r.lease[0], r.timeout[0] = r.leaseOf.String(), r.timeoutOf.String()
		r.h = nats.Header{
			wire.HeaderID: r.id[:], wire.HeaderType: r.typ[:], wire.HeaderAttempt: r.attempt[:], wire.HeaderToken: r.token[:],
			wire.HeaderLease: r.lease[:], wire.HeaderDeadline: r.timeout[:],
		}
	}
	if lease != r.leaseOf {
		r.leaseOf, r.lease[0] = lease, lease.String()
	}
	if it.Timeout != r.timeoutOf {
		r.timeoutOf, r.timeout[0] = it.Timeout, it.Timeout.String()
	}
	r.id[0], r.typ[0], r.attempt[0], r.token[0], r.trace[0] = it.ID.String(), string(it.Type), strconv.Itoa(int(it.Attempt)+1), token.String(), trace
	if len(it.Labels) > 0 {
		r.h[wire.HeaderLabels] = wire.LabelHeader(it.Labels)
	} else {
		delete(r.h, wire.HeaderLabels)
	}
	if trace != "" {
		r.h[wire.HeaderTrace] = r.trace[:]
	} else {
		delete(r.h, wire.HeaderTrace)
	}
	return r.h
}
