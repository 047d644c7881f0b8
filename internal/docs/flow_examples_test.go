package docs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/workers"
)

type report struct {
	Regions []string
}

func afterAnother(ctx context.Context, c *streamwright.Client) (string, error) {
	first, err := c.Submit(ctx, streamwright.Item{Type: "extract", Params: "2030-01"})
	if err != nil {
		return "", err
	}
	second, err := c.Submit(ctx, streamwright.Item{
		Type: "load", Params: "2030-01",
		After:       []string{first.ID},
		AfterPolicy: streamwright.AfterCancel, // if extract ends dead or cancelled; the default
	})
	return second.ID, err
}

func fanOut(ctx context.Context, c *streamwright.Client, regions []string) (string, error) {
	var parts []streamwright.Item
	for _, r := range regions {
		parts = append(parts, streamwright.Item{Type: "extract", Params: r})
	}
	callback := streamwright.Item{Type: "load", Params: "all", AfterPolicy: streamwright.AfterRun}
	batch, err := c.Batches().Submit(ctx, parts, &callback)
	return batch.Callback.ID, err
}

func makeReport(_ context.Context, it *workers.Item[report]) (any, error) {
	if it.Continuation == nil { // the first run: one child for each region
		var extracts []workers.Child
		for _, region := range it.Params.Regions {
			extracts = append(extracts, workers.Child{Type: "extract", Params: region})
		}
		return workers.Spawn(extracts...).Then("join").OnFailure(workers.ChildContinue), nil
	}
	total := 0 // all children have ended
	for _, child := range it.Continuation.Children {
		var rows int
		if err := child.Decode(&rows); err != nil {
			it.Log(workers.LevelWarn, err.Error()) // it is dead: go on without it
			continue
		}
		total += rows
	}
	return total, nil
}

type place struct{ Page int }

func importPages(ctx context.Context, it *workers.Item[struct{ Pages int }]) (any, error) {
	var at place
	if _, err := it.LoadCheckpoint(&at); err != nil {
		return nil, err
	}
	for ; at.Page < it.Params.Pages; at.Page++ {
		workers.Progress(ctx, 100*at.Page/it.Params.Pages, fmt.Sprintf("page %d", at.Page))
		if err := importPage(ctx, at.Page); err != nil {
			return nil, err
		}
		if err := workers.Checkpoint(ctx, place{at.Page + 1}); err != nil {
			return nil, err
		}
	}
	return at.Page, nil
}

func collect(ctx context.Context, it *workers.Item[string]) (any, error) {
	switch ready, err := poll(ctx, it.Params); {
	case errors.Is(err, errBusy):
		return nil, workers.RetryAfter(err, 50*time.Millisecond) // failed, tried again then
	case err != nil:
		return nil, err
	case !ready:
		return workers.Snooze(20 * time.Millisecond).Because("not ready yet"), nil // no attempt used
	}
	return "collected", nil
}

func before(ctx context.Context, c *streamwright.Client, at time.Time) (string, error) {
	s, err := c.Submit(ctx, streamwright.Item{Type: "remind", ExpiresAt: at})
	return s.ID, err
}

func onceAnHour(ctx context.Context, c *streamwright.Client, project string) (streamwright.Submitted, error) {
	return c.Submit(ctx, streamwright.Item{Type: "check", Params: project, DedupKey: project, DedupWindow: time.Hour})
}
