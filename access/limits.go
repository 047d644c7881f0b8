package access

import (
	"fmt"
	"strings"
)

// AccountLimits bound what a user's account may use. The NATS server enforces them.
// 0 sets no limit.
type AccountLimits struct {
	Connections   int
	Subscriptions int
	PayloadBytes  int64 // of a message
}

// config is the limits block of an account in a server's configuration; empty
// without a limit.
func (l AccountLimits) config() string {
	var parts []string
	for _, p := range []struct {
		key string
		n   int64
	}{{"max_connections", int64(l.Connections)}, {"max_subscriptions", int64(l.Subscriptions)}, {"max_payload", l.PayloadBytes}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%s: %d", p.key, p.n))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "limits: { " + strings.Join(parts, ", ") + " }"
}
