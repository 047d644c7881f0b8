package process

import (
	"slices"
	"strings"
	"testing"
)

func TestEnvironment(t *testing.T) {
	own := []string{
		"PATH=/bin", "HOME=/home/me", "LANG=C", "LC_ALL=C", "TZ=UTC", "TMPDIR=/tmp", "EDITOR=ed", "DATABASE_URL=postgres://u:p@h/d",
		"NATS_URL=nats://127.0.0.1:4222", "NATS_USER=me", "NATS_PASSWORD=s1", "NATS_TOKEN=s2", "NATS_CREDS=/s3", "NATS_NKEY=/s4", "WORK_TOKENS=s5",
		"STREAMWRIGHT_TOKEN=s6", "OTEL_EXPORTER_OTLP_HEADERS=s7", "OTEL_EXPORTER_OTLP_TRACES_HEADERS=s8", "OTEL_EXPORTER_OTLP_ENDPOINT=http://h",
		"WORK_REPORT_FD=3", "WORK_CHILDREN=/f", "TRACEPARENT=00-x",
	}
	get := func(own []string, opts ...Option) string {
		c := config{}
		for _, o := range opts {
			o(&c)
		}
		out := c.environ(own)
		slices.Sort(out)
		return strings.Join(out, " ")
	}
	for name, tc := range map[string]struct {
		opts []Option
		want string
	}{
		"a shell's":  {nil, "DATABASE_URL=postgres://u:p@h/d EDITOR=ed HOME=/home/me LANG=C LC_ALL=C NATS_URL=nats://127.0.0.1:4222 NATS_USER=me OTEL_EXPORTER_OTLP_ENDPOINT=http://h PATH=/bin TMPDIR=/tmp TZ=UTC"},
		"a server's": {[]Option{Restricted()}, "HOME=/home/me LANG=C LC_ALL=C PATH=/bin TMPDIR=/tmp TZ=UTC"},
		"a server's, and what it names": {[]Option{Restricted(), Env("EDITOR", "NATS_PASSWORD", "MODE=fast", "NOT_THERE", "TRACEPARENT")},
			"EDITOR=ed HOME=/home/me LANG=C LC_ALL=C MODE=fast NATS_PASSWORD=s1 PATH=/bin TMPDIR=/tmp TZ=UTC"},
	} {
		if got := get(own, tc.opts...); got != tc.want {
			t.Errorf("%s environment:\ngot  %s\nwant %s", name, got, tc.want)
		}
	}
	for _, url := range []string{"NATS_URL=nats://u:p@h:1", "NATS_URL=h:1, nats://token@h:2", "NATS_URL=u:p@h", "NATS_URL=tls://%zz@h"} {
		if got := get([]string{url}); got != "" {
			t.Errorf("%s is passed on", got)
		}
	}
}
