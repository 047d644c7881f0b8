package streamwright

import (
	"net/url"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/access"
)

// WithInboxPrefix sets what the subjects of replies to this client begin with,
// which the user that it connects as must be permitted to subscribe to. Without
// it, a client that connects with a user's name (in the URL, or by
// nats.UserInfo) takes the inbox that an engine's users have, _INBOX_ and the
// name, if the name has only letters, digits, - and _; any other takes _INBOX.
func WithInboxPrefix(prefix string) Option {
	return func(s *settings) {
		if prefix != "" {
			s.nats = append(s.nats, nats.CustomInboxPrefix(prefix))
		}
	}
}

// inbox are the options that give a connection the inbox of its user, unless
// it has one of its own.
func inbox(servers string, opts []nats.Option) []nats.Option {
	var o nats.Options
	for _, set := range opts {
		if set == nil || set(&o) != nil {
			return nil // connecting will tell
		}
	}
	if o.InboxPrefix != "" {
		return nil
	}
	user := o.User
	for _, s := range strings.Split(servers, ",") {
		if u, err := url.Parse(strings.TrimSpace(s)); err == nil && u.User != nil {
			if _, ok := u.User.Password(); ok { // a name alone is a token
				user = u.User.Username()
			}
		}
	}
	if prefix := access.InboxPrefix(user); prefix != "" {
		return []nats.Option{nats.CustomInboxPrefix(prefix)}
	}
	return nil
}
