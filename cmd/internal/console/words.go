package console

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// ItemNote tells what is worth knowing about an item beside its state.
func ItemNote(it streamwright.WorkItem, now time.Time, style Style) string {
	switch {
	case it.MergedInto != "":
		return "into " + it.MergedInto
	case it.State == events.StateWaiting:
		return waitNote(it, style)
	case it.State == events.StateRunning && it.Progress != nil:
		return ProgressText(it.Progress, 40, style) + " by " + Clean(it.Worker)
	case it.State == events.StateQueued && it.AvailableAt.After(now):
		return "due " + Ago(it.AvailableAt, now)
	case it.State == events.StateRunning || it.State == events.StateClaimed:
		return "by " + Clean(it.Worker)
	case it.Error != nil:
		return style.Clip(Failure(it.Error), 60)
	}
	return style.Clip(it.Reason, 60)
}

// Failure returns an error on one line. An item that never ran, because an item
// before it ended badly, has an error without a code.
func Failure(e *wire.ItemError) string {
	if e.Code == "" {
		return e.Message
	}
	return e.Code + ": " + e.Message
}

// waitNote tells in a list what a waiting item waits for.
func waitNote(it streamwright.WorkItem, style Style) string {
	switch {
	case it.Batch != nil:
		return BatchText(it.Batch, it.State)
	case it.WaitsLeft > 0:
		return fmt.Sprintf("for %d to end (%s)", it.WaitsLeft, style.Clip(it.Reason, 30))
	case it.WaitsFor != nil:
		return style.Clip(WaitText(it.WaitsFor), 60)
	case it.Children != nil:
		return fmt.Sprintf("for %d of %s", it.Children.Live, Children(it.Children.Total))
	}
	return style.Clip(it.Reason, 60)
}

// WaitText says what signals a wait is for.
func WaitText(w *streamwright.ItemWait) string {
	word := " or "
	if w.All {
		word = " and "
	}
	if w.Ask != nil {
		return "for an answer: " + w.Ask.Title
	}
	if len(w.Names) == 0 {
		return "until " + w.Until.Local().Format(time.DateTime)
	}
	return "for the signal " + strings.Join(w.Names, word)
}

// ProgressText shows progress with the beginning of its message, n characters at most.
func ProgressText(p *streamwright.Progress, n int, style Style) string {
	text := fmt.Sprintf("%d %%", p.Percent)
	if p.Message != "" {
		text += "  " + style.Clip(p.Message, n)
	}
	return text
}

// BatchText tells on one line how far a batch has come. A batch that has ended gets
// no more items.
func BatchText(b *wire.BatchCounts, state events.ItemState) string {
	of := max(b.Total, b.Declared)
	text := fmt.Sprintf("%d of %d done", b.Done, of)
	if of > 0 {
		text += fmt.Sprintf(" (%d %%)", 100*b.Done/of)
	}
	if b.Dead > 0 {
		text += fmt.Sprintf(", %d dead", b.Dead)
	}
	if b.Cancelled > 0 {
		text += fmt.Sprintf(", %d cancelled", b.Cancelled)
	}
	switch {
	case state.Terminal():
	case !b.Sealed:
		text += ", open: more may come"
	case b.Total < b.Declared:
		text += fmt.Sprintf(", %d still to be submitted", b.Declared-b.Total)
	}
	if b.Name != "" {
		text = Clip(b.Name, 60) + ": " + text
	}
	return text
}

// Took tells how much time the states have taken.
func Took(s *streamwright.StateDurations) string {
	if s == nil {
		return ""
	}
	var parts []string
	for _, p := range []struct {
		what string
		took streamwright.Duration
	}{{"queued", s.Waited}, {"backed off", s.BackedOff}, {"held", s.Held}, {"starting", s.Starting}, {"ran", s.Ran}} {
		if p.took.Duration > 0 {
			parts = append(parts, p.what+" "+Span(p.took.Duration))
		}
	}
	return strings.Join(parts, ", ")
}

// HeldBack tells in a few words what holds a type back, or - for nothing.
func HeldBack(p *streamwright.Pause, c *streamwright.Circuit, now time.Time) string {
	switch {
	case p != nil:
		text := "paused " + Ago(p.At, now)
		if p.By != "" {
			text += " by " + p.By
		}
		if wait := p.Until.Sub(now); !p.Until.IsZero() {
			text += " until " + p.Until.Format(time.RFC3339)
			if wait > 0 {
				text += " (in " + Span(wait) + ")"
			}
		}
		if p.Reason != "" {
			text += ": " + p.Reason
		}
		return Clean(text)
	case c != nil:
		return CircuitText(c, now)
	}
	return "-"
}

// CircuitText tells in a few words how a circuit is that is not closed.
func CircuitText(c *streamwright.Circuit, now time.Time) string {
	text := fmt.Sprintf("circuit open since %s (%s)", Ago(c.Since, now), c.Reason)
	if c.Until.IsZero() {
		return fmt.Sprintf("circuit half open, %d try it", c.Probing)
	}
	if wait := c.Until.Sub(now); wait > 0 {
		text += ", tried in " + Span(wait)
	}
	return text
}

// attentionTexts say what each kind of attention is, of how many types or workers
// (%s) and, if it is about items, of how many (%s); and what to do.
var attentionTexts = map[string]struct{ what, items, do string }{
	wire.AttentionDead:            {"items of %s died in the last ten minutes", "%s dead now", "engine dead"},
	wire.AttentionCircuit:         {"the circuits of %s are not closed", "%s queued", "engine types"},
	wire.AttentionWorkerCircuit:   {"the circuits of %s are not closed", "", "engine workers"},
	wire.AttentionNoWorker:        {"no worker for %s", "%s queued", "engine work TYPE -- COMMAND"},
	wire.AttentionQueue:           {"the queues of %s are near their limits", "%s queued or waiting", "engine types"},
	wire.AttentionStarving:        {"low-priority items of %s starve", "%s queued", "engine why ID"},
	wire.AttentionPaused:          {"%s paused", "%s queued", "engine types resume TYPE"},
	wire.AttentionWorkerUnhealthy: {"%s unhealthy", "", "engine workers"},
	wire.AttentionWorkerDead:      {"%s died and were not replaced", "", "engine workers"},
}

// AttentionHead says of how many types or workers a kind of attention is.
func AttentionHead(at wire.Attention) string {
	what, noun := at.Kind+": %s", "type"
	if texts, known := attentionTexts[at.Kind]; known {
		what = texts.what
	}
	if len(at.First) > 0 && at.First[0].Worker != "" {
		noun = "worker"
	}
	return fmt.Sprintf(what, Plural(at.Count, noun))
}

// AttentionText says what needs attention: what it is, of how many; whose, those that have
// most first; and the command to look with, empty for none.
func AttentionText(at wire.Attention) (what, whose, do string) {
	texts := attentionTexts[at.Kind]
	if what = AttentionHead(at); texts.items != "" {
		what += ", " + fmt.Sprintf(texts.items, Count(at.Items))
	}
	names := make([]string, 0, len(at.First)+1)
	for _, of := range at.First {
		name := Clean(cmp.Or(of.Type, of.Worker))
		if of.Items > 0 {
			name += " " + Count(of.Items)
		}
		names = append(names, name)
	}
	if more := at.Count - len(at.First); more > 0 {
		names = append(names, fmt.Sprintf("and %s more", Count(more)))
	}
	return what, strings.Join(names, ", "), texts.do
}

// Usage returns the CPU and memory use that a worker reports, or - where it reports
// none.
func Usage(h *wire.Health) (cpu, memory string) {
	cpu, memory = "-", "-"
	if h == nil {
		return cpu, memory
	}
	if h.CPU > 0 {
		cpu = fmt.Sprintf("%.0f%%", 100*h.CPU)
	}
	if h.MemoryBytes > 0 {
		memory = fmt.Sprintf("%.0f MiB", float64(h.MemoryBytes)/(1<<20))
	}
	return cpu, memory
}

// InStates adds up the items in some states, by the states' names.
func InStates(items map[string]int64, states ...events.ItemState) (sum int64) {
	for _, s := range states {
		sum += items[s.String()]
	}
	return sum
}
