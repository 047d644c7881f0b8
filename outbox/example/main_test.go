package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/outbox/internal/pgtest"
)

func TestExample(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	db, err := pgxpool.New(ctx, pgtest.Start(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	e, err := embedded.Start(ctx, embedded.Options{Memory: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Stop(context.Background()) })
	c, err := e.Client(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	var out strings.Builder
	if err := run(ctx, db, c, &out); err != nil {
		t.Fatal(err)
	}
	if want := "ada: confirmed to ada\nbob: there is not as much in stock\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
	var orders int
	if err := db.QueryRow(ctx, `SELECT count(*) FROM orders`).Scan(&orders); err != nil || orders != 1 {
		t.Errorf("%d orders, %v", orders, err)
	}
}
