package wire

import (
	"encoding/json"
	"strings"

	"github.com/streamwright/streamwright/events"
)

// HeaderRequestInfo is what a NATS server adds to each message that comes from
// another account by an import: who has sent it.
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
