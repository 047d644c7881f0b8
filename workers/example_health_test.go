package workers_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/workers"
)

// runMailer is a worker that takes no new work while a check of its own fails,
// and answers the engine's probes.
func runMailer(ctx context.Context, url string) error {
	nc, err := nats.Connect(url, nats.MaxReconnects(-1))
	if err != nil {
		return err
	}
	defer nc.Close()
	w, err := workers.New(nc, workers.Config{
		Probe: true,
		Checks: map[string]workers.Check{
			"spool": func(ctx context.Context) error {
				if _, err := os.Stat(os.TempDir()); err != nil {
					return errors.New("the spool folder is not mounted")
				}
				return nil
			},
		},
	})
	if err != nil {
		return err
	}
	workers.Handle(w, "mail", func(ctx context.Context, it *workers.Item[person]) (string, error) {
		return "dear " + it.Params.Name, nil
	})
	return w.Run(ctx)
}

// A worker with a check of its own and a probe.
func Example_health() {
	fmt.Println(outcomeOf(runMailer, streamwright.Item{Type: "mail", Params: person{"Ada"}}))
	// Output: completed "dear Ada"
}

// checksOf are the built-in checks of a worker that uses a database.
func checksOf(db *sql.DB) map[string]workers.Check {
	return map[string]workers.Check{
		"memory":  workers.MemoryBelow(0.9),
		"cpu":     workers.CPUBelow(0.95, time.Minute),
		"threads": workers.ThreadsBelow(5000),
		"database": workers.ConnectionsBelow(0.9, func() (inUse, max int) {
			s := db.Stats()
			return s.InUse, s.MaxOpenConnections
		}),
	}
}

// A pool without a bound on its connections passes.
func Example_builtinChecks() {
	fmt.Println(checksOf(new(sql.DB))["database"](context.Background()))
	// Output: <nil>
}
