package dispatcher

import (
	"fmt"
	"maps"
	"slices"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// purgeRejected has one of the rejected submissions forgotten.
func (c *chaos) purgeRejected() {
	page, err := c.store.Rejected(wire.ListRejected{Limit: 5})
	c.ok(err)
	if n := len(page.Rejected); n > 0 {
		r := page.Rejected[c.rng.IntN(n)]
		c.ask(func([]Outcome) {}, events.PurgeRejected{Seq: r.Seq, Type: events.Type(r.Type)})
	}
}

// rejectedAsTheLogSays holds however often the log was cut: of what was ever
// rejected, what nobody has purged is kept, and found by its message.
func (c *chaos) rejectedAsTheLogSays() error {
	want, answers := map[events.Seq]uint64{}, map[uint64]events.Seq{}
	err := c.readAll(func(evs []events.Event) error {
		for _, ev := range evs {
			switch b := ev.Body.(type) {
			case *events.Rejected:
				answers[b.Intake.Seq] = ev.Seq
				if b.Of.IsZero() {
					want[ev.Seq] = b.Intake.Seq
				}
			case *events.RejectedPurged:
				delete(want, b.Seq)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	page, err := c.store.Rejected(wire.ListRejected{Limit: 1000})
	if err != nil {
		return err
	}
	got := map[events.Seq]uint64{}
	for _, r := range page.Rejected {
		got[r.Seq] = r.IntakeSeq
	}
	if !maps.Equal(got, want) {
		return fmt.Errorf("the rejected submissions of events %v are kept, not %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
	for intake, seq := range answers {
		if at, _, found, err := c.store.Answer(intake); err != nil || !found || at != seq {
			return fmt.Errorf("message %d was answered by event %d; the projection says %d, %v, %v", intake, seq, at, found, err)
		}
	}
	return nil
}

// carriedRejected is how many rejected submissions rounds have re-stated.
func (c *chaos) carriedRejected() (n int) {
	c.ok(c.readAll(func(evs []events.Event) error {
		for _, ev := range evs {
			if b, ok := ev.Body.(*events.Snapshot); ok {
				n += len(b.Rejected)
			}
		}
		return nil
	}))
	return n
}
