package quota

import (
	"github.com/streamwright/streamwright/access"
)

// Limits bound one user. A nil field is not set; 0 sets no limit.
type Limits struct {
	ItemsPerSecond    *int   // items submitted
	BytesPerSecond    *int64 // of submissions
	RequestsPerSecond *int   // other than a worker's own
	Types             *int   // that the user's submissions have created
	Waits             *int   // waits, long polls and feeds that are open at once
	Connections       *int   // to NATS
	Subscriptions     *int   // on NATS
	PayloadBytes      *int64 // of a message on NATS
}

// The names of the limits, as settings and metrics have them.
const (
	Items         = "items_per_second"
	Bytes         = "bytes_per_second"
	Requests      = "requests_per_second"
	Types         = "types"
	Waits         = "waits"
	Connections   = "connections"
	Subscriptions = "subscriptions"
	Payload       = "payload"
)

// Bounds of the limits.
const (
	MaxRate       = 1_000_000 // items or requests a second
	MaxByteRate   = 1 << 40   // bytes a second
	MaxTypes      = 900       // as many as there can be
	MaxWaits      = 10_000    // as many as the engine takes
	MaxConnects   = 65_536    // connections, subscriptions
	MinPayload    = 1 << 10   // bytes
	MaxPayload    = 64 << 20  // bytes
	MaxUserQuotas = 3000      // users with limits of their own
	MaxNameLen    = 256       // of a user, in bytes
)

// over lays l over under: limits that l sets win.
func (l Limits) over(under Limits) Limits {
	set(&under.ItemsPerSecond, l.ItemsPerSecond)
	set(&under.BytesPerSecond, l.BytesPerSecond)
	set(&under.RequestsPerSecond, l.RequestsPerSecond)
	set(&under.Types, l.Types)
	set(&under.Waits, l.Waits)
	set(&under.Connections, l.Connections)
	set(&under.Subscriptions, l.Subscriptions)
	set(&under.PayloadBytes, l.PayloadBytes)
	return under
}

func set[T any](dst **T, v *T) {
	if v != nil {
		*dst = v
	}
}

// with adds the limits of another role: of each limit the more generous counts,
// and a role that does not set one has no say in it.
func (l Limits) with(role Limits) Limits {
	l.ItemsPerSecond = generous(l.ItemsPerSecond, role.ItemsPerSecond)
	l.BytesPerSecond = generous(l.BytesPerSecond, role.BytesPerSecond)
	l.RequestsPerSecond = generous(l.RequestsPerSecond, role.RequestsPerSecond)
	l.Types = generous(l.Types, role.Types)
	l.Waits = generous(l.Waits, role.Waits)
	l.Connections = generous(l.Connections, role.Connections)
	l.Subscriptions = generous(l.Subscriptions, role.Subscriptions)
	l.PayloadBytes = generous(l.PayloadBytes, role.PayloadBytes)
	return l
}

func generous[T int | int64](a, b *T) *T {
	switch {
	case a == nil:
		return b
	case b == nil || *a == 0 || *b != 0 && *a >= *b:
		return a
	}
	return b
}

// of is a limit as a number, 0 for none.
func of[T int | int64](p *T) T {
	if p == nil {
		return 0
	}
	return *p
}

// counted reports whether the engine has anything to count.
func (l Limits) counted() bool {
	return of(l.ItemsPerSecond) > 0 || of(l.BytesPerSecond) > 0 || of(l.RequestsPerSecond) > 0 || of(l.Types) > 0 || of(l.Waits) > 0
}

// Account are the limits that a NATS server enforces by itself.
func (l Limits) Account() access.AccountLimits {
	return access.AccountLimits{Connections: of(l.Connections), Subscriptions: of(l.Subscriptions), PayloadBytes: of(l.PayloadBytes)}
}

// Settings are the limits of an engine: of roles, and of users by name, which
// win. The zero Settings have none.
type Settings struct {
	Roles map[access.Role]Limits
	Users map[string]Limits
}

// Of are the limits of a user with some roles.
func (s Settings) Of(name string, roles access.Roles) Limits {
	var l Limits
	for role, more := range s.Roles {
		if roles.Has(access.RolesOf(role)) {
			l = l.with(more)
		}
	}
	return s.Users[name].over(l)
}
