package door

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/nudge"
)

const (
	// nearlyDecided is the most messages of the stream that are undecided when the door
	// begins to hold others for them.
	nearlyDecided = 1024
	// openWithin bounds how long messages are held for those of the stream.
	openWithin = 250 * time.Millisecond
	// openAgain is the wait before the way is tried again, when the stream had too many.
	openAgain = 100 * time.Millisecond
	// askTimeout bounds a question to the stream.
	askTimeout = 2 * time.Second
)

// errBacklog says that the stream's backlog is not decided.
var errBacklog = errors.New("the intake's backlog is not decided yet")

// keepOpen opens the way to the loop, and opens it again whenever it leads to the stream.
func (d *Door) keepOpen(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	if d.cfg.Late {
		timer.Stop()
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.turned:
			timer.Reset(openAgain)
			continue
		case <-timer.C:
		}
		err := d.open(ctx)
		if err == nil || ctx.Err() != nil {
			continue
		}
		if !errors.Is(err, errBacklog) {
			d.cfg.Logger.Warn("plain publishes go to the intake first: trying again", "error", err)
		}
		timer.Reset(openAgain)
	}
}

// open turns the way from the stream to the loop. What comes meanwhile is held, and decided
// behind the stream's backlog, or follows it into the stream if that takes long.
func (d *Door) open(ctx context.Context) error {
	last, err := d.last(ctx)
	if err != nil {
		return err
	}
	if answered := d.cfg.Answered(); last > answered+nearlyDecided {
		return errBacklog
	}
	if err := d.cfg.Mapping.Map(d.cfg.Names.SubmitAll(), d.cfg.Names.Door("{{wildcard(1)}}")); err != nil {
		return fmt.Errorf("map %s: %w", d.cfg.Names.SubmitAll(), err)
	}
	if !d.turn(toStream, opening) {
		return nil
	}
	err = d.drained(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.way != opening {
		return nil // too much has come meanwhile
	}
	if err != nil {
		d.handOn()
		return err
	}
	if slices.ContainsFunc(d.held, func(m *Message) bool { return !decidable(m.raw, d.cfg.Names) }) {
		d.handOn()
		return errBacklog
	}
	d.way, d.buf, d.held = toLoop, d.held, nil
	d.shut.Store(false)
	nudge.Send(d.wake)
	return nil
}

// turn turns the way, if it is as expected.
func (d *Door) turn(from, to way) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.way != from {
		return false
	}
	d.way = to
	return true
}

// drained returns once the log answers every message that the stream has, and every one
// that was on its way there.
func (d *Door) drained(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	if err := d.passed(ctx); err != nil {
		return err
	}
	last, err := d.last(ctx)
	if err != nil {
		return err
	}
	for {
		if answered := d.cfg.Answered(); answered >= max(last, d.cfg.Read()) {
			return nil
		}
		select {
		case <-ctx.Done():
			return errBacklog
		case <-d.settled:
		}
	}
}

// passed returns once the stream has dealt with all that was published before: a message
// that it must refuse comes back behind them.
func (d *Door) passed(ctx context.Context) error {
	ask := nats.NewMsg(d.cfg.Names.Intake(d.cfg.Partition, string(events.NoType)))
	ask.Header.Set(nats.ExpectedLastSeqHdr, strconv.FormatUint(math.MaxInt64, 10))
	answer, err := d.cfg.Conn.RequestMsgWithContext(ctx, ask)
	if err != nil {
		return fmt.Errorf("ask stream %s whether it has taken everything: %w", d.cfg.Names.IntakeStream(), err)
	}
	var refusal struct{ Error *json.RawMessage }
	if err := json.Unmarshal(answer.Data, &refusal); err != nil || refusal.Error == nil {
		return fmt.Errorf("ask stream %s whether it has taken everything: unexpected answer %.100q", d.cfg.Names.IntakeStream(), answer.Data)
	}
	return nil
}

// last returns the sequence of the stream's last message.
func (d *Door) last(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var info struct {
		State *struct {
			LastSeq uint64 `json:"last_seq"`
		}
	}
	answer, err := d.cfg.Conn.RequestWithContext(ctx, d.cfg.Names.JetStream("STREAM.INFO."+d.cfg.Names.IntakeStream()), nil)
	if err == nil {
		err = json.Unmarshal(answer.Data, &info)
	}
	if err == nil && info.State == nil {
		err = fmt.Errorf("unexpected answer %.100q", answer.Data)
	}
	if err != nil {
		return 0, fmt.Errorf("ask for the state of stream %s: %w", d.cfg.Names.IntakeStream(), err)
	}
	return info.State.LastSeq, nil
}
