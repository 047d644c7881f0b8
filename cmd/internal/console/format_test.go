package console

import (
	"bytes"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright/events"
)

func TestSpans(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 5 * time.Microsecond: "0s", 12 * time.Millisecond: "12ms", 1500 * time.Millisecond: "1.5s", 2 * time.Second: "2s",
		59 * time.Second: "59s", 150 * time.Second: "2m30s", time.Hour: "1h", 90 * time.Minute: "1h30m", 49 * time.Hour: "2d1h", -time.Minute: "-1m",
	} {
		if got := Span(d); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
	now := time.Unix(1e9, 0)
	for want, at := range map[string]time.Time{"-": {}, "now": now, "3m ago": now.Add(-3 * time.Minute), "in 2h": now.Add(2 * time.Hour)} {
		if got := Ago(at, now); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestCounts(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", -1000: "-1,000", -100: "-100", 12345678: "12,345,678"} {
		if got := Count(n); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestForeignTextIsHarmless(t *testing.T) {
	for in, want := range map[string]string{"plain é": "plain é", "a\x1b[2Jb\n": `a\x1b[2Jb\n`, `say "hi"` + "\t": `say "hi"\t`} {
		if got := Clean(in); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got := Clip("äöüß", 3); got != "äö…" {
		t.Errorf("got %s", got)
	}
}

func TestTablesAlignUnderColours(t *testing.T) {
	var b bytes.Buffer
	style := Style{colours: true}
	Table(&b, style, [][]string{{"A", "B"}, {style.State(events.StateDead), "x"}, {"completed", "y"}})
	want := "\x1b[2mA\x1b[0m          \x1b[2mB\x1b[0m\n\x1b[31mdead\x1b[0m       x\ncompleted  y\n"
	if b.String() != want {
		t.Errorf("got %q\nwant %q", b.String(), want)
	}
}

func TestCallsHaveTheConnection(t *testing.T) {
	root := &cobra.Command{Use: "engine"}
	a := &App{Program: "streamwright"}
	a.Flags(root)
	root.AddCommand(&cobra.Command{Use: "work"}, &cobra.Command{Use: "serve"}, &cobra.Command{Use: "types"}, &cobra.Command{Use: "cut"}, &cobra.Command{Use: "namespace"})
	a.root = root
	a.rename(root)
	if err := root.ParseFlags([]string{"--server", "nats://u:p@h:1", "--password", "secret", "--creds", "my file", "--tlsfirst"}); err != nil {
		t.Fatal(err)
	}
	calls := func(of map[string]string) {
		t.Helper()
		for text, want := range of {
			if got := a.Calls(text); got != want {
				t.Errorf("%s\nwant\n%s", got, want)
			}
		}
	}
	calls(map[string]string{
		"run `engine types resume email` now": "run `streamwright types resume email --creds 'my file' --server 'nats://***@h:1' --tlsfirst=true` now",
		"`engine work TYPE -- COMMAND`":       "`streamwright work TYPE --creds 'my file' --server 'nats://***@h:1' --tlsfirst=true -- COMMAND`",
		"`engine serve --dir x`":              "`streamwright serve --dir x`",
		"the engine works":                    "the engine works",
	})
	if err := root.ParseFlags([]string{"--namespace", "acme"}); err != nil {
		t.Fatal(err)
	}
	const rest = " --server 'nats://***@h:1' --tlsfirst=true"
	calls(map[string]string{ // once, and not where it has no meaning
		"`engine cut`":                   "`streamwright cut --creds 'my file' --namespace acme" + rest + "`",
		"`engine cut --namespace acme`":  "`streamwright cut --namespace acme --creds 'my file'" + rest + "`",
		"`engine namespace resume acme`": "`streamwright namespace resume acme --creds 'my file'" + rest + "`",
	})
}
