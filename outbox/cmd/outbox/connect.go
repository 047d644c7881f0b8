package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/connect"
)

// connectFlags adds the flags that the engine's programs have, too; the
// environment is read as theirs is.
func connectFlags(set *flag.FlagSet, c *connect.Settings) {
	set.StringVar(&c.URL, "server", "", "NATS `URL`s; by default NATS_URL")
	set.StringVar(&c.Context, "context", "", "`name` of a context of the nats program; by default NATS_CONTEXT")
	set.StringVar(&c.Creds, "creds", "", "NATS credentials `file`; by default NATS_CREDS")
	set.StringVar(&c.Nkey, "nkey", "", "`file` of an nkey's seed; by default NATS_NKEY")
	set.StringVar(&c.User, "user", "", "user's `name`; by default NATS_USER")
	set.StringVar(&c.PasswordFile, "password-file", "", "`file` of the user's password; by default NATS_PASSWORD_FILE, or the password in NATS_PASSWORD")
	set.StringVar(&c.CA, "tlsca", "", "`file` of the CAs to trust; by default NATS_CA")
	set.StringVar(&c.Cert, "tlscert", "", "client certificate `file`; by default NATS_CERT")
	set.StringVar(&c.Key, "tlskey", "", "client key `file`; by default NATS_KEY")
	set.BoolVar(&c.TLSFirst, "tlsfirst", false, "begin with the TLS handshake")
	set.StringVar(&c.Domain, "js-domain", "", "JetStream `domain` that has the engine's streams; by default NATS_JS_DOMAIN")
	set.StringVar(&c.InboxPrefix, "inbox-prefix", "", "what reply `subjects` begin with; by default _INBOX_USER with a user's name")
}

// connect connects to NATS, and says in which JetStream domain the streams are.
func (f flags) connect(errs io.Writer) (*nats.Conn, string, error) {
	s, err := connect.FromPlaces(f.nats, os.Getenv)
	if err != nil {
		return nil, "", err
	}
	opts, err := s.Options()
	if err != nil {
		return nil, "", err
	}
	url := cmp.Or(s.URL, connect.DefaultURL)
	opts = append(opts, nats.Name("streamwright outbox"), nats.MaxReconnects(-1), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		fmt.Fprintf(errs, "NATS: %v\n", err)
	}))
	nc, err := nats.Connect(url, opts...)
	if errors.Is(err, nats.ErrAuthorization) {
		return nil, "", fmt.Errorf("connect to NATS at %s: it refused the login (%w): give credentials that it knows", streamwright.Redact(url), err)
	}
	if err != nil {
		return nil, "", fmt.Errorf("connect to NATS at %s: %w: check --server (NATS_URL)", streamwright.Redact(url), err)
	}
	return nc, s.Domain, nil
}
