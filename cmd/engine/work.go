package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
	"github.com/streamwright/streamwright/workers/process"
)

func workCommand(a *app) *cobra.Command {
	cfg := workers.Config{}
	var id string
	var env []string
	grace := process.DefaultGrace
	cmd := &cobra.Command{
		Use:   "work TYPE [flags] -- COMMAND [ARG…]",
		Short: "Work on the items of a type: run a command for each",
		Long: "Register as a worker for TYPE and run COMMAND for each item, until interrupted; then let what runs\n" +
			"finish. A second interrupt ends it at once.\n\n" +
			"The command gets the params on standard input, and WORK_ID, WORK_TYPE and WORK_ATTEMPT in its\n" +
			"environment. Standard output is the result: its last line if that is JSON, else the text. Standard\n" +
			"error is the item's log. Exit 0: done; 75: retry later; 65: not retryable; any other: failed, retried.\n\n" +
			"Of this program's environment the command gets all but what the program itself logs in with (NATS_PASSWORD and its\n" +
			"like): name with --env what it is to have of that.\n\n" +
			"On descriptor 3 the command may write lines of JSON: {\"progress\":40,\"message\":\"…\"}, {\"checkpoint\":{…}} (the next\n" +
			"attempt has it in WORK_CHECKPOINT), and, for what exit 0 is to mean, {\"snooze\":\"30s\"}, {\"retry_after\":\"10s\"} or\n" +
			"{\"spawn\":{\"children\":[…],\"continuation\":\"name\"}}: when the children have ended it runs again with WORK_CONTINUATION\n" +
			"and, in the file WORK_CHILDREN, how they ended.",
		Example: "  engine work checksum -- sha256sum\n  engine work resize --concurrency 4 --capability gpu -- ./resize --quality 80",
		Args: func(cmd *cobra.Command, args []string) error {
			if dash := cmd.ArgsLenAtDash(); dash != 1 || len(args) < 2 {
				return console.Usagef("a type, -- and a command are needed: write it as: %s", cmd.UseLine())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if cfg.Concurrency < 0 || cfg.Concurrency > workers.MaxConcurrency {
				return console.Usagef("invalid --concurrency %d: use 1 to %d", cfg.Concurrency, workers.MaxConcurrency)
			}
			if _, err := events.ParseWorkerID(id); id != "" && err != nil {
				return console.Usagef("invalid --id: %v", err)
			}
			cfg.ID = events.WorkerID(id)
			return a.work(cmd.Context(), cfg, args[0], process.Handler(args[1:], process.Grace(grace), process.Env(env...)), args[1])
		},
	}
	f := cmd.Flags()
	f.IntVar(&cfg.Concurrency, "concurrency", 0, "how many items to work on at once (default: one for each processor, at least 4)")
	f.StringSliceVar(&cfg.Capabilities, "capability", nil, "a `capability` of this worker (repeatable)")
	f.StringVar(&id, "id", "", "the worker's `id`, unique among those alive (default: host, process and a random part)")
	f.DurationVar(&cfg.DrainTimeout, "drain-timeout", 30*time.Second, "how long an interrupt lets commands finish")
	f.BoolVar(&cfg.Probe, "probe", false, "answer the engine's probes, so that it notices when this worker hangs")
	f.StringArrayVar(&env, "env", nil, "a `variable` of the command's environment: NAME passes one on that holds a login (such as NATS_PASSWORD), NAME=value sets one (repeatable)")
	f.DurationVar(&grace, "grace", grace, "how long after SIGTERM a command gets SIGKILL")
	return cmd
}

func (a *app) work(ctx context.Context, cfg workers.Config, typ string, handler workers.Handler, program string) error {
	if err := checkType(typ); err != nil {
		return err
	}
	if _, err := exec.LookPath(program); err != nil {
		return fmt.Errorf("%w: give the path of a program that can be run", err)
	}
	a.TellRefusals = true
	c, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	cfg.Names = c.Names()
	// How runs end is told by the lines below, not by the log.
	cfg.Logger = slog.New(withoutRuns{slog.NewTextHandler(a.Err, &slog.HandlerOptions{Level: slog.LevelWarn})})
	w, err := workers.New(c.Conn(), cfg)
	if err != nil {
		return err
	}
	r := runPrinter{a: a, style: console.StyleFor(a.Out)}
	w.Use(r.middleware)
	workers.HandleRaw(w, typ, handler)
	a.Notef("worker %s waits for %s items; Ctrl-C lets what runs finish", w.ID(), typ)
	return w.Run(ctx)
}

// withoutRuns leaves out of a log that handlers have failed.
type withoutRuns struct{ slog.Handler }

func (h withoutRuns) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == workers.HandlerFailed {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

func (h withoutRuns) WithAttrs(attrs []slog.Attr) slog.Handler {
	return withoutRuns{h.Handler.WithAttrs(attrs)}
}

func (h withoutRuns) WithGroup(name string) slog.Handler {
	return withoutRuns{h.Handler.WithGroup(name)}
}

// runPrinter prints a line for each run that has ended. It is used by all
// handlers at once.
type runPrinter struct {
	a     *app
	style console.Style
	mu    sync.Mutex // around printing
}

// ranItem is a run that has ended, for --json.
type ranItem struct {
	At         time.Time       `json:"at"`
	ID         string          `json:"id"`
	Type       string          `json:"type"`
	Attempt    int             `json:"attempt"`
	DurationMS int64           `json:"duration_ms"`
	Result     json.RawMessage `json:"result,omitempty"`
	Error      string          `json:"error,omitempty"`
	Spawned    int             `json:"spawned,omitempty"` // children
	SnoozedMS  int64           `json:"snoozed_ms,omitempty"`
}

func (p *runPrinter) middleware(next workers.Handler) workers.Handler {
	return func(ctx context.Context, item *workers.RawItem) (any, error) {
		start := time.Now()
		returned, err := next(ctx, item)
		result := returned
		end := time.Now()
		out := ranItem{At: end, ID: item.ID.String(), Type: string(item.Type), Attempt: int(item.Attempt), DurationMS: end.Sub(start).Milliseconds()}
		switch end := result.(type) {
		case workers.Spawn:
			out.Spawned, result = len(end.Children), nil
		case workers.Snoozed:
			out.SnoozedMS, result = wire.Millis(end.Delay), nil
		}
		if err != nil {
			out.Error = err.Error()
		} else if result != nil {
			out.Result, _ = json.Marshal(result) // what can't be written fails the run, and is told there
		}
		p.print(out)
		return returned, err
	}
}

func (p *runPrinter) print(r ranItem) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.a.JSON {
		_ = p.a.PrintJSON(r) // a closed standard output must not stop the work
		return
	}
	state, detail := p.style.State(events.StateCompleted), string(r.Result)
	switch {
	case r.Spawned > 0:
		state, detail = events.StateWaiting.String()+"  ", "for "+console.Children(r.Spawned)
	case r.SnoozedMS > 0:
		state, detail = "snoozed  ", "for "+console.Span(time.Duration(r.SnoozedMS)*time.Millisecond)
	case r.Error != "":
		state, detail = p.style.State(events.StateFailed)+"   ", r.Error
	}
	line := fmt.Sprintf("%s  %s  #%d  %s  %6s  %s", p.style.Faint(r.At.Local().Format("15:04:05.000")), r.ID, r.Attempt,
		state, console.Span(time.Duration(r.DurationMS)*time.Millisecond), p.style.Clip(detail, 100))
	p.a.Printf("%s\n", strings.TrimRight(line, " "))
}
