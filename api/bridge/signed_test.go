package bridge_test

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Nobody makes up a session, changes what one says, or uses one that another
// user's worker was given.
func TestSessionsAreSigned(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	options := embedded.Options{Dir: dir, HTTPTokens: "alice 0123456789abcdef0123456789abcdef work;bob fedcba9876543210fedcba9876543210 work"}
	e := startEngine(t, options)
	alice := []string{"Authorization", "Bearer 0123456789abcdef0123456789abcdef"}
	bob := []string{"Authorization", "Bearer fedcba9876543210fedcba9876543210"}
	var ws wire.WorkerSession
	if status, p, err := e.ask(testContext(t), http.MethodPost, "/api/v1/workers", wire.WorkerRegistration{Worker: "a", Types: []string{"step"}, Slots: 1}, &ws, alice...); err != nil || status != 201 {
		t.Fatalf("register: %d %+v %v", status, p, err)
	}
	beat := func(e *engine, worker, session string, as []string) (int, events.Code) {
		status, p, err := e.ask(testContext(t), http.MethodPost, "/api/v1/workers/"+worker+"/heartbeat", wire.WorkerHeartbeat{Session: session}, nil, as...)
		if err != nil {
			t.Fatal(err)
		}
		return status, p.Code
	}
	if status, code := beat(e, "a", ws.Session, bob); status != 409 || code != events.CodeWorkerIDInUse {
		t.Errorf("alice's session from bob: %d %s", status, code)
	}
	if status, code := beat(e, "a", ws.Session, alice); status != 200 {
		t.Errorf("from alice: %d %s", status, code)
	}
	e.http.CloseIdleConnections()
	if err := e.Stop(testContext(t)); err != nil {
		t.Fatal(err)
	}
	e = startEngine(t, options)
	if status, code := beat(e, "a", ws.Session, bob); status != 404 || code != events.CodeUnknownWorker {
		t.Errorf("alice's session from bob, after a restart: %d %s", status, code)
	}
	for _, info := range e.workers(t) {
		t.Errorf("bob has registered %s", info.Worker)
	}
	made := func(reg string) string { return base64.RawURLEncoding.EncodeToString([]byte(reg)) }
	parts := strings.Split(ws.Session, ".")
	if len(parts) != 3 {
		t.Fatalf("the session has %d parts", len(parts))
	}
	for name, tc := range map[string]struct{ worker, session string }{
		"without a signature":      {"b", made(`{"worker":"b","types":["step"],"slots":1000}`) + ".secret"},
		"with a made-up signature": {"b", made(`{"worker":"b","types":["step"],"slots":1000}`) + ".secret." + parts[2]},
		"with other types":         {"a", made(`{"worker":"a","types":["other"],"slots":1}`) + "." + parts[1] + "." + parts[2]},
		"with another secret":      {"a", parts[0] + ".AAAA." + parts[2]},
		"with another name":        {"c", ws.Session},
	} {
		want := events.CodeUnknownWorker
		if name == "with another name" {
			want = events.CodeWorkerIDInUse
		}
		if _, code := beat(e, tc.worker, tc.session, alice); code != want {
			t.Errorf("%s: %s", name, code)
		}
	}
	if status, code := beat(e, "a", ws.Session, alice); status != 200 {
		t.Errorf("from alice, after a restart: %d %s", status, code)
	}
	// It is not taken from a URL.
	for _, path := range []string{"/api/v1/workers/a?session=" + ws.Session} {
		status, p, err := e.ask(testContext(t), http.MethodDelete, path, nil, nil, alice...)
		if err != nil || status != 400 || !strings.Contains(p.Detail, "Work-Session") || strings.Contains(p.Detail, ws.Session) {
			t.Errorf("in the URL: %d %+v %v", status, p, err)
		}
	}
	if status, p, err := e.ask(testContext(t), http.MethodDelete, "/api/v1/workers/a", nil, nil, append(alice, "Work-Session", ws.Session)...); err != nil || status != 200 {
		t.Errorf("unregister: %d %+v %v", status, p, err)
	}
}
