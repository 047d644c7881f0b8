package docs

import (
	"context"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/internal/need"
)

var shell = regexp.MustCompile("(?s)```sh\n(.*?)```")

// serveForCurl starts an engine for the examples of HTTP.
func serveForCurl(t *testing.T) (addr string) {
	t.Helper()
	need.Program(t, "curl")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	e, err := embedded.Start(ctx, embedded.Options{Memory: true, HTTP: "127.0.0.1:0"})
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
	return e.HTTP()
}

// run runs a line of the shell, whose curl fails with the status of a refusal;
// a feed is read for a moment.
func run(t *testing.T, env []string, line string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	feed := strings.Contains(line, "curl -N")
	line = strings.ReplaceAll(line, "curl ", "curl -sS --fail-with-body --globoff ")
	if feed {
		line = strings.ReplaceAll(line, "curl ", "curl --max-time 1 ")
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Env = append(cmd.Environ(), env...)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	first := "event: "
	if strings.Contains(line, "/logs") {
		first = "retry: " // there may be nothing to tell
	}
	if feed && strings.Contains(string(out), "timed out") && strings.Contains(string(out), first) {
		return string(out)
	}
	if err != nil {
		t.Errorf("%s\n%v: %s", line, err, out)
	}
	return string(out)
}

// Every command of docs/guides/HTTP.md and of README's part on HTTP does what it says
// on an engine, one after the other.
func TestCurlExamplesWork(t *testing.T) {
	need.Seconds(t)
	addr := serveForCurl(t)
	_, readme, found := strings.Cut(read(t, "README.md"), "## Over HTTP")
	if !found {
		t.Fatal("README.md says nothing of HTTP")
	}
	readme, _, _ = strings.Cut(readme, "\n## ")
	id := ""
	ran := 0
	for _, page := range []string{readme, read(t, "docs/guides/HTTP.md")} {
		for _, block := range shell.FindAllStringSubmatch(page, -1) {
			for line := range strings.SplitSeq(strings.TrimSpace(block[1]), "\n") {
				if !strings.HasPrefix(line, "curl ") {
					continue
				}
				line = strings.ReplaceAll(line, "http://127.0.0.1:8484", "http://"+addr)
				out := run(t, []string{"E=http://" + addr + "/api/v1", "ID=" + id}, line)
				if m := regexp.MustCompile(`"id":"(\w{26})"`).FindStringSubmatch(out); m != nil && id == "" {
					id = m[1]
				}
				ran++
			}
		}
	}
	if ran < 40 {
		t.Errorf("only %d commands were found", ran)
	}
}
