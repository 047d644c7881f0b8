package embedded

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/api"
	"github.com/streamwright/streamwright/wire"
)

// readiness asks an engine whether it is ready, and for each check.
func readiness(t *testing.T, e *Engine) (status int, r api.Readiness, failing []string) {
	t.Helper()
	status, body := fetch(t, "http://"+e.HTTP()+"/readyz")
	if err := json.Unmarshal([]byte(body), &r); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	for _, c := range r.Checks {
		if c.OK != (c.Why == "") {
			t.Errorf("%+v", c)
		}
		if !c.OK {
			failing = append(failing, c.Check)
		}
	}
	return status, r, failing
}

func TestReadyEngine(t *testing.T) {
	e := mustStart(t, Options{Memory: true, HTTP: "127.0.0.1:0"})
	status, r, failing := readiness(t, e)
	if status != http.StatusOK || !r.Ready || len(r.Checks) != 5 || len(failing) != 0 {
		t.Errorf("%d %+v", status, r)
	}
}

// An engine whose API is stopping, and one that has lost its JetStream, are not
// ready; the others of their checks hold.
func TestEngineThatIsNotReady(t *testing.T) {
	e := mustStart(t, Options{Memory: true, HTTP: "127.0.0.1:0"})
	if err := e.faces.service.Stop(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if status, r, failing := readiness(t, e); status != http.StatusServiceUnavailable || r.Ready || len(failing) != 1 || failing[0] != "running" {
		t.Errorf("stopping: %d %+v", status, r)
	}
	e = mustStart(t, Options{Memory: true, HTTP: "127.0.0.1:0"})
	e.nc.Close()
	if status, r, failing := readiness(t, e); status != http.StatusServiceUnavailable || r.Ready || failing[len(failing)-1] != "jetstream" {
		t.Errorf("without JetStream: %d %+v", status, r)
	}
}

func TestFailedProbesAreCounted(t *testing.T) {
	e := mustStart(t, Options{Memory: true, HTTP: "127.0.0.1:0", Config: configOf(t, quickHealth)})
	// A worker that offers probes, and does not listen for them.
	request[wire.Registered](t, e, wire.APIRegister, wire.Register{Worker: "w1", Session: "s", Types: []string{"email"}, Slots: 1, Probe: true})
	shown(t, e, "w1", wire.WorkerUnhealthy, "no answer within")
	_, page := fetch(t, "http://"+e.HTTP()+"/metrics")
	if strings.Contains(page, `streamwright_worker_failures_total{reason="probe"} 0`) || !strings.Contains(page, `streamwright_worker_failures_total{reason="probe"}`) ||
		!strings.Contains(page, `streamwright_worker_failures_total{reason="heartbeat"} 0`) {
		t.Errorf("%s", page)
	}
}
