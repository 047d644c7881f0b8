package api

import (
	"context"
	"time"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/access/quota"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// maxDirectReply bounds the reply to a Call, in bytes.
const maxDirectReply = 64 << 20

// Call makes a request of an endpoint (wire.APISubmit and the like) from within
// the process, with the JSON that a NATS request has, and returns the reply's
// JSON, or what the request was refused for. The progress of long requests is
// not told. When ctx ends first, that is the error; what was submitted is
// decided all the same. It works from New on until Stop, and may be used by any
// number of goroutines.
func (s *Service) Call(ctx context.Context, endpoint string, body []byte) ([]byte, error) {
	h, ok := s.direct[endpoint]
	if !ok {
		return nil, events.Refuse(events.CodeNotFound, "the engine has no endpoint %q", endpoint)
	}
	type answer struct {
		data []byte
		err  *wire.Error
	}
	replies := make(chan answer, 1)
	var last answer // all but the last are progress
	c := &call{s: s, ctx: ctx, data: body, limit: maxDirectReply, endpoint: endpoint, start: time.Now()}
	c.respond = func(data []byte, err *wire.Error) { last = answer{data, err} }
	if id, ok := access.IdentityOf(ctx); ok && id != access.Anyone {
		c.user = s.Quotas.User(quota.HTTP, id.Name, id.Roles) // whose requests and waits the HTTP server counts
	}
	c.replied = func() { replies <- last }
	if !s.begin() {
		c.send(nil, errClosing)
		return nil, errClosing
	}
	h.serve(c)
	select {
	case a := <-replies:
		return a.data, a.err.Err()
	case <-ctx.Done():
		return nil, known(ctx.Err())
	}
}
