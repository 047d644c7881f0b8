package connect

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/wire"
)

// Settings describe how a server is reached. The zero Settings are the server of
// this machine, without a login.
type Settings struct {
	URL string // of servers, with commas between them

	// Context names the nats program's context, or gives the absolute path of
	// its file: Resolve takes from it what is not set here.
	Context string

	// The login: at most one of these four, or one in the URL.
	Creds string // file of a JWT and a seed
	Nkey  string // file of an nkey's seed
	User  string
	Token string

	// The password of User, or a file whose first line is the password.
	Password     string
	PasswordFile string

	TLS      bool   // insist on TLS, with the system's CAs if CA is empty
	CA       string // PEM files
	Cert     string // of the client, with Key
	Key      string
	TLSFirst bool // begin with the TLS handshake, as the server must, too

	Domain      string // the JetStream domain that has the engine's streams
	InboxPrefix string // what reply subjects begin with
}

// ErrConflict is wrapped by errors about settings that contradict one another.
var ErrConflict = errors.New("conflicting settings")

// DefaultURL is the URL of a server on this machine.
const DefaultURL = nats.DefaultURL

// logins names what the settings log in by, the URL excepted.
func (s Settings) logins() (names []string) {
	for _, l := range []struct{ name, value string }{{"creds", s.Creds}, {"nkey", s.Nkey}, {"user", s.User}, {"token", s.Token}} {
		if l.value != "" {
			names = append(names, l.name)
		}
	}
	return names
}

// Check finds contradictions. where says whose settings they are, such as "the
// command line". The error matches ErrConflict.
func (s Settings) Check(where string) error {
	logins := s.logins()
	if _, user := stripLogin(s.URL); user {
		logins = append(logins, "the server's URL")
	}
	switch {
	case len(logins) > 1:
		return fmt.Errorf("%w: %s has %s: each of them logs in: give one", ErrConflict, where, strings.Join(logins, " and "))
	case s.Password != "" && s.PasswordFile != "":
		return fmt.Errorf("%w: %s has a password and a password file: give one", ErrConflict, where)
	case (s.Cert == "") != (s.Key == ""):
		return fmt.Errorf("%w: %s has one of the client's certificate (tlscert) and its key (tlskey): give both or neither", ErrConflict, where)
	case strings.ContainsAny(s.Domain, ".*> \t"):
		return fmt.Errorf("%w: %s has the JetStream domain %q: a domain is one word, without . * and >", ErrConflict, where, s.Domain)
	case strings.ContainsAny(s.InboxPrefix, "*> \t") || strings.HasSuffix(s.InboxPrefix, "."):
		return fmt.Errorf("%w: %s has the inbox prefix %q: it is a subject without wildcards and without a . at its end", ErrConflict, where, s.InboxPrefix)
	}
	return nil
}

// Merge combines settings: earlier ones take precedence.
func Merge(all ...Settings) (out Settings) {
	loggedIn := false
	for _, s := range all {
		bare, inURL := stripLogin(s.URL)
		if loggedIn {
			s.URL, s.Creds, s.Nkey, s.Token = bare, "", "", ""
		}
		if out.URL != "" && inURL && !loggedIn {
			inURL = false // a login goes with its URL
		}
		if out.Password == "" && out.PasswordFile == "" && (!loggedIn || s.User == "" || s.User == out.User) {
			out.Password, out.PasswordFile = s.Password, s.PasswordFile
		}
		if loggedIn {
			s.User = ""
		}
		loggedIn = loggedIn || inURL || len(s.logins()) > 0
		for _, f := range []struct {
			dst *string
			v   string
		}{
			{&out.URL, s.URL}, {&out.Context, s.Context}, {&out.Creds, s.Creds}, {&out.Nkey, s.Nkey}, {&out.User, s.User}, {&out.Token, s.Token},
			{&out.CA, s.CA}, {&out.Domain, s.Domain}, {&out.InboxPrefix, s.InboxPrefix},
		} {
			if *f.dst == "" {
				*f.dst = f.v
			}
		}
		if out.Cert == "" && out.Key == "" {
			out.Cert, out.Key = s.Cert, s.Key
		}
		out.TLS, out.TLSFirst = out.TLS || s.TLS, out.TLSFirst || s.TLSFirst
	}
	if out.URL != "" && len(out.logins()) > 0 {
		out.URL, _ = stripLogin(out.URL)
	}
	return out
}

// WithoutLogin returns the settings without the login, also the one in the URL,
// its password and the inbox prefix: where and how to connect, but not as whom.
// The certificate stays, since a server may ask everyone for one.
func (s Settings) WithoutLogin() Settings {
	s.URL, _ = stripLogin(s.URL)
	s.Creds, s.Nkey, s.User, s.Token, s.Password, s.PasswordFile, s.InboxPrefix = "", "", "", "", "", "", ""
	return s
}

// stripLogin takes the logins out of server URLs, and reports whether there
// were any.
func stripLogin(servers string) (bare string, had bool) {
	parts := strings.Split(servers, ",")
	for i, p := range parts {
		if u, err := url.Parse(strings.TrimSpace(p)); err == nil && u.User != nil {
			u.User, had = nil, true
			parts[i] = u.String()
		}
	}
	if !had {
		return servers, false
	}
	return strings.Join(parts, ","), true
}

// JetStream opens the JetStream that has an engine's streams. It sends nothing. A request
// for a stream that nobody answers is sent again, until the context ends or for 5 s.
func JetStream(nc *nats.Conn, names wire.Names, opts ...jetstream.JetStreamOpt) (jetstream.JetStream, error) {
	var js jetstream.JetStream
	var err error
	if names.Domain == "" {
		js, err = jetstream.New(nc, opts...)
	} else {
		js, err = jetstream.NewWithDomain(nc, names.Domain, slices.Clone(opts)...)
	}
	if err != nil {
		return nil, err
	}
	return patient{js}, nil
}
