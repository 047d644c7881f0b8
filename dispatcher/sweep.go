package dispatcher

import (
	"time"

	"github.com/streamwright/streamwright/events"
)

// doubtSweep is the time between looks at the server's clock while it is implausible.
const doubtSweep = 10 * time.Second

// sweeper looks periodically for what no signal has reported.
type sweeper struct {
	l    *loop
	next time.Time
	idle map[events.Type]time.Time // since when types have been idle
}

// sweep looks for what a lost signal missed: streams that are gone, and messages of ack
// types that nobody will get any more or whose news was lost. It costs a few requests to
// the server, and one for each ack type.
func (sw *sweeper) sweep(now time.Time) error {
	l := sw.l
	sw.next = now.Add(l.cfg.Sweep)
	if l.clock.Doubtful() {
		sw.next = now.Add(min(l.cfg.Sweep, doubtSweep))
	}
	l.acked.noteAcks()
	l.ready.ReleaseWaiting()
	l.ready.CloseLanes(now)
	l.out.LookAround()
	if err := l.workforce.endUnseenDrains(now); err != nil {
		return err
	}
	if err := sw.forgetTypes(now); err != nil {
		return err
	}
	return l.acked.sweep(now)
}
