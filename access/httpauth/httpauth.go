package httpauth

import (
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
	Roles access.Roles
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

// Authenticator tells who makes a request.
type Authenticator struct {
	cfg    Config
	env    Tokens
	all    atomic.Pointer[Tokens]
	origin *http.CrossOriginProtection
}

// New makes an Authenticator. Without tokens and clients everyone may do
// everything: see [Authenticator.Open].
func New(cfg Config) (*Authenticator, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	a := &Authenticator{cfg: cfg, origin: http.NewCrossOriginProtection()}
	var err error
	if a.env, err = ParseTokens("WORK_TOKENS", []byte(strings.ReplaceAll(cfg.Tokens, ";", "\n"))); err != nil {
		return nil, err
	}
	if _, err := a.Reload(); err != nil {
		return nil, err
	}
	if cfg.TokensFile != "" && len(*a.all.Load()) == 0 && len(cfg.Clients) == 0 {
		return nil, fmt.Errorf("%s has no token: add a line, name token role[,role…]", cfg.TokensFile)
	}
	return a, nil
}

// Reload reads the tokens file again and returns how many tokens there are now.
// On an error those that were known stay in force, and so they do when the file
// has none left and nothing else would keep the engine from being open.
func (a *Authenticator) Reload() (int, error) {
	all := slices.Clone(a.env)
	if a.cfg.TokensFile != "" {
		list, open, err := readTokens(a.cfg.TokensFile)
		if err != nil {
			return 0, err
		}
		if open {
			a.cfg.Logger.Warn("everyone on this machine may read the tokens: chmod o-r it", "file", a.cfg.TokensFile)
		}
		for i := range list {
			if err := a.env.clash(&list[i]); err != nil {
				return 0, fmt.Errorf("%s:%d: %w, in WORK_TOKENS", a.cfg.TokensFile, list[i].line, err)
			}
		}
		all = append(all, list...)
	}
	if len(all) > MaxTokens {
		return 0, fmt.Errorf("there are %d tokens: at most %d are allowed", len(all), MaxTokens)
	}
	if old := a.all.Load(); old != nil && len(*old) > 0 && len(all) == 0 && len(a.cfg.Clients) == 0 {
		return 0, fmt.Errorf("%s has no token any more: the earlier ones stay in force until a restart", a.cfg.TokensFile)
	}
	a.all.Store(&all)
	return len(all), nil
}

// Open reports whether everyone may do everything.
func (a *Authenticator) Open() bool { return len(*a.all.Load()) == 0 && len(a.cfg.Clients) == 0 }

// HasTokens reports whether there are tokens, so that a client may come without
// a certificate.
func (a *Authenticator) HasTokens() bool { return len(*a.all.Load()) > 0 }

// Authenticate tells who makes a request. The error is an *events.Error:
// unauthenticated, or forbidden for one that a browser makes on behalf of
// another site. A token that is sent decides, whatever the certificate says.
func (a *Authenticator) Authenticate(r *http.Request) (access.Identity, error) {
	if err := a.origin.Check(r); err != nil {
		return access.Identity{}, events.Refuse(events.CodeForbidden, "a web page of another origin made this request (%v): only the engine's own page may", err)
	}
	if a.Open() {
		if err := a.checkHost(r.Host); err != nil {
			return access.Identity{}, err
		}
		return access.Anyone, nil
	}
	if h := r.Header.Get("Authorization"); h != "" {
		return a.byToken(h)
	}
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		return a.byCertificate(r)
	}
	return access.Identity{}, a.refuse("the request says not who makes it")
}

func (a *Authenticator) byToken(header string) (access.Identity, error) {
	scheme, token, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return access.Identity{}, a.refuse("the Authorization header is not of the form Bearer TOKEN")
	}
	id, ok := a.all.Load().find(strings.TrimSpace(token))
	if !ok {
		return access.Identity{}, a.refuse("the token is not one that this engine knows")
	}
	return id, nil
}

func (a *Authenticator) byCertificate(r *http.Request) (access.Identity, error) {
	cert := r.TLS.VerifiedChains[0][0]
	names := append([]string{cert.Subject.CommonName}, cert.DNSNames...)
	names = append(names, cert.EmailAddresses...)
	for _, u := range cert.URIs {
		names = append(names, u.String())
	}
	for _, c := range a.cfg.Clients {
		if slices.Contains(names, c.Name) {
			return access.Identity{Name: c.Name, Roles: c.Roles}, nil
		}
	}
	return access.Identity{}, a.refuse(fmt.Sprintf("no [[http.clients]] has a name of the client certificate (%q)", clip(cert.Subject.CommonName)))
}

// refuse says what is wrong and what would do.
func (a *Authenticator) refuse(why string) error {
	var ways []string
	if a.HasTokens() {
		ways = append(ways, "send Authorization: Bearer and a token of its")
	}
	if len(a.cfg.Clients) > 0 {
		ways = append(ways, "show a client certificate that it knows")
	}
	return events.Refuse(events.CodeUnauthenticated, "%s: %s", why, strings.Join(ways, ", or "))
}

// checkHost refuses a name that somebody else may have pointed at this machine
// (DNS rebinding): his page would be of this origin to the browser. An address
// in numbers can't be pointed anywhere.
func (a *Authenticator) checkHost(hostport string) error {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.Trim(host, "[]"), ".")
	is := func(name string) bool { return strings.EqualFold(name, host) }
	if net.ParseIP(host) != nil || is("localhost") || slices.ContainsFunc(a.cfg.Hosts, is) {
		return nil
	}
	return events.Refuse(events.CodeForbidden, "this engine is open to everyone who reaches it, and was asked under the name %q: ask it by its address or as localhost, add the name to [http] hosts, or configure tokens", clip(host))
}

// ErrOpen is why an engine does not start.
var ErrOpen = errors.New("everyone who reaches it could do everything")

// CheckListen refuses an address (host:port) that others than this machine
// reach, if everyone may do everything.
func (a *Authenticator) CheckListen(addr string) error {
	if !a.Open() || access.IsLoopback(addr) {
		return nil
	}
	return fmt.Errorf("serve HTTP on %s: %w: give tokens ([http] tokens_file, --http-tokens, or the environment's WORK_TOKENS) or client certificates ([http] client_ca and [[http.clients]]), or listen on 127.0.0.1, or, on a network that is closed by other means, set [http] allow_open = true", addr, ErrOpen)
}
