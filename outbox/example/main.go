// Example is a shop that takes orders in PostgreSQL: an order and the e-mail about
// it are written in one transaction, so there is never one without the other.
//
//	engine serve &
//	export DATABASE_URL=postgres://localhost/shop
//	go run ./example     # in the folder outbox
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/outbox"
	"github.com/streamwright/streamwright/workers"
)

// Order is a customer's order.
type Order struct {
	Customer string `json:"customer"`
	Amount   int    `json:"amount"`
}

var (
	confirm = streamwright.Define[Order, string]("confirm_order")
	box     outbox.Outbox // the table streamwright_outbox

	errTooMuch = errors.New("there is not as much in stock")
)

func main() {
	ctx := context.Background()
	db, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	c, err := streamwright.Connect(ctx, cmp.Or(os.Getenv("NATS_URL"), "nats://127.0.0.1:4222"))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if err := run(ctx, db, c, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, db *pgxpool.Pool, c *streamwright.Client, out io.Writer) error {
	if err := create(ctx, db); err != nil {
		return err
	}
	stop, err := relay(ctx, db, c)
	if err != nil {
		return err
	}
	defer stop()
	w, err := streamwright.NewWorker(c, workers.Config{})
	if err != nil {
		return err
	}
	confirm.Handle(w, func(_ context.Context, it *workers.Item[Order]) (string, error) {
		return "confirmed to " + it.Params.Customer, nil
	})
	if err := w.Start(ctx); err != nil {
		return err
	}
	defer w.Stop(ctx)

	for _, o := range []Order{{"ada", 3}, {"bob", 1000}} {
		id, err := buy(ctx, db, o)
		if errors.Is(err, errTooMuch) {
			fmt.Fprintf(out, "%s: %v\n", o.Customer, err) // nothing was written, and no e-mail goes out
			continue
		}
		if err != nil {
			return err
		}
		result, err := wait(ctx, c, id)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s: %s\n", o.Customer, result)
	}
	return nil
}

// create makes the tables; in a real shop, its migrations do.
func create(ctx context.Context, db *pgxpool.Pool) error {
	if err := box.Create(ctx, db); err != nil {
		return err
	}
	_, err := db.Exec(ctx, `CREATE TABLE IF NOT EXISTS orders (customer text NOT NULL, amount int NOT NULL)`)
	return err
}

// buy writes an order, and with it the item that confirms it.
func buy(ctx context.Context, db *pgxpool.Pool, o Order) (id string, err error) {
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO orders (customer, amount) VALUES ($1, $2)`, o.Customer, o.Amount); err != nil {
			return err
		}
		if id, err = box.Insert(ctx, tx, confirm.Item(o)); err != nil {
			return err
		}
		if o.Amount > 100 {
			return errTooMuch // rolls both back
		}
		return nil
	})
	return id, err
}

// relay publishes what has been committed, until stop. It may as well be a process
// of its own: `outbox relay`.
func relay(ctx context.Context, db *pgxpool.Pool, c *streamwright.Client) (stop func(), err error) {
	r, err := outbox.NewRelay(outbox.Config{DB: db, NATS: c.Conn(), Outbox: box})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := r.Run(ctx); err != nil {
			log.Print(err)
		}
	}()
	return func() { cancel(); <-done }, nil
}

// wait waits for an item of the outbox, which the engine may not know yet.
func wait(ctx context.Context, c *streamwright.Client, id string) (string, error) {
	for {
		result, err := confirm.Wait(ctx, c, id)
		if !errors.Is(err, streamwright.ErrNotFound) {
			return result, err
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}
