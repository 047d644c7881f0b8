package connect

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/access"
)

// Alive is the option with which a connection finds out within 15 seconds that its server
// has fallen silent, as one does whose machine loses power, and goes to another. The NATS
// client's own defaults take up to six minutes.
//
// Pings notice nothing while a write blocks, as it does once what is sent has filled the
// socket's buffer: a write that takes 10 seconds ends the connection, too.
func Alive(o *nats.Options) error {
	o.PingInterval, o.MaxPingsOut = 5*time.Second, 2
	o.FlusherTimeout, o.ReconnectOnFlusherError = 10*time.Second, true
	return nil
}

// Options returns the NATS client's options for resolved settings. The files
// must exist and be readable.
func (s Settings) Options() ([]nats.Option, error) {
	if err := s.Check("the connection"); err != nil {
		return nil, err
	}
	opts, err := s.login()
	if err != nil {
		return nil, err
	}
	secure, err := s.secure()
	if err != nil {
		return nil, err
	}
	opts = append(opts, secure...)
	if s.InboxPrefix != "" {
		opts = append(opts, nats.CustomInboxPrefix(s.InboxPrefix))
	}
	// A login that is refused at a reconnect may be one that is just being
	// exchanged: by default the client closes the connection for good.
	opts = append(opts, nats.IgnoreAuthErrorAbort())
	return append(opts, Inbox(s.User, s.URL, opts)...), nil
}

func (s Settings) login() ([]nats.Option, error) {
	switch {
	case s.Creds != "":
		if err := readable("the credentials", s.Creds); err != nil {
			return nil, err
		}
		return []nats.Option{nats.UserCredentials(s.Creds)}, nil
	case s.Nkey != "":
		o, err := nats.NkeyOptionFromSeed(s.Nkey)
		if err != nil {
			return nil, fmt.Errorf("read the nkey's seed in %s: %w: it is a line that begins with SU", s.Nkey, err)
		}
		return []nats.Option{o}, nil
	case s.User != "":
		return s.userLogin()
	case s.Token != "":
		return []nats.Option{nats.Token(s.Token)}, nil
	}
	return nil, nil
}

func (s Settings) userLogin() ([]nats.Option, error) {
	switch {
	case s.PasswordFile != "":
		if _, err := firstLine(s.PasswordFile); err != nil {
			return nil, err
		}
		// Read at each reconnect: a password may be exchanged.
		return []nats.Option{nats.UserInfoHandler(func() (string, string) {
			password, _ := firstLine(s.PasswordFile) // unreadable: the server refuses the empty one, and it is tried again
			return s.User, password
		})}, nil
	case s.Password != "":
		return []nats.Option{nats.UserInfo(s.User, s.Password)}, nil
	}
	return nil, fmt.Errorf("%w: the user %s has no password: put it into a file (password-file) or into the environment (%s)", ErrConflict, s.User, Env.Password)
}

func (s Settings) secure() (opts []nats.Option, err error) {
	if s.CA != "" {
		if err := readable("the CA", s.CA); err != nil {
			return nil, err
		}
		opts = append(opts, nats.RootCAs(s.CA))
	}
	if s.Cert != "" {
		if _, err := tls.LoadX509KeyPair(s.Cert, s.Key); err != nil {
			return nil, fmt.Errorf("read the client's certificate: %w", err)
		}
		opts = append(opts, nats.ClientCert(s.Cert, s.Key))
	}
	if s.TLS && len(opts) == 0 {
		opts = append(opts, nats.Secure())
	}
	if s.TLSFirst {
		opts = append(opts, nats.TLSHandshakeFirst())
	}
	return opts, nil
}

// Inbox returns the option that gives a connection the inbox of its user:
// _INBOX_ and the name, as an engine's users have it. It returns none if opts
// set another inbox, or if no user's name is known: user, else the name in opts
// or in the servers' URLs.
func Inbox(user, servers string, opts []nats.Option) []nats.Option {
	var o nats.Options
	for _, set := range opts {
		if set == nil || set(&o) != nil {
			return nil // connecting will tell
		}
	}
	if o.InboxPrefix != "" {
		return nil
	}
	if user == "" {
		user = o.User
	}
	for _, s := range strings.Split(servers, ",") {
		if u, err := url.Parse(strings.TrimSpace(s)); err == nil && u.User != nil {
			if _, ok := u.User.Password(); ok { // a name alone is a token
				user = u.User.Username()
			}
		}
	}
	if prefix := access.InboxPrefix(user); prefix != "" {
		return []nats.Option{nats.CustomInboxPrefix(prefix)}
	}
	return nil
}

func readable(what, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read %s: %w", what, err)
	}
	return f.Close()
}

// maxPassword bounds a password, in bytes.
const maxPassword = 1024

func firstLine(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read the password: %w", err)
	}
	defer f.Close()
	line, err := bufio.NewReader(io.LimitReader(f, maxPassword)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("read the password: %w", err)
	}
	if line = strings.TrimRight(line, "\r\n"); line == "" {
		return "", fmt.Errorf("read the password: the first line of %s is empty", path)
	}
	return line, nil
}
