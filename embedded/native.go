package embedded

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/dispatcher/natsio"
)

// holdNatives stops the consumers of native workers before any worker can reach
// the server: one that was killed may have forgotten what it has delivered, and
// would deliver it again before the engine knows what was acked.
func (e *Engine) holdNatives(ctx context.Context, s *server) error {
	nc, err := s.connect(true)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err == nil {
		err = natsio.HoldNatives(ctx, js, e.names())
	}
	if err != nil {
		return fmt.Errorf("start NATS server: %w", err)
	}
	return nil
}
