package embedded

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/logins"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
	"github.com/streamwright/streamwright/workers/process"
)

// takeID has a session "second" take the id of a worker, as if that one had been
// silent for long.
func takeID(t *testing.T, e *Engine, worker, typ string) (reg wire.Registered) {
	t.Helper()
	first := shown(t, e, worker, wire.WorkerActive, "")
	body, err := json.Marshal(wire.Register{Pull: true, Worker: worker, Types: []string{typ}, Slots: 1, Session: "second"})
	if err != nil {
		t.Fatal(err)
	}
	nc := workerConn(t, e)
	until(t, "the second session has the id", func() bool { // the first may be back with a heartbeat
		request[wire.OK](t, e, wire.APIUnregister, wire.Unregister{Worker: worker, Session: first.Session})
		m, err := nc.Request(wire.Default.API(wire.APIRegister), body, testTimeout)
		return err == nil && json.Unmarshal(m.Data, &reg) == nil && reg.Session == "second"
	})
	return reg
}

// A worker whose id another session has taken stops at once, long before its lease
// is over: a handler's context ends, a child process is ended. The item goes to the
// other one with no attempt used.
func TestIDTakenStopsRuns(t *testing.T) {
	logins.Open(t, "it pulls from streams as only an open engine lets it")
	sleep := need.Program(t, "sleep")
	for name, handler := range map[string]workers.Handler{
		"handler": func(ctx context.Context, _ *workers.RawItem) (any, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		},
		"process": process.Handler([]string{sleep, "3600"}),
	} {
		t.Run(name, func(t *testing.T) {
			e := mustStart(t, Options{Memory: true, Config: configOf(t, "[workers]\nheartbeat_interval = \"200ms\"\n[types.email]\nlease = \"1h\"\ntimeout = \"1h\"\n")})
			w, err := workers.New(workerConn(t, e), workers.Config{ID: "me", Logger: e.log})
			if err != nil {
				t.Fatal(err)
			}
			workers.HandleRaw(w, "email", handler)
			if err := w.Start(testContext(t)); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = w.Stop(context.Background()) })
			sub := submit(t, e, wire.Submit{Type: "email", Params: json.RawMessage(`{}`)})
			until(t, "it runs", func() bool {
				return request[wire.Item](t, e, wire.APIGet, wire.Get{ID: sub.ID}).State == events.StateRunning
			})
			reg := takeID(t, e, "me", "email")
			m := pullOne(t, workerConn(t, e), reg, "email")
			claim := wire.Report{ID: sub.ID, Token: m.Headers().Get(wire.HeaderToken), Worker: "me", Session: "second", Event: wire.ReportClaim, Start: true}
			if got := request[[]wire.Reported](t, e, wire.APIReport, []wire.Report{claim})[0]; !got.OK || got.Attempt != 1 {
				t.Errorf("the second claims it as %+v", got)
			}
			until(t, "the first has stopped", func() bool { s := w.Stats(); return s.Running == 0 && s.Settling == 0 })
			if it := request[wire.Item](t, e, wire.APIGet, wire.Get{ID: sub.ID}); it.State != events.StateRunning {
				t.Errorf("with the second it is %s", it.State)
			}
		})
	}
}
