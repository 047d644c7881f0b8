package outbox_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/outbox"
)

func TestNamespaceOfARelay(t *testing.T) {
	e, err := embedded.Start(t.Context(), embedded.Options{Memory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Stop(t.Context()) }()
	nc, err := e.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	db, err := pgxpool.New(t.Context(), "postgres://127.0.0.1:1/none") // it is not connected yet
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for ns, ok := range map[events.Namespace]bool{"": true, "acme": true, "Acme": false, "a.b": false} {
		_, err := outbox.NewRelay(outbox.Config{DB: db, NATS: nc, Namespace: ns})
		if (err == nil) != ok || !ok && !strings.Contains(err.Error(), string(ns)) {
			t.Errorf("%q: %v", ns, err)
		}
	}
}
