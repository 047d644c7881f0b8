package dispatcher

import "github.com/streamwright/streamwright/events"

// dirty holds the types whose ready items the sender must look at. The parts share one.
type dirty map[events.Type]bool

func (d dirty) mark(types ...events.Type) {
	for _, t := range types {
		d[t] = true
	}
}
