package dispatcher

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

// limits runs the commands about limits:
//
//	limit TYPE           with settings as JSON, laid over the type's
//	engine               with the engine's own limits as JSON; starts it anew
//	flood NAME n=N       submits NAME1 to NAMEN; type, tenant, team, priority, source
//	grab [n=N]           starts what was sent to workers, and says what came of it
//	work [n=N]           the same, and completes each before the next
//	held                 what is held, until when
func (st *story) limits(td *datadriven.TestData) string {
	switch td.Cmd {
	case "limit":
		typ := events.Type(td.CmdArgs[0].Key)
		set, _ := st.l.state.Settings(typ)
		st.ok(json.Unmarshal([]byte(td.Input), &set))
		return st.outcome(st.do(core.Configure{Type: typ, Source: events.SourceAPI, Settings: set}))
	case "engine":
		st.cfg.Limits = events.Limits{}
		st.ok(json.Unmarshal([]byte(td.Input), &st.cfg.Limits))
		st.sim.crash()
		return ""
	case "flood":
		return st.flood(td)
	case "grab", "work":
		return st.grab(td)
	}
	return st.holding()
}

func (st *story) flood(td *datadriven.TestData) string {
	n, typ, prio, tenant, team, source := 1, "email", 5, "", "", ""
	td.MaybeScanArgs(st.t, "n", &n)
	td.MaybeScanArgs(st.t, "type", &typ)
	td.MaybeScanArgs(st.t, "priority", &prio)
	td.MaybeScanArgs(st.t, "tenant", &tenant)
	td.MaybeScanArgs(st.t, "team", &team)
	td.MaybeScanArgs(st.t, "source", &source)
	p := events.Priority(prio)
	var said []string
	for i := range n {
		c := core.Submit{Type: events.Type(typ), NewID: st.newID(), Priority: &p, Tenant: tenant, Provenance: events.Provenance{Source: source}}
		if team != "" {
			c.Labels = map[string]string{"team": team}
		}
		name := fmt.Sprint(td.CmdArgs[0].Key, i+1)
		st.call(name, c.NewID)
		out := st.do(c)
		answer := strings.TrimSpace(st.outcome(out))
		if len(out) > 0 {
			if e, ok := out[0].Err.(*events.Error); ok {
				answer += fmt.Sprintf(", again in %s", e.RetryAfter)
			}
		}
		said = append(said, name+" "+answer)
	}
	st.quiet = true
	return strings.Join(said, "\n") + "\n"
}

func (st *story) grab(td *datadriven.TestData) string {
	n, typ := 1000, "email"
	td.MaybeScanArgs(st.t, "n", &n)
	td.MaybeScanArgs(st.t, "type", &typ)
	var said []string
	for range n {
		m := st.sim.take(events.Type(typ))
		if m == nil {
			break
		}
		name := st.name(m.id)
		st.held[name] = m
		if a := st.report(m.report(wire.ReportStart)); len(a) == 0 {
			name += " (no answer)"
		} else if !a[0].OK {
			name += " refused: " + string(a[0].Error.Code)
		} else if td.Cmd == "work" {
			st.report(m.report(wire.ReportComplete))
		}
		said = append(said, name)
	}
	st.quiet = true
	return strings.Join(append([]string{td.Cmd + ":"}, said...), " ") + "\n"
}

func (st *story) holding() string {
	var said []string
	type held struct {
		typ   events.Type
		group string
		whole bool
	}
	all := map[held]time.Time{}
	st.l.ready.EachThrottled(func(t events.Type, group string, whole bool, until time.Time) { all[held{t, group, whole}] = until })
	for _, key := range slices.SortedFunc(maps.Keys(all), func(a, b held) int {
		return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
	}) {
		what := fmt.Sprintf("group %q of %s", key.group, key.typ)
		if key.whole {
			what = "type " + string(key.typ)
		}
		until := "one of its runs moves on"
		if at := all[key]; !at.IsZero() {
			until = at.Sub(simStart).String()
		}
		said = append(said, what+" is held until "+until)
	}
	return strings.Join(append(said, fmt.Sprintf("%d holds", len(said))), "\n") + "\n"
}
