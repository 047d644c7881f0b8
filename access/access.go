// Package access says who may do what: the roles, which role each request of
// the engine needs, and the subjects that a role may use on NATS. The HTTP API
// and the embedded NATS server both take it from here, so that a role means the
// same on either way.
//
// It is data and pure functions, safe for concurrent use.
package access

import (
	"context"
	"fmt"
	"strings"

	"github.com/streamwright/streamwright/wire"
)

// Role is one kind of right.
type Role uint8

// The roles. None includes another.
const (
	Submit  Role = 1 << iota // submit items, cancel what one submitted by its id, and wait for it
	Work                     // register as a worker, take items, report
	Read                     // see everything: items, events, logs, workers, settings
	Operate                  // change everything: settings, pauses, replay, purge, drain, schedules
)

// All are all roles together.
const All = Roles(Submit | Work | Read | Operate)

var names = []struct {
	role Role
	name string
}{{Submit, "submit"}, {Work, "work"}, {Read, "read"}, {Operate, "operate"}}

// String is the role's name.
func (r Role) String() string {
	for _, n := range names {
		if n.role == r {
			return n.name
		}
	}
	return fmt.Sprintf("Role(%d)", uint8(r))
}

// ParseRole reads a role's name.
func ParseRole(s string) (Role, error) {
	for _, n := range names {
		if n.name == s {
			return n.role, nil
		}
	}
	return 0, fmt.Errorf("%q is no role: use submit, work, read or operate", s)
}

// Roles is a set of roles.
type Roles uint8

// RolesOf is the set of some roles.
func RolesOf(list ...Role) (set Roles) {
	for _, r := range list {
		set |= Roles(r)
	}
	return set
}

// Has reports whether the set has any of the roles in wanted.
func (s Roles) Has(wanted Roles) bool { return s&wanted != 0 }

// String lists the roles, with commas between them.
func (s Roles) String() string {
	var out []string
	for _, n := range names {
		if s.Has(Roles(n.role)) {
			out = append(out, n.name)
		}
	}
	return strings.Join(out, ",")
}

// Identity is who makes a request, once that is known.
type Identity struct {
	Name  string // of the token, certificate or user; "anyone" where all is open
	Roles Roles
}

// Anyone is whoever comes where nobody has to say who he is.
var Anyone = Identity{Name: "anyone", Roles: All}

type identityKey struct{}

// WithIdentity is a context of a request that somebody makes.
func WithIdentity(ctx context.Context, id Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, id)
}

// IdentityOf is who makes the request of a context; false for one that the
// engine makes itself.
func IdentityOf(ctx context.Context) (Identity, bool) {
	id, ok := ctx.Value(identityKey{}).(Identity)
	return id, ok
}

// NameOf is the name of who makes the request of a context; empty for one that
// the engine makes itself.
func NameOf(ctx context.Context) string {
	id, _ := IdentityOf(ctx)
	return id.Name
}

// needs are the roles any one of which suffices for an endpoint of the API.
var needs = map[string]Roles{
	wire.APISubmit: Roles(Submit), wire.APIBatch: Roles(Submit),
	wire.APICancel: Roles(Submit | Operate),
	wire.APIWait:   Roles(Submit | Read),

	wire.APIRegister:   Roles(Work),
	wire.APIHeartbeat:  Roles(Work),
	wire.APIUnregister: Roles(Work),
	wire.APIProbed:     Roles(Work),
	wire.APIReport:     Roles(Work),

	wire.APIGet: Roles(Read), wire.APIList: Roles(Read), wire.APIHistory: Roles(Read), wire.APILogs: Roles(Read), wire.APIEvents: Roles(Read),
	wire.APITree: Roles(Read), wire.APIStats: Roles(Read), wire.APITypes: Roles(Read), wire.APIWorkers: Roles(Read),
	wire.APIInfo: Roles(Submit | Work | Read | Operate), wire.APIClock: Roles(Read), wire.APIWhy: Roles(Read), wire.APIPlace: Roles(Submit | Read), wire.APIHeld: Roles(Read), wire.APIDead: Roles(Read), wire.APICauses: Roles(Read),
	wire.APIRejected: Roles(Read), wire.APIShowRejected: Roles(Read), wire.APIState: Roles(Read), wire.APISchedules: Roles(Read), wire.APITicks: Roles(Read),
	wire.APIVerify: Roles(Read),
}

// Needs returns the roles any one of which suffices for an endpoint (such as
// wire.APISubmit). What is not listed needs Operate.
func Needs(endpoint string) Roles {
	if r, ok := needs[endpoint]; ok {
		return r
	}
	return Roles(Operate)
}
