package core

import (
	"fmt"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/events"
)

// stateMeanings say what each state means to someone who reads the docs.
var stateMeanings = [events.NumStates]string{
	events.StateCreated:   "Submitted. A state within a decision: no item stays in it.",
	events.StateQueued:    "To be run: at once, or from its due time on. “Scheduled” and “backing off” are queued with a due time.",
	events.StateClaimed:   "Granted to one worker, whose handler has not started yet. Not [started in time](../guides/WORKERS.md#times), it goes back to the queue.",
	events.StateRunning:   "Its handler runs, under one token, until the deadline.",
	events.StateWaiting:   "For its children, or for what it comes after.",
	events.StateFailed:    "The attempt failed. A state within a decision: a retry or the end follows in the same one.",
	events.StateCompleted: "Done.",
	events.StateDead:      "Failed for good: attempts exhausted, or not retryable.",
	events.StateCancelled: "Not to be run, or no longer.",
	events.StateMerged:    "A duplicate of another item, and part of it.",
}

// knownKind reports whether events of a kind have a payload.
func knownKind(k events.Kind) bool { return newBody(k) != nil }

func TestLifecycleDoc(t *testing.T) {
	golden(t, "../../docs/reference/LIFECYCLE.md", []byte(lifecycleDoc()))
}

func lifecycleDoc() string {
	var sb strings.Builder
	sb.WriteString(`# The life of a work item

*Rendered from the transition table in ` + "`events/lifecycle.go`" + ` by ` + "`go test ./events/core -update`" + `; a test fails when it is stale.*

An item changes state only by an event, and an event is applied only where the
table has a cell for it. An event that the table does not allow is never
decided; one found in the log is corruption, and stops the partition.

` + "```mermaid\nstateDiagram-v2\n")
	for st := range events.ItemState(events.NumStates) {
		arrows(&sb, st)
	}
	for st := range events.ItemState(events.NumStates) {
		if st.Terminal() {
			fmt.Fprintf(&sb, "    %s --> [*]\n", st)
		}
	}
	sb.WriteString("```\n\n## States\n\n| state | meaning | terminal |\n|---|---|---|\n")
	for st := events.StateCreated; st < events.NumStates; st++ {
		fmt.Fprintf(&sb, "| `%s` | %s | %s |\n", st, stateMeanings[st], yes(st.Terminal()))
	}
	sb.WriteString("\nAn operator may replay a dead or cancelled item: see [DEADLETTERS.md](../guides/DEADLETTERS.md).\n\n## Transitions\n\n| from | event | to | attempt |\n|---|---|---|---|\n")
	for st := range events.ItemState(events.NumStates) {
		for k := range events.Kind(events.NumKinds) {
			if next, ok := events.Next(st, k); ok {
				fmt.Fprintf(&sb, "| %s | %s | `%s` | %s |\n", stateName(st), kindName(k), next, attemptEffect(k))
			}
		}
	}
	sb.WriteString("\nEvery cell that is not listed is undefined.\n")
	return sb.String()
}

// arrows draws what leads out of a state, the events to one state together.
func arrows(sb *strings.Builder, st events.ItemState) {
	for next := range events.ItemState(events.NumStates) {
		labels := []string{}
		for k := range events.Kind(events.NumKinds) {
			if n, ok := events.Next(st, k); ok && n == next {
				labels = append(labels, k.String())
			}
		}
		if len(labels) == 0 {
			continue
		}
		from := st.String()
		if st == events.StateNone {
			from = "[*]"
		}
		fmt.Fprintf(sb, "    %s --> %s: %s\n", from, next, strings.Join(labels, ", "))
	}
}

func stateName(st events.ItemState) string {
	if st == events.StateNone {
		return "(no item)"
	}
	return "`" + st.String() + "`"
}

func kindName(k events.Kind) string { return "`" + k.String() + "`" }

func yes(b bool) string {
	if b {
		return "yes"
	}
	return ""
}

func attemptEffect(k events.Kind) string {
	switch k {
	case events.KindClaimed:
		return "one more"
	case events.KindReleased, events.KindSnoozed, events.KindParked:
		return "one less: none is used"
	}
	return ""
}
