package embedded

import (
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/streamwright/streamwright/wire"
)

// An engine that has lost its NATS server still answers on HTTP, and says first
// that it has; once the server is back, so is the engine, and the alarm has ended.
func TestALostNATSServerIsAnAlarm(t *testing.T) {
	slow(t)
	t.Parallel()
	o := &natsserver.Options{Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), MaxPayload: 4 << 20, NoSigs: true, NoLog: true}
	serve := func() *natsserver.Server {
		srv, err := natsserver.NewServer(o)
		if err != nil {
			t.Fatal(err)
		}
		srv.Start()
		return srv
	}
	stop := func(srv *natsserver.Server) { srv.Shutdown(); srv.WaitForShutdown() }
	srv := serve()
	t.Cleanup(func() { stop(srv) })
	e := mustStart(t, Options{Dir: t.TempDir(), NATSURL: srv.ClientURL(), HTTP: "127.0.0.1:0"})
	submit(t, e, wire.Submit{Type: "email"})
	stats := func() (st wire.StatsReply, ok bool) {
		code, body := fetch(t, "http://"+e.HTTP()+"/api/v1/stats")
		return st, code == http.StatusOK && json.Unmarshal([]byte(body), &st) == nil
	}
	until := func(what string, ok func(wire.StatsReply) bool) wire.StatsReply {
		t.Helper()
		for end := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
			st, answered := stats()
			if answered && ok(st) {
				return st
			}
			if time.Now().After(end) {
				t.Fatalf("%s: after two minutes the alarms are %+v (answered: %v)", what, st.Alarms, answered)
			}
		}
	}
	until("before", func(st wire.StatsReply) bool { return len(st.Alarms) == 0 && len(st.Types) == 1 })
	o.Port = srv.Addr().(*net.TCPAddr).Port
	stop(srv)
	st := until("without a server", func(st wire.StatsReply) bool {
		return len(st.Alarms) > 0 && st.Alarms[0].Code == wire.AlarmDisconnected
	})
	if len(st.Types) != 1 {
		t.Errorf("what is known is not shown: %+v", st)
	}
	if code, body := fetch(t, "http://"+e.HTTP()+"/healthz"); code != http.StatusServiceUnavailable || !strings.Contains(body, `"nats_disconnected"`) {
		t.Errorf("healthz: %d %s", code, body)
	}
	if code, body := fetch(t, "http://"+e.HTTP()+"/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("readyz: %d %s", code, body)
	}
	srv = serve()
	until("with the server again", func(st wire.StatsReply) bool { return len(st.Alarms) == 0 })
}
