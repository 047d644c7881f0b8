package config

import (
	"strings"

	"github.com/streamwright/streamwright/connect"
)

// connectFields are those of [connect] and, below it, [connect.exec].
func connectFields(s, exec *connect.Settings) []field {
	execs := execConnectFields(exec)
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
		{key: "exec", kind: "table", doc: "the login of the types' commands", table: func(string) ([]field, error) { return execs, nil }},
	}
}

// execConnectFields are how the workers of types with exec log in. Where they
// connect is where the engine does.
func execConnectFields(s *connect.Settings) []field {
	return []field{
		text("creds", &s.Creds, "", "the workers of types with `exec` log in with this credentials file, in place of the engine's login"),
		text("nkey", &s.Nkey, "", "or with the nkey whose seed is in this file"),
		text("user", &s.User, "", "or with this user's name"),
		text("password_file", &s.PasswordFile, "", "the file whose first line is that user's password"),
		text("tls_cert", &s.Cert, "the engine's", "their certificate file (PEM)"),
		text("tls_key", &s.Key, "the engine's", "its key file"),
		text("inbox_prefix", &s.InboxPrefix, "_INBOX_USER or _INBOX", "what their reply subjects begin with"),
	}
}

// ExecConnection is how the workers of types with exec connect, where the engine
// itself does so by own, whose context has been read; ok is false if they have
// no login of theirs.
func (c Config) ExecConnection(own connect.Settings) (s connect.Settings, ok bool) {
	if c.ExecConnect == (connect.Settings{}) {
		return own, false
	}
	return connect.Merge(c.ExecConnect, own.WithoutLogin()), true
}

// External reports whether the engine uses an existing NATS.
func (c Config) External() bool { return c.Server.NATSURL != "" || c.Connect.Context != "" }

func (c Config) checkConnect(ch *checker) {
	if err := c.Connect.Check("the table"); err != nil {
		ch.failf("connect", "is wrong: %s", strings.TrimPrefix(err.Error(), connect.ErrConflict.Error()+": "))
	}
	if err := c.ExecConnect.Check("the table"); err != nil {
		ch.failf("connect.exec", "is wrong: %s", strings.TrimPrefix(err.Error(), connect.ErrConflict.Error()+": "))
	}
	if x := c.ExecConnect; x != (connect.Settings{}) && x.Creds+x.Nkey+x.User+x.Cert == "" {
		ch.failf("connect.exec", "names no login: give it creds, nkey, user or tls_cert, or leave it out")
	}
	if x := c.ExecConnect; x.User != "" && x.PasswordFile == "" {
		ch.failf("connect.exec.password_file", "is missing: the user %s needs one", x.User)
	}
	if (c.Connect != (connect.Settings{}) || c.ExecConnect != (connect.Settings{})) && !c.External() {
		ch.failf("connect", "is for an existing NATS: set server.nats_url too, or leave it out (users of the embedded server are [[nats.users]])")
	}
}
