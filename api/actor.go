package api

import (
	"context"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/events/core"
)

// The actor of a request is the name of the token, certificate or NATS user that made it, as
// the access layer knows it: [access.Anyone] where the engine is open, empty for the engine's
// own requests. A name that the request itself gives does not replace it.

type actorKey struct{}

// withActor returns the context of what is done for somebody; empty: for the engine itself.
func withActor(ctx context.Context, name string) context.Context {
	if name == "" {
		return ctx
	}
	return context.WithValue(ctx, actorKey{}, name)
}

// actorOf returns for whom something is done.
func actorOf(ctx context.Context) string {
	name, _ := ctx.Value(actorKey{}).(string)
	return name
}

// author returns the author of a note: the caller where he is known, else who he claims to be.
func (c *call) author(claimed string) string {
	if c.actor == "" || c.actor == access.Anyone.Name {
		return claimed
	}
	return c.actor
}

// askedBy has commands record who asks for them. Of a submission by anyone nothing is
// recorded: it would be the same in every one.
func askedBy(name string, cmds []core.Command) []core.Command {
	if name == "" {
		return cmds
	}
	for i, cmd := range cmds {
		if _, submits := cmd.(core.Submit); !submits {
			cmds[i] = core.By{Name: name, Command: cmd}
		} else if name != access.Anyone.Name {
			sub := cmd.(core.Submit)
			sub.By = name
			cmds[i] = sub
		}
	}
	return cmds
}
