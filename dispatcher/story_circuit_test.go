package dispatcher

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

// protect runs the verbs of stories about retries, circuits and pauses; false
// for another.
func (st *story) protect(td *datadriven.TestData) (string, bool) {
	switch td.Cmd {
	case "pause", "resume":
		typ := events.Type(td.CmdArgs[0].Key)
		if td.Cmd == "resume" {
			return st.outcome(st.do(core.ResumeType{Type: typ})), true
		}
		c := core.PauseType{Type: typ}
		td.MaybeScanArgs(st.t, "because", &c.Reason)
		if d := ""; td.HasArg("for") {
			var err error
			td.ScanArgs(st.t, "for", &d)
			c.For, err = time.ParseDuration(d)
			st.ok(err)
		}
		return st.outcome(st.do(c)), true
	case "take":
		return st.next(), true
	case "circuit":
		return st.setCircuit(td), true
	case "reset":
		c := core.ResetCircuit{Type: events.Type(td.CmdArgs[0].Key)}
		if td.CmdArgs[0].Key == "worker" {
			c = core.ResetCircuit{Worker: events.WorkerID(td.CmdArgs[0].Vals[0])}
		}
		return st.outcome(st.do(c)), true
	case "worker-circuit":
		td.ScanArgs(st.t, "consecutive", &st.cfg.Limits.WorkerCircuit.Consecutive)
		st.cfg.Limits.WorkerCircuit.Probes = 1
		st.l.state.SetLimits(st.cfg.Limits)
		return "", true
	case "code":
		return st.setCode(td), true
	case "circuits":
		return st.circuits(), true
	}
	return "", false
}

// next has a worker start the next item that was sent to it.
func (st *story) next() string {
	m := st.sim.take("")
	if m == nil {
		return "nothing is sent\n"
	}
	name := st.name(m.id)
	st.held[name] = m
	a := st.report(m.report(wire.ReportStart))
	switch {
	case len(a) == 0:
		return name + ": no answer\n"
	case !a[0].OK:
		return name + ": refused: " + string(a[0].Error.Code) + "\n"
	}
	return fmt.Sprintf("%s by %s, attempt %d\n", name, m.worker, a[0].Attempt)
}

func (st *story) configured(t events.Type, edit func(*events.TypeSettings)) string {
	set, _ := st.l.state.Settings(t)
	set.Codes = maps.Clone(set.Codes)
	edit(&set)
	return st.outcome(st.do(core.Configure{Type: t, Source: events.SourceAPI, Settings: set}))
}

func (st *story) setCircuit(td *datadriven.TestData) string {
	return st.configured(events.Type(td.CmdArgs[0].Key), func(set *events.TypeSettings) {
		c := events.CircuitSettings{}
		for _, a := range td.CmdArgs[1:] {
			switch a.Key {
			case "off":
			case "consecutive":
				a.Scan(st.t, 0, &c.Consecutive)
			case "probes":
				a.Scan(st.t, 0, &c.Probes)
			case "min_runs":
				a.Scan(st.t, 0, &c.MinRuns)
			case "ratio":
				c.Ratio = st.float(a.Vals[0])
			case "cooldown", "max_cooldown", "window":
				d, err := time.ParseDuration(a.Vals[0])
				st.ok(err)
				*map[string]*events.Duration{"cooldown": &c.Cooldown, "max_cooldown": &c.MaxCooldown, "window": &c.Window}[a.Key] = events.DurationOf(d)
			default:
				st.t.Fatalf("unknown setting %s", a.Key)
			}
		}
		set.Circuit = c
	})
}

func (st *story) float(text string) float64 {
	f, err := strconv.ParseFloat(text, 64)
	st.ok(err)
	return f
}

func (st *story) setCode(td *datadriven.TestData) string {
	return st.configured(events.Type(td.CmdArgs[0].Key), func(set *events.TypeSettings) {
		var p events.CodePolicy
		for _, a := range td.CmdArgs[2:] {
			switch a.Key {
			case "max_attempts":
				var n int
				a.Scan(st.t, 0, &n)
				p.MaxAttempts = events.Attempt(n)
			case "delay_factor":
				p.DelayFactor = st.float(a.Vals[0])
			case "timeout_factor":
				p.TimeoutFactor = st.float(a.Vals[0])
			case "no_retry":
				p.NoRetry = true
			default:
				st.t.Fatalf("unknown setting %s", a.Key)
			}
		}
		if set.Codes == nil {
			set.Codes = map[string]events.CodePolicy{}
		}
		set.Codes[td.CmdArgs[1].Key] = p
	})
}

// circuits tells what holds work back.
func (st *story) circuits() string {
	var b strings.Builder
	fmt.Fprintf(&b, "at %s\n", st.at.Sub(simStart))
	for _, t := range st.l.state.TypeNames() {
		info, _ := st.l.state.Type(t)
		if p := info.Paused; p != nil {
			fmt.Fprintf(&b, "  %s: paused at %s %s\n", t, p.At.Sub(simStart), p.Reason)
		}
		fmt.Fprintf(&b, "  %s: %s\n", t, st.circuit(info.Circuit))
	}
	recs, err := st.store.Records(events.RecordWorker)
	st.ok(err)
	for _, r := range recs {
		fmt.Fprintf(&b, "  worker %s: %s\n", r.Key, st.circuit(st.l.state.WorkerCircuit(events.WorkerID(r.Key))))
	}
	return b.String()
}

func (st *story) circuit(c events.Circuit) string {
	text := fmt.Sprintf("%s, %d failures in a row", c.State, c.Consecutive)
	switch c.State {
	case events.CircuitOpen:
		text = fmt.Sprintf("open until %s, for the %d. time", c.Until.Sub(simStart), c.Opens)
	case events.CircuitHalfOpen:
		text = fmt.Sprintf("half open, %d try it, %d have succeeded", c.Probing, c.Succeeded)
	}
	return text
}

// describeProtection is describe for the events that hold work back.
func (st *story) describeProtection(ev *events.Event) string {
	whose := " of " + string(ev.Type)
	if ev.Worker != "" {
		whose = " of worker " + string(ev.Worker)
	}
	switch b := ev.Body.(type) {
	case *events.Paused:
		if !b.Until.IsZero() {
			whose += ", until " + b.Until.Sub(simStart).String()
		}
		return strings.TrimRight(whose+" "+b.Reason, " ")
	case *events.Resumed:
		return strings.TrimRight(whose+" "+b.Reason, " ")
	case *events.DrainSet:
		return whose
	case *events.DrainEnded:
		return whose + ": " + b.Reason
	case *events.CircuitOpened:
		return fmt.Sprintf("%s: %s, %d of %d failed, until %s", whose, b.Reason, b.Failed, b.Of, b.Until.Sub(simStart))
	case *events.CircuitHalfOpened:
		return fmt.Sprintf("%s: %d may try", whose, b.Probes)
	case *events.CircuitClosed:
		return whose + ": " + b.Reason
	}
	return ""
}

// protectedKinds are the kinds that describeProtection knows.
var protectedKinds = []events.Kind{events.KindPaused, events.KindResumed, events.KindCircuitOpened, events.KindCircuitHalfOpened, events.KindCircuitClosed, events.KindDrainSet, events.KindDrainEnded}

func protected(k events.Kind) bool { return slices.Contains(protectedKinds, k) }
