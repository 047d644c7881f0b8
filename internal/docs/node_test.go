package docs

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/internal/need"
)

// npmPatience bounds the installation of a package, from the network.
const npmPatience = 2 * time.Minute

var program = regexp.MustCompile("(?s)In Node, `(npm install \\w+)`, save this as\n`(\\w+\\.mjs)` and run `(node \\w+\\.mjs)`:\n\n```js\n(.*?)```")

// What README shows of Node runs as it is pasted, in an empty folder: only the
// server's address is another.
func TestNodeSnippetRunsAsPasted(t *testing.T) {
	need.Seconds(t)
	m := program.FindStringSubmatch(read(t, "README.md"))
	if m == nil {
		t.Fatal("README.md does not say how to run its program for Node")
	}
	install, file, command, text := m[1], m[2], m[3], m[4]
	need.Program(t, "node", "nodejs")
	need.Program(t, "npm")
	dir := t.TempDir()
	sh := func(within time.Duration, line string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		cmd := exec.CommandContext(ctx, "sh", "-c", line)
		cmd.Dir, cmd.WaitDelay = dir, 10*time.Second
		out, err := cmd.Output()
		return string(out), err
	}
	if out, err := sh(npmPatience, install); err != nil {
		need.Missing(t, "%s: %v\n%s", install, err, out)
	}
	e, err := embedded.Start(t.Context(), embedded.Options{Memory: true, NATSListen: "127.0.0.1:0", HTTP: config.Off})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := e.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	here := strings.Replace(text, "nats://127.0.0.1:4222", e.URL(), 1)
	if here == text {
		t.Fatalf("README.md's program does not connect to the usual address:\n%s", text)
	}
	if err := os.WriteFile(filepath.Join(dir, file), []byte(here), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time its message is a duplicate
		out, err := sh(patience, command)
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
		var item struct {
			ID, Type, State string
			DedupKey        string `json:"dedup_key"`
			Priority        int
		}
		if err := json.Unmarshal([]byte(out), &item); err != nil || item.ID == "" || item.Type != "email" || item.DedupKey != "ada" || item.Priority != 8 {
			t.Errorf("%s printed %s", command, out)
		}
	}
}
