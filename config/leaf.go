package config

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/events"
)

// Leaf says which sites at the edge the engine takes submissions from, and where their
// leaf connections reach the embedded NATS server. On an existing NATS the sites connect to
// that, and a site here is a name alone.
type Leaf struct {
	Listen   string // host:port, or "off"
	TLSCert  string
	TLSKey   string
	ClientCA string // whose certificates sites must show, beside their token
	Sites    []LeafSite
}

// LeafSite is a site at the edge: a place with an intake of its own, which holds its
// submissions while it is cut off.
type LeafSite struct {
	Name      string // also of the JetStream domain there
	Token     string // in clear, or as a bcrypt hash; at most one of it and TokenFile
	TokenFile string // its first line is the token
	Roles     access.Roles
	Mirror    bool // it mirrors a log, and submits nothing
	// Namespace is the one whose log a mirror copies; empty: default. It need not exist yet.
	Namespace events.Namespace
}

// Bounds of sites.
const (
	MaxLeafSites   = 64
	MaxSiteNameLen = 32
)

// DefaultSiteRoles are what programs at a site may do at the hub through its connection,
// beside publishing submissions there.
const DefaultSiteRoles = access.Roles(access.Submit | access.Read)

// Grants returns the roles of the site's programs; none of a mirror's.
func (s LeafSite) Grants() access.Roles {
	if s.Mirror {
		return 0
	}
	return cmp.Or(s.Roles, DefaultSiteRoles)
}

// Of returns the namespace that the site has to do with: sites that submit do so in default.
func (s LeafSite) Of() events.Namespace { return cmp.Or(s.Namespace, events.DefaultNamespace) }

// In returns the sites that have to do with a namespace, as configured.
func (l Leaf) In(ns events.Namespace) (sites []LeafSite) {
	for _, s := range l.Sites {
		if s.Of() == ns {
			sites = append(sites, s)
		}
	}
	return sites
}

// SiteNames lists the names of the sites that submit, as configured.
func (l Leaf) SiteNames() []string {
	names := make([]string, 0, len(l.Sites))
	for _, s := range l.Sites {
		if !s.Mirror {
			names = append(names, s.Name)
		}
	}
	return names
}

// CheckSiteName refuses what can't be the name of a site.
func CheckSiteName(name string) error {
	if len(name) > MaxSiteNameLen || !namePattern.MatchString(name) {
		return fmt.Errorf("%q is no name of a site: use at most %d characters of a-z and 0-9, with single - or _ between them", name, MaxSiteNameLen)
	}
	return nil
}

func (l *Leaf) fields() []field {
	return []field{
		at("listen", &l.Listen, address, Off, "host and port for the leaf connections of sites (7422 is usual), or `off`"),
		at("tls_cert", &l.TLSCert, text, "", "certificate file (PEM); sites must use TLS then"),
		at("tls_key", &l.TLSKey, text, "", "its key file"),
		at("client_ca", &l.ClientCA, text, "", "the CA file (PEM); sites must show a certificate of it, beside their token"),
		zero("sites", &l.Sites, tables((*LeafSite).fields).that(checkLeafSites), "none", "sites whose submissions are taken in, a table each, `[[leaf.sites]]`: `name`, one of `token` (12 characters or more, or a bcrypt hash) and `token_file` (whose first line is one; neither is needed where only this machine can connect), and `roles`, what programs at the site may do here, in the namespace `default` alone (`submit` and `read` if left out); or `mirror = true`: the site mirrors the log of the namespace `namespace` (`default` if left out), which need not exist yet, and may do nothing else"),
	}
}

func (s *LeafSite) fields() []field {
	return []field{
		at("name", &s.Name, text, "", ""), at("token", &s.Token, text, "", ""), at("token_file", &s.TokenFile, text, "", ""),
		at("roles", &s.Roles, rolesInDefault, 0, ""), at("mirror", &s.Mirror, truth, false, ""),
		at("namespace", &s.Namespace, oneNamespace, "", ""),
	}
}

func checkLeafSites(sites []LeafSite) error {
	if len(sites) > MaxLeafSites {
		return fmt.Errorf("has %d elements: at most %d", len(sites), MaxLeafSites)
	}
	var errs []error
	fail := func(i int, key string, err error) {
		errs = append(errs, &elementError{i, key, fmt.Sprintf("has an element %d (%s) that %v", i+1, sites[i].Name, err)})
	}
	seen := map[string]bool{}
	for i, s := range sites {
		if CheckSiteName(s.Name) != nil {
			fail(i, "name", fmt.Errorf("has an invalid name: use at most %d characters of a-z and 0-9, with single - or _ between them", MaxSiteNameLen))
		}
		if seen[s.Name] {
			fail(i, "name", errors.New("has the name of another one"))
		}
		seen[s.Name] = true
		if s.Mirror && s.Roles != 0 {
			fail(i, "roles", errors.New("has roles, and is a mirror, which has none: leave roles or mirror out"))
		}
		if s.Namespace != "" && !s.Mirror {
			fail(i, "namespace", errors.New("has a namespace, and is no mirror: sites submit to the namespace default; leave namespace out, or set mirror = true"))
		}
		switch {
		case s.Token != "" && s.TokenFile != "":
			fail(i, "token", errors.New("has both token and token_file: keep one"))
		case s.Token != "" && CheckPassword(s.Token) != nil:
			fail(i, "token", fmt.Errorf("has a weak token: use %d characters or more, such as openssl rand -hex 16 makes", MinPasswordLen))
		}
	}
	return errors.Join(errs...)
}

func (c Config) checkLeaf(ch *checker) {
	l := c.Leaf
	ch.tls("leaf", l.TLSCert, l.TLSKey, l.ClientCA)
	users := map[string]bool{}
	for _, u := range c.NATS.Users {
		users[u.Name] = true
	}
	for i, s := range l.Sites {
		at := elementKey("leaf.sites", i)
		if users[s.Name] {
			ch.failf(at+".name", "is %q, which a NATS user has: give the site another name", s.Name)
		}
		if s.Mirror && c.External() {
			ch.failf(at+".mirror", "is for the embedded NATS server: a mirror of a log on an existing NATS is not supported")
		}
		if s.Token+s.TokenFile == "" && l.Listen != Off && !access.IsLoopback(l.Listen) {
			ch.failf(at+".token", "is missing: anyone who reaches %s could be the site %s: give it a token, or listen on 127.0.0.1", l.Listen, s.Name)
		}
	}
	switch {
	case l.Listen == Off && l.TLSCert != "":
		ch.failf("leaf.tls_cert", "is for leaf connections: set leaf.listen too, or leave it out")
	case l.Listen != Off && c.External():
		ch.failf("leaf.listen", "is for the embedded NATS server: with an existing NATS, sites connect there; leave it out")
	case l.Listen != Off && len(l.Sites) == 0:
		ch.failf("leaf.sites", "has no site, and nobody else may connect to leaf.listen: add [[leaf.sites]] with a name and a token")
	}
}
