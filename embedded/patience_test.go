package embedded

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/config"
)

// A node of a cluster that starts waits out elections, however many there are; not what no
// election mends, nor, on an existing NATS, for ever.
func TestPatience(t *testing.T) {
	const mended = 3 * startPatience
	leaderless := &jetstream.APIError{Code: 503, ErrorCode: 10008, Description: "JetStream system temporarily unavailable"}
	noRoom := &jetstream.APIError{Code: 503, ErrorCode: 10023, Description: "insufficient resources"}
	tooFew := &jetstream.APIError{Code: 400, ErrorCode: 10005, Description: "no suitable peers for placement"}
	for name, c := range map[string]struct {
		cluster string
		err     error
		waits   time.Duration // mended: until it is
	}{
		"a node, no leader":         {"x", leaderless, mended},
		"a node, silence":           {"x", context.DeadlineExceeded, mended},
		"a node, no room":           {"x", noRoom, startPatience},
		"a node, too few servers":   {"x", tooFew, startPatience},
		"a node, refused":           {"x", jetstream.ErrStreamNotFound, 0},
		"existing NATS, no leader":  {"", leaderless, startPatience},
		"existing NATS, no answers": {"", context.DeadlineExceeded, startPatience},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &base{cfg: config.Config{Cluster: config.Cluster{Name: c.cluster}}, log: slog.New(slog.DiscardHandler), outside: &outside{}}
				began := time.Now()
				err := b.patiently(t.Context(), func(context.Context) error {
					if time.Since(began) >= mended {
						return nil
					}
					return c.err
				})
				waited := time.Since(began)
				if err == nil && c.waits != mended || err != nil && !errors.Is(err, c.err) {
					t.Errorf("%v", err)
				}
				if waited < c.waits || waited > c.waits+startTry {
					t.Errorf("it waited for %s, not for %s", waited, c.waits)
				}
			})
		})
	}
}
