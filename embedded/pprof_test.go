package embedded

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/events"
)

func fetch(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(testContext(t), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true // no connection is left behind
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("GET %s: %v", url, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestProfilesAreOnAnAddressOfTheirOwn(t *testing.T) {
	e, err := Start(testContext(t), Options{Memory: true, HTTP: "127.0.0.1:0", PProf: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	if status, body := fetch(t, "http://"+e.PProf()+"/debug/pprof/goroutine?debug=1"); status != http.StatusOK || !strings.Contains(body, "goroutine profile") {
		t.Errorf("%d %.200s", status, body)
	}
	if status, _ := fetch(t, "http://"+e.HTTP()+"/debug/pprof/goroutine?debug=1"); status == http.StatusOK {
		t.Error("the HTTP API shows profiles")
	}
	// One that is being taken does not hold up the engine's end.
	took := make(chan error, 1)
	begun := make(chan struct{})
	go func() {
		conn, err := net.Dial("tcp", e.PProf())
		if err == nil {
			_, err = io.WriteString(conn, "GET /debug/pprof/trace?seconds=600 HTTP/1.0\r\n\r\n")
			close(begun)
			_, _ = io.ReadAll(conn)
			err = errors.Join(err, conn.Close())
		}
		took <- err
	}()
	<-begun
	if err := e.Stop(testContext(t)); err != nil {
		t.Error(err)
	}
	if err := <-took; err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", e.PProf()); err == nil {
		t.Error("the profiler still listens")
	}
}

func TestProfilesAreOffAndForThisMachineAlone(t *testing.T) {
	e := mustStart(t, Options{Memory: true})
	if e.PProf() != "" {
		t.Errorf("unasked, there are profiles at %s", e.PProf())
	}
	_, err := Start(context.Background(), Options{Memory: true, PProf: "0.0.0.0:0"})
	if events.CodeOf(err) != events.CodeBadConfig || !strings.Contains(err.Error(), "127.0.0.1:6060") {
		t.Errorf("%v", err)
	}
	other := &profiler{base: newBase(Options{PProf: "0.0.0.0:0"}), guard: e.guard}
	if err := other.start(t.Context()); events.CodeOf(err) != events.CodeBadConfig {
		t.Errorf("%v", err)
	}
}

// A page that has its own name pointed at this machine (DNS rebinding), or that
// just has a browser ask, gets no profile.
func TestProfilesAreNotForOtherSites(t *testing.T) {
	e := mustStart(t, Options{Memory: true, HTTP: "127.0.0.1:0", PProf: "127.0.0.1:0"})
	get := func(host string, headers ...string) string {
		return "GET /debug/pprof/cmdline HTTP/1.1\r\nHost: " + host + "\r\n" + strings.Join(append(headers, "Connection: close"), "\r\n") + "\r\n\r\n"
	}
	for name, tc := range map[string]struct {
		send string
		want int
	}{
		"by its address":         {get(e.PProf()), http.StatusOK},
		"as localhost":           {get("localhost:6060"), http.StatusOK},
		"typed by the user":      {get(e.PProf(), "Sec-Fetch-Site: none", "Sec-Fetch-Mode: navigate"), http.StatusOK},
		"another name":           {get("evil.example"), http.StatusForbidden},
		"a page of another site": {get(e.PProf(), "Sec-Fetch-Site: cross-site"), http.StatusForbidden},
		"a page of another port": {get(e.PProf(), "Sec-Fetch-Site: same-site"), http.StatusForbidden},
		"another origin":         {get(e.PProf(), "Origin: http://evil.example"), http.StatusForbidden},
	} {
		if status, _, body := raw(t, e.PProf(), tc.send); status != tc.want {
			t.Errorf("%s: %d %.200s", name, status, body)
		}
	}
}
