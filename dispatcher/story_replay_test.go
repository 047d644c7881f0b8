package dispatcher

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/cockroachdb/datadriven"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector/query"
	"github.com/streamwright/streamwright/wire"
)

// replayCommand runs the commands of stories about dead letters:
//
//	replay ITEM [params=JSON] [priority=N] [attempts=N]
//	purge ITEM
//	dead [type=T] [code=C]    lists what is dead, the last first
//	causes                    what items have died of
//	rejected                  lists what was rejected
//	purge-rejected SEQ
func (st *story) replayCommand(td *datadriven.TestData) string {
	switch td.Cmd {
	case "replay":
		c := core.Replay{ID: st.ids[td.CmdArgs[0].Key]}
		params, prio, attempts := "", -1, 0
		td.MaybeScanArgs(st.t, "params", &params)
		td.MaybeScanArgs(st.t, "priority", &prio)
		td.MaybeScanArgs(st.t, "attempts", &attempts)
		if params != "" {
			c.Params = json.RawMessage(params)
		}
		if p := events.Priority(prio); prio >= 0 {
			c.Priority = &p
		}
		c.MaxAttempts = events.Attempt(attempts)
		return st.outcome(st.do(c))
	case "purge":
		return st.outcome(st.do(core.Purge{ID: st.ids[td.CmdArgs[0].Key]}))
	case "purge-rejected":
		seq, err := events.ParseSeq(td.CmdArgs[0].Key)
		st.ok(err)
		return st.outcome(st.do(core.PurgeRejected{Seq: seq}))
	case "dead":
		return st.listDead(td)
	case "causes":
		return st.listCauses()
	}
	page, err := query.Of(st.cfg.Store).Rejected(wire.ListRejected{})
	st.ok(err)
	var b strings.Builder
	for _, r := range page.Rejected {
		whole, found, err := query.Of(st.cfg.Store).RejectedOf(r.Seq)
		st.ok(err)
		fmt.Fprintf(&b, "%d %s %s: %s%s\n", r.Seq, r.Type, r.Code, whole.Text, map[bool]string{false: " (gone)"}[found])
	}
	return b.String() + fmt.Sprintf("%d rejected\n", len(page.Rejected))
}

func (st *story) listDead(td *datadriven.TestData) string {
	var q wire.Selection
	td.MaybeScanArgs(st.t, "type", &q.Type)
	td.MaybeScanArgs(st.t, "code", &q.Code)
	page, err := query.Of(st.cfg.Store).Dead(q)
	st.ok(err)
	var b strings.Builder
	for _, it := range page.Items {
		id, err := events.ParseID(it.ID)
		st.ok(err)
		fmt.Fprintf(&b, "%s: %s, %s\n", st.name(id), it.Reason, it.Error.Code)
	}
	return b.String() + fmt.Sprintf("%d dead\n", len(page.Items))
}

func (st *story) listCauses() string {
	reply, err := query.Of(st.cfg.Store).Causes(wire.CausesQuery{All: true})
	st.ok(err)
	var b strings.Builder
	for _, c := range reply.Causes {
		fmt.Fprintf(&b, "%s %s %s: %d dead of %d\n", c.Type, c.Reason, c.Code, c.Dead, c.Count)
	}
	return b.String()
}

func (st *story) describeReplay(ev *events.Event) string {
	switch b := ev.Body.(type) {
	case *events.CauseNoted:
		return fmt.Sprintf(" %s: %s %s of %s, %d in all", b.Why, b.Reason, b.Code, ev.Type, b.Count)
	case *events.Replayed:
		with := ""
		if b.Params != nil {
			with = " with " + string(b.Params)
		}
		return fmt.Sprintf(" %s, priority %d, up to attempt %d%s", st.name(ev.ID), b.Priority, b.MaxAttempts, with)
	case *events.RejectedPurged:
		return fmt.Sprintf(" event %d: %s", b.Seq, b.Reason)
	}
	return ""
}
