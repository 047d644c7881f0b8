package wire

import (
	"fmt"
	"strings"
)

// Role is one kind of right.
type Role uint8

// The roles. None includes another.
const (
	RoleSubmit  Role = 1 << iota // submit items, cancel what one submitted by its id, and wait for it
	RoleWork                     // register as a worker, take items, report
	RoleRead                     // see everything: items, events, logs, workers, settings
	RoleOperate                  // change everything: settings, pauses, replay, purge, drain, schedules
)

// AllRoles are all roles together.
const AllRoles = Roles(RoleSubmit | RoleWork | RoleRead | RoleOperate)

var roleNames = []struct {
	role Role
	name string
}{{RoleSubmit, "submit"}, {RoleWork, "work"}, {RoleRead, "read"}, {RoleOperate, "operate"}}

// String returns the role's name.
func (r Role) String() string {
	for _, n := range roleNames {
		if n.role == r {
			return n.name
		}
	}
	return fmt.Sprintf("Role(%d)", uint8(r))
}

// ParseRole reads a role's name.
func ParseRole(s string) (Role, error) {
	for _, n := range roleNames {
		if n.name == s {
			return n.role, nil
		}
	}
	return 0, fmt.Errorf("unknown role %q: use submit, work, read or operate", s)
}

// Roles is a set of roles.
type Roles uint8

// RolesOf returns the set of some roles.
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
	for _, n := range roleNames {
		if s.Has(Roles(n.role)) {
			out = append(out, n.name)
		}
	}
	return strings.Join(out, ",")
}
