package embedded

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/access/quota"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/projector"
)

// hasAccounts reports whether each user is in an account of its own, so that the
// server tells who asks.
func (s *server) hasAccounts() bool { return s != nil && s.isolated }

// openQuotas makes what counts against the quotas, if there are any.
func (g *guard) openQuotas() {
	g.userRoles.set(g.cfg.NATS, g.cfg.Leaf)
	g.quotas = quota.New(quota.Config{
		Settings: g.cfg.Quotas, TypeExists: func(t events.Type) bool { return typeExists(g.ledger.store, t) }, Refused: g.ledger.metrics.QuotaRefused,
		// They refill by the machine's clock, moved as far as Advance has moved the engine's.
		Now: func() time.Time { return time.Now().Add(time.Duration(g.ledger.advanced.Load())) },
	})
	if g.quotas != nil && g.auth.Open() && !g.srv.hasAccounts() {
		g.log.Warn("quotas have no effect: nobody has to log in; configure tokens, client certificates or users")
	}
}

// userRoles are the roles of the NATS users.
type userRoles struct {
	p atomic.Pointer[map[string]access.Roles]
}

func (r *userRoles) set(n config.NATS, l config.Leaf) {
	roles := make(map[string]access.Roles, len(n.Users)+len(l.Sites))
	for _, u := range n.Users {
		roles[u.Name] = u.Roles
	}
	for _, s := range l.Sites {
		roles[s.Name] = s.Grants()
	}
	r.p.Store(&roles)
}

// of returns the roles of a NATS user; none for this process itself, which has
// no quota. One that the configuration does not name is in an account that an
// operator has added: it may have any.
func (r *userRoles) of(user string) access.Roles {
	if user == processUser {
		return 0
	}
	if roles, known := (*r.p.Load())[user]; known {
		return roles
	}
	return access.All
}

// typeExists reports whether the store has a type. One that it can't tell of is
// not held against anybody.
func typeExists(store *projector.Store, t events.Type) bool {
	types, err := store.Types()
	return err != nil || slices.ContainsFunc(types, func(info events.TypeInfo) bool { return info.Type == t })
}
