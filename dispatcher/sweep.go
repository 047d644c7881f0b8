package dispatcher

import (
	"time"

	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/dispatcher/readyq"
	"github.com/streamwright/streamwright/dispatcher/table"
	"github.com/streamwright/streamwright/events"
)

// doubtSweep is the time between looks at the server's clock while it is implausible.
const doubtSweep = 10 * time.Second

// sweeper looks periodically for what no signal has reported.
type sweeper struct {
	*decider
	cfg       *Config
	table     *table.Table
	ready     *readyq.Queues
	out       effects
	acks      *ackRuns
	workforce *workforce

	next time.Time
	idle map[events.Type]time.Time // since when types have been idle
}

// by moves the next sweep forward to a time, never back.
func (sw *sweeper) by(at time.Time) { sw.next = clock.Sooner(sw.next, at) }

// sweep looks for what a lost signal missed: streams that are gone, and messages of ack
// types that nobody will get any more or whose news was lost. It costs a few requests to
// the server, and one for each ack type.
func (sw *sweeper) sweep(now time.Time) error {
	sw.next = now.Add(sw.cfg.Sweep)
	if sw.clock.Doubtful() {
		sw.next = now.Add(min(sw.cfg.Sweep, doubtSweep))
	}
	sw.acks.noteAcks()
	sw.ready.ReleaseWaiting()
	sw.ready.CloseLanes(now)
	sw.out.LookAround()
	if err := sw.workforce.endUnseenDrains(now); err != nil {
		return err
	}
	if err := sw.forgetTypes(now); err != nil {
		return err
	}
	return sw.acks.sweep(now)
}
