package console

import (
	"context"
	"errors"
	"os"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/events"
)

// Connection is how NATS is reached: by the flags, then the context that they
// name, then the environment, then the context that that names.
func (a *App) Connection() (connect.Settings, error) {
	s, err := connect.FromPlaces(a.Flagged, os.Getenv)
	return s, usageIfConflict(err)
}

func usageIfConflict(err error) error {
	if errors.Is(err, connect.ErrConflict) {
		return Usage(err)
	}
	return events.WithCode(events.CodeBadConfig, err)
}

// Connect connects to the server that the flags and the environment name.
func (a *App) Connect(ctx context.Context, more ...streamwright.Option) (*streamwright.Client, error) {
	conn, err := a.Connection()
	if err != nil {
		return nil, err
	}
	if _, err := conn.Options(); errors.Is(err, connect.ErrConflict) {
		return nil, Usage(err)
	}
	opts := []streamwright.Option{
		streamwright.WithName("streamwright command line"), streamwright.WithPrefix(a.Prefix), streamwright.WithConnection(conn),
		streamwright.WithNATS(nats.ErrorHandler(a.natsError)),
	}
	ctx, cancel := a.Within(ctx)
	defer cancel()
	return streamwright.Connect(ctx, "", append(opts, more...)...)
}

// natsError tells what the server refuses beside a request. A request that it
// concerns fails of it, and is told of anyway; what a worker does is told here.
func (a *App) natsError(_ *nats.Conn, _ *nats.Subscription, err error) {
	if a.TellRefusals || !errors.Is(err, nats.ErrPermissionViolation) {
		a.Notef("NATS: %s", Clean(err.Error()))
	}
}
