package rest

import (
	"context"
	"testing"

	"github.com/streamwright/streamwright/eventlog/pages"
	"github.com/streamwright/streamwright/events"
)

// endedLog is a log of five frames that nobody reads yet.
type endedLog struct{ Events }

func (endedLog) Kept(context.Context) (pages.Kept, error) {
	return pages.Kept{First: 1, Last: 5}, nil
}

func (endedLog) Of(string, string) (pages.Filter, error) {
	return nil, nil
}

// What a client does once it has the head of the reply comes in its feed, however
// long the feed takes to begin reading: the position was settled before.
func TestAFeedOfWhatComesNextBeginsBeforeItsReply(t *testing.T) {
	s := &Server{cfg: Config{Events: endedLog{}}}
	for _, in := range []eventsQuery{{}, {Type: []string{"a"}}, {LastEventID: events.SeqOf(5, 0).String()}} {
		f, err := s.newFeed(t.Context(), &in)
		if err != nil || f.cfg.FromSeq != f.from || f.from <= events.SeqOf(5, 0) || f.from > events.SeqOf(6, 0) || f.gap != nil {
			t.Errorf("%+v: it begins with %d of a log of five frames (%v)", in, f.cfg.FromSeq, err)
		}
	}
}
