package streamwright

import (
	"context"
	"errors"
	"testing"
)

// A submission of a program that has set up no traces pays nothing for them.
func TestTracesOffCostNothing(t *testing.T) {
	c := &Client{}
	ctx, failed := context.Background(), errors.New("failed")
	if n := testing.AllocsPerRun(100, func() {
		_, span := c.startSubmit(ctx, "submit", "email")
		c.endSubmit(span, "01J00000000000000000000000", failed)
	}); n != 0 {
		t.Errorf("a span that nobody wants allocates %v times", n)
	}
}

func BenchmarkTracesOff(b *testing.B) {
	c := &Client{}
	b.ReportAllocs()
	for b.Loop() {
		_, span := c.startSubmit(b.Context(), "submit", "email")
		c.endSubmit(span, "01J00000000000000000000000", nil)
	}
}
