package workertest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/streamwright/streamwright/workers"
	"github.com/streamwright/streamwright/workers/workertest"
)

type invitation struct{ To string }

func invite(_ context.Context, it *workers.Item[invitation]) (any, error) {
	if it.Params.To == "" {
		return nil, workers.Permanent(errors.New("nobody to invite"))
	}
	return "invited " + it.Params.To, nil
}

// TestInvite is the README's test of a handler.
func TestInvite(t *testing.T) {
	got := workertest.Run(t, invite, invitation{To: "ada@example.org"})
	if got.Err != nil || string(got.Result) != `"invited ada@example.org"` {
		t.Errorf("got %s, %v", got.Result, got.Err)
	}
	if got := workertest.Run(t, invite, invitation{}); got.Err == nil || got.Retryable {
		t.Errorf("an empty invitation: got %v, retryable %v", got.Err, got.Retryable)
	}
}
