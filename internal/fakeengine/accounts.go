package fakeengine

import (
	"fmt"
	"maps"
	"slices"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/wire"
)

// Accounts is the part of a nats-server configuration that gives the engine and
// each of its users an account, as `engine permissions` prints it. Every user
// has its name as password.
func Accounts(engine string, users map[string]access.Roles) string {
	a := access.Accounts{
		Names: wire.Default, Engine: access.EngineGrant{Names: wire.Default, Partitions: 1, User: engine},
		Login: func(user string) string { return fmt.Sprintf("user: %q, password: %q", user, user) },
	}
	for _, name := range slices.Sorted(maps.Keys(users)) {
		a.Grants = append(a.Grants, access.Grant{Names: wire.Default, User: name, Roles: users[name]})
	}
	return a.Config()
}
