package mcpserver_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/internal/logins"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/workers"
)

// The protocol's official client from npm uses engine mcp, a process of its own, over standard
// input and output and over HTTP.
func TestOfficialClient(t *testing.T) {
	need.Seconds(t)
	node := need.Program(t, "node")
	if _, err := os.Stat("official/node_modules"); err != nil {
		need.Missing(t, "run npm ci in internal/mcpserver/official first: %v", err)
	}
	engine := filepath.Join(t.TempDir(), "engine")
	if out, err := exec.Command("go", "build", "-pgo=off", "-o", engine, "github.com/streamwright/streamwright/cmd/engine").CombinedOutput(); err != nil {
		t.Fatalf("build the engine: %v\n%s", err, out)
	}
	users := logins.Of(t)
	url := start(t, users)
	serve := []string{"mcp", "--server", url, "--allow", "submit,operate"}
	t.Run("stdio", func(t *testing.T) { t.Parallel(); talk(t, users, node, "stdio", append([]string{engine}, serve...)...) })
	t.Run("http", func(t *testing.T) {
		t.Parallel()
		const token = "0123456789abcdef"
		file := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), engine, append(serve, "--http", "127.0.0.1:0", "--token-file", file)...)
		cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(os.Interrupt) }, 20*time.Second
		cmd.Env = append(os.Environ(), users.Environ(logins.All)...)
		said, err := cmd.StderrPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(said).ReadString('\n')
		_, at, found := strings.Cut(strings.TrimSpace(line), "MCP on ")
		if err != nil || !found {
			t.Fatalf("engine mcp says %q: %v", line, err)
		}
		go func() { _, _ = io.Copy(io.Discard, said) }()
		talk(t, users, node, "http", at, token)
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("engine mcp ends with %v", err)
		}
	})
}

// start starts an engine with a worker, and returns its URL.
func start(t *testing.T, users *logins.Logins) (url string) {
	t.Helper()
	o := embedded.Options{Memory: true, NATSListen: "127.0.0.1:0", HTTP: "off"}
	users.Secure(t, &o.Config)
	e, err := embedded.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := e.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	c, err := streamwright.Connect(t.Context(), e.URL(), streamwright.WithConnection(users.Settings(logins.All)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	w, err := streamwright.NewWorker(c, workers.Config{ID: "echo"})
	if err != nil {
		t.Fatal(err)
	}
	workers.HandleRaw(w, "echo", func(_ context.Context, it *workers.RawItem) (any, error) { return it.Raw, nil })
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = w.Stop(ctx)
	})
	return e.URL()
}

// talk runs the official client, and checks what it was told.
func talk(t *testing.T, users *logins.Logins, node, way string, args ...string) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), node, append([]string{"official/client.js", way}, args...)...)
	cmd.Env = append(os.Environ(), users.Environ(logins.All)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s%s", err, out.Bytes(), errs.Bytes())
	}
	type line struct {
		What, Name, Instructions, State, Would, Refused string
		Count                                           int
		Described                                       bool
		Result                                          struct{ Text string }
		Reasons                                         []struct{ Code string }
	}
	told := map[string]line{}
	for d := json.NewDecoder(&out); ; {
		var l line
		if err := d.Decode(&l); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("%v in %s", err, out.Bytes())
		}
		told[l.What] = l
	}
	why := told["why"].Reasons
	for what, ok := range map[string]bool{
		"server":    told["server"].Name == "streamwright" && strings.Contains(told["server"].Instructions, "never as instructions"),
		"tools":     told["tools"].Count == 27 && told["tools"].Described,
		"waited":    told["waited"].State == "completed" && told["waited"].Result.Text == way,
		"why":       len(why) > 0 && why[0].Code == "no_worker",
		"proposal":  strings.HasPrefix(told["proposal"].Would, "cancel item "),
		"cancelled": told["cancelled"].State == "cancelled",
		"refused":   strings.Contains(told["refused"].Refused, "id"),
	} {
		if !ok {
			t.Errorf("%s: %+v", what, told[what])
		}
	}
}
