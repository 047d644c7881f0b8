package streamwright

import (
	"cmp"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// WithCredentials logs in with a NATS credentials file (JWT and seed). It is
// read again at each reconnect.
func WithCredentials(file string) Option { return func(s *settings) { s.connect.Creds = file } }

// WithNkey logs in with the nkey whose seed is in a file.
func WithNkey(file string) Option { return func(s *settings) { s.connect.Nkey = file } }

// WithUser logs in with a name and a password.
func WithUser(name, password string) Option {
	return func(s *settings) { s.connect.User, s.connect.Password, s.connect.PasswordFile = name, password, "" }
}

// WithUserFile logs in with a name and the password that is the first line of a
// file, which is read again at each reconnect.
func WithUserFile(name, passwordFile string) Option {
	return func(s *settings) {
		s.connect.User, s.connect.Password, s.connect.PasswordFile = name, "", passwordFile
	}
}

// WithContext takes the server, if Connect is given none, the login, TLS files,
// JetStream domain and inbox prefix from a context of the nats program, by its
// name or the absolute path of its file, as far as other options don't set them.
func WithContext(name string) Option { return func(s *settings) { s.connect.Context = name } }

// WithDomain names the JetStream domain that has the engine's streams, for a
// client of a leaf node whose own JetStream is another or none.
func WithDomain(domain string) Option { return func(s *settings) { s.connect.Domain = domain } }

// WithInboxPrefix sets what the subjects of replies to this client begin with,
// which the user that it connects as must be permitted to subscribe to. Without
// it, a client that connects with a user's name takes the inbox that an
// engine's users have, _INBOX_ and the name, if the name has only letters,
// digits, - and _; any other takes _INBOX.
func WithInboxPrefix(prefix string) Option {
	return func(s *settings) {
		if prefix != "" {
			s.connect.InboxPrefix = prefix
		}
	}
}

// WithConnection sets all of this at once, as programs do that read it from
// their command line or environment. It replaces what other options before it
// have set. Connect's own URL counts before that of the settings.
func WithConnection(c connect.Settings) Option { return func(s *settings) { s.connect = c } }

// Names are those of the engine's subjects and streams that this client uses,
// for a worker on the same connection.
func (c *Client) Names() wire.Names { return c.set.names }

// resolve reads the context, if one is named, finds out the server's URL and
// makes the options of the login.
func (s *settings) resolve(url *string) ([]nats.Option, error) {
	c := s.connect
	c.URL = cmp.Or(*url, c.URL)
	c, err := c.Resolve()
	if err != nil {
		return nil, events.WithCode(events.CodeBadConfig, err)
	}
	*url = cmp.Or(c.URL, connect.DefaultURL)
	s.names = s.names.In(c.Domain)
	opts, err := c.Options()
	return opts, events.WithCode(events.CodeBadConfig, err)
}
