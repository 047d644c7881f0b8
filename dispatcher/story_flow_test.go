package dispatcher

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

// flowTerms reads what a submission says of others, and of its time.
func (st *story) flowTerms(td *datadriven.TestData, c *core.Submit) {
	var policy, after, afterPolicy, window, expires string
	td.MaybeScanArgs(st.t, "policy", &policy)
	td.MaybeScanArgs(st.t, "after", &after)
	td.MaybeScanArgs(st.t, "if-bad", &afterPolicy)
	td.MaybeScanArgs(st.t, "window", &window)
	td.MaybeScanArgs(st.t, "expires", &expires)
	c.DedupPolicy, c.AfterPolicy = events.DedupPolicy(policy), events.AfterPolicy(afterPolicy)
	for _, name := range strings.FieldsFunc(after, func(r rune) bool { return r == '+' }) {
		c.After = append(c.After, st.ids[name])
	}
	if window != "" {
		d, err := time.ParseDuration(window)
		st.ok(err)
		c.DedupWindow = &d
	}
	if expires != "" {
		d, err := time.ParseDuration(expires)
		st.ok(err)
		c.ExpiresAt = st.at.Add(d)
	}
}

// saidJob is what a worker reports of a run, past the wire.
type saidJob struct {
	cmd      core.Command
	token    events.Token
	out      wire.Reported
	answered bool
}

func (j *saidJob) len() int              { return 1 }
func (j *saidJob) need(int) int          { return core.MaxEvents(j.cmd) }
func (j *saidJob) finish()               { j.answered = true }
func (j *saidJob) abandon(*events.Error) {}

func (j *saidJob) decide(l *loop, _ int) (err error) {
	j.out, err = l.runCommand(j.cmd, l.table.ByToken[j.token])
	return err
}

// say has a worker's command decided, nil if the process ended before.
func (s *sim) say(cmd core.Command, token events.Token) *wire.Reported {
	j := &saidJob{cmd: cmd, token: token}
	s.l.queues.urgent.jobs = append(s.l.queues.urgent.jobs, j)
	s.settle()
	if !j.answered {
		return nil
	}
	return &j.out
}

// flowCommand are the verbs of long runs.
func (st *story) flowCommand(td *datadriven.TestData) string {
	if td.Cmd == "signal" {
		return st.outcome(st.do(core.Signal{ID: st.ids[td.CmdArgs[0].Key], Name: td.CmdArgs[1].Key, Payload: json.RawMessage(td.Input)}))
	}
	item, w := td.CmdArgs[0].Key, "w"
	td.MaybeScanArgs(st.t, "by", &w)
	m := st.held[item]
	run := core.Run{ID: st.ids[item], Token: m.token, Worker: events.WorkerID(w)}
	var cmd core.Command
	switch td.Cmd {
	case "spawn":
		c := core.Spawn{Run: run, Continues: td.HasArg("then")}
		td.MaybeScanArgs(st.t, "then", &c.Continuation)
		if td.HasArg("whatever") {
			c.Policy = events.ChildContinue
		}
		for _, line := range strings.Split(strings.TrimSpace(td.Input), "\n") {
			name, key, _ := strings.Cut(line, " dedup=")
			kid := core.Submit{Type: "email", NewID: st.newID(), DedupKey: key}
			st.call(name, kid.NewID)
			c.Children = append(c.Children, kid)
		}
		cmd = c
	case "snooze":
		d, err := time.ParseDuration(td.CmdArgs[1].Key)
		st.ok(err)
		cmd = core.Snooze{Run: run, Delay: d}
	case "wait":
		c, d, then := core.Park{Run: run}, "", "continue"
		td.ScanArgs(st.t, "for", &d)
		td.MaybeScanArgs(st.t, "then", &then)
		c.Wait.Then, c.Wait.All = events.WaitThen(then), td.HasArg("all")
		for _, a := range td.CmdArgs[1:] {
			if len(a.Vals) == 0 && a.Key != "all" {
				c.Wait.Names = append(c.Wait.Names, a.Key)
			}
		}
		var err error
		c.For, err = time.ParseDuration(d)
		st.ok(err)
		cmd = c
	case "progress":
		c := core.ReportProgress{Run: run}
		td.ScanArgs(st.t, "percent", &c.Percent)
		cmd = c
	case "checkpoint":
		cmd = core.SaveCheckpoint{Run: run, Checkpoint: json.RawMessage(td.Input)}
	case "finish":
		cmd = core.Complete{Run: run, Result: json.RawMessage(td.Input)}
	default:
		st.t.Fatalf("unknown command %s", td.Cmd)
	}
	switch out := st.say(cmd, m.token); {
	case out == nil:
		return "no answer\n"
	case !out.OK:
		return "refused: " + string(out.Error.Code) + "\n"
	default:
		return fmt.Sprintf("ok, %s\n", out.State)
	}
}

// broughtAlong describes what earlier runs have left for the run.
func (st *story) broughtAlong(a *wire.Left) string {
	var b strings.Builder
	if a.Checkpoint != nil {
		fmt.Fprintf(&b, ", from checkpoint %s", a.Checkpoint)
	}
	if c := a.Continuation; c != nil {
		fmt.Fprintf(&b, ", to continue with %q:", c.Name)
		var list []events.Outcome
		st.ok(json.Unmarshal(c.Children, &list))
		for _, o := range list {
			fmt.Fprintf(&b, " %s %s %s;", st.name(o.ID), o.State, strings.TrimSpace(string(o.Result)+o.Error))
		}
	}
	if w := a.Waited; w != nil {
		fmt.Fprintf(&b, ", %s:", w.Ended)
		var list []events.Signal
		if len(w.Signals) > 0 {
			st.ok(json.Unmarshal(w.Signals, &list))
		}
		for _, s := range list {
			fmt.Fprintf(&b, " %s %s;", s.Name, s.Payload)
		}
	}
	return b.String()
}

func (st *story) describeFlow(ev *events.Event) string {
	names := func(ids []events.ID) string {
		var list []string
		for _, id := range ids {
			list = append(list, st.name(id))
		}
		return strings.Join(list, ", ")
	}
	switch b := ev.Body.(type) {
	case *events.Cancelled:
		if b.Reason != "cancelled" {
			return ": " + b.Reason + st.because(b.By)
		}
	case *events.Waiting:
		if len(b.For) > 0 {
			return fmt.Sprintf(" for %s (%s)", names(b.For), b.Reason)
		}
		if !b.Ended.IsZero() {
			return fmt.Sprintf(": %s has ended, %d left", st.name(b.Ended), b.Left)
		}
	case *events.Spawned:
		return " " + names(b.Children)
	case *events.Snoozed:
		return st.in(b.AvailableAt)
	case *events.Parked:
		return fmt.Sprintf(" for %s%s", strings.Join(b.Names, ", "), st.in(b.Until))
	case *events.Signalled:
		return " " + b.Name
	case *events.Progressed:
		return fmt.Sprintf(": %d %%", b.Percent)
	}
	return ""
}

func (st *story) because(by events.ID) string {
	if by.IsZero() {
		return ""
	}
	return ", because of " + st.name(by)
}

func isFlow(cmd string) bool {
	return slices.Contains([]string{"spawn", "snooze", "progress", "checkpoint", "finish", "wait", "signal"}, cmd)
}
