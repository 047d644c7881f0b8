package streamwright

import (
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/blobs"
	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Defaults and bounds of a client.
const (
	DefaultTryTimeout     = 10 * time.Second // for the reply to one try
	DefaultPatience       = 2 * time.Second  // how long a query is tried again while no engine answers
	DefaultConnectTimeout = 5 * time.Second  // for the first connection, if the context sets no earlier end
	DefaultInFlight       = 4                // bulk requests outstanding
	MaxInFlight           = 64

	minBackoff = 25 * time.Millisecond // before the second try; doubled each time
	maxBackoff = 2 * time.Second
)

// Option changes how a client connects or behaves.
type Option func(*settings)

type settings struct {
	names      wire.Names
	name       string
	tryTimeout time.Duration
	patience   time.Duration
	onRetry    func(op string, err error)
	connect    connect.Settings
	nats       []nats.Option
	inline     int   // bytes of params that go with the submission
	maxBlob    int64 // bytes of a document in the object store
}

func newSettings(opts []Option) settings {
	s := settings{names: wire.Default, name: "streamwright client", tryTimeout: DefaultTryTimeout, patience: DefaultPatience, inline: events.MaxParamsBytes, maxBlob: blobs.DefaultMaxBytes}
	for _, o := range opts {
		o(&s)
	}
	s.names = s.names.In(s.connect.Domain)
	return s
}

// WithPrefix speaks to the engine of another subject prefix than "work".
func WithPrefix(prefix string) Option {
	return func(s *settings) { s.names = wire.WithPrefix(prefix) }
}

// WithName names the connection in the server's monitoring.
func WithName(name string) Option { return func(s *settings) { s.name = name } }

// WithTLS verifies the server against a CA file and, if cert and key are
// given, presents a client certificate. An empty ca is the system's.
func WithTLS(ca, cert, key string) Option {
	return func(s *settings) {
		s.connect.TLS, s.connect.CA, s.connect.Cert, s.connect.Key = true, ca, cert, key
	}
}

// WithNATS adds options of the NATS client to Connect. They come after the
// package's own, so they win.
func WithNATS(opts ...nats.Option) Option {
	return func(s *settings) { s.nats = append(s.nats, opts...) }
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
// while no engine answers; 0 tries once. Submit, SubmitMany, Publish and Wait
// are not concerned: they try until their context ends.
func WithPatience(d time.Duration) Option {
	return func(s *settings) { s.patience = max(d, 0) }
}

// OnRetry is told why a request is about to be tried again. It is called from
// the requesting goroutine and must not block.
func OnRetry(fn func(op string, err error)) Option {
	return func(s *settings) { s.onRetry = fn }
}
