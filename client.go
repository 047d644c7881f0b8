package streamwright

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/blobs"
	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/sleep"
	"github.com/streamwright/streamwright/wire"
)

// Client talks to an engine. Make one with [Connect] or [New], and Close it.
type Client struct {
	link
	js     jetstream.JetStream
	find   *connect.Finder
	blobs  *blobs.Store
	owned  bool // Close closes nc
	closed sync.Once
	ids    idSource
	seen   atomic.Uint64 // the highest position told
}

// A server that reads its accounts again, as when a namespace is added, hangs up on who is just
// connecting. Connect tries again so often, after a pause.
const (
	hangups     = 5
	hangupPause = 100 * time.Millisecond
)

// Connect connects to NATS servers, given as one URL or several separated by
// commas; the default is the URL of [WithContext], or nats://127.0.0.1:4222. It
// waits for the connection until ctx ends, at most DefaultConnectTimeout. If the
// connection is lost later, the client reconnects in the background, without
// limit. A server that has been silent for 15 seconds counts as lost, unless
// [WithNATS] sets other pings. Connect does not check that an engine is there: the
// first request does.
//
// The error is an *[Error] that says what was tried and what to do.
func Connect(ctx context.Context, url string, opts ...Option) (*Client, error) {
	set := newSettings(opts)
	login, err := set.resolve(&url)
	if err == nil {
		err = set.enter()
	}
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, endOf("connect", err, nil)
	}
	dial := &dialer{connecting: ctx}
	nopts := append([]nats.Option{
		nats.Name(set.name), nats.Timeout(DefaultConnectTimeout), nats.SetCustomDialer(dial), nats.MaxReconnects(-1),
		nats.ReconnectWait(250 * time.Millisecond), nats.ReconnectJitter(250*time.Millisecond, time.Second),
		connect.Alive,
	}, login...)
	nopts = append(nopts, set.nats...)
	nopts = append(nopts, connect.Inbox("", url, nopts)...)
	watched := watchDenials(nopts)
	nopts = append(nopts, nats.ErrorHandler(watched.handle))
	nc, err := nats.Connect(url, nopts...)
	for range hangups {
		if !errors.Is(err, io.EOF) || sleep.For(ctx, hangupPause) != nil {
			break
		}
		nc, err = nats.Connect(url, nopts...)
	}
	dial.connected()
	if ctx.Err() != nil {
		if nc != nil {
			nc.Close()
		}
		return nil, endOf("connect", ctx.Err(), connectError(url, cmp.Or(err, ctx.Err())))
	}
	if err != nil {
		return nil, connectError(url, err)
	}
	c, err := newClient(nc, set)
	if err != nil {
		nc.Close()
		return nil, err
	}
	c.owned = true
	c.denials = watched
	return c, nil
}

// New makes a client on a connection that the caller keeps and closes. It refuses options
// for connecting, such as a login, which that connection can't take any more.
func New(nc *nats.Conn, opts ...Option) (*Client, error) {
	set := newSettings(opts)
	if len(set.connecting) > 0 {
		return nil, events.Refuse(events.CodeBadConfig, "new client: the connection is there already, so %s can't apply to it: give it to nats.Connect, or let streamwright.Connect make the connection", strings.Join(set.connecting, ", "))
	}
	if err := set.enter(); err != nil {
		return nil, err
	}
	return newClient(nc, set)
}

func newClient(nc *nats.Conn, set settings) (*Client, error) {
	js, err := connect.JetStream(nc, set.names)
	if err != nil {
		return nil, events.Refuse(events.CodeInternal, "open JetStream: %v", err)
	}
	store, err := blobs.New(nc, set.names, set.maxBlob)
	if err != nil {
		return nil, events.Refuse(events.CodeInternal, "%v", err)
	}
	find := connect.NewFinder(nc, set.names)
	store.Locate(find.Names)
	c := &Client{
		link: link{nc: nc, set: set, done: make(chan struct{}), status: nc.StatusChanged(nats.RECONNECTING, nats.CLOSED)},
		js:   js, find: find, blobs: store,
	}
	c.lost.Store(&lostConn{make(chan struct{})})
	go c.watch()
	return c, nil
}

// In returns a client for another namespace of the engine, on the same connection and with the
// same options. The connection stays the first client's: closing the other one leaves it open.
func (c *Client) In(namespace string) (*Client, error) {
	set := c.set
	set.namespace = namespace
	if err := set.enter(); err != nil {
		return nil, err
	}
	in, err := newClient(c.nc, set)
	if err != nil {
		return nil, err
	}
	in.denials = c.denials
	return in, nil
}

// Close closes the connection, if Connect made it. Requests under way fail.
// It may be called again.
func (c *Client) Close() {
	c.closed.Do(func() {
		c.nc.RemoveStatusListener(c.status)
		if c.owned {
			c.nc.Close()
		}
	})
}

// Conn returns the NATS connection.
func (c *Client) Conn() *nats.Conn { return c.nc }

// Position returns the highest position that a reply to this client has had.
// The client's queries see everything up to it.
func (c *Client) Position() Position { return wire.PositionOf(events.Seq(c.seen.Load())) }

// ObservePosition makes later queries see at least everything up to p, a position
// that another client has, say. An invalid position is ignored.
func (c *Client) ObservePosition(p Position) {
	seq, err := p.Seq()
	if err != nil {
		return
	}
	for {
		old := c.seen.Load()
		if uint64(seq) <= old || c.seen.CompareAndSwap(old, uint64(seq)) {
			return
		}
	}
}

// Names returns the names of the engine's subjects and streams, for a worker on the
// same connection.
func (c *Client) Names() Names { return c.set.names }

// Namespace returns the namespace that the client speaks to.
func (c *Client) Namespace() Namespace { return c.set.names.InNamespace() }

// change makes a request that is answered with wire.Changed.
func (c *Client) change(ctx context.Context, op string, req any) (bool, error) {
	r, err := ask[wire.Changed](ctx, c, op, req)
	c.ObservePosition(r.Position)
	return r.Changed, err
}

// accepted returns the outcome of a submission. One that failed keeps the id
// under which to repeat it.
func (c *Client) accepted(id string, out Submitted, err error) (Submitted, error) {
	if err == nil {
		err = out.Error.Err()
	}
	if err != nil {
		return Submitted{ID: id}, err
	}
	c.ObservePosition(out.Position)
	return out, nil
}

// connectError explains why there is no connection and how to get one.
func connectError(servers string, err error) error {
	where := Redact(servers)
	var malformed *url.Error
	switch {
	case errors.As(err, &malformed):
		return events.Refuse(events.CodeBadRequest, "%s is no server URL (%v): write it as nats://host:port", where, malformed.Err)
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked):
		return events.Refuse(events.CodeUnauthenticated, "the NATS server at %s refused the login (%v): give credentials that it knows", where, err)
	case errors.Is(err, nats.ErrNoServers), errors.Is(err, nats.ErrTimeout), isDialError(err):
		return events.Refuse(events.CodeUnavailable, "no NATS server answers at %s (%v): start one with `engine serve`, or give the URL of one that runs (NATS_URL)", where, err)
	}
	return events.Refuse(events.CodeUnavailable, "connect to NATS at %s: %v: check the URL, the credentials and the TLS files", where, err)
}

func isDialError(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) || strings.Contains(err.Error(), "connection refused")
}

// Redact removes passwords and tokens from server URLs, for error texts.
func Redact(servers string) string {
	parts := strings.Split(servers, ",")
	for i, p := range parts {
		p = strings.TrimSpace(p)
		parts[i] = p
		if !strings.Contains(p, "@") {
			continue
		}
		if u, err := url.Parse(p); err == nil && u.Host != "" {
			u.User = url.User("***")
			parts[i] = strings.Replace(u.String(), "%2A%2A%2A", "***", 1)
		} else {
			parts[i] = "***" + p[strings.LastIndex(p, "@"):]
		}
	}
	return strings.Join(parts, ",")
}

// dialer makes the end of Connect's context end the first connection, which
// the NATS client by itself can't; reconnecting is bound by its timeout alone.
type dialer struct {
	mu         sync.Mutex
	connecting context.Context // nil once connected
	release    []func() bool
}

// Dial implements nats.CustomDialer.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	d.mu.Lock()
	ctx := d.connecting
	d.mu.Unlock()
	nd := net.Dialer{Timeout: DefaultConnectTimeout}
	if ctx == nil {
		return nd.Dial(network, address)
	}
	conn, err := nd.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	// A server that accepts and then says nothing must not outlast ctx either.
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	d.mu.Lock()
	d.release = append(d.release, stop)
	d.mu.Unlock()
	return conn, nil
}

// connected lets the connection outlive the context.
func (d *dialer) connected() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, stop := range d.release {
		stop()
	}
	d.connecting, d.release = nil, nil
}

// Errors to compare with by [errors.Is]: each matches every refusal with its
// code. The error that is returned says more, and may carry a RetryAfter: see
// [Error]. Codes that are not here are compared in the same way, with
// &Error{Code: code}.
var (
	ErrNotFound      error = &events.Error{Code: events.CodeNotFound}
	ErrWrongState    error = &events.Error{Code: events.CodeWrongState}
	ErrIDConflict    error = &events.Error{Code: events.CodeIDConflict}
	ErrQueueFull     error = &events.Error{Code: events.CodeQueueFull}
	ErrQuotaExceeded error = &events.Error{Code: events.CodeQuotaExceeded}
	ErrTooLarge      error = &events.Error{Code: events.CodeTooLarge}
	ErrUnavailable   error = &events.Error{Code: events.CodeUnavailable}
	ErrTimeout       error = &events.Error{Code: events.CodeTimeout}
	ErrUnauthorized  error = &events.Error{Code: events.CodeUnauthenticated}
	ErrForbidden     error = &events.Error{Code: events.CodeForbidden}
)
