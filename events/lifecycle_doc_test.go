package events

import (
	"fmt"
	"strings"
	"testing"
)

// stateMeanings say what each state means to someone who reads the docs.
var stateMeanings = [NumStates]string{
	StateCreated:   "Submitted. A state within a decision: no item stays in it.",
	StateQueued:    "To be run: at once, or from its due time on. “Scheduled” and “backing off” are queued with a due time.",
	StateClaimed:   "Granted to one worker, whose handler has not started yet. Not [started in time](../guides/WORKERS.md#times), it goes back to the queue.",
	StateRunning:   "Its handler runs, under one token, until the deadline.",
	StateWaiting:   "For its children, or for what it comes after.",
	StateFailed:    "The attempt failed. A state within a decision: a retry or the end follows in the same one.",
	StateCompleted: "Done.",
	StateDead:      "Failed for good: attempts exhausted, or not retryable.",
	StateCancelled: "Not to be run, or no longer.",
	StateMerged:    "A duplicate of another item, and part of it.",
}

// knownKind reports whether events of a kind have a payload.
func knownKind(k Kind) bool { return newBody(k) != nil }

func TestLifecycleDoc(t *testing.T) {
	golden(t, "../docs/reference/LIFECYCLE.md", []byte(lifecycleDoc()))
}

func lifecycleDoc() string {
	var sb strings.Builder
	sb.WriteString(`# The life of a work item

*Rendered from the transition table in ` + "`events/lifecycle.go`" + ` by ` + "`go test ./events -update`" + `; a test fails when it is stale.*

An item changes state only by an event, and an event is applied only where the
table has a cell for it. An event that the table does not allow is never
decided; one found in the log is corruption, and stops the partition.

` + "```mermaid\nstateDiagram-v2\n")
	for st := range ItemState(NumStates) {
		arrows(&sb, st)
	}
	for st := range ItemState(NumStates) {
		if st.Terminal() {
			fmt.Fprintf(&sb, "    %s --> [*]\n", st)
		}
	}
	sb.WriteString("```\n\n## States\n\n| state | meaning | terminal |\n|---|---|---|\n")
	for st := StateCreated; st < NumStates; st++ {
		fmt.Fprintf(&sb, "| `%s` | %s | %s |\n", st, stateMeanings[st], yes(st.Terminal()))
	}
	sb.WriteString("\nAn operator may replay a dead or cancelled item: see [DEADLETTERS.md](../guides/DEADLETTERS.md).\n\n## Transitions\n\n| from | event | to | attempt |\n|---|---|---|---|\n")
	for st := range ItemState(NumStates) {
		for k := range Kind(NumKinds) {
			if next, ok := Next(st, k); ok {
				fmt.Fprintf(&sb, "| %s | %s | `%s` | %s |\n", stateName(st), kindName(k), next, attemptEffect(k))
			}
		}
	}
	sb.WriteString("\nEvery cell that is not listed is undefined.\n")
	return sb.String()
}

// arrows draws what leads out of a state, the events to one state together.
func arrows(sb *strings.Builder, st ItemState) {
	for next := range ItemState(NumStates) {
		labels := []string{}
		for k := range Kind(NumKinds) {
			if n, ok := Next(st, k); ok && n == next {
				labels = append(labels, k.String())
			}
		}
		if len(labels) == 0 {
			continue
		}
		from := st.String()
		if st == StateNone {
			from = "[*]"
		}
		fmt.Fprintf(sb, "    %s --> %s: %s\n", from, next, strings.Join(labels, ", "))
	}
}

func stateName(st ItemState) string {
	if st == StateNone {
		return "(no item)"
	}
	return "`" + st.String() + "`"
}

func kindName(k Kind) string { return "`" + k.String() + "`" }

func yes(b bool) string {
	if b {
		return "yes"
	}
	return ""
}

func attemptEffect(k Kind) string {
	switch k {
	case KindClaimed:
		return "one more"
	case KindReleased, KindSnoozed:
		return "one less: none is used"
	}
	return ""
}
