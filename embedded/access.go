package embedded

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/access/httpauth"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/projector"
)

// guard knows who may use the engine, and how much.
type guard struct {
	*base
	auth      *httpauth.Authenticator
	httpTLS   atomic.Pointer[tls.Config] // for new connections
	userRoles userRoles
	reloading sync.Mutex    // one reload at a time
	given     config.Config // before its connection was resolved
}

// open finds out who may use the engine, and refuses to be open to
// anyone who reaches it over a network.
func (g *guard) open() error {
	h := g.cfg.HTTP
	auth, err := httpauth.New(g.o.httpAuth(h, g.log))
	if err != nil {
		return err
	}
	if addr := g.cfg.Server.HTTP; addr != config.Off && !h.AllowOpen {
		if err := auth.CheckListen(addr); err != nil {
			return err
		}
	}
	g.auth = auth
	g.userRoles.set(g.cfg.NATS, g.cfg.Leaf)
	if g.cfg.Server.NATSURL != "" {
		return nil
	}
	return checkNATSListen(g.cfg.Server.NATSListen, g.cfg.NATS)
}

// httpAuth returns who is known on HTTP, except for the CAs of certificates.
func (o *Options) httpAuth(h config.HTTP, log *slog.Logger) httpauth.Config {
	clients := make([]httpauth.Client, len(h.Clients))
	for i, c := range h.Clients {
		clients[i] = httpauth.Client(c)
	}
	return httpauth.Config{
		TokensFile: h.TokensFile, Tokens: o.HTTPTokens, Clients: clients, Hosts: h.Hosts, Logger: log.With("part", "http"),
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
func (g *guard) openTLS() (*tls.Config, error) {
	h := g.cfg.HTTP
	if h.TLSCert == "" {
		return nil, nil
	}
	c, _, err := serverTLS("http", h.TLSCert, h.TLSKey, h.ClientCA, g.auth.HasTokens())
	if err != nil {
		return nil, err
	}
	g.httpTLS.Store(c)
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return g.httpTLS.Load(), nil }}, nil
}

func serverTLS(table, cert, key, ca string, optional bool) (*tls.Config, []*x509.Certificate, error) {
	c, roots, err := access.ServerTLS(cert, key, ca, optional)
	if err != nil {
		return nil, nil, events.WithCode(events.CodeBadConfig, fmt.Errorf("[%s]: %w", table, err))
	}
	return c, roots, nil
}

// login lets only the configured users and this process itself in, over TLS if
// that is configured; a running server can't switch TLS on or off. roots are
// the CAs from one of which clients must show a certificate; if there are none,
// they need not.
func (s *server) login(opts *natsserver.Options, o serverOptions) (roots []*x509.Certificate, err error) {
	running := s.opts != nil
	if n := o.Access; n.TLSCert != "" && (!running || s.secure) {
		if opts.TLSConfig, roots, err = serverTLS("nats", n.TLSCert, n.TLSKey, n.ClientCA, false); err != nil {
			return nil, err
		}
		opts.TLS, opts.TLSVerify, opts.TLSTimeout = true, n.ClientCA != "", tlsTimeout
		s.secure = true
	}
	accounts, err := s.accounts(opts, o)
	if err != nil || len(o.Access.Users) == 0 {
		return roots, err
	}
	opts.NoAuthUser = ""
	for _, u := range o.Access.Users {
		g := s.grant(o, u)
		account, perms := accounts[g.Account], natsPermissions(g.Permissions())
		if u.Nkey != "" {
			opts.Nkeys = append(opts.Nkeys, &natsserver.NkeyUser{Nkey: u.Nkey, Permissions: perms, Account: account})
			continue
		}
		password, err := passwordOf(u, o.Log)
		if err != nil {
			return nil, events.WithCode(events.CodeBadConfig, err)
		}
		opts.Users = append(opts.Users, &natsserver.User{Username: u.Name, Password: password, Permissions: perms, Account: account})
	}
	return roots, nil
}

// tlsTimeout bounds a TLS handshake, in seconds.
const tlsTimeout = 5

func natsPermissions(p access.Permissions) *natsserver.Permissions {
	return &natsserver.Permissions{
		Publish:   &natsserver.SubjectPermission{Allow: p.Publish},
		Subscribe: &natsserver.SubjectPermission{Allow: p.Subscribe},
	}
}

func passwordOf(u config.NATSUser, log *slog.Logger) (string, error) {
	if u.PasswordFile == "" {
		return u.Password, nil
	}
	line, err := secretLine(u.PasswordFile, "a password", log)
	if err != nil {
		return "", fmt.Errorf("read the password of the NATS user %s: %w", u.Name, err)
	}
	if err := config.CheckPassword(line); err != nil {
		return "", fmt.Errorf("%s, the password file of the NATS user %s, %w", u.PasswordFile, u.Name, err)
	}
	return line, nil
}

// secretLine returns the first line of a file of secrets; what names the secret for a
// warning if others may read the file.
func secretLine(file, what string, log *slog.Logger) (string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(file); err == nil && access.OthersMayRead(info.Mode()) {
		log.Warn("everyone on this machine may read "+what+": chmod o-r it", "file", file)
	}
	line, _, _ := strings.Cut(string(data), "\n")
	return strings.TrimRight(line, "\r"), nil
}

// keys makes the keys by which connections within the process prove that they
// are a client's or the engine's, and the one that signs the names of accounts.
// They are made anew at each start and never leave the process; but the nodes of a
// cluster derive the last one from their secret, since the accounts of all nodes
// must have the same names.
func (s *server) keys() (err error) {
	s.accountKey = make([]byte, sha256.Size)
	_, _ = rand.Read(s.accountKey) // it never fails
	if key := s.given.Member.key("accounts"); key != nil {
		s.accountKey = key
	}
	for _, pair := range []*nkeys.KeyPair{&s.client, &s.engine, &s.system} {
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

// processUser names the account of this process's clients. No configured user
// can have that name.
const processUser = "_process"

func (s *server) grant(o serverOptions, u config.NATSUser) access.Grant {
	return access.Grant{
		Names: o.Names, User: u.Name, Roles: u.Roles, Namespaces: o.Namespaces, Alone: true, NoDocuments: u.NoDocuments, NoPublish: u.NoPublish,
		Account: o.Names.UserAccount(s.named(u.Name)), Limits: o.Quotas.Of(u.Name, u.Roles.Union()).Account(),
	}
}

// signBytes is the length of the signature in the name of an account.
const signBytes = 10

// named returns a user's name as its account has it, signed by a key of this
// process, or of the cluster. The server puts the account's name into each request, but a client
// can write a header with another account's name in a form that the server does
// not recognize and the engine reads in place of the server's. So nobody may be
// able to guess the name of another's account.
func (s *server) named(user string) string {
	h := hmac.New(sha256.New, s.accountKey)
	_, _ = io.WriteString(h, user) // a hash takes everything
	return user + "_" + base32.StdEncoding.EncodeToString(h.Sum(nil)[:signBytes])
}

// userOf returns the user of a name that named returned; false for any other
// name.
func (s *server) userOf(named string) (string, bool) {
	end := strings.LastIndexByte(named, '_')
	if end < 0 || !hmac.Equal([]byte(named), []byte(s.named(named[:end]))) {
		return "", false
	}
	return named[:end], true
}

// accounts gives the server the engine's account, where JetStream is, and, if
// there are users, one for each of them, which imports what the user's roles
// need. It also makes the users of this process: the engine's, and its
// clients', who are whoever connects while no users are configured.
func (s *server) accounts(opts *natsserver.Options, o serverOptions) (map[string]*natsserver.Account, error) {
	process := access.Grant{Names: o.Names, User: processUser, Roles: access.Everywhere(access.All), Namespaces: o.Namespaces, Alone: true, Account: o.Names.UserAccount(s.named(processUser))}
	a := access.Accounts{Names: o.Names}
	if s.isolated {
		a.Grants = append(a.Grants, process)
	}
	for _, u := range o.Access.Users {
		a.Grants = append(a.Grants, s.grant(o, u))
	}
	for _, site := range o.Leaf.Sites {
		a.Grants = append(a.Grants, s.siteGrant(o, site))
	}
	var parsed natsserver.Options
	if err := parsed.ProcessConfigString(a.Config()); err != nil {
		return nil, fmt.Errorf("configure the accounts of the NATS server: %w", err)
	}
	byName := map[string]*natsserver.Account{}
	for _, account := range parsed.Accounts {
		byName[account.Name] = account
	}
	engine := byName[o.Names.Account()]
	client := &natsserver.NkeyUser{Nkey: s.public[0], Account: engine, Permissions: clientPermissions(o.Names, o.Namespaces, o.Partitions)}
	if s.isolated {
		client.Account, client.Permissions = byName[process.Account], natsPermissions(process.Permissions())
	}
	opts.Accounts = parsed.Accounts
	opts.Nkeys = append(opts.Nkeys, client, &natsserver.NkeyUser{Nkey: s.public[1], Account: engine})
	if o.Member != nil {
		system := natsserver.NewAccount(systemAccount)
		opts.Accounts, opts.SystemAccount = append(opts.Accounts, system), systemAccount
		opts.Nkeys = append(opts.Nkeys, &natsserver.NkeyUser{Nkey: s.public[2], Account: system})
	}
	return byName, nil
}

// hasAccounts reports whether each user is in an account of its own, so that the
// server tells who asks.
func (s *server) hasAccounts() bool { return s != nil && s.isolated }

// userRoles are the roles of the NATS users, by namespace.
type userRoles struct {
	p atomic.Pointer[map[string]access.Memberships]
}

func (r *userRoles) set(n config.NATS, l config.Leaf) {
	roles := make(map[string]access.Memberships, len(n.Users)+len(l.Sites))
	for _, u := range n.Users {
		roles[u.Name] = u.Roles
	}
	for _, s := range l.Sites {
		roles[s.Name] = access.InDefault(s.Grants())
	}
	r.p.Store(&roles)
}

// in returns what tells the roles of a NATS user in a namespace: none for this process itself,
// which has no quota.
func (r *userRoles) in(ns events.Namespace) func(user string) access.Roles {
	return func(user string) access.Roles {
		if user == processUser {
			return 0
		}
		return r.of(user).In(ns)
	}
}

// of returns the roles of a NATS user in all namespaces: every one for this process itself.
// One that the configuration does not name is in an account that an operator has added: it may
// have any.
func (r *userRoles) of(user string) access.Memberships {
	if m, known := (*r.p.Load())[user]; known {
		return m
	}
	return access.Everywhere(access.All)
}

// typeExists reports whether the store has a type. One that it can't tell of is
// not held against anybody.
func typeExists(store *projector.Store, t events.Type) bool {
	types, err := store.Types()
	return err != nil || slices.ContainsFunc(types, func(info events.TypeInfo) bool { return info.Type == t })
}

// Reload puts into force the access settings of another configuration, and the
// present content of the files that it names: tokens, client certificates, NATS
// users with their passwords, the servers' certificates and the CAs of their
// clients. c is as config.Load returns it; the Options' overrides apply to it
// too.
//
// It is all or nothing: on an error everything is as it was. It never opens an
// engine with users to everyone. Users no longer known lose their connections
// to the embedded NATS server, and their live feeds and long polls on HTTP.
// Other differences are logged as waiting for a restart, and returned.
// Concurrent calls take turns.
func (e *Engine) Reload(c config.Config) (waiting []string, err error) { return e.guard.reload(c) }

func (g *guard) reload(c config.Config) (waiting []string, err error) {
	g.reloading.Lock()
	defer g.reloading.Unlock()
	defer func() {
		if err != nil {
			g.log.Error("the configuration was not read again: all is as it was", "error", err)
			err = events.WithCode(events.CodeBadConfig, err)
		}
	}()
	o := g.o
	o.Config = c
	c = o.config()
	if err := c.Validate(); err != nil {
		return nil, err
	}
	next, secure, err := g.prepareHTTP(c.HTTP)
	if err != nil {
		return nil, err
	}
	users := 0
	if g.srv != nil {
		if err := g.srv.reload(func(o *serverOptions) { o.Access = c.NATS }); err != nil {
			return nil, err
		}
		users = len(c.NATS.Users)
	}
	// From here on nothing can fail.
	if secure != nil {
		g.httpTLS.Store(secure)
	}
	next.Apply()
	g.userRoles.set(c.NATS, g.cfg.Leaf)
	waiting = config.NeedsRestart(g.given, c)
	g.log.Info("who may use the engine has been read again", "tokens", next.Tokens(), "certificates", len(c.HTTP.Clients), "nats_users", users)
	if len(waiting) > 0 {
		g.log.Warn("changed, needs a restart: "+strings.Join(waiting, ", "), "settings", len(waiting))
	}
	return waiting, nil
}

// prepareHTTP reads the tokens and certificates for HTTP. secure is nil if
// there is no new TLS configuration.
func (g *guard) prepareHTTP(h config.HTTP) (next *httpauth.Next, secure *tls.Config, err error) {
	next, err = g.auth.Prepare(g.o.httpAuth(h, g.log))
	if err != nil || h.TLSCert == "" || g.httpTLS.Load() == nil {
		return next, nil, err
	}
	secure, roots, err := serverTLS("http", h.TLSCert, h.TLSKey, h.ClientCA, next.HasTokens())
	if err != nil {
		return nil, nil, err
	}
	next.Accept(roots)
	return next, secure, nil
}

// reload gives a running server other users, certificates or namespaces: change sets the
// Access or Namespaces of the options that are in force. After an error nothing has
// changed. The server itself then disconnects users that are no longer let in or have
// another password, and ends subscriptions that a user may no longer have.
func (s *server) reload(change func(*serverOptions)) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	o := s.given
	change(&o)
	if s.opts.NoAuthUser == "" && len(o.Access.Users) == 0 {
		return errors.New("there are no [[nats.users]] any more, so that everyone could do everything: that takes a restart")
	}
	before := s.opts.Accounts
	roots, err := s.apply(o)
	if err == nil && hasMore(s.opts.Accounts, before) {
		// nats-server 2.15 starts the imports of an account that a reload has added
		// only when the next one finds it there.
		_, err = s.apply(o)
	}
	if err != nil {
		return err
	}
	s.given.Access, s.given.Namespaces = o.Access, o.Namespaces
	if len(roots) > 0 {
		s.disconnectUntrusted(roots, o.Log)
	}
	return nil
}

// hold is reload with other namespaces, if they are others. An existing NATS is not told: its
// operator says who may do what there.
func (s *server) hold(names []events.Namespace) error {
	if s == nil {
		return nil
	}
	s.changing.RLock()
	held := slices.Equal(s.given.Namespaces, names)
	s.changing.RUnlock()
	if held {
		return nil
	}
	return s.reload(func(o *serverOptions) { o.Namespaces = names })
}

// hasMore reports whether accounts have one that others have not.
func hasMore(accounts, others []*natsserver.Account) bool {
	there := map[string]bool{}
	for _, a := range others {
		there[a.Name] = true
	}
	return slices.ContainsFunc(accounts, func(a *natsserver.Account) bool { return !there[a.Name] })
}

// apply makes the options for o and gives them to the server.
func (s *server) apply(o serverOptions) (roots []*x509.Certificate, err error) {
	opts := s.opts.Clone()
	opts.Users, opts.Nkeys = nil, nil
	if roots, err = s.login(opts, o); err != nil {
		return nil, err
	}
	// nats-server 2.15 compares nkey users with those before, down to the accounts that run,
	// whose maps may change meanwhile. This field comes first; it means nothing without JWTs.
	s.applied++
	for _, u := range opts.Nkeys {
		u.Issued = s.applied
	}
	if err := s.ns().ReloadOptions(opts); err != nil {
		return nil, fmt.Errorf("reload the NATS server: %w", err)
	}
	s.opts = opts
	return roots, nil
}

// connPage is the number of connections looked at in one step.
const connPage = 1024

// disconnectUntrusted ends the connections whose certificates come from a CA
// that is no longer accepted. The server itself checks them only in the
// handshake, and no handshake from before the reload is still under way by now.
func (s *server) disconnectUntrusted(roots []*x509.Certificate, log *slog.Logger) {
	var ended []uint64
	for seen := 0; ; seen += connPage {
		page, err := s.ns().Connz(&natsserver.ConnzOptions{Offset: seen, Limit: connPage})
		if err != nil {
			log.Error("the NATS server does not tell its connections: those with certificates of an earlier CA go on", "error", err)
			return
		}
		for _, c := range page.Conns {
			if c.TLSVersion == "" {
				continue // of this process
			}
			client := s.ns().GetClient(c.Cid)
			if client == nil {
				continue
			}
			if state := client.GetTLSConnectionState(); state != nil && !access.Trusts(roots, state.VerifiedChains) {
				ended = append(ended, c.Cid)
			}
		}
		if len(page.Conns) < connPage {
			break
		}
	}
	for _, id := range ended {
		_ = s.ns().DisconnectClientByID(id) // or it has gone by itself
	}
}
