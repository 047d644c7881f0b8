package streamwright

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/sleep"
	"github.com/streamwright/streamwright/wire"
)

// ask sends a request that may be repeated, and reads the reply into a T. It
// tries again for the client's patience while no engine can answer.
func ask[T any](ctx context.Context, c *Client, op string, req any) (T, error) {
	return askFor[T](ctx, c, op, req, c.set.tryTimeout, c.set.patience)
}

// forever is the patience of what is tried until its context ends.
const forever = time.Duration(1<<63 - 1)

func askFor[T any](ctx context.Context, c *Client, op string, req any, try, patience time.Duration) (T, error) {
	var reply T
	body, err := json.Marshal(req)
	if err != nil {
		return reply, events.Refuse(events.CodeBadRequest, "write the %s request: %v", op, err)
	}
	err = c.retry(ctx, op, patience, func(ctx context.Context) error {
		data, err := c.once(ctx, op, body, try)
		if err != nil {
			return err
		}
		var fresh T
		if err := json.Unmarshal(data, &fresh); err != nil {
			return unreadable(op, err)
		}
		reply = fresh
		return nil
	})
	return reply, err
}

// retry calls try until it succeeds, is refused for good, ctx ends, or no
// engine could be reached for longer than patience.
func (c *Client) retry(ctx context.Context, op string, patience time.Duration, try func(context.Context) error) error {
	start, backoff := time.Now(), minBackoff
	var last error
	for {
		if err := ctx.Err(); err != nil {
			return endOf(op, err, last)
		}
		err := try(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return endOf(op, ctx.Err(), telling(last, err))
		}
		wait, again := worthAnother(err, backoff)
		if !again || time.Since(start)+wait > patience {
			return err
		}
		if c.set.onRetry != nil {
			c.set.onRetry(op, err)
		}
		last, backoff = err, min(2*backoff, maxBackoff)
		if err := sleep.For(ctx, wait); err != nil {
			return endOf(op, err, last)
		}
	}
}

// telling prefers what was learnt from an earlier try over an error that may
// only be the context's.
func telling(earlier, now error) error {
	mute := errors.Is(now, context.Canceled) || events.CodeOf(now) == events.CodeTimeout
	if mute && (earlier != nil || errors.Is(now, context.Canceled)) {
		return earlier
	}
	return now
}

// worthAnother reports whether a failed try may be repeated, and returns the wait before it.
func worthAnother(err error, backoff time.Duration) (time.Duration, bool) {
	var e *events.Error
	if !errors.As(err, &e) || e.Code != events.CodeUnavailable && e.Code != events.CodeTimeout {
		return 0, false
	}
	wait := backoff/2 + rand.N(backoff/2)
	return max(wait, min(e.RetryAfter, time.Minute)), true
}

// once sends one request and waits for its reply, at most timeout. What comes
// back is the body of a reply that is no refusal.
func (c *Client) once(ctx context.Context, op string, body []byte, timeout time.Duration) ([]byte, error) {
	if most := c.nc.MaxPayload(); most > 0 && int64(len(body)) > most {
		return nil, events.Refuse(events.CodeTooLarge, "the %s request has %d bytes: the NATS server takes at most %d", op, len(body), most)
	}
	ctx, cancel := c.trying(ctx, c.set.names.API(op), timeout)
	defer cancel()
	msg, err := c.nc.RequestWithContext(ctx, c.set.names.API(op), body)
	if err != nil {
		return nil, c.failed(op, lostOr(ctx, err))
	}
	return content(op, msg)
}

// content is the body of a reply, or the refusal in it.
func content(op string, msg *nats.Msg) ([]byte, error) {
	if e := refusal(msg); e != nil {
		return nil, e
	}
	if len(msg.Data) == 0 {
		return nil, events.Refuse(events.CodeInternal, "the engine's reply to %s is empty", op)
	}
	return msg.Data, nil
}

// refusal is the error that a reply carries, nil for none. An error reply is
// an object with nothing but "error": an item has a field of that name too.
func refusal(msg *nats.Msg) error {
	if body := bytes.TrimLeft(msg.Data, " \t\r\n"); bytes.HasPrefix(body, []byte(`{"error"`)) {
		var all map[string]json.RawMessage
		var e wire.Error
		if json.Unmarshal(body, &all) == nil && len(all) == 1 && json.Unmarshal(all["error"], &e) == nil && e.Code != "" {
			return e.Err()
		}
	}
	if text := msg.Header.Get(micro.ErrorHeader); text != "" {
		return events.Refuse(events.CodeInternal, "the engine answered: %s", text)
	}
	return nil
}

// failed turns what the NATS client says of one try into an *events.Error.
func (c *Client) failed(op string, err error) error {
	var refused *events.Error
	switch {
	case errors.As(err, &refused):
		return err
	case errors.Is(err, nats.ErrNoResponders):
		return events.Refuse(events.CodeUnavailable, "no engine answers on %s at %s: is `engine serve` running there?", c.set.names.API("*"), c.where())
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return events.Refuse(events.CodeTimeout, "no reply to %s from the engine at %s in time", op, c.where())
	case errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrConnectionDraining):
		return events.Refuse(events.CodeInternal, "the client is closed")
	case errors.Is(err, nats.ErrMaxPayload):
		return events.Refuse(events.CodeTooLarge, "the %s request is larger than the NATS server takes (%d bytes)", op, c.nc.MaxPayload())
	case errors.Is(err, context.Canceled):
		return err
	}
	return events.Refuse(events.CodeUnavailable, "%s at %s: %v", op, c.where(), err)
}

// where names the servers for an error text.
func (c *Client) where() string {
	if u := c.nc.ConnectedUrlRedacted(); u != "" {
		return u
	}
	if s := c.nc.Servers(); len(s) > 0 {
		return Redact(s[0]) + " (connection lost)"
	}
	return "the NATS server"
}

// ended is an *events.Error for a request whose context ended first. It
// matches the context's error as well.
type ended struct{ refused, cause error }

func (e *ended) Error() string   { return e.refused.Error() }
func (e *ended) Unwrap() []error { return []error{e.refused, e.cause} }

// endOf says that a context ended, and what the last try had met.
func endOf(op string, cause, last error) error {
	text := fmt.Sprintf("%s: gave up waiting (%v)", op, cause)
	if last != nil {
		text = fmt.Sprintf("%s; the last try: %v", text, message(last))
	}
	return &ended{refused: &events.Error{Code: events.CodeTimeout, Message: text}, cause: cause}
}

func message(err error) string {
	var e *events.Error
	if errors.As(err, &e) {
		return e.Message
	}
	return err.Error()
}

func unreadable(op string, err error) error {
	return events.Refuse(events.CodeInternal, "the engine's reply to %s can't be read (%v): is it another version?", op, err)
}

// errLost ends a try whose request or reply may have gone with the connection.
var errLost = errors.New("the connection was lost")

// lostOr returns the reason if a try was ended before its time, else its error.
func lostOr(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	var refused *events.Error
	if errors.Is(cause, errLost) || errors.As(cause, &refused) {
		return cause
	}
	return err
}

// trying is the context of one try: it ends after timeout, when the connection
// is lost, and when the server refuses what the try needs: the subject of its
// request (empty: one of JetStream's), or an inbox.
func (c *Client) trying(ctx context.Context, subject string, timeout time.Duration) (context.Context, context.CancelFunc) {
	return c.tryingSince(ctx, c.denials.next(), subject, timeout)
}

// tryingSince is trying for a request that went out when refused was the
// denial to come next.
func (c *Client) tryingSince(ctx context.Context, refused *denial, subject string, timeout time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	ctx, stop := context.WithTimeout(ctx, timeout)
	lost := c.lost.Load().ch
	go func() {
		for {
			select {
			case <-refused.told:
				if refused.concerns(subject) {
					cancel(refused.err)
					return
				}
				refused = refused.after
			case <-lost:
				cancel(errLost)
				return
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, func() { stop(); cancel(nil) }
}

// denials tells the tries under way what the server has refused for want of a
// permission. It does so beside the request, which it leaves without a reply:
// else a try would learn nothing and wait until its time is over.
type denials struct {
	then nats.ErrHandler // whoever else wants to know

	mu   sync.Mutex
	last *denial // that is still to come; guarded by mu
}

// denial is one that has come, once told is closed; until then its other
// fields are not to be read.
type denial struct {
	told    chan struct{}
	after   *denial // the next one
	publish bool    // else a subscription
	subject string
	err     error
}

// watchDenials takes over the error handler that is among the options.
func watchDenials(opts []nats.Option) *denials {
	r := &denials{last: &denial{told: make(chan struct{})}, then: printError}
	var o nats.Options
	for _, set := range opts {
		if set == nil || set(&o) != nil {
			return r // connecting will tell
		}
	}
	if o.AsyncErrorCB != nil {
		r.then = o.AsyncErrorCB
	}
	return r
}

// printError does what the NATS client does without a handler.
func printError(_ *nats.Conn, sub *nats.Subscription, err error) {
	if sub != nil {
		fmt.Fprintf(os.Stderr, "NATS: %v (subscription to %s)\n", err, sub.Subject)
		return
	}
	fmt.Fprintf(os.Stderr, "NATS: %v\n", err)
}

var violation = regexp.MustCompile(`(?i)permissions violation for (publish|subscription) to "([^"]+)"`)

// handle is the connection's error handler.
func (r *denials) handle(nc *nats.Conn, sub *nats.Subscription, err error) {
	if m := violation.FindStringSubmatch(err.Error()); m != nil && errors.Is(err, nats.ErrPermissionViolation) {
		publish := strings.EqualFold(m[1], "publish")
		if publish || isInbox(nc, m[2]) { // a denied feed is told to its subscription alone
			r.tell(publish, m[2])
		}
	}
	r.then(nc, sub, err)
}

// isInbox reports whether a subject is one on which the connection hears replies.
func isInbox(nc *nats.Conn, subject string) bool {
	prefix := nats.InboxPrefix
	if nc != nil && nc.Opts.InboxPrefix != "" {
		prefix = nc.Opts.InboxPrefix + "."
	}
	return strings.HasPrefix(subject, prefix)
}

func (r *denials) tell(publish bool, subject string) {
	err := events.Refuse(events.CodeForbidden, "the NATS server does not let this user subscribe to %q: give it an inbox that it may have (--inbox-prefix, WithInboxPrefix), or the permissions of its role (engine permissions)", subject)
	if publish {
		err = events.Refuse(events.CodeForbidden, "the NATS server does not let this user publish to %q: give it the permissions of a role that may (engine permissions)", subject)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	come := r.last
	r.last = &denial{told: make(chan struct{})}
	come.publish, come.subject, come.err, come.after = publish, subject, err, r.last
	close(come.told)
}

// next is the denial that comes next. A nil receiver is told of none.
func (r *denials) next() *denial {
	if r == nil {
		return &denial{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// concerns reports whether what has been refused is needed for a request on a
// subject; the empty one stands for those that go to JetStream.
func (f *denial) concerns(subject string) bool {
	switch {
	case !f.publish:
		return true // an inbox
	case subject == "":
		return strings.HasPrefix(f.subject, "$")
	}
	return f.subject == subject
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
