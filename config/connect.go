package config

import (
	"strings"

	"github.com/streamwright/streamwright/connect"
)

// connectFields are those of [connect].
func connectFields(s *connect.Settings) []field {
	return []field{
		text("context", &s.Context, "", "a context of the nats program, by its name or the path of its file, which gives what is not set here and, without `nats_url`, the server; `--context`"),
		text("creds", &s.Creds, "", "log in with this credentials file; `--creds`"),
		text("nkey", &s.Nkey, "", "log in with the nkey whose seed is in this file; `--nkey`"),
		text("user", &s.User, "", "log in with this user's name; `--user`"),
		text("password_file", &s.PasswordFile, "", "the file whose first line is the user's password; `--password-file`, and the environment's `NATS_PASSWORD`"),
		text("tls_ca", &s.CA, "", "file (PEM) of the CAs to trust; `--tlsca`"),
		text("tls_cert", &s.Cert, "", "the engine's certificate file (PEM); `--tlscert`"),
		text("tls_key", &s.Key, "", "its key file; `--tlskey`"),
		yes("tls_first", &s.TLSFirst, "begin with the TLS handshake, as the server must, too; `--tlsfirst`"),
		text("js_domain", &s.Domain, "", "the JetStream domain that the engine's streams are to be in, if it is not that of the server; `--js-domain`"),
		text("inbox_prefix", &s.InboxPrefix, "_INBOX_USER or _INBOX", "what reply subjects begin with; `--inbox-prefix`"),
	}
}

// External reports whether the engine uses an existing NATS.
func (c Config) External() bool { return c.Server.NATSURL != "" || c.Connect.Context != "" }

func (c Config) checkConnect(ch *checker) {
	if err := c.Connect.Check("the table"); err != nil {
		ch.failf("connect", "is wrong: %s", strings.TrimPrefix(err.Error(), connect.ErrConflict.Error()+": "))
	}
	if c.Connect != (connect.Settings{}) && !c.External() {
		ch.failf("connect", "is for an existing NATS: set server.nats_url too, or leave it out (users of the embedded server are [[nats.users]])")
	}
}
