package dispatcher

import (
	"context"
	"fmt"
	"time"

	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/dispatcher/natsio"
)

// ClockStatus compares the partition's time with the NATS server's.
type ClockStatus = clock.Status

// newClocks makes the clocks of a process; local returns the process's own time.
func newClocks(c *Config, local func() time.Time) *clock.Partition {
	return &clock.Partition{
		Source: clock.Source{Local: local, MaxJump: c.MaxClockJump, Synced: c.ClockSynced, Sleep: c.Suspended},
		Log:    c.Logger, Known: c.KnownTime, Noted: c.NoteTime,
	}
}

// Clock returns the partition's time and how the server's compares with it; false if there
// is no clock yet.
func (d *Dispatcher) Clock() (ClockStatus, bool) {
	c := d.clocks.Clock()
	if c == nil {
		return ClockStatus{}, false
	}
	return c.Status(), true
}

// AcceptClock sets the partition's time to the server's, because an operator confirms that
// the server's is right; by may be empty. A new ownership records this in the log, and the
// time may go back: see [events.ClockAccepted]. If the two differ by at most a second, it
// does nothing.
func (d *Dispatcher) AcceptClock(ctx context.Context, by string) (ClockStatus, error) {
	return d.clocks.Accept(ctx, by, d.Reload, d.ended)
}

// FollowClock corrects the engine's clock by the server's now, rather than at the next
// sweep.
func (d *Dispatcher) FollowClock(ctx context.Context) error {
	tip, err := d.cfg.Log.Last(ctx)
	if err != nil {
		return fmt.Errorf("follow the server's clock: %w", err)
	}
	if d.clocks.Clock() == nil {
		return errClosed
	}
	d.clocks.Follow(tip.Time)
	d.whenOwner((*natsio.Signals).ClockChanged)()
	return nil
}
