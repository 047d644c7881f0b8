package eventlog_test

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	. "github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/eventlog/logtest"
)

// The server's acknowledgements are read without a JSON decoder, with and without a domain.
func TestPlainAck(t *testing.T) {
	for _, domain := range []string{"", "hub"} {
		s := startServer(t, t.TempDir(), func(o *server.Options) { o.JetStreamDomain = domain })
		openLog(t, Config{Connect: inProcess(s)})
		nc := dial(t, s)
		for seq := range uint64(12) {
			m, err := nc.Request("work.frame.0", nil, logtest.Patience)
			if err != nil {
				t.Fatal(err)
			}
			if got, ok := PlainAck(m.Data); !ok || got != seq+1 {
				t.Fatalf("domain %q: the acknowledgement %s reads as %d, %v", domain, m.Data, got, ok)
			}
		}
	}
	for _, other := range []string{``, `{`, `}`, `{"stream":"S"}`, `{"stream":"S","seq":}`, `{"stream":"S","seq":1`, `{"stream":"S","seq":1,"duplicate":true}`, `{"stream":"S","seq":-1}`, `{"error":{"code":400},"stream":"S","seq":1}`, `{"stream":"S","seq":1,"x":"seq":2}x`} {
		if n, ok := PlainAck([]byte(other)); ok {
			t.Errorf("%s reads as %d", other, n)
		}
	}
	if n, ok := PlainAck(fmt.Appendf(nil, `{"stream":"S","seq":%d}`, uint64(1<<63))); !ok || n != 1<<63 {
		t.Errorf("a large sequence reads as %d, %v", n, ok)
	}
}
