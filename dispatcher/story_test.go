package dispatcher

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/eventlog/logtest"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

// story runs the commands of a file in testdata over a sim. Items have the
// names that the file gives them.
type story struct {
	*sim
	t     *testing.T
	names map[events.ID]string
	ids   map[string]events.ID
	held  map[string]*simRun // by item, what a worker has received
	crash string
	quiet bool // the command has said all that there is to say
}

func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		st := &story{sim: newSim(t, nil), t: t, names: map[events.ID]string{}, ids: map[string]events.ID{}, held: map[string]*simRun{}}
		datadriven.RunTest(t, path, st.command)
		st.check()
	})
}

func (st *story) command(t *testing.T, td *datadriven.TestData) string {
	st.t, st.sim.t = t, t
	st.world.told = nil
	from := st.l.pipe.appended
	line := ""
	switch td.Cmd {
	case "submit":
		line = st.submit(td)
	case "publish":
		line = st.publish(td)
	case "worker":
		line = st.worker(td)
	case "receive":
		return st.receive(td.HasArg("lost"))
	case "start", "complete", "fail", "release":
		line = st.runReport(td)
	case "heartbeat":
		line = st.heartbeat(td)
	case "health":
		line = st.health(td)
	case "workers":
		return st.workers()
	case "cancel", "reschedule":
		line = st.change(td)
	case "configure":
		st.configure(td)
	case "schedule", "unschedule", "hold", "go-on", "fire", "down", "jump", "file", "schedules":
		line = st.scheduleVerb(td)
	case "namespace", "namespaces", "remove-namespace", "forget-namespace", "namespace-file":
		line = st.namespaceVerb(td)
	case "clock":
		return st.clockVerb(td)
	case "tick":
		d, err := time.ParseDuration(td.CmdArgs[0].Key)
		st.ok(err)
		st.tick(d)
	case "fault":
		line = st.fault(td)
	case "crash":
		line = st.crashNow(td)
	case "state":
		return st.state()
	case "limit", "engine", "flood", "grab", "work", "held":
		line = st.limits(td)
	case "replay", "purge", "dead", "causes", "rejected", "purge-rejected":
		line = st.replayCommand(td)
	default:
		var known bool
		if line, known = st.protect(td); !known {
			if isFlow(td.Cmd) {
				line = st.flowCommand(td)
			} else {
				line = st.retentionCommand(td)
			}
		}
	}
	if st.quiet {
		st.quiet = false
		return line
	}
	return line + strings.Join(append(st.news(from), ""), "\n")
}

// news are the events that have become durable, and what workers were told.
func (st *story) news(from events.Seq) (lines []string) {
	if st.l.pipe.appended > from {
		err := st.log.Read(st.t.Context(), from.Frame()+1, st.l.pipe.appended.Frame(), func(f eventlog.Frame) error {
			if f.Skipped > 0 {
				lines = append(lines, fmt.Sprintf("  (%d messages in the log are skipped: no engine wrote them)", f.Skipped))
			}
			for _, ev := range f.Events {
				lines = append(lines, fmt.Sprintf("  %d.%d %s%s", f.Seq, ev.Seq.Index(), ev.Kind, st.describe(&ev)))
			}
			return nil
		})
		st.ok(err)
	}
	for _, told := range st.world.told {
		lines = append(lines, "  "+told)
	}
	return lines
}

func (st *story) describe(ev *events.Event) string {
	if protected(ev.Kind) {
		return st.describeProtection(ev)
	}
	who := " " + st.name(ev.ID)
	switch b := ev.Body.(type) {
	case *events.Owned:
		if b.Clock != nil {
			return fmt.Sprintf(" epoch %d by %s, the clock is confirmed: %s after the log's last time", b.Epoch, b.Owner, ev.At.Sub(b.Clock.From))
		}
		return fmt.Sprintf(" epoch %d by %s", b.Epoch, b.Owner)
	case *events.TypeConfigured:
		return fmt.Sprintf(" %s (%s)", ev.Type, b.Source)
	case *events.Rejected:
		return fmt.Sprintf(" intake message %d: %s", b.Intake.Seq, b.Code)
	case *events.Merged:
		return who + " into " + st.name(b.Into)
	case *events.CauseNoted, *events.Replayed, *events.RejectedPurged:
		return st.describeReplay(ev)
	case *events.Queued:
		if b.Timeout.Duration > 0 {
			who += fmt.Sprintf(", may take %s now", b.Timeout.Duration)
		}
		return who + st.in(b.AvailableAt)
	case *events.Claimed:
		tries := ""
		if b.Probe || b.WorkerProbe {
			tries = ", which tries the circuit"
		}
		return fmt.Sprintf("%s by %s, attempt %d%s", who, ev.Worker, ev.Attempt, tries)
	case *events.Failed:
		spared := ""
		if b.Spared {
			spared = ", spared"
		}
		return fmt.Sprintf("%s: %s%s", who, b.Code, spared)
	case *events.Dead:
		return who + ": " + b.Reason + st.because(b.By)
	case *events.Released:
		return who + ": " + b.Reason
	case *events.ScheduleSet, *events.ScheduleRemoved, *events.ScheduleFired:
		return st.describeSchedule(b)
	case *events.NamespaceSet, *events.NamespaceRemoved:
		return describeNamespace(b)
	case *events.Snapshot, *events.Carried, *events.Pruned:
		return st.describeRetention(ev, who)
	case *events.Rescheduled:
		if !b.Limit.IsZero() {
			return who + " to end by " + b.Limit.Sub(simStart).String()
		}
		return fmt.Sprintf("%s to priority %d%s", who, b.Priority, st.in(b.AvailableAt))
	}
	return who + st.describeFlow(ev)
}

func (st *story) in(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return fmt.Sprintf(", due at %s", at.Sub(simStart))
}

func (st *story) name(id events.ID) string {
	if n := st.names[id]; n != "" {
		return n
	}
	return "an item"
}

func (st *story) call(name string, id events.ID) {
	st.names[id], st.ids[name] = name, id
}

func (st *story) submit(td *datadriven.TestData) string { return st.outcome(st.do(st.submission(td))) }

// submission is what a submit says.
func (st *story) submission(td *datadriven.TestData) core.Submit {
	name, typ, prio, delay := td.CmdArgs[0].Key, "email", 5, ""
	c := core.Submit{NewID: st.newID()}
	td.MaybeScanArgs(st.t, "type", &typ)
	td.MaybeScanArgs(st.t, "priority", &prio)
	td.MaybeScanArgs(st.t, "delay", &delay)
	td.MaybeScanArgs(st.t, "dedup", &c.DedupKey)
	p := events.Priority(prio)
	c.Type, c.Priority = events.Type(typ), &p
	if delay != "" {
		d, err := time.ParseDuration(delay)
		st.ok(err)
		c.Delay = d
	}
	st.flowTerms(td, &c)
	st.call(name, c.NewID)
	return c
}

func (st *story) outcome(out []Outcome) string {
	switch {
	case len(out) == 0:
		return "no answer\n"
	case out[0].Err != nil:
		return "refused: " + string(events.CodeOf(out[0].Err)) + "\n"
	case out[0].Decision.Repeat:
		return "nothing to do\n"
	}
	return "ok\n"
}

func (st *story) publish(td *datadriven.TestData) string {
	m := &nats.Msg{Subject: "work.intake.0." + td.CmdArgs[0].Key, Data: []byte(strings.TrimSpace(td.Input)), Header: nats.Header{}}
	for _, a := range td.CmdArgs[1:] {
		m.Header.Set(a.Key, a.Vals[0])
	}
	st.arrive(m)
	st.settle()
	return ""
}

func (st *story) worker(td *datadriven.TestData) string {
	name, types, slots, caps := td.CmdArgs[0].Key, "email", 1, ""
	td.MaybeScanArgs(st.t, "types", &types)
	td.MaybeScanArgs(st.t, "slots", &slots)
	td.MaybeScanArgs(st.t, "capabilities", &caps)
	if td.HasArg("session") {
		session := ""
		td.ScanArgs(st.t, "session", &session)
		st.sessions[name] = session
	}
	switch {
	case td.HasArg("gone"):
		st.reg.Remove(events.WorkerID(name), "")
		st.settle()
	case td.HasArg("undrain"):
		st.do(core.EndDrain{Worker: events.WorkerID(name)})
	case td.HasArg("drain"):
		st.do(core.DrainWorker{Worker: events.WorkerID(name)})
		st.settle()
	default:
		var list []string
		if caps != "" {
			list = strings.Split(caps, "+")
		}
		st.register(name, slots, list, strings.Split(types, "+")...)
	}
	return ""
}

func (st *story) runReport(td *datadriven.TestData) string {
	m := st.held[td.CmdArgs[0].Key]
	if m == nil {
		return "no worker has it\n"
	}
	r := m.report(td.Cmd)
	r.Start = td.HasArg("start")
	td.MaybeScanArgs(st.t, "by", &r.Worker)
	td.MaybeScanArgs(st.t, "code", &r.Code)
	if td.HasArg("for-good") {
		no := false
		r.Retryable = &no
	}
	a := st.report(r)
	switch {
	case len(a) == 0:
		return "no answer\n"
	case !a[0].OK:
		return "refused: " + string(a[0].Error.Code) + "\n"
	}
	left := ""
	if r.Event == wire.ReportStart {
		left = st.broughtAlong(&m.left)
	}
	return fmt.Sprintf("ok, %s%s\n", a[0].State, left)
}

func (st *story) heartbeat(td *datadriven.TestData) string {
	h := wire.Heartbeat{Register: wire.Register{Worker: td.CmdArgs[0].Key}}
	for _, a := range td.CmdArgs[1:] {
		m := st.held[a.Key]
		if m == nil {
			return "no worker has " + a.Key + "\n"
		}
		h.InFlight = append(h.InFlight, wire.RunRef{ID: m.id.String(), Token: m.token.String()})
	}
	st.l.signals.Heartbeat(&h)
	st.settle()
	return ""
}

func (st *story) change(td *datadriven.TestData) string {
	id, prio, delay := st.ids[td.CmdArgs[0].Key], -1, "0s"
	if td.Cmd == "cancel" {
		return st.outcome(st.do(core.Cancel{ID: id}))
	}
	td.MaybeScanArgs(st.t, "priority", &prio)
	td.MaybeScanArgs(st.t, "delay", &delay)
	d, err := time.ParseDuration(delay)
	st.ok(err)
	c := core.Reschedule{ID: id, Now: td.HasArg("now"), Delay: d}
	if prio >= 0 {
		p := events.Priority(prio)
		c.Priority = &p
	}
	return st.outcome(st.do(c))
}

func (st *story) configure(td *datadriven.TestData) {
	set, _ := st.l.state.Settings(events.Type(td.CmdArgs[0].Key))
	for _, a := range td.CmdArgs[1:] {
		var n int
		a.Scan(st.t, 0, &n)
		switch a.Key {
		case "capacity":
			set.Capacity = n
		case "lease_ms":
			set.Lease = events.Millis(int64(n))
		case "dedup_window_ms":
			set.DedupWindow = events.Millis(int64(n))
		case "max_attempts":
			set.MaxAttempts = events.Attempt(n)
		case "timeout_ms":
			set.Timeout = events.Millis(int64(n))
		default:
			st.t.Fatalf("unknown setting %s", a.Key)
		}
	}
	st.do(core.Configure{Type: events.Type(td.CmdArgs[0].Key), Source: events.SourceAPI, Settings: set})
}

var faultNames = map[string]logtest.FaultKind{
	"lost": logtest.FaultLost, "ack-lost": logtest.FaultAckLost, "late": logtest.FaultLate, "rival": logtest.FaultConflict,
}

func (st *story) fault(td *datadriven.TestData) string {
	f := logtest.Fault{Kind: faultNames[td.CmdArgs[0].Key], Land: logtest.LandAfterLast}
	if f.Kind == logtest.FaultConflict {
		f.Rival = st.rival(1)
	}
	st.log.Script(f)
	return ""
}

// crashNow ends the process, now or when the loop next comes to a stage.
func (st *story) crashNow(td *datadriven.TestData) string {
	if !td.HasArg("at") {
		st.sim.crash()
		return ""
	}
	td.ScanArgs(st.t, "at", &st.crash)
	st.onStage = func(stage string) {
		if stage == st.crash {
			st.crash, st.onStage = "", nil
			st.sim.crash()
		}
	}
	return ""
}

// state tells where everything is.
func (st *story) state() string {
	var b strings.Builder
	fmt.Fprintf(&b, "at %s, epoch %d\n", st.at.Sub(simStart), st.l.state.Meta().Epoch)
	for _, name := range slices.Sorted(maps.Keys(st.ids)) {
		it, err := st.l.state.Item(st.ids[name])
		st.ok(err)
		if it == nil {
			fmt.Fprintf(&b, "  %s: not there\n", name)
			continue
		}
		fmt.Fprintf(&b, "  %s: %s", name, it.State)
		if it.Attempt > 0 {
			fmt.Fprintf(&b, ", attempt %d by %s", it.Attempt, it.Worker)
		}
		if it.State == events.StateQueued {
			b.WriteString(st.in(it.AvailableAt))
		}
		if d := st.l.table.ByID[it.ID]; d != nil {
			b.WriteString(", dispatched")
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "  slots taken: %d, on their way: %d", st.l.table.Total(), len(st.world.sent))
	return b.String()
}
