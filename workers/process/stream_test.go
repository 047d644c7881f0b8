//go:build linux || darwin

package process

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/workers"
	"github.com/streamwright/streamwright/workers/workertest"
)

// With Stream, all that a child and its children write to stdout is the output, byte for byte,
// and the result says how much it is.
func TestStream(t *testing.T) {
	var want strings.Builder
	for i := range 100_000 {
		fmt.Fprintln(&want, i+1)
	}
	for _, c := range []struct{ script, output, result, code string }{
		{`printf 'one\ntwo'`, "one\ntwo", `{"output":{"bytes":7}}`, ""},
		{`printf '{"a":1}'`, `{"a":1}`, `{"output":{"bytes":7}}`, ""},
		{`printf '\377\000x'; echo log >&2`, "\xff\x00x", `{"output":{"bytes":3}}`, ""},
		{`:`, "", `{"output":{"bytes":0}}`, ""},
		{"seq 1 100000", want.String(), fmt.Sprintf(`{"output":{"bytes":%d}}`, want.Len()), ""},
		{`echo some; exit 3`, "some\n", "", "exit_3"},
	} {
		got := workertest.RunRaw(t, Handler([]string{"sh", "-c", c.script}, Stream()), nil)
		if string(got.Output) != c.output || string(got.Result) != c.result || got.Code != c.code {
			t.Errorf("%s: %d bytes of output, result %s, %s: %v", c.script, len(got.Output), got.Result, got.Code, got.Err)
		}
	}
	got := workertest.RunRaw(t, Handler([]string{"sh", "-c", `echo text; echo '{"snooze":"30s"}' >&3`}, Stream()), nil)
	if got.Snooze == nil || string(got.Output) != "text\n" {
		t.Errorf("with a snooze: %+v", got)
	}
	if got := workertest.RunRaw(t, Handler([]string{"no-such-program"}, Stream()), nil); got.Code != FailExec || errors.Is(got.Err, workers.ErrOutputFull) {
		t.Errorf("%+v", got)
	}
}
