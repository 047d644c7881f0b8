package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nkeys"

	"github.com/streamwright/streamwright/access"
)

// HTTP says who may use the HTTP server, and how it is reached.
type HTTP struct {
	TokensFile string
	TLSCert    string // PEM files; with both, HTTPS
	TLSKey     string
	ClientCA   string // whose client certificates are accepted
	Clients    []HTTPClient
	Hosts      []string // names beside localhost by which an open engine may be asked
	AllowOpen  bool     // listen beyond this machine although everyone may do everything
}

// HTTPClient is a client certificate that is known, by one of its names.
type HTTPClient struct {
	Name  string
	Roles access.Roles
}

// NATS says who may use the embedded NATS server, and how it is reached.
type NATS struct {
	TLSCert   string
	TLSKey    string
	ClientCA  string // whose certificates clients must show, beside their login
	Users     []NATSUser
	AllowOpen bool // listen beyond this machine although there are no users
}

// NATSUser is a user of the embedded NATS server. Exactly one of Password,
// PasswordFile and Nkey is set.
type NATSUser struct {
	Name         string
	Password     string // in clear, or as a bcrypt hash
	PasswordFile string // of which the first line is the password
	Nkey         string // public, beginning with U
	Roles        access.Roles
	NoDocuments  bool // without the object store of large params and results
	NoPublish    bool // without plain publishes, which no quota counts
}

// Bounds of who may use the engine.
const (
	MaxHTTPClients = 1000
	MaxHTTPHosts   = 100
	MaxNATSUsers   = 1000
	MinPasswordLen = 12
)

func (h *HTTP) fields() []field {
	return []field{
		text("tokens_file", &h.TokensFile, "", "the file of bearer tokens, `name token role[,role…]` on a line; `--http-tokens`, and the environment's `WORK_TOKENS` has more of them"),
		text("tls_cert", &h.TLSCert, "", "certificate file (PEM) of the server: it speaks HTTPS then"),
		text("tls_key", &h.TLSKey, "", "its key file"),
		text("client_ca", &h.ClientCA, "", "the CA file (PEM) whose client certificates are accepted"),
		tables("clients", &h.Clients, "none", "client certificates that are known, a table each, `[[http.clients]]`: `name` (the common name, or a DNS name, e-mail address or URI among the alternative names) and `roles`", (*HTTPClient).fields),
		texts("hosts", &h.Hosts, "", "names, beside `localhost` and addresses in numbers, by which an engine that needs no token may be asked"),
		yes("allow_open", &h.AllowOpen, "listen beyond this machine although nobody has to say who he is; for a network that is closed by other means"),
	}
}

func (c *HTTPClient) fields() []field {
	return []field{text("name", &c.Name, "", ""), roles("roles", &c.Roles)}
}

func (n *NATS) fields() []field {
	return []field{
		text("tls_cert", &n.TLSCert, "", "certificate file (PEM) of the embedded NATS server: clients must use TLS then"),
		text("tls_key", &n.TLSKey, "", "its key file"),
		text("client_ca", &n.ClientCA, "", "the CA file (PEM) of which clients must show a certificate, beside their login"),
		tables("users", &n.Users, "none", "who may connect, a table each, `[[nats.users]]`: `name`, one of `password` (12 characters or more, or a bcrypt hash), `password_file` (its first line is such a one) and `nkey` (the public one), `roles`, `documents = false` to leave out the object store, and `publish = false` to leave out plain publishes; without users everyone may connect and do what clients do", (*NATSUser).fields),
		yes("allow_open", &n.AllowOpen, "listen beyond this machine without users; for a network that is closed by other means"),
	}
}

func (u *NATSUser) fields() []field {
	return []field{
		text("name", &u.Name, "", ""), text("password", &u.Password, "", ""), text("password_file", &u.PasswordFile, "", ""),
		text("nkey", &u.Nkey, "", ""), roles("roles", &u.Roles), boolean("documents", &u.NoDocuments, "true", ""), boolean("publish", &u.NoPublish, "true", ""),
	}
}

// yes is a key whose true sets *dst.
func yes(key string, dst *bool, doc string) field {
	f := boolean(key, dst, "false", doc)
	set := f.set
	f.set = func(v any) error {
		err := set(v)
		if err == nil {
			*dst = !*dst
		}
		return err
	}
	return f
}

// roles is a list of roles' names.
func roles(key string, dst *access.Roles) field {
	var list []string
	f := texts(key, &list, "", "")
	set := f.set
	f.set = func(v any) error {
		err := set(v)
		if err == nil {
			if *dst, err = access.ParseRoles(list); err != nil {
				err = fmt.Errorf("is wrong: %w", err)
			}
		}
		return err
	}
	return f
}

func (h HTTP) check(c *checker) {
	c.tls("http", h.TLSCert, h.TLSKey, h.ClientCA)
	if (h.ClientCA == "") != (len(h.Clients) == 0) {
		c.failf("http.client_ca", "and [[http.clients]] belong together: the one says which certificates are good, the other what who shows one may do")
	}
	c.in("http.clients", int64(len(h.Clients)), 0, MaxHTTPClients)
	seen := map[string]bool{}
	for i, cl := range h.Clients {
		switch {
		case cl.Name == "":
			c.failIn("http.clients", i, "name", "has an element %d without a name", i+1)
		case cl.Roles == 0:
			c.failIn("http.clients", i, "roles", "has an element %d (%s) without roles: use some of submit, work, read and operate", i+1, cl.Name)
		case seen[cl.Name]:
			c.failIn("http.clients", i, "name", "has the name %s twice", cl.Name)
		}
		seen[cl.Name] = true
	}
	c.in("http.hosts", int64(len(h.Hosts)), 0, MaxHTTPHosts)
}

func (n NATS) check(c *checker) {
	c.tls("nats", n.TLSCert, n.TLSKey, n.ClientCA)
	c.in("nats.users", int64(len(n.Users)), 0, MaxNATSUsers)
	seen := map[string]bool{}
	for i, u := range n.Users {
		if field, err := u.check(); err != nil {
			c.failIn("nats.users", i, field, "has an element %d (%s) that %v", i+1, u.Name, err)
		}
		if seen[u.Name] || u.Nkey != "" && seen[u.Nkey] {
			c.failIn("nats.users", i, "name", "has the name or nkey of its element %d (%s) twice", i+1, u.Name)
		}
		seen[u.Name], seen[u.Nkey] = true, true
	}
}

// check returns what is wrong with a user, and the key that says it.
func (u NATSUser) check() (field string, err error) {
	given := 0
	for _, s := range []string{u.Password, u.PasswordFile, u.Nkey} {
		if s != "" {
			given++
		}
	}
	switch {
	case !access.IsUser(u.Name):
		return "name", errors.New("has no good name: use letters, digits, - and _, at most 63")
	case given != 1:
		return "", errors.New("must have exactly one of password, password_file and nkey")
	case u.Password != "":
		if err := CheckPassword(u.Password); err != nil {
			return "password", err
		}
	case u.Nkey != "" && !nkeys.IsValidPublicUserKey(u.Nkey):
		return "nkey", errors.New("has an nkey that is no user's public key: it begins with U; nk -gen user makes one")
	}
	if u.Roles == 0 {
		return "roles", errors.New("has no roles: use some of submit, work, read and operate")
	}
	return "", nil
}

// CheckPassword refuses a password that is shorter than [MinPasswordLen], unless it
// is a bcrypt hash.
func CheckPassword(p string) error {
	if strings.HasPrefix(p, "$2") || len(p) >= MinPasswordLen {
		return nil
	}
	return fmt.Errorf("has a weak password: use %d characters or more, such as openssl rand -hex 16 makes", MinPasswordLen)
}

func (c *checker) tls(at, cert, key, ca string) {
	if (cert == "") != (key == "") {
		c.failf(at+".tls_cert", "and tls_key belong together: name both or none")
	}
	if ca != "" && cert == "" {
		c.failf(at+".client_ca", "needs tls_cert and tls_key: certificates are shown over TLS only")
	}
}
