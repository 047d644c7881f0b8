package main

import (
	"strings"
	"testing"

	"github.com/streamwright/streamwright/examples/internal/engine"
)

func TestAck(t *testing.T) {
	ctx := engine.Context(t)
	var out strings.Builder
	if err := run(ctx, engine.Client(t, ctx), &out); err != nil {
		t.Fatal(err)
	}
	if out.String() != "completed after 1 attempt\n" {
		t.Error(out.String())
	}
}
