package dispatcher

import (
	"fmt"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// scheduleVerb runs what stories say of schedules:
//
//	schedule NAME [every=D] [zone=Z] [missed=P] [overlap=P] [type=T]   the input is its cron expression, if any
//	unschedule, hold, go-on, fire NAME       remove it, pause it, resume it, an item by hand
//	down D     the process ends, and another starts so much later
//	jump D     this machine's clock is set forward, or back
//	file       the process ends, and another starts with a file of schedules: a name and an interval a line
//	schedules  where they are
func (st *story) scheduleVerb(td *datadriven.TestData) string {
	name := ""
	if len(td.CmdArgs) > 0 {
		name = td.CmdArgs[0].Key
	}
	switch td.Cmd {
	case "schedule":
		return st.outcome(st.do(core.SetSchedule{Schedule: st.scheduleOf(name, td)}))
	case "unschedule":
		return st.outcome(st.do(core.RemoveSchedule{Name: name, Source: events.SourceAPI}))
	case "hold", "go-on":
		return st.outcome(st.do(core.PauseSchedule{Name: name, Paused: td.Cmd == "hold"}))
	case "fire":
		return st.outcome(st.do(core.Fire{Name: name, NewID: st.newID()}))
	case "down":
		st.at = st.at.Add(st.duration(name))
		st.sim.crash()
	case "jump":
		st.at = st.at.Add(st.duration(name))
		st.settle()
	case "file":
		st.cfg.FileSchedules = nil
		for _, line := range strings.Fields(strings.ReplaceAll(td.Input, " ", "=")) {
			name, every, _ := strings.Cut(line, "=")
			st.cfg.FileSchedules = append(st.cfg.FileSchedules, events.Schedule{Name: name, Type: "clean", Every: events.DurationOf(st.duration(every))})
		}
		st.sim.crash()
	case "schedules":
		return st.schedules()
	}
	return ""
}

func (st *story) duration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	st.ok(err)
	return d
}

func (st *story) scheduleOf(name string, td *datadriven.TestData) events.Schedule {
	s := events.Schedule{Name: name, Source: events.SourceAPI, Cron: strings.TrimSpace(td.Input)}
	every, typ, missed, overlap := "0s", "clean", "", ""
	td.MaybeScanArgs(st.t, "every", &every)
	td.MaybeScanArgs(st.t, "zone", &s.Zone)
	td.MaybeScanArgs(st.t, "missed", &missed)
	td.MaybeScanArgs(st.t, "overlap", &overlap)
	td.MaybeScanArgs(st.t, "type", &typ)
	s.Type, s.Missed, s.Overlap = events.Type(typ), events.MissedPolicy(missed), events.DedupPolicy(overlap)
	s.Every = events.DurationOf(st.duration(every))
	return s
}

// describeSchedule names the item of a tick after it: sweep@1m0s.
func (st *story) describeSchedule(b events.Body) string {
	switch b := b.(type) {
	case *events.ScheduleSet:
		s := &b.Schedule
		paused := ""
		if s.Paused {
			paused = ", paused"
		}
		return fmt.Sprintf(" %s (%s), next at %s%s", s.Name, s.Source, s.Next.Sub(simStart), paused)
	case *events.ScheduleRemoved:
		return fmt.Sprintf(" %s (%s)", b.Name, b.Source)
	case *events.ScheduleFired:
		tick := fmt.Sprintf("%s@%s", b.Name, b.Tick.Sub(simStart))
		out := " " + tick
		if b.Skipped > 0 {
			out += fmt.Sprintf(", %d skipped", b.Skipped)
		}
		switch {
		case b.Code != "":
			out += ", refused: " + string(b.Code)
		case b.Item.IsZero():
			out += ", no item"
		default:
			st.call(tick, b.Item)
		}
		return out + fmt.Sprintf(", next at %s", b.Next.Sub(simStart))
	}
	return ""
}

func (st *story) schedules() string {
	var b strings.Builder
	for _, name := range st.l.state.ScheduleNames() {
		s, _ := st.l.state.Schedule(name)
		fmt.Fprintf(&b, "%s of the %s: next at %s", name, s.Source, s.Next.Sub(simStart))
		if s.Paused {
			b.WriteString(", paused")
		}
		if !s.LastTick.IsZero() {
			fmt.Fprintf(&b, ", last at %s", s.LastTick.Sub(simStart))
		}
		b.WriteString("\n")
	}
	return b.String()
}
