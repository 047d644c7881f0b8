// Package submap maps subjects of an account of an embedded NATS server.
package submap

import (
	"fmt"

	natsserver "github.com/nats-io/nats-server/v2/server"
)

// Account is an account whose subjects can be mapped. The server forgets its mappings when it
// is restarted or its accounts are reloaded, and then delivers to the subjects as published.
type Account struct {
	server func() *natsserver.Server
	name   string
}

// New returns the account of a name on the server that runs at each moment.
func New(server func() *natsserver.Server, name string) *Account {
	return &Account{server: server, name: name}
}

// Map has what is published to from delivered to to. It replaces an earlier mapping of from.
func (a *Account) Map(from, to string) error {
	account, err := a.server().LookupAccount(a.name)
	if err != nil {
		return fmt.Errorf("find account %s: %w", a.name, err)
	}
	return account.AddMapping(from, to)
}

// Unmap ends the mapping of from, if there is one.
func (a *Account) Unmap(from string) {
	if account, err := a.server().LookupAccount(a.name); err == nil {
		account.RemoveMapping(from)
	}
}
