package embedded

import (
	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/access/quota"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/events"
)

// accounts reports whether everyone who asks is in an account of his own, so that
// the server tells who it is.
func (e *Engine) accounts() bool { return e.srv != nil && e.srv.isolated }

// knownUser finds a NATS user by what its account is called.
func (e *Engine) knownUser(named string) (string, bool) { return e.srv.userOf(named) }

// openQuotas makes what counts against the quotas, if there are any.
func (e *Engine) openQuotas() {
	e.setUserRoles(e.cfg.NATS)
	e.quotas = quota.New(quota.Config{Settings: e.cfg.Quotas, TypeExists: e.typeExists, Refused: e.metrics.QuotaRefused})
	if e.quotas != nil && e.auth.Open() && !e.accounts() {
		e.log.Warn("there are quotas, but nobody has to say who he is: they count for nothing without tokens, client certificates or users")
	}
}

// setUserRoles notes the roles of the NATS users.
func (e *Engine) setUserRoles(n config.NATS) {
	roles := make(map[string]access.Roles, len(n.Users))
	for _, u := range n.Users {
		roles[u.Name] = u.Roles
	}
	e.userRoles.Store(&roles)
}

// rolesOf are the roles of a NATS user; none for this process itself, which has
// no quota. One that the configuration does not name is in an account that an
// operator has added: it may have any.
func (e *Engine) rolesOf(user string) access.Roles {
	if user == processUser {
		return 0
	}
	if roles, known := (*e.userRoles.Load())[user]; known {
		return roles
	}
	return access.All
}

// typeExists reports whether the store has a type. One that it can't tell of is
// not held against anybody.
func (e *Engine) typeExists(t events.Type) bool {
	types, err := e.store.Types()
	if err != nil {
		return true
	}
	for _, info := range types {
		if info.Type == t {
			return true
		}
	}
	return false
}
