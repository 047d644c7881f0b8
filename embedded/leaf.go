package embedded

import (
	"fmt"
	"log/slog"
	"net"
	"strconv"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/events"
)

// leafNodes has the server take the leaf connections of the sites. Each is in an account of
// its own, as a user is, so that a site reaches what its roles allow and nothing else: its
// own publishes of submissions stay there, and are read from the site's stream.
func (s *server) leafNodes(opts *natsserver.Options, o serverOptions) error {
	l := o.Leaf
	if l.Listen == "" || l.Listen == config.Off {
		return nil
	}
	host, port, err := net.SplitHostPort(l.Listen)
	if err != nil {
		return fmt.Errorf("take leaf connections: %w", err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return fmt.Errorf("take leaf connections on %s: %w", l.Listen, err)
	}
	if n == 0 {
		n = natsserver.RANDOM_PORT
	}
	leaf := &opts.LeafNode
	leaf.Host, leaf.Port, leaf.NoAdvertise = host, n, true
	if l.TLSCert != "" {
		if leaf.TLSConfig, _, err = serverTLS("leaf", l.TLSCert, l.TLSKey, l.ClientCA, false); err != nil {
			return err
		}
		leaf.TLSTimeout = tlsTimeout
	} else if !access.IsLoopback(l.Listen) {
		o.Log.Warn("sites send their tokens in the clear: give [leaf] tls_cert and tls_key", "listen", l.Listen)
	}
	accounts := map[string]*natsserver.Account{}
	for _, a := range opts.Accounts {
		accounts[a.Name] = a
	}
	for _, site := range l.Sites {
		token, err := tokenOf(site, o.Log)
		if err != nil {
			return events.WithCode(events.CodeBadConfig, err)
		}
		leaf.Users = append(leaf.Users, &natsserver.User{Username: site.Name, Password: token, Account: accounts[s.siteGrant(o, site).Account]})
	}
	return nil
}

// siteGrant says what a site may do: what its roles say, but for plain publishes, which it
// keeps itself until the engine reads them.
func (s *server) siteGrant(o serverOptions, site config.LeafSite) access.Grant {
	roles := site.Grants()
	if site.Mirror {
		return access.Grant{Names: o.Names, User: site.Name, Mirror: site.Name, Account: o.Names.UserAccount(s.named(site.Name)), Limits: o.Quotas.Of(site.Name, roles).Account()}
	}
	return access.Grant{
		Names: o.Names, User: site.Name, Roles: roles, NoPublish: true, NoDocuments: true, Site: site.Name,
		Account: o.Names.UserAccount(s.named(site.Name)), Limits: o.Quotas.Of(site.Name, roles).Account(),
	}
}

func tokenOf(site config.LeafSite, log *slog.Logger) (string, error) {
	token, err := passwordOf(config.NATSUser{Name: site.Name, Password: site.Token, PasswordFile: site.TokenFile}, log)
	if err != nil {
		return "", fmt.Errorf("the token of the site %s: %w", site.Name, err)
	}
	return token, nil
}

// leafAddr returns where sites connect; empty if they can't.
func (s *server) leafAddr() string {
	if s == nil || s.opts.LeafNode.Port == 0 {
		return ""
	}
	return net.JoinHostPort(s.opts.LeafNode.Host, strconv.Itoa(s.opts.LeafNode.Port))
}
