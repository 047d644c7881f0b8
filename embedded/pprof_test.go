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
	if _, err := startProfiler("0.0.0.0:0", e.log); events.CodeOf(err) != events.CodeBadConfig {
		t.Errorf("%v", err)
	}
}
