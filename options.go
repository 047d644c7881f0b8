package streamwright

import (
	"cmp"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/blobs"
	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/repeat"
	"github.com/streamwright/streamwright/wire"
)

// Defaults and bounds of a client.
const (
	DefaultTryTimeout     = 10 * time.Second // for the reply to one try
	DefaultPatience       = 2 * time.Second  // how long a query is tried again while no engine answers
	FailoverPatience      = 15 * time.Second // the same for a client that an engine has answered before: another one takes over
	DefaultConnectTimeout = 5 * time.Second  // for the first connection, if the context sets no earlier end
	DefaultInFlight       = 4                // bulk requests outstanding
	MaxInFlight           = 64
)

// waits are the waits between two tries of a request.
var waits = repeat.Backoff{Min: 25 * time.Millisecond, Max: 500 * time.Millisecond}

// Option changes how a client connects or behaves.
type Option func(*settings)

type settings struct {
	names      wire.Names
	namespace  string // empty: the one that names are of
	name       string
	tryTimeout time.Duration
	patience   time.Duration
	failover   time.Duration // patience of a client that has been answered
	onRetry    func(op string, err error)
	connect    connect.Settings
	nats       []nats.Option
	connecting []string // options that apply to a connection still to be made
	inline     int      // bytes of params that go with the submission
	maxBlob    int64    // bytes of a document in the object store
}

// connecting makes an option that applies to a connection still to be made.
func connecting(name string, set func(*settings)) Option {
	return func(s *settings) {
		s.connecting = append(s.connecting, name)
		set(s)
	}
}

func newSettings(opts []Option) settings {
	s := settings{names: wire.Default, name: "streamwright client", tryTimeout: DefaultTryTimeout, patience: DefaultPatience, failover: FailoverPatience, inline: events.MaxParamsBytes, maxBlob: blobs.DefaultMaxBytes}
	for _, o := range opts {
		o(&s)
	}
	s.names = s.names.In(s.connect.Domain)
	return s
}

// enter makes the names those of the namespace, if one is given.
func (s *settings) enter() error {
	if s.namespace == "" {
		return nil
	}
	ns, err := events.ParseNamespace(s.namespace)
	if err != nil {
		return events.WithCode(events.CodeBadConfig, err)
	}
	s.names = s.names.Namespace(ns)
	return nil
}

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

// WithPrefix speaks to the engine of another subject prefix than "work".
func WithPrefix(prefix string) Option {
	return func(s *settings) { s.names = wire.WithPrefix(prefix) }
}

// WithNamespace speaks to a namespace of the engine, such as "acme"; it is
// [DefaultNamespace] without. Connect and New refuse a name that can't be one. Whether the
// namespace exists, the first request shows.
func WithNamespace(namespace string) Option {
	return func(s *settings) { s.namespace = namespace }
}

// WithName names the connection in the server's monitoring.
func WithName(name string) Option {
	return connecting("WithName", func(s *settings) { s.name = name })
}

// WithTLS verifies the server against a CA file and, if cert and key are
// given, presents a client certificate. An empty ca is the system's.
func WithTLS(ca, cert, key string) Option {
	return connecting("WithTLS", func(s *settings) {
		s.connect.TLS, s.connect.CA, s.connect.Cert, s.connect.Key = true, ca, cert, key
	})
}

// WithNATS adds options of the NATS client to Connect. They come after the
// package's own, so they win.
func WithNATS(opts ...nats.Option) Option {
	return connecting("WithNATS", func(s *settings) { s.nats = append(s.nats, opts...) })
}

// WithTryTimeout bounds how long one try waits for its reply. Not positive:
// [DefaultTryTimeout].
func WithTryTimeout(d time.Duration) Option {
	return func(s *settings) {
		if s.tryTimeout = d; d <= 0 {
			s.tryTimeout = DefaultTryTimeout
		}
	}
}

// WithPatience bounds how long a query or an operator's request is tried again
// while no engine answers; 0 tries once. Without it that is [DefaultPatience], and
// [FailoverPatience] once the client has been answered. Submit, SubmitMany, Publish and Wait
// try until their context ends in any case.
func WithPatience(d time.Duration) Option {
	return func(s *settings) { s.patience, s.failover = max(d, 0), 0 }
}

// OnRetry sets a function that is called with the reason when a request is about to be
// tried again. It is called from the requesting goroutine and must not block.
func OnRetry(fn func(op string, err error)) Option {
	return func(s *settings) { s.onRetry = fn }
}

// WithInlineParams bounds the params that go with the submission itself, in
// bytes; larger ones go to the object store. Not positive: events.MaxParamsBytes.
// An engine whose max_params is another should be given that.
func WithInlineParams(n int) Option {
	return func(s *settings) {
		if s.inline = min(n, events.MaxParamsCeiling); n <= 0 {
			s.inline = events.MaxParamsBytes
		}
	}
}

// WithMaxDocument bounds a document in the object store that is put, or read
// into memory, in bytes. Not positive: blobs.DefaultMaxBytes.
func WithMaxDocument(n int64) Option {
	return func(s *settings) { s.maxBlob = n } // blobs.New has the default
}

// WithCredentials logs in with a NATS credentials file (JWT and seed). It is
// read again at each reconnect.
func WithCredentials(file string) Option {
	return connecting("WithCredentials", func(s *settings) { s.connect.Creds = file })
}

// WithNkey logs in with the nkey whose seed is in a file.
func WithNkey(file string) Option {
	return connecting("WithNkey", func(s *settings) { s.connect.Nkey = file })
}

// WithUser logs in with a name and a password.
func WithUser(name, password string) Option {
	return connecting("WithUser", func(s *settings) { s.connect.User, s.connect.Password, s.connect.PasswordFile = name, password, "" })
}

// WithUserFile logs in with a name and the password that is the first line of a
// file, which is read again at each reconnect.
func WithUserFile(name, passwordFile string) Option {
	return connecting("WithUserFile", func(s *settings) {
		s.connect.User, s.connect.Password, s.connect.PasswordFile = name, "", passwordFile
	})
}

// WithContext takes the server, if Connect is given none, the login, TLS files,
// JetStream domain and inbox prefix from a context of the nats program, by its
// name or the absolute path of its file. Other options take precedence.
func WithContext(name string) Option {
	return connecting("WithContext", func(s *settings) { s.connect.Context = name })
}

// WithDomain names the JetStream domain that has the engine's streams, for a
// client of a leaf node whose own JetStream is another or none.
func WithDomain(domain string) Option { return func(s *settings) { s.connect.Domain = domain } }

// WithInboxPrefix sets what the subjects of replies to this client begin with,
// which the user that it connects as must be permitted to subscribe to. Without
// it, a client that connects with a user's name takes the inbox that an
// engine's users have, _INBOX_ and the name, if the name has only letters,
// digits, - and _; any other takes _INBOX.
func WithInboxPrefix(prefix string) Option {
	return connecting("WithInboxPrefix", func(s *settings) {
		if prefix != "" {
			s.connect.InboxPrefix = prefix
		}
	})
}

// WithConnection sets all of this at once, for programs that read it from their
// command line or environment. It replaces what earlier options have set. The URL
// passed to Connect takes precedence over the URL in c.
func WithConnection(c connect.Settings) Option {
	return connecting("WithConnection", func(s *settings) { s.connect = c })
}
