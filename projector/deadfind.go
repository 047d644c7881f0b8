package projector

import (
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// byTerms reports whether dead items are better found through the term index than
// among all the dead: something is asked for that it knows. A cause names few enough
// items as it is.
func (l *selection) byTerms() bool {
	return l.cause == "" && (l.hasLabel || l.tenant != "" || l.worker != "" || len(l.words) > 0 || l.search.text != "")
}

// termPage is the page of dead items that is found as other lists are: the last
// touched first, which for what is dead is the last that died, since nothing touches
// it any more and an event's time is never before that of an earlier one.
func (l *selection) termPage(v view) (wire.Listed, error) {
	l.state = events.StateDead
	return l.page(v)
}

// past reports whether all that follows an item in a listing ended too long ago to
// be asked for.
func (l *listing) past(it *events.Item) bool {
	return l.state == events.StateDead && !l.since.IsZero() && it.FinishedAt.Before(l.since)
}
