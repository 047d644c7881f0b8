package main

import (
	"strings"
	"testing"

	"github.com/streamwright/streamwright/examples/internal/engine"
)

func TestStream(t *testing.T) {
	ctx := engine.Context(t)
	var out strings.Builder
	if err := run(ctx, engine.Client(t, ctx), &out, 0); err != nil {
		t.Fatal(err)
	}
	if want := "You ask: why is the sky blue? Because the air scatters blue light more than red. \n16 words\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
