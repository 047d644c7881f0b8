package dispatcher

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/eventlog/logtest"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector"
)

func (w *world) CutLog(below uint64) {
	if w.purge(below) == nil {
		w.signals.LogCut(below)
	}
}

// purgeLog cuts the log, keeping aside what a test wants to read later.
func (s *sim) purgeLog(below uint64) error {
	ctx := context.Background()
	if tip, err := s.log.Last(ctx); err == nil && tip.First < below {
		err := s.log.Read(ctx, tip.First, below-1, func(f eventlog.Frame) error {
			s.gone = append(s.gone, f.Events...)
			return nil
		})
		s.ok(err)
	}
	err := s.log.Purge(ctx, below)
	if tip, e := s.log.Last(ctx); e == nil && tip.First < below {
		s.gone = s.gone[:s.kept]
	}
	s.kept = len(s.gone)
	return err
}

// readAll gives every event that there ever was.
func (s *sim) readAll(fn func([]events.Event) error) error {
	if err := fn(s.gone); err != nil {
		return err
	}
	return s.log.Read(context.Background(), 0, s.l.pipe.appended.Frame(), func(f eventlog.Frame) error { return fn(f.Events) })
}

// retentionCommand runs the commands of stories about retention:
//
//	retain TYPE completed=1h dead=48h   sets how long ended items are kept
//	cut                                 begins a round now; what its lines say (submit, cancel)
//	                                    is decided before anything is carried
//	purge-fault lost|ack-lost           strikes the next cut of the log
//	log                                 tells where the log begins
//	drop-store                          deletes the projection, as of a crash
//	history ITEM                        tells what is kept of an item's life
func (st *story) retentionCommand(td *datadriven.TestData) string {
	switch td.Cmd {
	case "retain":
		typ := events.Type(td.CmdArgs[0].Key)
		set, _ := st.l.state.Settings(typ)
		for name, keep := range map[string]*events.Duration{"completed": &set.Retain.Completed, "dead": &set.Retain.Dead, "cancelled": &set.Retain.Cancelled, "merged": &set.Retain.Merged} {
			text := ""
			if td.MaybeScanArgs(st.t, name, &text); text != "" {
				d, err := time.ParseDuration(text)
				st.ok(err)
				*keep = events.DurationOf(d)
			}
		}
		st.do(core.Configure{Type: typ, Source: events.SourceAPI, Settings: set})
	case "cut":
		st.cut()
		if td.Input != "" {
			st.inTheRound(td)
		}
		st.settle()
	case "purge-fault":
		st.log.ScriptPurges(map[string]logtest.PurgeFault{"lost": logtest.PurgeLost, "ack-lost": logtest.PurgeAckLost}[td.CmdArgs[0].Key])
	case "log":
		tip, err := st.log.Last(context.Background())
		st.ok(err)
		return fmt.Sprintf("the log holds %d to %d, %d items are retained\n", tip.First, tip.Seq, st.retained().Retained)
	case "drop-store":
		st.dropStore()
	case "history":
		history, _, err := st.store.Kept(st.ids[td.CmdArgs[0].Key])
		st.ok(err)
		line := fmt.Sprintf("%d events:", len(history))
		for _, h := range history {
			var e struct{ Kind string }
			st.ok(json.Unmarshal(h.Data, &e))
			line += fmt.Sprintf(" %d %s", h.Seq, e.Kind)
		}
		return line + "\n"
	default:
		st.t.Fatalf("unknown command %s", td.Cmd)
	}
	return ""
}

// inTheRound has a round begin, and what the lines of a cut say decided next.
func (st *story) inTheRound(td *datadriven.TestData) {
	for st.l.state.Meta().RoundAt == 0 {
		if moved, err := st.step(); err != nil || !moved {
			st.t.Fatalf("no round begins: %v", err)
		}
	}
	j := &commandJob{done: func([]Outcome) {}}
	for line := range strings.Lines(td.Input) {
		verb, args, err := datadriven.ParseLine(line)
		st.ok(err)
		switch said := (&datadriven.TestData{Pos: td.Pos, Cmd: verb, CmdArgs: args}); verb {
		case "submit":
			j.cmds = append(j.cmds, st.submission(said))
		case "cancel":
			j.cmds = append(j.cmds, core.Cancel{ID: st.ids[args[0].Key]})
		default:
			st.t.Fatalf("unknown command %s in a cut", verb)
		}
	}
	st.l.queues.urgent.jobs = append(st.l.queues.urgent.jobs, j)
}

// dropStore loses the projection and the process.
func (s *sim) dropStore() {
	store, err := projector.Open("", projector.Options{InMemory: true})
	s.ok(err)
	s.stores = append(s.stores, store)
	s.store, s.cfg.Store = store, store
	s.crash()
}

func (st *story) describeRetention(ev *events.Event, who string) string {
	switch b := ev.Body.(type) {
	case *events.Snapshot:
		return fmt.Sprintf(" round %d, %s", b.Round, b.Mark)
	case *events.Carried:
		return fmt.Sprintf("%s, %s, %d events", who, b.Item.State, len(b.History))
	case *events.Pruned:
		return who + ": " + b.Reason
	}
	return who
}
