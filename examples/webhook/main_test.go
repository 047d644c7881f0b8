package main

import (
	"strings"
	"testing"

	"github.com/streamwright/streamwright/examples/internal/engine"
)

func TestWebhook(t *testing.T) {
	ctx := engine.Context(t)
	c, url := engine.WithHTTP(t, ctx)
	var out strings.Builder
	if err := run(ctx, c, url+"/api/v1/tokens/", &out); err != nil {
		t.Fatal(err)
	}
	if out.String() != "an order for 20: sent, paid by pay-20\nan order for 2000: not sent: the card was declined\n" {
		t.Error(out.String())
	}
}
