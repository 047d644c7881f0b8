package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/internal/leaks"
	"github.com/streamwright/streamwright/internal/natscluster"
)

func TestMain(m *testing.M) { leaks.Check(m) }

func TestTail(t *testing.T) {
	url := natscluster.Alone(t, 0).ClientURL()
	for name, tc := range map[string]struct {
		args []string
		code int
		says string
	}{
		"help":      {[]string{"--help"}, 0, "--from-seq"},
		"argument":  {[]string{"email"}, 2, "tail --help"},
		"flag":      {[]string{"--types", "x"}, 2, "--types"},
		"kind":      {[]string{"--kind", "done"}, 2, "docs/reference/EVENTS.md"},
		"no server": {[]string{"--server", "nats://127.0.0.1:1"}, 1, "engine serve"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			args := append([]string{"--server", url}, tc.args...)
			if code := run(t.Context(), args, nil, &out, &errs); code != tc.code || !strings.Contains(out.String()+errs.String(), tc.says) {
				t.Errorf("exit code %d: %s%s", code, &out, &errs)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if code := run(ctx, []string{"--server", url}, nil, new(bytes.Buffer), new(bytes.Buffer)); code != 0 {
		t.Errorf("interrupted at once: exit code %d", code)
	}
}
