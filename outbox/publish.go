package outbox

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/wire/command"
)

// taken is a row that this relay's transaction has locked.
type taken struct {
	seq int64
	row
	ack     jetstream.PubAckFuture
	refused error // why it can't be published
}

// Once publishes one batch of the waiting items, and returns the number of rows
// that it has dealt with. The error tells why some could not be published now; the
// published ones have left the outbox all the same.
func (r *Relay) Once(ctx context.Context) (n int, err error) {
	tx, err := r.cfg.DB.Begin(ctx)
	if err != nil {
		return 0, fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // no effect after a commit
	batch, err := r.take(ctx, tx)
	if err != nil || len(batch) == 0 {
		return 0, err
	}
	done, refused, later := r.publish(ctx, batch)
	if err := r.settle(ctx, tx, done, refused); err != nil {
		return 0, err
	}
	if len(done) > 0 && r.cfg.Published != nil {
		r.cfg.Published(len(done))
	}
	return len(done) + len(refused), later
}

// take locks the next rows, as many as a batch and its bytes allow. Rows that
// another relay has are passed over.
func (r *Relay) take(ctx context.Context, tx pgx.Tx) (batch []*taken, err error) {
	rows, err := tx.Query(ctx, "SELECT seq, id, type, params::text, options::text FROM "+r.table+" WHERE refused_at IS NULL ORDER BY seq LIMIT $1 FOR UPDATE SKIP LOCKED", r.cfg.Batch)
	if err != nil {
		return nil, failed("take from the outbox", r.table, err)
	}
	defer rows.Close()
	bytes := 0
	for bytes < batchBytes && rows.Next() {
		t := &taken{}
		if err := rows.Scan(&t.seq, &t.ID, &t.Type, &t.Params, &t.Options); err != nil {
			return nil, fmt.Errorf("take from the outbox: %w", err)
		}
		batch, bytes = append(batch, t), bytes+len(t.Params)+len(t.Options)
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return nil, failed("take from the outbox", r.table, err)
	}
	return batch, nil
}

// decodeOptions reads a row's options strictly: unknown ones are refused, not
// dropped.
func decodeOptions(options []byte) (s wire.Submit, err error) {
	if err := wire.ReadStrict(options, &s); err != nil {
		var refused *events.Error
		if errors.As(err, &refused) {
			return s, refused
		}
		return s, events.Refuse(events.CodeBadRequest, "the options are not those of a submission (%s): see docs/guides/OUTBOX.md for what they may be", strings.TrimPrefix(err.Error(), "json: "))
	}
	if s.ID != "" || s.Type != "" || s.Params != nil {
		return s, events.Refuse(events.CodeBadRequest, "the options have an id, a type or params: these are columns of their own")
	}
	return s, nil
}

// message returns the plain publish of a row.
func (r *Relay) message(t *taken) (*nats.Msg, error) {
	s, err := decodeOptions(t.Options)
	if err != nil {
		return nil, err
	}
	s.ID, s.Type, s.Params = t.ID, t.Type, t.Params
	typ, err := events.ParseType(s.Type)
	if err != nil {
		return nil, events.Refuse(events.CodeBadType, "%v", err)
	}
	if _, err := command.OfSubmit(s, events.ID{}, events.MaxParamsCeiling); err != nil {
		return nil, err
	}
	h, err := s.Headers()
	if err != nil {
		return nil, err
	}
	h[jetstream.MsgIDHeader] = []string{s.ID}
	if len(s.Params) == 0 {
		s.Params = []byte("null")
	}
	return &nats.Msg{Subject: r.names.Submit(typ), Header: h, Data: s.Params}, nil
}

// publish sends a batch. It returns the rows that the intake has, those it will
// never take, and why the rest has to come later.
func (r *Relay) publish(ctx context.Context, batch []*taken) (done []int64, refused []*taken, later error) {
	for _, t := range batch {
		m, err := r.message(t)
		if err == nil {
			t.ack, err = r.js.PublishMsgAsync(m, jetstream.WithRetryAttempts(0))
			if err != nil && !errors.Is(err, nats.ErrMaxPayload) {
				later = fmt.Errorf("publish: %w", err)
				break
			}
		}
		t.refused = err
	}
	for _, t := range batch {
		if t.ack != nil && t.refused == nil {
			err := await(ctx, t.ack)
			if err == nil {
				done = append(done, t.seq)
				continue
			}
			if t.refused = forGood(err); t.refused == nil {
				later = fmt.Errorf("publish item %s: %w", t.ID, err)
			}
		}
		if t.refused != nil {
			refused = append(refused, t)
		}
	}
	return done, refused, later
}

func await(ctx context.Context, ack jetstream.PubAckFuture) error {
	select {
	case <-ack.Ok():
		return nil
	case err := <-ack.Err():
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// tooLarge is the server's code for a message that is too large for its stream.
const tooLarge = 10054

// forGood returns err if trying again would not help, else nil.
func forGood(err error) error {
	var api *jetstream.APIError
	if errors.As(err, &api) && int(api.ErrorCode) == tooLarge {
		return events.Refuse(events.CodeTooLarge, "the submission is larger than the intake takes (%s)", api.Description)
	}
	return nil
}

// settle deletes the published rows, and marks the refused ones. It finishes even
// if ctx has ended: what was published should not be published again.
func (r *Relay) settle(ctx context.Context, tx pgx.Tx, done []int64, refused []*taken) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ackTimeout)
	defer cancel()
	if len(done) > 0 {
		if _, err := tx.Exec(ctx, "DELETE FROM "+r.table+" WHERE seq = ANY($1)", done); err != nil {
			return fmt.Errorf("take published items out of the outbox: %w", err)
		}
	}
	for _, t := range refused {
		text := t.refused.Error()
		r.cfg.Logger.Error("an item in the outbox can't be published: correct the row, then retry it", "id", t.ID, "type", t.Type, "error", text)
		if _, err := tx.Exec(ctx, "UPDATE "+r.table+" SET refused_at = clock_timestamp(), error = $2 WHERE seq = $1", t.seq, text[:min(len(text), maxErrorLen)]); err != nil {
			return fmt.Errorf("mark an item that can't be published: %w", err)
		}
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("take published items out of the outbox: %w", err)
	}
	return nil
}
