package cli

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/connect"
)

// ConnectFlags adds the flags that say how NATS is reached, and that of the engine's
// prefix. They have the nats program's names, and so has the environment.
func ConnectFlags(root *cobra.Command, c *connect.Settings, prefix *string) {
	f := root.PersistentFlags()
	server := streamwright.Redact(os.Getenv(connect.Env.URL)) // --help shows it
	if server == "" {
		server = connect.DefaultURL
	}
	before := map[string]bool{}
	f.VisitAll(func(f *pflag.Flag) { before[f.Name] = true })
	f.StringVar(&c.URL, "server", "", "the NATS server's `URL`, or several with commas (env NATS_URL)")
	f.Lookup("server").DefValue = server
	f.StringVar(&c.Context, "context", "", "take the rest from a context of the nats program, by its `name` or path (env NATS_CONTEXT)")
	f.StringVar(&c.Creds, "creds", "", "log in with a credentials `file` (env NATS_CREDS)")
	f.StringVar(&c.Nkey, "nkey", "", "log in with the nkey whose seed is in a `file` (env NATS_NKEY)")
	f.StringVar(&c.User, "user", "", "log in with a user's `name` (env NATS_USER)")
	f.StringVar(&c.PasswordFile, "password-file", "", "the `file` whose first line is the user's password (env NATS_PASSWORD_FILE)")
	f.StringVar(&c.Password, "password", "", "the user's `password`, which others on this machine can see here (rather env NATS_PASSWORD)")
	f.StringVar(&c.Token, "token", "", "log in with a `token`, which others on this machine can see here (rather env NATS_TOKEN)")
	f.StringVar(&c.CA, "tlsca", "", "the `file` of the CAs to trust (env NATS_CA)")
	f.StringVar(&c.Cert, "tlscert", "", "the `file` of the client's certificate (env NATS_CERT)")
	f.StringVar(&c.Key, "tlskey", "", "the `file` of the client's key (env NATS_KEY)")
	f.BoolVar(&c.TLSFirst, "tlsfirst", false, "begin with the TLS handshake, as the server must, too (env NATS_TLS_FIRST)")
	f.StringVar(&c.Domain, "js-domain", "", "the JetStream `domain` that has the engine's streams (env NATS_JS_DOMAIN)")
	f.StringVar(&c.InboxPrefix, "inbox-prefix", "", "the `subject` that replies come below (default _INBOX_USER with a user's name, else _INBOX; env NATS_INBOX_PREFIX)")
	f.StringVar(prefix, "prefix", "", "the `word` that the engine's subjects begin with (default \"work\")")
	f.VisitAll(func(added *pflag.Flag) {
		if !before[added.Name] {
			inGroup(f, groupConnection, added.Name)
		}
	})
	Common(f, "server") // as well
}
