package docs

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/streamwright/streamwright/internal/need"
)

const patience = 2 * time.Minute

// shown is a command of the tour, and what the page says that it prints.
type shown struct {
	command string
	prints  string
}

var console = regexp.MustCompile("(?s)```console\n(.*?)```")

// tour reads the commands out of docs/start/TOUR.md, in their order.
func tour(t *testing.T) (cmds []shown, tail string) {
	t.Helper()
	_, text, ok := strings.Cut(read(t, "docs/start/TOUR.md"), "## Four terminals")
	if !ok {
		t.Fatal("docs/start/TOUR.md has no terminals")
	}
	text, _, _ = strings.Cut(text, "\n## ")
	for _, block := range console.FindAllStringSubmatch(text, -1) {
		for _, c := range strings.Split("\n"+block[1], "\n$ ")[1:] {
			command, prints, _ := strings.Cut(c, "\n")
			cmds = append(cmds, shown{command, prints})
		}
	}
	_, tail, _ = strings.Cut(text, "Its first lines:\n\n```\n")
	tail, _, _ = strings.Cut(tail, "```")
	return cmds, tail
}

// What differs from run to run, and what stands for it.
var varies = []struct {
	what *regexp.Regexp
	as   string
}{
	{regexp.MustCompile(`\b01[0-9A-Z]{24}\b`), "ID"},
	{regexp.MustCompile(`[\w.-]+-\d+-[0-9a-f]{8}\b`), "WORKER"},
	{regexp.MustCompile(`engine \S+  owner \S+`), "engine VERSION owner OWNER"},
	{regexp.MustCompile(`owner \S+`), "owner OWNER"},
	{regexp.MustCompile(`digest [0-9a-f]+`), "digest DIGEST"},
	{regexp.MustCompile(`(\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d\.\d{3}`), "TIME"},
	{regexp.MustCompile(`\d+ events|position \d+|log 4096 to \d+: \d+ events`), "EVENTS"},
	{regexp.MustCompile(`\b[1-9]\d{3,5}\b`), "POSITION"}, // how frames are filled is a matter of time
	{regexp.MustCompile(`duration_ms=\d+`), "duration_ms=N"},
	{regexp.MustCompile(`(in all: )?((queued|starting|ran) \d+(\.\d+)?m?s(, )?)+`), ""}, // none if it took no millisecond
	{regexp.MustCompile(`\b\d+(\.\d+)?m?s\b`), "SPAN"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "ADDRESS"},
	{regexp.MustCompile(`\S+/data\b`), "FOLDER"},
	{regexp.MustCompile(`[ \t]+`), " "},
}

// alike reduces what a command prints to what is the same in each run.
func alike(s string) string {
	for _, v := range varies {
		s = v.what.ReplaceAllString(s, v.as)
	}
	return strings.TrimSpace(s)
}

// terminals runs the tour's commands with real processes.
type terminals struct {
	t   *testing.T
	dir string
	env []string
}

func (s *terminals) command(ctx context.Context, line string, out *need.Log) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", "exec "+line)
	cmd.Dir, cmd.Env = s.dir, append(os.Environ(), s.env...)
	cmd.Stdout, cmd.Stderr = out, out
	return cmd
}

// start runs a command until the test has ended, when it is interrupted and
// must end well.
func (s *terminals) start(line string) *need.Log {
	s.t.Helper()
	out := new(need.Log)
	cmd := s.command(context.Background(), line, out)
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		kill := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		if err := cmd.Wait(); err != nil {
			s.t.Errorf("%s: %v, with the output\n%s", line, err, out)
		}
	})
	return out
}

// until waits until got is as it should be.
func (s *terminals) until(what string, got func() string, ok func(string) bool) string {
	s.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		g := got()
		if ok(g) {
			return g
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%s: it prints\n%s", what, g)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// run runs a command to its end.
func (s *terminals) run(line string) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	out := new(need.Log)
	if err := s.command(ctx, line, out).Run(); err != nil {
		s.t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return out.String()
}

var (
	natsURL = regexp.MustCompile(`nats://\S+`)
	ulid    = regexp.MustCompile(`\b01[0-9A-Z]{24}\b`)
)

// TestTour follows the tour as a newcomer would, on free ports, and
// compares what the programs print with what the page shows.
func TestTour(t *testing.T) {
	need.Seconds(t)
	for _, program := range []string{"sh", "sha256sum"} {
		need.Program(t, program)
	}
	cmds, tail := tour(t)
	s := &terminals{t: t, dir: t.TempDir()}
	build := exec.Command("go", "build", "-o", filepath.Join(s.dir, "bin")+string(filepath.Separator), "./cmd/engine")
	build.Dir = top
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	// The tail begins with the first event that the page shows, since nothing
	// tells when it has begun to listen.
	from := strings.Fields(tail)[1]
	var tailed *need.Log
	first := "" // the id of the first item
	for _, c := range cmds {
		want := alike(c.prints)
		as := func(g string) bool { return alike(g) == want }
		line := ulid.ReplaceAllLiteralString(c.command, first)
		name := strings.Join(append(strings.Fields(line), "")[:2], " ")
		switch name {
		case "bin/engine serve":
			out := s.start(line + " --nats-listen 127.0.0.1:0 --http 127.0.0.1:0")
			s.env = []string{"NATS_URL=" + natsURL.FindString(s.until(line, out.String, as))}
		case "bin/engine work":
			s.until(line, s.start(line).String, as)
			s.until("the worker is registered", func() string { return s.run("bin/engine workers") },
				func(g string) bool { return strings.Contains(g, "active") })
		case "bin/engine tail":
			tailed = s.start(line + " --from-seq " + from)
		case "bin/engine submit":
			got := s.run(line)
			if first == "" {
				first = ulid.FindString(got)
			}
			if !as(got) {
				t.Errorf("%s prints\n%s, the page shows\n%s", line, got, c.prints)
			}
		default: // what shows a state that is still being reached
			s.until(line, func() string { return s.run(line) }, as)
		}
	}
	s.until("tail", tailed.String, func(g string) bool { return strings.HasPrefix(alike(g), alike(tail)) })
}
