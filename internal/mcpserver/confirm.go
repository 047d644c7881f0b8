package mcpserver

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	confirmWithin = 5 * time.Minute
	maxConfirms   = 100 // that are outstanding; the oldest are forgotten
)

// confirmIn is part of the input of a tool that is to be called twice.
type confirmIn struct {
	Confirm string `json:"confirm,omitempty" jsonschema:"left out: change nothing, and say what would be done. The token of that answer: do it, with the same arguments"`
}

// proposal is the answer to the first call.
type proposal struct {
	Would   string `json:"would"`
	Confirm string `json:"confirm"`
	Next    string `json:"next"`
	About   any    `json:"about,omitempty"`
}

// confirmations are the proposals that nobody has confirmed yet. Any goroutine may use them.
type confirmations struct {
	now func() time.Time
	mu  sync.Mutex
	out []proposed // oldest first
}

type proposed struct {
	token, call string
	until       time.Time
}

// callOf is a tool's name with its arguments, as JSON, without the token.
func callOf(tool string, args any) string {
	data, _ := json.Marshal(args)
	return tool + " " + string(data)
}

// propose remembers a call, and answers it.
func (c *confirmations) propose(call, would string, about any) proposal {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := proposed{token: rand.Text(), call: call, until: c.now().Add(confirmWithin)}
	c.out = append(c.out, p)
	c.out = c.out[max(0, len(c.out)-maxConfirms):]
	return proposal{Would: would, Confirm: p.token, About: about,
		Next: fmt.Sprintf("nothing was changed: to do it, call the same tool with the same arguments and this token in confirm, within %s", confirmWithin)}
}

// use reports whether a token is that of a call. It is good for one call.
func (c *confirmations) use(token, call string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.out, func(p proposed) bool { return p.token == token && c.now().Before(p.until) })
	if i < 0 {
		return fmt.Errorf("the token in confirm is unknown, used, or older than %s: call without it first", confirmWithin)
	}
	if c.out[i].call != call {
		return fmt.Errorf("the token in confirm was given for other arguments: call without it first")
	}
	c.out = slices.Delete(c.out, i, i+1)
	return nil
}
