package main

import (
	"os"

	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
)

// serveConnection is how an existing NATS is reached, as far as the command
// line and the environment say. An embedded server needs nothing of it: what
// the environment has is meant for clients then, and flags are a mistake.
func (a *app) serveConnection(o embedded.Options) (connect.Settings, error) {
	flags := a.Flagged
	flags.URL = ""
	if o.NATSURL == "" && !o.Config.External() && flags.Context == "" {
		if flags != (connect.Settings{}) {
			return connect.Settings{}, console.Usagef("the flags of a connection are for an existing NATS: name it by --nats-url or --context, or leave them out")
		}
		return connect.Settings{}, nil
	}
	if err := flags.Check("the command line"); err != nil {
		return connect.Settings{}, console.Usage(err)
	}
	env := connect.FromEnv(os.Getenv)
	if err := env.Check("the environment"); err != nil {
		return connect.Settings{}, console.Usage(err)
	}
	// The server is that of nats_url, and a context one that is asked for.
	env.URL, env.Context = "", ""
	if flags.Context == "" {
		return connect.Merge(flags, env), nil
	}
	named, err := flags.Resolve()
	if err != nil {
		return connect.Settings{}, events.WithCode(events.CodeBadConfig, err)
	}
	return connect.Merge(named, env), nil
}
