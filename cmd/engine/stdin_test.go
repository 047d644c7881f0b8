package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
)

// What waits for input ends when the program is told to; before that it has all of the input.
func TestUntilEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	if got, err := io.ReadAll(untilEnd(ctx, strings.NewReader("one\ntwo\n"))); err != nil || string(got) != "one\ntwo\n" {
		t.Errorf("%q, %v", got, err)
	}
	typed, terminal := io.Pipe()
	defer terminal.Close()
	in := untilEnd(ctx, typed)
	go func() {
		_, _ = terminal.Write([]byte("one"))
		cancel()
	}()
	if got, err := io.ReadAll(in); !errors.Is(err, context.Canceled) || !strings.HasPrefix("one", string(got)) {
		t.Errorf("%q, %v", got, err)
	}
}
