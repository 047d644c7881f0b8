package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright/api"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/internal/need"
)

// A health check needs no login and no NATS, and its exit code says what /healthz does.
func TestHealth(t *testing.T) {
	e, err := embedded.Start(t.Context(), embedded.Options{Memory: true, NATSListen: "off", HTTP: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	url := e.HTTPURL()
	engine(t, "", "health", url).wants(t, 0, "ok")
	engine(t, "", "health", url, "--json").wants(t, 0, `"status":"ok"`)
	engine(t, "", "health", "127.0.0.1").wants(t, 2, "invalid URL", ownHTTP)
	if err := e.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	engine(t, "", "health", url).wants(t, 1, "unavailable")
}

// A node may not stop while something is at risk, and only a look at the others that is newer than the question
// counts. That settings differ does not matter, nor that the node itself is not well.
func TestHealthMayStop(t *testing.T) {
	at := time.Now()
	var looks []api.Health
	asked := 0
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(looks[min(asked, len(looks)-1)])
		asked++
	}))
	defer srv.Close()
	looks = []api.Health{
		{Status: "standby", NodesAt: at, Now: at.Add(time.Second)}, // from before the other node was stopped
		{Status: "standby", NodesAt: at.Add(time.Second / 2)},      // and so is this, of another namespace
		{Status: "standby", NodesAt: at.Add(10 * time.Second), Warnings: []string{"b does not answer"}, AtRisk: []string{"b does not answer"}},
		{Status: "disk_low", NodesAt: at.Add(20 * time.Second), Warnings: []string{"the settings of b are not those of a"}},
	}
	engine(t, "", "health", srv.URL).wants(t, 0, "standby")
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
	asked = 0
	engine(t, "", "health", srv.URL, "--may-stop", "--wait", "1h").wants(t, 0, "has not looked", "at risk: b does not answer", "disk_low")
	if asked != len(looks) {
		t.Errorf("asked %d times", asked)
	}
	engine(t, "", "health", srv.URL).wants(t, 1, "not well: disk_low")
	looks = []api.Health{{Status: api.StatusStarting, Starting: "it waits"}}
	engine(t, "", "health", srv.URL).wants(t, 1, "is starting: it waits")
	engine(t, "", "health", srv.URL, "--may-stop", "--wait", "1h").wants(t, 0, "starting")
	srv.Close()
	engine(t, "", "health", srv.URL, "--may-stop", "--wait", "1h").wants(t, 1, "unavailable")
}

// The manual has a page for each command that the help lists, and groff finds nothing wrong in any.
func TestManual(t *testing.T) {
	dir := t.TempDir()
	engine(t, "", "man", dir).wants(t, 0)
	everyCommand(t, func(t *testing.T, cmd *cobra.Command) {
		page := filepath.Join(dir, strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".1")
		if cmd.CommandPath() == "engine tail" {
			page = filepath.Join(dir, tailProgram+".1")
		}
		text, err := os.ReadFile(page)
		hidden := false
		for c := cmd; c != nil; c = c.Parent() {
			hidden = hidden || c.Hidden
		}
		switch {
		case hidden && err == nil:
			t.Error("a hidden command has a page")
		case !hidden && (err != nil || !strings.Contains(string(text), ".SH SYNOPSIS")):
			t.Errorf("%v", err)
		}
	})
	groff, err := exec.LookPath("groff")
	if err != nil {
		need.Missing(t, "groff: %v", err)
	}
	pages, _ := filepath.Glob(filepath.Join(dir, "*.1"))
	out, err := exec.Command(groff, append([]string{"-man", "-Kutf8", "-Tutf8", "-ww", "-z"}, pages...)...).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}
