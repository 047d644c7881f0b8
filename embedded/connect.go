package embedded

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/events"
)

// connection lays the options' connection over the configuration's.
func (o Options) connection(file connect.Settings) connect.Settings {
	own := o.Connect
	own.URL = ""
	return connect.Merge(own, file)
}

// resolveConnection reads the context that is named, and tells the server's URL.
func (e *Engine) resolveConnection() error {
	if !e.cfg.External() || e.o.Memory && e.cfg.Server.NATSURL == "" {
		return nil
	}
	c := e.cfg.Connect
	if e.cfg.Server.NATSURL != "" {
		c.URL = e.cfg.Server.NATSURL
		if err := c.Check("the configuration"); err != nil {
			return fmt.Errorf("connect to NATS: %w", err)
		}
	}
	c, err := c.Resolve()
	if err != nil {
		return fmt.Errorf("connect to NATS: %w", err)
	}
	if _, err := c.Options(); err != nil {
		return fmt.Errorf("connect to NATS: %w", err)
	}
	e.cfg.Server.NATSURL = cmp.Or(c.URL, connect.DefaultURL)
	c.Context, c.URL = "", ""
	e.cfg.Connect = c
	return nil
}

// outsideTimeout bounds a connection to an existing NATS. A server that is busy
// takes its time with the hash of a password.
const outsideTimeout = 10 * time.Second

// connectOutside opens a connection of the engine's to the existing NATS.
func (e *Engine) connectOutside(opts []nats.Option) (*nats.Conn, error) {
	return e.connectAs(e.connection(), "[connect], or --creds, --nkey, --user, --tlscert", append(e.o.NATSOptions[:len(e.o.NATSOptions):len(e.o.NATSOptions)], opts...))
}

// connection is how the existing NATS is reached, with its URL.
func (e *Engine) connection() connect.Settings {
	c := e.cfg.Connect
	c.URL = e.cfg.Server.NATSURL
	return c
}

// connectExec opens a connection for a type's command: with a login of its own
// if there is one.
func (e *Engine) connectExec(opts ...nats.Option) (*nats.Conn, error) {
	s, own := e.cfg.ExecConnection(e.connection())
	if e.srv != nil || !own {
		return e.connect(false, opts...)
	}
	opts = append([]nats.Option{nats.ErrorHandler(e.execDenied.handler(e.log, "the NATS server refuses the types' commands what they need: give the user of [connect.exec] the role work (`engine permissions --user NAME=work`)"))}, opts...)
	return e.connectAs(s, "[connect.exec]", opts)
}

// connectAs opens a connection to the existing NATS; place is where its login
// stands.
func (e *Engine) connectAs(s connect.Settings, place string, opts []nats.Option) (*nats.Conn, error) {
	all, err := s.Options()
	if err != nil {
		return nil, events.WithCode(events.CodeBadConfig, fmt.Errorf("connect to NATS: %w", err))
	}
	all = append(all, nats.ErrorHandler(e.denied.handler(e.log, "the NATS server refuses the engine what it needs: give its user the permissions that `engine permissions` prints for it")), nats.Timeout(outsideTimeout))
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

// maxDenied bounds the refusals that are told.
const maxDenied = 16

// denied are the subjects that a NATS server has refused to the engine.
type denied struct {
	mu  sync.Mutex
	all []string // guarded by mu; the first maxDenied
}

// handler is the error handler of a connection: it logs each refusal once, with
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

// note reports whether what was refused is worth telling.
func (d *denied) note(what string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.all {
		if s == what {
			return false
		}
	}
	if len(d.all) == maxDenied {
		return false
	}
	d.all = append(d.all, what)
	return true
}

// explain gives an error what was refused, which is most likely its cause: the
// request that was refused just had no reply.
func (d *denied) explain(err error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.all) == 0 {
		return err
	}
	return events.WithCode(events.CodeForbidden, fmt.Errorf("%w: the NATS server does not let the engine %s: give its user the permissions that `engine permissions` prints for it", err, d.all[0]))
}
