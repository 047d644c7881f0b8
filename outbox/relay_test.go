package outbox_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/nats-io/nats.go"
	"github.com/oklog/ulid/v2"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/outbox"
	"github.com/streamwright/streamwright/outbox/internal/pgtest"
)

const patience = 3 * time.Minute

// world is a database and an engine.
type world struct {
	t   *testing.T
	ctx context.Context
	pg  *pgtest.Server
	db  *pgxpool.Pool
	eng *embedded.Engine
	c   *streamwright.Client
	box outbox.Outbox
}

func newWorld(t *testing.T) *world {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	w := &world{t: t, ctx: ctx, pg: pgtest.Start(t)}
	w.db = must(pgxpool.New(ctx, w.pg.URL()))(t)
	t.Cleanup(w.db.Close)
	w.eng = must(embedded.Start(ctx, embedded.Options{Memory: true, NATSListen: "127.0.0.1:0"}))(t)
	t.Cleanup(func() { _ = w.eng.Stop(context.Background()) })
	w.c = must(w.eng.Client(ctx))(t)
	t.Cleanup(w.c.Close)
	if err := w.box.Create(ctx, w.db); err != nil {
		t.Fatal(err)
	}
	return w
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// relay runs a relay until the test ends, or stop is called.
func (w *world) relay(cfg outbox.Config) (stop func()) {
	w.t.Helper()
	nc := must(w.eng.Connect())(w.t)
	cfg.DB, cfg.NATS, cfg.Outbox = w.db, nc, w.box
	r := must(outbox.NewRelay(cfg))(w.t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	var once atomic.Bool
	stop = func() {
		if once.Swap(true) {
			return
		}
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("the relay ended with %v", err)
		}
		nc.Close()
	}
	w.t.Cleanup(stop)
	return stop
}

func (w *world) eventually(what string, ok func() bool) {
	w.t.Helper()
	for !ok() {
		select {
		case <-w.ctx.Done():
			w.t.Fatalf("it did not come about: %s", what)
		case <-time.After(5 * time.Millisecond): // between two looks
		}
	}
}

// items are how many items of a type the engine has.
func (w *world) items(typ string) (n int) {
	f := streamwright.Filter{Type: typ, Limit: 1000}
	for {
		page := must(w.c.List(w.ctx, f))(w.t)
		n += len(page.Items)
		if f.Cursor = page.NextCursor; f.Cursor == "" {
			return n
		}
	}
}

func (w *world) waiting() outbox.Status { return must(w.box.Status(w.ctx, w.db))(w.t) }

// An item is there if its transaction commits, with all that it says, and not
// otherwise.
func TestItemsFollowTheirTransaction(t *testing.T) {
	w := newWorld(t)
	w.relay(outbox.Config{Poll: time.Hour}) // so that only the notification wakes it
	tx := must(w.db.Begin(w.ctx))(t)
	gone := must(w.box.Insert(w.ctx, tx, streamwright.Item{Type: "email"}))(t)
	if err := tx.Rollback(w.ctx); err != nil {
		t.Fatal(err)
	}
	tx = must(w.db.Begin(w.ctx))(t)
	id := must(w.box.Insert(w.ctx, tx, streamwright.Item{
		Type: "email", Params: map[string]string{"to": "a <b>"}, Priority: 8, DedupKey: "k", Tenant: "acme",
		Labels: map[string]string{"team": "x"}, Source: "shop", Delay: time.Hour,
	}))(t)
	before := time.Now()
	if n := w.items("email"); n != 0 {
		t.Fatalf("%d items before the commit", n)
	}
	if err := tx.Commit(w.ctx); err != nil {
		t.Fatal(err)
	}
	w.eventually("the item is there", func() bool { return w.items("email") == 1 })
	it := must(w.c.Get(w.ctx, id))(t)
	if string(it.Params) != `{"to":"a \u003cb\u003e"}` || it.Priority != 8 || it.DedupKey != "k" || it.Tenant != "acme" || it.Labels["team"] != "x" || it.Provenance.Source != "shop" {
		t.Errorf("%+v", it)
	}
	if d := it.AvailableAt.Sub(before); d > time.Hour || d < 50*time.Minute {
		t.Errorf("available in %v", d)
	}
	var refused *events.Error
	if _, err := w.c.Get(w.ctx, gone); !errors.As(err, &refused) || refused.Code != events.CodeNotFound {
		t.Errorf("the item of the transaction that was rolled back: %v", err)
	}
	w.eventually("the outbox is empty", func() bool { return w.waiting() == outbox.Status{} })
}

// What the engine would refuse, the transaction hears of, and goes on.
func TestInsertRefuses(t *testing.T) {
	w := newWorld(t)
	tx := must(w.db.Begin(w.ctx))(t)
	defer func() { _ = tx.Rollback(w.ctx) }()
	for code, it := range map[events.Code]streamwright.Item{
		events.CodeBadType:     {Type: "No Type"},
		events.CodeBadPriority: {Type: "t", Priority: 10},
		events.CodeBadID:       {Type: "t", ID: "x"},
		events.CodeTooLarge:    {Type: "t", Params: strings.Repeat("x", events.MaxParamsCeiling)},
		events.CodeBadParams:   {Type: "t", Params: json.RawMessage("{")},
		events.CodeBadHeader:   {Type: "t", DedupKey: "two\nlines"},
		events.CodeBadTime:     {Type: "t", Delay: -1},
	} {
		if _, err := w.box.Insert(w.ctx, tx, it); events.CodeOf(err) != code {
			t.Errorf("%s: %v", code, err)
		}
	}
	must(w.box.Insert(w.ctx, tx, streamwright.Item{Type: "t"}))(t) // the transaction is as it was
	_, err := outbox.Outbox{Table: "none"}.Insert(w.ctx, w.db, streamwright.Item{Type: "t"})
	if err == nil || !strings.Contains(err.Error(), "outbox schema") {
		t.Error(err)
	}
	if _, err := (outbox.Outbox{Table: "a; drop"}).Schema(); err == nil {
		t.Error("a table of that name was taken")
	}
}

// Plain SQL, of any language, and database/sql do as well.
func TestOtherWaysIn(t *testing.T) {
	w := newWorld(t)
	w.relay(outbox.Config{})
	if _, err := w.db.Exec(w.ctx, `INSERT INTO streamwright_outbox (type, params, options) VALUES ('plain', '{"n": 1}', '{"priority": 7}'), ('plain', NULL, '{}')`); err != nil {
		t.Fatal(err)
	}
	db := must(sql.Open("pgx", w.pg.URL()))(t)
	defer db.Close()
	tx := must(db.BeginTx(w.ctx, nil))(t)
	id := must(w.box.InsertSQL(w.ctx, tx, streamwright.Item{Type: "sql", Params: 5}))(t)
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	w.eventually("all are there", func() bool { return w.items("plain") == 2 && w.items("sql") == 1 })
	if it := must(w.c.Get(w.ctx, id))(t); string(it.Params) != "5" {
		t.Errorf("params %s", it.Params)
	}
	page := must(w.c.List(w.ctx, streamwright.Filter{Type: "plain"}))(t)
	if a, b := page.Items[0].Priority, page.Items[1].Priority; a+b != 12 {
		t.Errorf("priorities %d and %d", a, b)
	}
}

// A row that can't become an item is marked and holds nobody up; corrected, it
// goes.
func TestRefusedRows(t *testing.T) {
	w := newWorld(t)
	w.relay(outbox.Config{})
	if _, err := w.db.Exec(w.ctx, `INSERT INTO streamwright_outbox (type, options) VALUES ('Bad Type', '{}'), ('ok', '{"priority": 99}'), ('ok', '{"priority": "urgent"}'), ('ok', '{}')`); err != nil {
		t.Fatal(err)
	}
	w.eventually("the good one is there, the others are marked", func() bool { return w.items("ok") == 1 && w.waiting().Refused == 3 })
	if s := w.waiting(); s.Waiting != 0 {
		t.Errorf("%+v", s)
	}
	var texts string
	if err := w.db.QueryRow(w.ctx, `SELECT string_agg(error, ' | ') FROM streamwright_outbox`).Scan(&texts); err != nil || !strings.Contains(texts, "bad_type") || !strings.Contains(texts, "bad_priority") {
		t.Error(texts, err)
	}
	if _, err := w.db.Exec(w.ctx, `UPDATE streamwright_outbox SET type = 'ok', options = '{}'`); err != nil {
		t.Fatal(err)
	}
	if n := must(w.box.Retry(w.ctx, w.db))(t); n != 3 {
		t.Errorf("%d to be retried", n)
	}
	w.eventually("they are there", func() bool { return w.items("ok") == 4 && w.waiting() == outbox.Status{} })
}

// A relay that dies between the publish and the commit leaves rows that are
// published already: the next one publishes them again, and there is still one
// item of each.
func TestADeadRelayDoublesNothing(t *testing.T) {
	w := newWorld(t)
	const n = 300
	items := make([]streamwright.Item, n)
	for i := range items {
		items[i] = streamwright.Item{Type: "once", Params: i}
	}
	must(w.box.InsertMany(w.ctx, w.db, items))(t)
	// As the dead one did: published, not deleted. By hand, past the window too.
	nc := must(w.eng.Connect())(t)
	defer nc.Close()
	js := must(nc.JetStream())(t)
	rows := must(w.db.Query(w.ctx, `SELECT id, params::text FROM streamwright_outbox ORDER BY seq`))(t)
	published := 0
	for rows.Next() {
		var id, params string
		if err := rows.Scan(&id, &params); err != nil {
			t.Fatal(err)
		}
		h := nats.Header{"Work-Id": {id}}
		if published%2 == 0 {
			h.Set(nats.MsgIdHdr, id) // the others as if the window had ended
		}
		must(js.PublishMsg(&nats.Msg{Subject: "work.submit.once", Header: h, Data: []byte(params)}))(t)
		published++
	}
	if rows.Err() != nil || published != n {
		t.Fatal(published, rows.Err())
	}
	w.relay(outbox.Config{Batch: 7})
	w.eventually("the outbox is empty", func() bool { return w.waiting() == outbox.Status{} })
	last := must(w.c.Publish(w.ctx, streamwright.Item{Type: "mark"}))(t)
	w.eventually("all of the intake is decided", func() bool { _, err := w.c.GetByIntake(w.ctx, last.IntakeSeq); return err == nil })
	if got := w.items("once"); got != n {
		t.Errorf("%d items of %d", got, n)
	}
}

// Two relays share the work, the database goes away and comes back, LISTEN with
// it: all arrive once.
func TestRelaysLiveThroughLosses(t *testing.T) {
	w := newWorld(t)
	var published atomic.Int64
	cfg := outbox.Config{Batch: 20, Poll: time.Hour, Degraded: 50 * time.Millisecond, Published: func(n int) { published.Add(int64(n)) }}
	w.relay(cfg)
	stop := w.relay(cfg)
	insert := func(from, to int) {
		for i := from; i < to; i++ {
			must(w.box.Insert(w.ctx, w.db, streamwright.Item{Type: "lossy", Params: i}))(t)
		}
	}
	insert(0, 100)
	w.pg.Down()
	w.pg.Up()
	w.eventually("the database is back", func() bool { return w.db.Ping(w.ctx) == nil })
	insert(100, 200)
	w.eventually("all are published", func() bool { return w.waiting() == outbox.Status{} })
	w.eventually("all are there", func() bool { return w.items("lossy") == 200 })
	stop()
	// LISTEN works again: without it this would take an hour.
	must(w.box.Insert(w.ctx, w.db, streamwright.Item{Type: "lossy"}))(t)
	w.eventually("the last is there", func() bool { return w.items("lossy") == 201 })
	w.eventually("the relays tell of all", func() bool { return published.Load() >= 201 })
}

// A ULID of the database is one that the engine takes, and they rise with time.
func TestULIDsOfTheDatabase(t *testing.T) {
	w := newWorld(t)
	seen := map[string]bool{}
	for range 200 {
		var s string
		if err := w.db.QueryRow(w.ctx, `SELECT streamwright_outbox_ulid()`).Scan(&s); err != nil {
			t.Fatal(err)
		}
		id, err := events.ParseID(s)
		if err != nil || seen[s] {
			t.Fatal(s, err)
		}
		seen[s] = true
		if age := time.Since(ulid.Time(ulid.ULID(id).Time())); age < -time.Second || age > patience {
			t.Fatalf("%s is of %v", s, ulid.Time(ulid.ULID(id).Time()))
		}
	}
}

// Options that the relay does not know are refused, not dropped.
func TestUnknownOptionsAreRefused(t *testing.T) {
	w := newWorld(t)
	w.relay(outbox.Config{})
	for options, want := range map[string]string{
		`{"prioritty": 9}`:              `unknown field "prioritty"`,
		`{"priority": "urgent"}`:        "use 0 to 9",
		`{"params": {"n": 1}}`:          "columns of their own",
		`{"type": "other"}`:             "columns of their own",
		`{"priority": "high", "x": {}}`: `unknown field "x"`,
	} {
		var id, reason string
		if err := w.db.QueryRow(w.ctx, `INSERT INTO streamwright_outbox (type, options) VALUES ('plain', $1) RETURNING id`, options).Scan(&id); err != nil {
			t.Fatal(err)
		}
		w.eventually("it is refused: "+options, func() bool {
			err := w.db.QueryRow(w.ctx, `SELECT coalesce(error, '') FROM streamwright_outbox WHERE id = $1`, id).Scan(&reason)
			return err == nil && reason != ""
		})
		if !strings.Contains(reason, want) {
			t.Errorf("%s: %s", options, reason)
		}
	}
}
