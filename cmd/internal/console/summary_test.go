package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/internal/cli"
)

func TestSummary(t *testing.T) {
	for data, want := range map[string]string{
		`{"percent":40,"message":"page\u0007 4"}`:                                       `message=page\a 4 percent=40`,
		`{"spawn":1,"children":["A","B","C"],"continues":true,"continuation":"join"}`:   `children=[A B and 1 more] continues=true continuation=join`,
		`{"reason":"after","for":["A"],"left":1}`:                                       `reason=after for=[A] left=1`,
		`{"reason":"after","ended":"A","left":0}`:                                       `reason=after ended=A left=0`,
		`{"available_at":"2030-01-01T00:00:00Z","reason":"busy","duration_ms":3}`:       `reason=busy duration_ms=3 available_at=2030-01-01T00:00:00Z`,
		`{"checkpoint":{"page":7}}`:                                                     `checkpoint={"page":7}`,
		`{"reason":"upstream_dead","by":"A"}`:                                           `reason=upstream_dead by=A`,
		`{"priority":5,"parent":"P","after":["A"],"expires_at":"2030-01-01T00:00:00Z"}`: `priority=5 after=[A] parent=P expires_at=2030-01-01T00:00:00Z`,
		`{"children":[{"id":"A"}]}`:                                                     `children=1`,
		`[]`:                                                                            ``,
	} {
		if got := Summary(streamwright.Event{Data: json.RawMessage(data)}, Style{}); got != want {
			t.Errorf("%s: got %q, want %q", data, got, want)
		}
	}
}

func TestSummaryOfAWait(t *testing.T) {
	ev := streamwright.Event{Kind: streamwright.KindParked, Data: json.RawMessage(`{"names":["ok"],"until":"2030-01-01T00:00:00Z","then":"fail","code":"late","error":"nobody has answered","ask":{"title":"Pay?"}}`)}
	if got, want := Summary(ev, Style{}), `names=[ok] until=2030-01-01T00:00:00Z then=fail asks="Pay?"`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A program that is called otherwise than in its texts is called so in all of them.
func TestProgramIsCalledByItsName(t *testing.T) {
	var out, errs bytes.Buffer
	a := &App{Out: &out, Err: &errs, Program: "streamwright"}
	root := &cobra.Command{Use: "engine"}
	fail := &cobra.Command{
		Use: "fail", Short: "Fail, unlike `engine list`", Example: "  engine fail", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return errors.New("the engine fails: see `engine list`") },
	}
	list := &cobra.Command{Use: "list", Short: "List", Run: func(*cobra.Command, []string) {}}
	root.AddCommand(fail, list)
	a.Flags(root)
	if code := a.Run(context.Background(), root, []string{"fail"}); code != cli.ExitFailed {
		t.Errorf("it exits with %d", code)
	}
	if want := "streamwright fail: the engine fails: see `streamwright list`\n"; errs.String() != want {
		t.Errorf("it says %q, want %q", errs.String(), want)
	}
	a.Run(context.Background(), root, []string{"fail", "--help"})
	if text := out.String(); strings.Contains(text, "engine ") || !strings.Contains(text, "  streamwright fail\n") {
		t.Errorf("the help is\n%s", text)
	}
}
