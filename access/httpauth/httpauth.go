package httpauth

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/events"
)

// Client is a client certificate by one of its names.
type Client struct {
	Name  string // common name, or a DNS name, e-mail address or URI among its alternative names
	Roles access.Memberships
}

// Config says who is known.
type Config struct {
	TokensFile string   // empty: none
	Tokens     string   // more tokens, as a tokens file has them, or with ; between them
	Clients    []Client // the first that a certificate has the name of tells its roles
	// Hosts are the names under which an engine that is open to everyone may be
	// asked, beside localhost and addresses in numbers.
	Hosts  []string
	Logger *slog.Logger // nil: none
}

// Authenticator tells who makes a request. It is safe for concurrent use.
type Authenticator struct {
	now    atomic.Pointer[known]
	origin *http.CrossOriginProtection
}

// known is who may make requests, from one load of the configuration to the next.
type known struct {
	cfg    Config
	tokens Tokens              // of the file and the environment
	roots  []*x509.Certificate // see Accept; none: any
	// changed ends, by end, once something else is in force.
	changed context.Context
	end     context.CancelFunc
}

// New makes an Authenticator. Without tokens and clients everyone may do
// everything: see [Authenticator.Open].
func New(cfg Config) (*Authenticator, error) {
	k, err := load(cfg)
	if err != nil {
		return nil, err
	}
	a := &Authenticator{origin: http.NewCrossOriginProtection()}
	a.now.Store(k)
	return a, nil
}

// load reads what a configuration names.
func load(cfg Config) (*known, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	k := &known{cfg: cfg}
	k.changed, k.end = context.WithCancel(context.Background())
	env, err := ParseTokens("WORK_TOKENS", []byte(strings.ReplaceAll(cfg.Tokens, ";", "\n")))
	if err != nil {
		return nil, err
	}
	k.tokens = env
	if cfg.TokensFile != "" {
		list, readable, err := readTokens(cfg.TokensFile)
		if err != nil {
			return nil, err
		}
		if readable {
			cfg.Logger.Warn("everyone on this machine may read the tokens: chmod o-r it", "file", cfg.TokensFile)
		}
		for i := range list {
			if err := env.clash(&list[i]); err != nil {
				return nil, fmt.Errorf("%s:%d: %w, in WORK_TOKENS", cfg.TokensFile, list[i].line, err)
			}
		}
		k.tokens = slices.Concat(env, list)
	}
	if len(k.tokens) > MaxTokens {
		return nil, fmt.Errorf("there are %d tokens: at most %d are allowed", len(k.tokens), MaxTokens)
	}
	if cfg.TokensFile != "" && k.open() {
		return nil, fmt.Errorf("%s has no token: add a line, name token role[,role…]", cfg.TokensFile)
	}
	return k, nil
}

func (k *known) open() bool { return len(k.tokens) == 0 && len(k.cfg.Clients) == 0 }

// Next is a configuration that was read and found good, and is not in force yet.
type Next struct {
	a *Authenticator
	k *known
}

// Prepare reads a configuration that is to take the place of the one in force,
// and changes nothing. It refuses one that would open the engine to everyone:
// that takes a restart.
func (a *Authenticator) Prepare(cfg Config) (*Next, error) {
	k, err := load(cfg)
	if err != nil {
		return nil, err
	}
	if k.open() && !a.Open() {
		return nil, errors.New("there are no tokens and no [[http.clients]] any more, so that everyone could do everything: that takes a restart")
	}
	return &Next{a: a, k: k}, nil
}

// Tokens returns the number of tokens once it is applied.
func (n *Next) Tokens() int { return len(n.k.tokens) }

// HasTokens reports whether there will be tokens.
func (n *Next) HasTokens() bool { return len(n.k.tokens) > 0 }

// Accept says which CAs a client certificate's chain must end with, for
// connections that were made when others were accepted.
func (n *Next) Accept(roots []*x509.Certificate) { n.k.roots = roots }

// Apply puts it into force for every request from now on, and notifies watchers (see
// [Authenticator.Changed]). It is called at most once.
func (n *Next) Apply() { n.a.now.Swap(n.k).end() }

// Changed returns a context that ends as soon as something else is in force
// than now: who has a request open asks again then.
func (a *Authenticator) Changed() context.Context { return a.now.Load().changed }

// Open reports whether everyone may do everything.
func (a *Authenticator) Open() bool { return a.now.Load().open() }

// HasTokens reports whether there are tokens, so that a client may come without
// a certificate.
func (a *Authenticator) HasTokens() bool { return len(a.now.Load().tokens) > 0 }

// Authenticate tells who makes a request, as one to the namespace default. The error is an
// *events.Error: unauthenticated, or forbidden for one that a browser makes on behalf of
// another site. A token that is sent decides, whatever the certificate says.
func (a *Authenticator) Authenticate(r *http.Request) (access.Identity, error) {
	if err := a.origin.Check(r); err != nil {
		return access.Identity{}, events.Refuse(events.CodeForbidden, "a web page of another origin made this request (%v): only the engine's own page may", err)
	}
	k := a.now.Load()
	if k.open() {
		if err := k.checkHost(r.Host); err != nil {
			return access.Identity{}, err
		}
		return access.Anyone, nil
	}
	if h := r.Header.Get("Authorization"); h != "" {
		return k.byToken(h)
	}
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		return k.byCertificate(r)
	}
	return access.Identity{}, k.refuse("the request says not who makes it")
}

// identity is who makes a request to the namespace default.
func identity(name string, m access.Memberships) access.Identity {
	return access.Identity{Name: name, Memberships: m}.In(events.DefaultNamespace)
}

// NamespaceAuth is an Authenticator for the requests to one namespace.
type NamespaceAuth struct {
	a  *Authenticator
	ns events.Namespace
}

// In returns what tells who makes a request to a namespace, which need not exist.
func (a *Authenticator) In(ns events.Namespace) NamespaceAuth { return NamespaceAuth{a, ns} }

// Authenticate tells who makes a request, with its roles in the namespace. It refuses whoever
// has none there, as [access.NoSuchNamespace], but in default, which is known to exist.
func (n NamespaceAuth) Authenticate(r *http.Request) (access.Identity, error) {
	id, err := n.a.Authenticate(r)
	if err != nil {
		return access.Identity{}, err
	}
	id = id.In(n.ns)
	if id.Roles == 0 && n.ns != events.DefaultNamespace {
		return access.Identity{}, access.NoSuchNamespace(string(n.ns))
	}
	return id, nil
}

// Changed is [Authenticator.Changed].
func (n NamespaceAuth) Changed() context.Context { return n.a.Changed() }

// Missing refuses a request to a namespace that does not exist: to whoever may make requests as
// [access.NoSuchNamespace], and to others as Authenticate does.
func (a *Authenticator) Missing(r *http.Request, name string) error {
	if _, err := a.Authenticate(r); err != nil {
		return err
	}
	return access.NoSuchNamespace(name)
}

// CheckHost refuses a request whose Host is a name that somebody else may have
// pointed at this machine, as Authenticate does while the engine is open. It is
// for servers beside the API that know no tokens.
func (a *Authenticator) CheckHost(r *http.Request) error { return a.now.Load().checkHost(r.Host) }

var anyOrigin = http.NewCrossOriginProtection()

// CheckOrigin refuses a request that a browser makes for a page of another
// origin, reads included: the page can't see the reply, but the engine would do
// the work. Requests of programs, and what the user types or opens himself, pass.
func CheckOrigin(r *http.Request) error {
	asked := r
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions: // which the library lets pass
		asked = r.WithContext(r.Context())
		asked.Method = http.MethodPost
	}
	if err := anyOrigin.Check(asked); err != nil {
		return events.Refuse(events.CodeForbidden, "the request comes from a page of another origin (%v): send it from a program, or from a page that this server serves", err)
	}
	return nil
}

func (k *known) byToken(header string) (access.Identity, error) {
	scheme, token, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return access.Identity{}, k.refuse("the Authorization header is not of the form Bearer TOKEN")
	}
	id, ok := k.tokens.find(strings.TrimSpace(token))
	if !ok {
		return access.Identity{}, k.refuse("the token is not one that this engine knows")
	}
	return id, nil
}

func (k *known) byCertificate(r *http.Request) (access.Identity, error) {
	if len(k.roots) > 0 && !access.Trusts(k.roots, r.TLS.VerifiedChains) {
		return access.Identity{}, k.refuse("the client certificate is of a CA that the engine does not accept any more")
	}
	cert := r.TLS.VerifiedChains[0][0]
	names := append([]string{cert.Subject.CommonName}, cert.DNSNames...)
	names = append(names, cert.EmailAddresses...)
	for _, u := range cert.URIs {
		names = append(names, u.String())
	}
	for _, c := range k.cfg.Clients {
		if slices.Contains(names, c.Name) {
			return identity(c.Name, c.Roles), nil
		}
	}
	return access.Identity{}, k.refuse(fmt.Sprintf("no [[http.clients]] has a name of the client certificate (%q)", events.Clip(cert.Subject.CommonName, MaxNameLen)))
}

// refuse says what is wrong and what would do.
func (k *known) refuse(why string) error {
	var ways []string
	if len(k.tokens) > 0 {
		ways = append(ways, "send Authorization: Bearer and a token of its")
	}
	if len(k.cfg.Clients) > 0 {
		ways = append(ways, "show a client certificate that it knows")
	}
	return events.Refuse(events.CodeUnauthenticated, "%s: %s", why, strings.Join(ways, ", or "))
}

// checkHost refuses a name that somebody else may have pointed at this machine
// (DNS rebinding): his page would be of this origin to the browser. An address
// in numbers can't be pointed anywhere.
func (k *known) checkHost(hostport string) error {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.Trim(host, "[]"), ".")
	is := func(name string) bool { return strings.EqualFold(name, host) }
	if net.ParseIP(host) != nil || is("localhost") || slices.ContainsFunc(k.cfg.Hosts, is) {
		return nil
	}
	return events.Refuse(events.CodeForbidden, "this engine is open to everyone who reaches it, and was asked under the name %q: ask it by its address or as localhost, add the name to [http] hosts, or configure tokens", events.Clip(host, MaxNameLen))
}

// ErrOpen says that an engine is open to everyone, so that it must not start.
var ErrOpen = errors.New("everyone who reaches it could do everything")

// CheckListen refuses an address (host:port) that others than this machine
// reach, if everyone may do everything.
func (a *Authenticator) CheckListen(addr string) error {
	if !a.Open() || access.IsLoopback(addr) {
		return nil
	}
	return fmt.Errorf("serve HTTP on %s: %w: give tokens ([http] tokens_file, --http-tokens, or the environment's WORK_TOKENS) or client certificates ([http] client_ca and [[http.clients]]), or listen on 127.0.0.1, or, on a network that is closed by other means, set [http] allow_open = true", addr, ErrOpen)
}
