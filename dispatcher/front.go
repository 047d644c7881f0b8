package dispatcher

import (
	"context"
	"errors"

	"github.com/streamwright/streamwright/dispatcher/door"
	"github.com/streamwright/streamwright/events"
)

func hasDoor(cfg *Config) bool { return cfg.Door != nil && cfg.Alone && cfg.Dedup.Hook == nil }

// openDoor makes the door for plain publishes of an ownership; nil if there is to be none.
func openDoor(d *Dispatcher, l *loop) (*door.Door, error) {
	if !hasDoor(&d.cfg) {
		return nil, nil
	}
	front, err := door.Open(door.Config{
		Conn: d.cfg.Conn, Names: d.cfg.Names, Partition: d.cfg.Partition, Mapping: d.cfg.Door, Late: d.cfg.DoorLate, Logger: d.cfg.Logger,
		NewID: d.NewID, Now: d.Now, Rate: d.cfg.Rate, Answered: d.answered.Load, Read: d.read.Load,
		Take: func(ctx context.Context, b *door.Batch) bool {
			select {
			case l.queues.door.in <- &doorJob{b}:
				return true
			case <-ctx.Done():
				return false
			}
		},
	})
	told := l.pipe.told
	l.pipe.told = func(m events.Meta) {
		told(m)
		front.Settled()
	}
	return front, err
}

// doorJob decides plain publishes. While nothing may be taken from the intake stream, it
// gives them to that instead.
type doorJob struct{ *door.Batch }

func (j *doorJob) len() int { return len(j.Messages) }

// decide answers a message with events, or as the repeat that it is.
func (j *doorJob) decide(l *loop, i int) error {
	if j.Shut() || l.queues.paused.Load() || l.state.QueueFull() {
		j.GiveBack(i)
		return nil
	}
	m := j.Messages[i]
	err := m.Err
	if err == nil {
		dec, it, refused := l.decide(m.Submit)
		if refused == nil {
			m.Became(it, l.state.Meta().Applied, dec.Repeat)
			return nil
		}
		err = refused
	}
	var refused *events.Error
	if !errors.As(err, &refused) {
		return err
	}
	_, _, err = l.decide(m.Reject(refused))
	m.Became(nil, l.state.Meta().Applied, false)
	return err
}

func (j *doorJob) finish()               { j.End() }
func (j *doorJob) abandon(*events.Error) { j.Abandon() }
