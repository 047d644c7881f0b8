package embedded

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/access/httpauth"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/events"
)

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
		so := g.serverOptions()
		so.Access = c.NATS
		if err := g.srv.reload(so); err != nil {
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

// reload gives a running server other users and certificates. After an error
// nothing has changed. The server itself then disconnects users that are no
// longer let in or have another password, and ends subscriptions that a user
// may no longer have.
func (s *server) reload(o serverOptions) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	if s.opts.NoAuthUser == "" && len(o.Access.Users) == 0 {
		return errors.New("there are no [[nats.users]] any more, so that everyone could do everything: that takes a restart")
	}
	roots, err := s.apply(o)
	if err == nil {
		// nats-server 2.15 starts the imports of an account that a reload has added
		// only when the next one finds it there.
		_, err = s.apply(o)
	}
	if err != nil {
		return err
	}
	if len(roots) > 0 {
		s.disconnectUntrusted(roots, o.Log)
	}
	return nil
}

// apply makes the options for o and gives them to the server.
func (s *server) apply(o serverOptions) (roots []*x509.Certificate, err error) {
	opts := s.opts.Clone()
	opts.Users, opts.Nkeys = nil, nil
	if roots, err = s.login(opts, o); err != nil {
		return nil, err
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
