package embedded

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

// The commands of a type don't have the engine's secrets in their environment.
func TestCommandsDoNotInheritTheEnginesSecrets(t *testing.T) {
	for _, name := range []string{"NATS_PASSWORD", "NATS_URL", "WORK_TOKENS", "OTEL_EXPORTER_OTLP_HEADERS", "AWS_SECRET_ACCESS_KEY", "DATABASE_URL"} {
		t.Setenv(name, "hidden://u:p@h")
	}
	t.Setenv("WANTED", "yes")
	t.Setenv("LC_TIME", "C")
	env := need.Program(t, "env")
	e := mustStart(t, Options{Memory: true, Config: configOf(t, fmt.Sprintf("[types.env.exec]\ncommand = [%q]\nenv = [\"WANTED\", \"MODE=fast\"]\n", env))})
	sub := submit(t, e, wire.Submit{Type: "env", Params: json.RawMessage(`{}`)})
	it := request[wire.Waited](t, e, wire.APIWait, wire.Wait{IDs: []string{sub.ID}, MinPosition: sub.Position, Timeout: events.DurationOf(testTimeout)}).Ended[0]
	if it.State != events.StateCompleted {
		t.Fatalf("%s: %+v", it.State, it.Error)
	}
	var text string
	if err := json.Unmarshal(it.Result, &text); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text, "hidden") {
		t.Errorf("it has the engine's secrets:\n%s", text)
	}
	lines := strings.Split(text, "\n")
	for _, want := range []string{"WANTED=yes", "MODE=fast", "LC_TIME=C", "WORK_ID=" + sub.ID, "WORK_TYPE=env", "WORK_ATTEMPT=1"} {
		if !slices.Contains(lines, want) {
			t.Errorf("it lacks %s:\n%s", want, text)
		}
	}
	if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "PATH=") }) {
		t.Errorf("it has no PATH:\n%s", text)
	}
}
