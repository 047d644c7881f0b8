package wire

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/streamwright/streamwright/events"
)

// Role is one kind of right.
type Role uint8

// The roles. None includes another.
const (
	RoleSubmit  Role = 1 << iota // submit items, cancel what one submitted by its id, and wait for it
	RoleWork                     // register as a worker, take items, report
	RoleRead                     // see everything: items, events, logs, workers, settings
	RoleOperate                  // change everything: settings, pauses, replay, purge, drain, schedules
	RoleApprove                  // answer the questions that items ask, and see those that one may answer
)

// AllRoles are all roles together.
const AllRoles = Roles(RoleSubmit | RoleWork | RoleRead | RoleOperate | RoleApprove)

var roleNames = []struct {
	role Role
	name string
}{{RoleSubmit, "submit"}, {RoleWork, "work"}, {RoleRead, "read"}, {RoleOperate, "operate"}, {RoleApprove, "approve"}}

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
	return 0, fmt.Errorf("unknown role %q: use submit, work, read, operate or approve", s)
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

// HeaderRequestInfo is the header in which a NATS server names the sender of a
// message that it imports from another account.
const HeaderRequestInfo = "Nats-Request-Info"

// maxRequestInfo bounds the header, in bytes.
const maxRequestInfo = 4 << 10

// User is the NATS user who has sent a message; empty for one of the engine's
// own account. It reads what the server has added, so it can be believed where
// each user has an account of its own, and only there: see access. An account
// that is not one of the engine's users goes by its whole name.
//
// A message from another account that does not say exactly once whose it is has
// been tampered with, and is refused.
func (n Names) User(header map[string][]string) (string, error) {
	values, there := header[HeaderRequestInfo]
	if !there {
		return "", nil
	}
	var info struct {
		Account string `json:"acc"`
	}
	if len(values) != 1 || len(values[0]) > maxRequestInfo || json.Unmarshal([]byte(values[0]), &info) != nil || info.Account == "" {
		return "", events.Refuse(events.CodeBadHeader, "the header %s does not say who has sent the message: leave it to the server", HeaderRequestInfo)
	}
	if info.Account == n.Account() {
		return "", nil
	}
	if user, ok := strings.CutPrefix(info.Account, n.UserAccount("")); ok && user != "" {
		return user, nil
	}
	return info.Account, nil
}
