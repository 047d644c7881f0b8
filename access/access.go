// Package access says who may do what: which subjects each role may use on NATS,
// and what the accounts of a NATS server must look like for that. Which role a
// request needs is in the table of endpoints of package wire. The HTTP API and
// the embedded NATS server both go by it, so a role means the same on both.
//
// It is data and pure functions, safe for concurrent use.
package access

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"runtime"
	"strings"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// A Role is one kind of right, and Roles a set of them. They are declared in
// package wire, beside the table of endpoints.
type (
	Role  = wire.Role
	Roles = wire.Roles
)

// The roles. None includes another.
const (
	Submit  = wire.RoleSubmit
	Work    = wire.RoleWork
	Read    = wire.RoleRead
	Operate = wire.RoleOperate
	Approve = wire.RoleApprove
)

// All are all roles together.
const All = wire.AllRoles

// ParseRole reads a role's name.
func ParseRole(s string) (Role, error) { return wire.ParseRole(s) }

// RolesOf returns the set of some roles.
func RolesOf(list ...Role) Roles { return wire.RolesOf(list...) }

// ParseRoles reads a list of roles' names, which must not be empty.
func ParseRoles(list []string) (set Roles, err error) {
	for _, s := range list {
		r, err := ParseRole(strings.TrimSpace(s))
		if err != nil {
			return 0, err
		}
		set |= Roles(r)
	}
	if set == 0 {
		return 0, errors.New("no role given: use some of submit, work, read, operate and approve")
	}
	return set, nil
}

// Identity is the known maker of a request.
type Identity struct {
	Name        string // of the token, certificate or user; "anyone" where all is open
	Roles       Roles  // in the namespace that the request is for
	Memberships Memberships
}

// Anyone is the identity of every caller of an engine that is open to all.
var Anyone = Identity{Name: "anyone", Roles: All, Memberships: Everywhere(All)}

// In returns the identity as the maker of a request to a namespace.
func (id Identity) In(ns events.Namespace) Identity {
	id.Roles = id.Memberships.In(ns)
	return id
}

type identityKey struct{}

// WithIdentity returns the context of a request made by id.
func WithIdentity(ctx context.Context, id Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, id)
}

// IdentityOf returns who makes the request of a context; false for a request
// that the engine makes itself.
func IdentityOf(ctx context.Context) (Identity, bool) {
	id, ok := ctx.Value(identityKey{}).(Identity)
	return id, ok
}

// NameOf returns the name of who makes the request of a context; empty for a
// request that the engine makes itself.
func NameOf(ctx context.Context) string {
	id, _ := IdentityOf(ctx)
	return id.Name
}

// Needs returns the roles for an endpoint (such as wire.APISubmit): any one of them
// suffices. An unknown endpoint needs Operate.
func Needs(endpoint string) Roles {
	if e, ok := wire.EndpointOf(endpoint); ok {
		return e.Roles
	}
	return Roles(Operate)
}

// OthersMayRead reports whether a file of secrets is readable beyond its owner
// and group. Where the system has no such modes it is false.
func OthersMayRead(mode fs.FileMode) bool { return runtime.GOOS != "windows" && mode.Perm()&0o004 != 0 }

// IsLoopback reports whether only processes of this machine reach what listens
// on an address, host:port. A name other than localhost counts as reachable,
// since what it stands for may change.
func IsLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}
