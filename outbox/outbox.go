package outbox

import (
	"cmp"
	"context"
	"database/sql"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/oklog/ulid/v2"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/wire/command"
)

// DefaultTable is the table of an Outbox that names none.
const DefaultTable = "streamwright_outbox"

// MaxInsert bounds the items of one InsertMany.
const MaxInsert = 1000

// Outbox is a table of items that wait to be published. The zero Outbox uses
// DefaultTable. Any goroutine may use it.
type Outbox struct {
	// Table is the table's name, a plain lower-case identifier of at most 40
	// bytes, found by the connection's search_path.
	Table string
}

// Tx is the part of a transaction that Insert needs. pgx.Tx has it (and so have
// *pgx.Conn and *pgxpool.Pool, for an item that needs no transaction).
type Tx interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// SQLTx is the part of a transaction that InsertSQL needs; *sql.Tx has it.
type SQLTx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

var plainName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,39}$`)

// table returns the checked name of the table.
func (o Outbox) table() (string, error) {
	name := cmp.Or(o.Table, DefaultTable)
	if !plainName.MatchString(name) {
		return "", events.Refuse(events.CodeBadRequest, "the outbox table %q must be a lower-case identifier of at most 40 bytes: letters, digits and _", o.Table)
	}
	return name, nil
}

var (
	//go:embed schema.sql
	schemaSQL string
	//go:embed ulid.sql
	ulidSQL string
)

// Schema returns the SQL that creates the table, its index, its trigger and the
// functions they use, for PostgreSQL 14 or later; running it again does nothing.
func (o Outbox) Schema() (string, error) {
	table, err := o.table()
	if err != nil {
		return "", err
	}
	names := strings.NewReplacer("{{table}}", table, "{{index}}", table+"_waiting", "{{notify}}", table+"_notify",
		"{{trigger}}", table+"_inserted", "{{ulid}}", table+"_ulid", "{{channel}}", table) // insertions notify a channel of the table's name
	return names.Replace(ulidSQL + "\n" + schemaSQL), nil
}

// Create runs the Schema.
func (o Outbox) Create(ctx context.Context, tx Tx) error {
	schema, err := o.Schema()
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, schema); err != nil {
		return fmt.Errorf("create the outbox: %w", err)
	}
	return nil
}

// row is an item as the table has it.
type row struct {
	ID      string
	Type    string
	Params  []byte // nil: none
	Options []byte
}

// rowOf checks an item as the engine would, and returns its row.
func rowOf(item streamwright.Item) (row, error) {
	now := time.Now()
	if item.ID == "" {
		item.ID = ulid.Make().String()
	}
	if item.Delay > 0 && item.AvailableAt.IsZero() {
		// Counted from the insertion, not from when a relay gets to it.
		item.AvailableAt, item.Delay = now.Add(item.Delay), 0
	}
	s, err := item.Submission()
	if err != nil {
		return row{}, err
	}
	if _, err := command.OfSubmit(s, events.ID(ulid.Make()), events.MaxParamsCeiling); err != nil {
		return row{}, err
	}
	if _, err := s.Headers(); err != nil {
		return row{}, err
	}
	r := row{ID: s.ID, Type: s.Type, Params: s.Params}
	r.Options, err = optionsOf(s)
	return r, err
}

// optionsOf returns the fields of a submission beside its id, type and params.
func optionsOf(s wire.Submit) ([]byte, error) {
	doc, err := json.Marshal(s)
	if err != nil {
		return nil, events.Refuse(events.CodeBadRequest, "the item can't be written as JSON: %v", err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(doc, &fields); err != nil {
		return nil, events.Refuse(events.CodeInternal, "%v", err)
	}
	for _, name := range []string{"id", "type", "params"} {
		delete(fields, name)
	}
	return json.Marshal(fields)
}

// Insert writes an item into the outbox, in the transaction, and returns its id.
// The item is published once the transaction has committed, and never if it does
// not. An item that the engine would refuse is an *events.Error, and leaves the
// transaction as it was. Params are bounded by events.MaxParamsCeiling and by the
// type; larger ones need the object store, which the outbox does not use. A Delay
// counts from now.
func (o Outbox) Insert(ctx context.Context, tx Tx, item streamwright.Item) (id string, err error) {
	ids, err := o.InsertMany(ctx, tx, []streamwright.Item{item})
	if err != nil {
		return "", err
	}
	return ids[0], nil
}

// InsertMany is Insert for up to MaxInsert items, by one statement: all of them,
// or none.
func (o Outbox) InsertMany(ctx context.Context, tx Tx, items []streamwright.Item) (ids []string, err error) {
	table, err := o.table()
	if err != nil {
		return nil, err
	}
	if len(items) > MaxInsert {
		return nil, events.Refuse(events.CodeTooLarge, "%d items are to be inserted: at most %d at once", len(items), MaxInsert)
	}
	ids = make([]string, len(items))
	types, params, options := make([]string, len(items)), make([]*string, len(items)), make([]string, len(items))
	for i, item := range items {
		r, err := rowOf(item)
		if err != nil {
			return nil, err
		}
		ids[i], types[i], options[i] = r.ID, r.Type, string(r.Options)
		if r.Params != nil {
			params[i] = new(string(r.Params))
		}
	}
	if len(items) == 0 {
		return ids, nil
	}
	_, err = tx.Exec(ctx, "INSERT INTO "+table+" (id, type, params, options) "+
		"SELECT id, type, params::json, options::jsonb FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) WITH ORDINALITY AS new (id, type, params, options, n) ORDER BY n",
		ids, types, params, options)
	if err != nil {
		return nil, failed("insert into the outbox", table, err)
	}
	return ids, nil
}

// InsertSQL is Insert for database/sql, with a driver whose placeholders are $1, such
// as pgx or lib/pq.
func (o Outbox) InsertSQL(ctx context.Context, tx SQLTx, item streamwright.Item) (id string, err error) {
	table, err := o.table()
	if err != nil {
		return "", err
	}
	r, err := rowOf(item)
	if err != nil {
		return "", err
	}
	var params any
	if r.Params != nil {
		params = string(r.Params)
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO "+table+" (id, type, params, options) VALUES ($1, $2, $3::json, $4::jsonb)", r.ID, r.Type, params, string(r.Options))
	if err != nil {
		return "", failed("insert into the outbox", table, err)
	}
	return r.ID, nil
}

// Status counts what is in the outbox.
type Status struct {
	Waiting int64         `json:"waiting"` // to be published
	Refused int64         `json:"refused"` // can't be published
	Oldest  time.Duration `json:"oldest"`  // wait of the oldest item
}

// Querier is the part of a connection that Status needs; *pgxpool.Pool, *pgx.Conn
// and pgx.Tx have it.
type Querier interface {
	Tx
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Status counts the items in the outbox, by reading its index.
func (o Outbox) Status(ctx context.Context, db Querier) (s Status, err error) {
	table, err := o.table()
	if err != nil {
		return s, err
	}
	var oldest float64
	err = db.QueryRow(ctx, `SELECT count(*) FILTER (WHERE refused_at IS NULL), count(*) FILTER (WHERE refused_at IS NOT NULL),
		coalesce(extract(epoch FROM clock_timestamp() - min(inserted_at) FILTER (WHERE refused_at IS NULL)), 0)::float8 FROM `+table).Scan(&s.Waiting, &s.Refused, &oldest)
	if err != nil {
		return s, failed("look into the outbox", table, err)
	}
	s.Oldest = time.Duration(oldest * float64(time.Second))
	return s, nil
}

// Retry lets the relay try refused items again: those with these ids, or all. It
// returns their number.
func (o Outbox) Retry(ctx context.Context, db Tx, ids ...string) (int64, error) {
	table, err := o.table()
	if err != nil {
		return 0, err
	}
	tag, err := db.Exec(ctx, "WITH again AS (UPDATE "+table+" SET refused_at = NULL, error = NULL WHERE refused_at IS NOT NULL AND ($1::text[] IS NULL OR id = ANY($1)) RETURNING 1) "+
		"SELECT pg_notify('"+table+"', '') FROM again", ids)
	if err != nil {
		return 0, failed("retry what the outbox holds", table, err)
	}
	return tag.RowsAffected(), nil
}

// isMissing reports whether an error says that the table is not there.
func isMissing(err error) bool {
	const undefinedTable = "42P01" // PostgreSQL's code
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == undefinedTable
}

func failed(what, table string, err error) error {
	if isMissing(err) {
		return fmt.Errorf("%s: there is no table %s: create it with Outbox.Create, or `outbox schema`: %w", what, table, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}
