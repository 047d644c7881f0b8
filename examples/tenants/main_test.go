package main

import (
	"strings"
	"testing"

	"github.com/streamwright/streamwright/examples/internal/engine"
)

func TestTenants(t *testing.T) {
	ctx := engine.Context(t)
	var out strings.Builder
	if err := run(ctx, engine.Client(t, ctx), &out); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(out.String(), "wait: true\n") {
		t.Error(out.String())
	}
}
