package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/internal/logins"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/workers"
)

// What can't show the screen is told what can.
func TestTopNeedsATerminal(t *testing.T) {
	engine(t, "", "top").wants(t, 2, "engine top needs a terminal: use `engine status`")
	engine(t, "", "top", "--json").wants(t, 2, "use `engine status --json`")
	for _, d := range []string{"100ms", "x", "-5s"} {
		engine(t, "", "top", "--interval", d).wants(t, 2, "invalid --interval \""+d+"\": use a duration of 200ms or more")
	}
}

// pane is a terminal of 80 columns and 24 lines, in which a program runs.
type pane struct {
	t      *testing.T
	tmux   string
	socket string
	env    []string
	last   string // the screen as it was last seen
}

// openPane runs this program in a terminal, and shows its exit code when it has ended.
func openPane(t *testing.T, env []string, args ...string) *pane {
	t.Helper()
	dir, err := os.MkdirTemp("", "pane") // short: the path of a socket is bounded
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	p := &pane{t: t, tmux: need.Program(t, "tmux"), socket: filepath.Join(dir, "s"), env: append(os.Environ(), append(env, "LC_ALL=C.UTF-8", "TERM=xterm")...)}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the screen was last:\n%s", p.last)
		}
		_, _ = p.do("kill-server") // fails if it has ended by itself
	})
	show := `TERM=${PANE_TERM:-$TERM} "$0" "$@"; echo "exit code $?"; exec cat`
	if out, err := p.do(append([]string{"-u", "-f", os.DevNull, "new-session", "-d", "-x", "80", "-y", "24", "sh", "-c", show, os.Args[0]}, args...)...); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return p
}

func (p *pane) do(args ...string) (string, error) {
	cmd := exec.Command(p.tmux, append([]string{"-S", p.socket}, args...)...)
	cmd.Env = p.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// screen returns what is on the screen, with what colours it.
func (p *pane) screen() string {
	p.t.Helper()
	out, err := p.do("capture-pane", "-e", "-p")
	if err != nil {
		p.t.Fatalf("%v: %s", err, out)
	}
	p.last = out
	return out
}

// press presses keys.
func (p *pane) press(keys ...string) *pane {
	p.t.Helper()
	if out, err := p.do(append([]string{"send-keys"}, keys...)...); err != nil {
		p.t.Fatalf("%v: %s", err, out)
	}
	return p
}

// wants waits until the screen matches all of these.
func (p *pane) wants(patterns ...string) *pane {
	p.t.Helper()
	need.Eventually(p.t, strings.Join(patterns, ", "), func() bool {
		text := p.screen()
		for _, pattern := range patterns {
			if !regexp.MustCompile(pattern).MatchString(text) {
				return false
			}
		}
		return true
	})
	return p
}

// topRig is an engine with users where logins.Env asks for that.
func topRig(t *testing.T, o embedded.Options) (*rig, []string) {
	t.Helper()
	users := logins.Of(t)
	o.Memory, o.HTTP = true, config.Off
	if o.NATSListen == "" {
		o.NATSListen = "127.0.0.1:0"
	}
	users.Secure(t, &o.Config)
	e, err := embedded.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	env := append(users.Environ(logins.All), "NATS_URL="+e.URL())
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		t.Setenv(name, value)
	}
	return &rig{t: t, engine: e}, env
}

// What a person does over SSH: pause a type, see why an item died, replay it, cancel
// another, look at the workers.
func TestTopInATerminal(t *testing.T) {
	need.Seconds(t)
	r, env := topRig(t, embedded.Options{})
	r.work("mailer-1", "failing", fails("no_mailbox", "no such mailbox 日本語 \x1b[31m\a"))
	dead := strings.Fields(engine(t, "", "submit", "failing", `{"to":"ada"}`).wants(t, 0).out)[0]
	queued := strings.Fields(engine(t, "", "submit", "report").wants(t, 0).out)[0]
	engine(t, "", "wait", dead).wants(t, 1)
	p := openPane(t, append(env, "NO_COLOR=1"), "top", "--interval", "200ms")
	p.wants(`(?m)^engine top  \[types\]  workers  items .* \d\d:\d\d:\d\d$`, `(?m)^> failing +0 +0 +0/1000 +1 `, `no worker for 1 type, 1 queued: report 1`, `(?m)^enter items .*q quit$`)

	p.press("p").wants(`pause failing: 0 queued wait, 0 that run go on\? y/n`).press("n").wants("nothing was changed")
	p.press("j").wants(`(?m)^> report`).press("p").wants(`pause report: 1 queued wait`).press("y").wants("report is paused", `report: paused .* ago`, "1 type paused")
	engine(t, "", "types").wants(t, 0, "paused")
	p.press("p").wants(`resume report, paused .*\? y/n`).press("y").wants("report goes on")

	p.press("k").wants(`(?m)^> failing`).press("Enter").wants("items of failing", `(?m)^> `+dead+` dead .*no_mailbox`)
	p.press("Enter").wants("item "+dead, `(?m)^error +no_mailbox: no such mailbox 日本語 \\x1b\[31m\\a$`, `(?m)created`, `(?m)dead +1`)
	p.press("G").wants(`(?m)^params +\{"to":"ada"\}$`)
	p.press("c").wants("it has ended").press("r").wants(`replay ` + dead + `, failing, dead\? y/n`).press("y").wants(dead + " is queued again")
	p.press("g").wants(`(?m)replayed`, `(?m)^state +dead`, "in engine top")

	p.press("Tab").wants(`\[workers\]`, `(?m)^> mailer-1 +0/4 +active +failing`)
	p.press("Tab").wants(`\[items\]`, dead, queued).press("/").wants("filter: _").press("-l", queued).press("Enter").wants(`items, with "`+queued+`"`, `(?m)^> `+queued)
	p.press("c").wants(`cancel `+queued+`, report, queued\? y/n`).press("y").wants(queued+" is cancelled", `(?m)^> `+queued+` +report +cancelled`)
	p.press("?").wants("replay the item").press("?").wants("timeline  c cancel")
	if text := p.screen(); strings.Contains(text, "\x1b") {
		t.Errorf("the screen has colours, or what else: %q", text)
	}
	p.press("q").wants("exit code 0")
}

// Somebody who may only read sees everything, and is told so when they change something.
func TestTopForReaders(t *testing.T) {
	need.Seconds(t)
	c, err := config.Parse("engine.toml", []byte("[[nats.users]]\nname = \"ada\"\npassword = \"correct horse\"\nroles = [\"read\"]\n"+
		"[[nats.users]]\nname = \"eve\"\npassword = \"correct horse\"\nroles = [\"submit\"]\n"))
	if err != nil {
		t.Fatal(err)
	}
	r, _ := topRig(t, embedded.Options{Config: c})
	as := func(user string) []string {
		return []string{"NATS_URL=" + r.engine.URL(), "NATS_USER=" + user, "NATS_PASSWORD=correct horse", "NATS_CA="}
	}
	for _, v := range as("eve") {
		name, value, _ := strings.Cut(v, "=")
		t.Setenv(name, value)
	}
	engine(t, "", "submit", "email").wants(t, 0)
	p := openPane(t, as("ada"), "top")
	p.wants(`> .*email`).press("p").wants(`y/n`).press("y").wants(`not let this user publish|may not`, `\(forbidden\)`, `> .*email`)
	p.press("C-c").wants("exit code 0")
	p = openPane(t, as("eve"), "top")
	p.wants(`\(forbidden\)`, "waiting for the engine").press("q").wants("exit code 0")
}

// The engine goes, and another one comes to the same address: the screen says the one, and
// shows the other.
func TestTopOutlivesTheEngine(t *testing.T) {
	need.Seconds(t)
	logins.Open(t, "a second engine would have other users")
	at := need.Address(t).String()
	e, err := embedded.Start(t.Context(), embedded.Options{Memory: true, HTTP: config.Off, NATSListen: at})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("NATS_URL", e.URL())
	engine(t, "", "submit", "email").wants(t, 0)
	p := openPane(t, []string{"NATS_URL=" + e.URL()}, "top", "--interval", "200ms", "--request-timeout", "2s").wants(`> .*email`)
	if err := e.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	p.wants(`\d\d:\d\d:\d\d!`, `\((unavailable|timeout)\)`, `> .*email`)
	topRig(t, embedded.Options{NATSListen: at})
	engine(t, "", "submit", "report").wants(t, 0)
	p.wants(`> .*report`, `\d\d:\d\d:\d\d\s`).press("q").wants("exit code 0")
}

// Progress is one line of the terminal, and the events are left when it is over.
func TestWatchInATerminal(t *testing.T) {
	need.Seconds(t)
	r, env := topRig(t, embedded.Options{})
	id := strings.Fields(engine(t, "", "submit", "film").wants(t, 0).out)[0]
	p := openPane(t, env, "watch", id).wants("queued")
	told := make(chan struct{})
	r.work("w1", "film", func(ctx context.Context, _ *workers.RawItem) (any, error) {
		workers.Progress(ctx, 7, "frame 日本語 \x1b[31m")
		select {
		case <-told:
		case <-ctx.Done():
		}
		return nil, ctx.Err()
	})
	p.wants(`(?m)^7 %  frame 日本語 \\x1b\[31m$`)
	close(told)
	p.wants("completed", "in all: ", "exit code 0")
	if text := p.screen(); strings.Contains(text, "frame") {
		t.Error("the progress is left on the screen")
	}
}

// What can't move its cursor gets no screen, and no escape sequence.
func TestTopOnADumbTerminal(t *testing.T) {
	openPane(t, []string{"PANE_TERM=dumb"}, "top").wants(`(?m)^engine top: engine top needs a terminal that can move its cursor`, "use `engine status`", "exit code 2")
}
