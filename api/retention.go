package api

import (
	"context"
	"time"

	"github.com/streamwright/streamwright/dispatcher"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// retentionTimeout is how long info waits for what the loop says of retention.
const retentionTimeout = time.Second

// cut has the log cut now, however short it is.
func (s *Service) cut(ctx context.Context, c *call, _ wire.See) (any, error) {
	st, err := s.Core.Cut(ctx)
	if err != nil {
		if events.CodeOf(err) == events.CodeInternal {
			err = events.Refuse(events.CodeUnavailable, "the engine does not answer: ask again")
		}
		return nil, err
	}
	return retentionOf(st), nil
}

// retention is nil when it can't be told now.
func (s *Service) retention(ctx context.Context) *wire.Retention {
	ctx, cancel := context.WithTimeout(ctx, retentionTimeout)
	defer cancel()
	st, err := s.Core.Retention(ctx)
	if err != nil {
		return nil
	}
	return retentionOf(st)
}

func retentionOf(st dispatcher.RetentionStatus) *wire.Retention {
	return &wire.Retention{
		LogFirst: wire.PositionOf(st.First), LogLast: wire.PositionOf(st.Last), Retained: st.Retained, Held: st.Held,
		Pruned: st.Pruned, LastCut: st.CutAt, Round: st.Phase,
	}
}
