package embedded

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"strings"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/access/httpauth"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/events"
)

// openAccess finds out who may use the engine, and refuses to be open to
// anyone who reaches it over a network.
func (e *Engine) openAccess() error {
	h := e.cfg.HTTP
	auth, err := httpauth.New(e.httpAuth(h))
	if err != nil {
		return err
	}
	if addr := e.cfg.Server.HTTP; addr != config.Off && !h.AllowOpen {
		if err := auth.CheckListen(addr); err != nil {
			return err
		}
	}
	e.auth = auth
	if e.cfg.Server.NATSURL != "" {
		return nil
	}
	return checkNATSListen(e.cfg.Server.NATSListen, e.cfg.NATS)
}

// httpAuth is who is known on HTTP, but for the CAs of certificates.
func (e *Engine) httpAuth(h config.HTTP) httpauth.Config {
	clients := make([]httpauth.Client, len(h.Clients))
	for i, c := range h.Clients {
		clients[i] = httpauth.Client(c)
	}
	return httpauth.Config{
		TokensFile: h.TokensFile, Tokens: e.o.HTTPTokens, Clients: clients, Hosts: h.Hosts, Logger: e.log.With("part", "http"),
	}
}

func checkNATSListen(addr string, n config.NATS) error {
	if addr == config.Off || access.IsLoopback(addr) || len(n.Users) > 0 || n.AllowOpen {
		return nil
	}
	return fmt.Errorf("serve NATS on %s: %w: give users ([[nats.users]]), or listen on 127.0.0.1, or, on a network that is closed by other means, set [nats] allow_open = true", addr, httpauth.ErrOpen)
}

// openTLS makes the TLS of the HTTP server, which a reload exchanges; nil for
// none.
func (e *Engine) openTLS() (*tls.Config, error) {
	h := e.cfg.HTTP
	if h.TLSCert == "" {
		return nil, nil
	}
	c, _, err := serverTLS("http", h.TLSCert, h.TLSKey, h.ClientCA, e.auth.HasTokens())
	if err != nil {
		return nil, err
	}
	e.httpTLS.Store(c)
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return e.httpTLS.Load(), nil }}, nil
}

func serverTLS(table, cert, key, ca string, optional bool) (*tls.Config, []*x509.Certificate, error) {
	c, roots, err := access.ServerTLS(cert, key, ca, optional)
	if err != nil {
		return nil, nil, events.WithCode(events.CodeBadConfig, fmt.Errorf("[%s]: %w", table, err))
	}
	return c, roots, nil
}

// login lets nobody in but the configured users and this process itself, over
// TLS if that is configured; a server that runs speaks it for good, or never.
// roots are the CAs of which clients must show a certificate; none: they need
// not.
func (s *server) login(opts *natsserver.Options, o serverOptions) (roots []*x509.Certificate, err error) {
	running := s.opts != nil
	if n := o.Access; n.TLSCert != "" && (!running || s.secure) {
		if opts.TLSConfig, roots, err = serverTLS("nats", n.TLSCert, n.TLSKey, n.ClientCA, false); err != nil {
			return nil, err
		}
		opts.TLS, opts.TLSVerify, opts.TLSTimeout = true, n.ClientCA != "", tlsTimeout
		s.secure = true
	}
	if len(o.Access.Users) == 0 {
		return roots, nil
	}
	opts.NoAuthUser = ""
	for _, u := range o.Access.Users {
		g := access.Grant{Names: o.Names, Partitions: o.Partitions, User: u.Name, Roles: u.Roles, NoDocuments: u.NoDocuments}
		perms := natsPermissions(g.Permissions())
		if u.Nkey != "" {
			opts.Nkeys = append(opts.Nkeys, &natsserver.NkeyUser{Nkey: u.Nkey, Permissions: perms})
			continue
		}
		password, err := passwordOf(u, o.Log)
		if err != nil {
			return nil, events.WithCode(events.CodeBadConfig, err)
		}
		opts.Users = append(opts.Users, &natsserver.User{Username: u.Name, Password: password, Permissions: perms})
	}
	return roots, nil
}

// tlsTimeout bounds a TLS handshake, in seconds.
const tlsTimeout = 5

func natsPermissions(p access.Permissions) *natsserver.Permissions {
	out := &natsserver.Permissions{
		Publish:   &natsserver.SubjectPermission{Allow: p.Publish},
		Subscribe: &natsserver.SubjectPermission{Allow: p.Subscribe},
	}
	if p.Responses {
		out.Response = &natsserver.ResponsePermission{MaxMsgs: natsserver.DEFAULT_ALLOW_RESPONSE_MAX_MSGS, Expires: natsserver.DEFAULT_ALLOW_RESPONSE_EXPIRATION}
	}
	return out
}

func passwordOf(u config.NATSUser, log *slog.Logger) (string, error) {
	if u.PasswordFile == "" {
		return u.Password, nil
	}
	data, err := os.ReadFile(u.PasswordFile)
	if err != nil {
		return "", fmt.Errorf("read the password of the NATS user %s: %w", u.Name, err)
	}
	if info, err := os.Stat(u.PasswordFile); err == nil && access.OthersMayRead(info.Mode()) {
		log.Warn("everyone on this machine may read a password: chmod o-r it", "file", u.PasswordFile)
	}
	line, _, _ := strings.Cut(string(data), "\n")
	line = strings.TrimRight(line, "\r")
	if err := config.CheckPassword(line); err != nil {
		return "", fmt.Errorf("%s, the password file of the NATS user %s, %w", u.PasswordFile, u.Name, err)
	}
	return line, nil
}

// keys makes the keys by which connections within the process prove that they
// are a client's or the engine's. They are made anew at each start and never
// leave the process.
func (s *server) keys() (err error) {
	for _, pair := range []*nkeys.KeyPair{&s.client, &s.engine} {
		if *pair, err = nkeys.CreateUser(); err != nil {
			return fmt.Errorf("make the users of the NATS server: %w", err)
		}
		public, err := (*pair).PublicKey()
		if err != nil {
			return fmt.Errorf("make the users of the NATS server: %w", err)
		}
		s.public = append(s.public, public)
	}
	return nil
}

// own are the users of this process: that of everyone, who proves nothing while
// there are no other users, and the engine's.
func (s *server) own(o serverOptions) []*natsserver.NkeyUser {
	return []*natsserver.NkeyUser{{Nkey: s.public[0], Permissions: clientPermissions(o.Names, o.Partitions)}, {Nkey: s.public[1]}}
}
