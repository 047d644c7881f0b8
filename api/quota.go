package api

import (
	"github.com/nats-io/nats.go/micro"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/access/quota"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

var errNobody = events.Refuse(events.CodeBadHeader, "the headers of the request can't be read, and so not who makes it: send well-formed ones")

// admit counts a request over NATS against its user's quota. One that waits, for
// an item or for events, is open until it is answered.
func (s *Service) admit(c *call, header micro.Headers) error {
	if s.Quotas == nil || s.Accounts == nil || !s.Accounts() {
		return nil
	}
	if len(header) == 0 {
		// The server has said who asks, but the header as a whole can't be read, or
		// there would be one.
		return errNobody
	}
	name, err := s.Names.User(header)
	if err != nil {
		return err
	}
	if known := name != ""; s.KnownUser != nil {
		if name, known = s.KnownUser(name); !known {
			return errNobody // the header is the client's own: the server's could not be read
		}
	} else if !known {
		return nil
	}
	roles := access.All
	if s.UserRoles != nil {
		roles = s.UserRoles(name)
	}
	c.user = s.Quotas.User(quota.NATS, name, roles)
	if access.Needs(c.endpoint) == access.RolesOf(access.Work) {
		return nil // to refuse a worker's word about its runs would cost a lease
	}
	if err := c.user.Request(); err != nil {
		return err
	}
	if c.endpoint != wire.APIWait && c.endpoint != wire.APIEvents {
		return nil
	}
	c.replied, err = c.user.Wait()
	return err
}
