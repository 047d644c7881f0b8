package embedded

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/events"
)

// outside reaches the NATS server that the engine uses, if it embeds none. It may
// be used by any goroutine.
type outside struct {
	cfg        config.Config
	options    []nats.Option
	log        *slog.Logger
	denied     denied
	execDenied denied // to the login of [connect.exec]
}

// resolve reads the context that is named and the server's URL into the
// configuration.
func (b *base) resolve() error {
	b.outside = &outside{options: b.o.NATSOptions, log: b.log}
	defer func() { b.outside.cfg = b.cfg }()
	if !b.cfg.External() || b.o.Memory && b.cfg.Server.NATSURL == "" {
		return nil
	}
	c := b.cfg.Connect
	err := error(nil)
	if b.cfg.Server.NATSURL != "" {
		c.URL = b.cfg.Server.NATSURL
		err = c.Check("the configuration")
	}
	if err == nil {
		c, err = c.Resolve()
	}
	if err == nil {
		_, err = c.Options()
	}
	if err != nil {
		return fmt.Errorf("connect to NATS: %w", err)
	}
	b.cfg.Server.NATSURL = cmp.Or(c.URL, connect.DefaultURL)
	c.Context, c.URL = "", ""
	b.cfg.Connect = c
	return nil
}

// outsideTimeout bounds a connection to an existing NATS. A server that is busy
// takes its time with the hash of a password.
const outsideTimeout = 10 * time.Second

// connection returns how the server is reached, with its URL.
func (o *outside) connection() connect.Settings {
	c := o.cfg.Connect
	c.URL = o.cfg.Server.NATSURL
	return c
}

// connect opens a connection of the engine's.
func (o *outside) connect(opts []nats.Option) (*nats.Conn, error) {
	return o.connectAs(o.connection(), "[connect], or --creds, --nkey, --user, --tlscert", slices.Concat(o.options, opts))
}

// connectExec opens a connection for a type's command: with a login of its own
// if there is one.
func (o *outside) connectExec(opts ...nats.Option) (*nats.Conn, error) {
	s, own := o.cfg.ExecConnection(o.connection())
	if !own {
		return o.connect(opts)
	}
	handler := o.execDenied.handler(o.log, "the NATS server refuses the types' commands what they need: give the user of [connect.exec] the role work (`engine permissions --user NAME=work`)")
	return o.connectAs(s, "[connect.exec]", append([]nats.Option{nats.ErrorHandler(handler)}, opts...))
}

// connectAs opens a connection; place names the setting with its login.
func (o *outside) connectAs(s connect.Settings, place string, opts []nats.Option) (*nats.Conn, error) {
	all, err := s.Options()
	if err != nil {
		return nil, events.WithCode(events.CodeBadConfig, fmt.Errorf("connect to NATS: %w", err))
	}
	all = append(all, nats.ErrorHandler(o.denied.handler(o.log, "the NATS server refuses the engine what it needs: give its user the permissions that `engine permissions` prints for it")), nats.Timeout(outsideTimeout), connect.Alive)
	all = append(all, opts...)
	all = append(all, connect.Inbox(s.User, s.URL, all)...)
	where := streamwright.Redact(s.URL)
	nc, err := nats.Connect(s.URL, all...)
	switch {
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked):
		return nil, events.WithCode(events.CodeUnauthenticated, fmt.Errorf("connect to NATS at %s: it refused the login (%w): give credentials that it knows (%s)", where, err, place))
	case err != nil:
		return nil, events.WithCode(events.CodeUnavailable, fmt.Errorf("connect to NATS at %s: %w: start it, or correct nats_url", where, err))
	}
	return nc, nil
}

var violation = regexp.MustCompile(`(?i)permissions violation for (publish|subscription) to ("[^"]+")`)

// maxDenied bounds the refusals that are logged.
const maxDenied = 16

// denied are the subjects that a NATS server has refused to the engine.
type denied struct {
	mu  sync.Mutex
	all []string // guarded by mu; the first maxDenied
}

// handler returns the error handler of a connection: it logs each refusal once, with
// hint, and everything else.
func (d *denied) handler(log *slog.Logger, hint string) nats.ErrHandler {
	return func(_ *nats.Conn, sub *nats.Subscription, err error) {
		if m := violation.FindStringSubmatch(err.Error()); m != nil {
			if d.note(m[1] + " to " + m[2]) {
				log.Error(hint, "refused", m[1]+" to "+m[2])
			}
			return
		}
		subject := ""
		if sub != nil {
			subject = sub.Subject
		}
		log.Warn("NATS", "error", err, "subscription", subject)
	}
}

// note records a refusal and reports whether to log it.
func (d *denied) note(what string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.all) == maxDenied || slices.Contains(d.all, what) {
		return false
	}
	d.all = append(d.all, what)
	return true
}

// any reports whether anything was refused.
func (d *denied) any() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.all) > 0
}

// explain adds the first refusal to an error, as its most likely cause: a
// refused request just gets no reply.
func (d *denied) explain(err error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.all) == 0 {
		return err
	}
	return events.WithCode(events.CodeForbidden, fmt.Errorf("%w: the NATS server does not let the engine %s: give its user the permissions that `engine permissions` prints for it", err, d.all[0]))
}
