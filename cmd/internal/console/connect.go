package console

import (
	"context"
	"errors"
	"os"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/events"
)

// connectFlags adds the flags that say how NATS is reached. They have the nats
// program's names, and so has the environment.
func (a *App) connectFlags(root *cobra.Command) {
	f, c := root.PersistentFlags(), &a.Flagged
	server := streamwright.Redact(os.Getenv(connect.Env.URL)) // --help shows it
	if server == "" {
		server = connect.DefaultURL
	}
	f.StringVar(&c.URL, "server", "", "NATS server, or several with commas (env NATS_URL)")
	f.Lookup("server").DefValue = server
	f.StringVar(&c.Context, "context", "", "take what is not given from a context of the nats program, by its `name` or path (env NATS_CONTEXT)")
	f.StringVar(&c.Creds, "creds", "", "log in with a credentials `file` (env NATS_CREDS)")
	f.StringVar(&c.Nkey, "nkey", "", "log in with the nkey whose seed is in a `file` (env NATS_NKEY)")
	f.StringVar(&c.User, "user", "", "log in with a user's `name` (env NATS_USER)")
	f.StringVar(&c.PasswordFile, "password-file", "", "the `file` whose first line is the user's password (env NATS_PASSWORD_FILE)")
	f.StringVar(&c.Password, "password", "", "the user's password, which others on this machine can see here (rather env NATS_PASSWORD)")
	f.StringVar(&c.Token, "token", "", "log in with a token, which others on this machine can see here (rather env NATS_TOKEN)")
	f.StringVar(&c.CA, "tlsca", "", "`file` of the CAs to trust (env NATS_CA)")
	f.StringVar(&c.Cert, "tlscert", "", "client certificate `file` (env NATS_CERT)")
	f.StringVar(&c.Key, "tlskey", "", "client key `file` (env NATS_KEY)")
	f.BoolVar(&c.TLSFirst, "tlsfirst", false, "begin with the TLS handshake, as the server must, too (env NATS_TLS_FIRST)")
	f.StringVar(&c.Domain, "js-domain", "", "JetStream `domain` that has the engine's streams (env NATS_JS_DOMAIN)")
	f.StringVar(&c.InboxPrefix, "inbox-prefix", "", "what reply subjects begin with (default _INBOX_USER with a user's name, else _INBOX; env NATS_INBOX_PREFIX)")
}

// Connection is how NATS is reached: by the flags, then the context that they
// name, then the environment, then the context that that names.
func (a *App) Connection() (connect.Settings, error) {
	s, err := connect.FromPlaces(a.Flagged, os.Getenv)
	return s, usageIfConflict(err)
}

func usageIfConflict(err error) error {
	if errors.Is(err, connect.ErrConflict) {
		return Usage(err)
	}
	return events.WithCode(events.CodeBadConfig, err)
}

// Connect connects to the server that the flags and the environment name.
func (a *App) Connect(ctx context.Context, more ...streamwright.Option) (*streamwright.Client, error) {
	conn, err := a.Connection()
	if err != nil {
		return nil, err
	}
	if _, err := conn.Options(); errors.Is(err, connect.ErrConflict) {
		return nil, Usage(err)
	}
	opts := []streamwright.Option{
		streamwright.WithName("streamwright command line"), streamwright.WithPrefix(a.Prefix), streamwright.WithConnection(conn),
		streamwright.WithNATS(nats.ErrorHandler(a.natsError)),
	}
	ctx, cancel := a.Within(ctx)
	defer cancel()
	return streamwright.Connect(ctx, "", append(opts, more...)...)
}

// natsError tells what the server refuses beside a request. A request that it
// concerns fails of it, and is told of anyway; what a worker does is told here.
func (a *App) natsError(_ *nats.Conn, _ *nats.Subscription, err error) {
	if a.TellRefusals || !errors.Is(err, nats.ErrPermissionViolation) {
		a.Notef("NATS: %s", Clean(err.Error()))
	}
}
