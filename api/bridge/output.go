package bridge

import (
	"context"

	"github.com/streamwright/streamwright/wire"
)

// Output writes a chunk of the output of an item that the worker runs.
func (b *Bridge) Output(ctx context.Context, worker string, req wire.WorkerOutput) (sum wire.OutputSummary, err error) {
	s, err := b.enter(ctx, worker, req.Session)
	if err != nil {
		return sum, err
	}
	defer b.leave(s)
	return sum, b.call(ctx, wire.APIOutputWrite, req.OutputWrite, &sum)
}
