package embedded

import (
	"crypto/tls"
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
	clients := make([]httpauth.Client, len(h.Clients))
	for i, c := range h.Clients {
		clients[i] = httpauth.Client(c)
	}
	auth, err := httpauth.New(httpauth.Config{
		TokensFile: h.TokensFile, Tokens: e.o.HTTPTokens, Clients: clients, Hosts: h.Hosts, Logger: e.log.With("part", "http"),
	})
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

func checkNATSListen(addr string, n config.NATS) error {
	if addr == config.Off || access.IsLoopback(addr) || len(n.Users) > 0 || n.AllowOpen {
		return nil
	}
	return fmt.Errorf("serve NATS on %s: %w: give users ([[nats.users]]), or listen on 127.0.0.1, or, on a network that is closed by other means, set [nats] allow_open = true", addr, httpauth.ErrOpen)
}

// ReloadAccess reads the tokens file again. On an error the tokens that were
// known stay in force. NATS users and certificates are read at a start only.
func (e *Engine) ReloadAccess() error {
	n, err := e.auth.Reload()
	if err != nil {
		e.log.Error("the tokens could not be read: the earlier ones stay in force", "error", err)
		return events.WithCode(events.CodeBadConfig, err)
	}
	e.log.Info("the tokens have been read again", "tokens", n)
	return nil
}

// tls is that of the HTTP server; nil for none.
func (e *Engine) tls() (*tls.Config, error) {
	h := e.cfg.HTTP
	if h.TLSCert == "" {
		return nil, nil
	}
	return serverTLS("http", h.TLSCert, h.TLSKey, h.ClientCA, e.auth.HasTokens())
}

func serverTLS(table, cert, key, ca string, optional bool) (*tls.Config, error) {
	c, err := access.ServerTLS(cert, key, ca, optional)
	if err != nil {
		return nil, events.WithCode(events.CodeBadConfig, fmt.Errorf("[%s]: %w", table, err))
	}
	return c, nil
}

// login lets nobody in but the configured users and this process itself, over
// TLS if that is configured.
func (s *server) login(opts *natsserver.Options, o serverOptions) error {
	if n := o.Access; n.TLSCert != "" {
		c, err := serverTLS("nats", n.TLSCert, n.TLSKey, n.ClientCA, false)
		if err != nil {
			return err
		}
		opts.TLS, opts.TLSConfig, opts.TLSVerify, opts.TLSTimeout = true, c, n.ClientCA != "", tlsTimeout
		s.secure = true
	}
	if len(o.Access.Users) == 0 {
		return nil
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
			return events.WithCode(events.CodeBadConfig, err)
		}
		opts.Users = append(opts.Users, &natsserver.User{Username: u.Name, Password: password, Permissions: perms})
	}
	return nil
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
func (s *server) keys() (client, engine *natsserver.NkeyUser, err error) {
	for _, k := range []struct {
		pair *nkeys.KeyPair
		user **natsserver.NkeyUser
	}{{&s.client, &client}, {&s.engine, &engine}} {
		if *k.pair, err = nkeys.CreateUser(); err != nil {
			return nil, nil, err
		}
		public, err := (*k.pair).PublicKey()
		if err != nil {
			return nil, nil, err
		}
		*k.user = &natsserver.NkeyUser{Nkey: public}
	}
	return client, engine, nil
}
