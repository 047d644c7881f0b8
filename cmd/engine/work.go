package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/cli"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
	"github.com/streamwright/streamwright/workers/process"
)

func workCommand(a *app) *cobra.Command {
	cfg := workers.Config{}
	var env, checks []string
	var stream bool
	grace := process.DefaultGrace
	cmd := &cobra.Command{
		Use:   "work TYPE [flags] -- COMMAND [ARG…]",
		Short: "Work on the items of a type: run a command for each",
		Long: `Register as a worker for TYPE and run COMMAND for each item, until interrupted;
then let what runs finish. A second interrupt ends it at once. With several
namespaces (--namespace acme,beta) it works on the type's items in each of them,
in --concurrency slots that they share.

The command gets the params on standard input, and WORK_ID, WORK_TYPE,
WORK_ATTEMPT and WORK_NAMESPACE in its environment. Standard output is the
result: its last line if that is JSON, else the text; with --stream it is the
item's output, which others follow while the command runs (engine output ID
--follow), and the result says how long it is. Standard error is the item's log.
Exit 0: done; 75: retry later; 65: not retryable; any other: failed, retried.

The command inherits the environment, except for what this program itself logs
in with (NATS_PASSWORD and the like): pass those on by name with --env.

On descriptor 3 the command may write lines of JSON: {"progress":40,
"message":"…"}, {"checkpoint":{…}} (the next attempt has it in WORK_CHECKPOINT),
and, to change what exit 0 means, {"snooze":"30s"}, {"retry_after":"10s"},
{"spawn":{"children":[…],"continuation":"name"}} or {"wait":{"names":["paid"],
"for":"72h"}}. When the children have ended, it runs again with
WORK_CONTINUATION and, in the file WORK_CHILDREN, how they ended; when the wait
has, with WORK_WAITED and, in the file WORK_SIGNALS, the signals.

A check (--check) is a shell command that runs before each heartbeat. While one
fails, the worker is unhealthy: it takes no new items, and what runs goes on.
The reason is the last line of its standard error. After 2s it is killed, and
fails.`,
		Example: "  engine work checksum -- sha256sum\n  engine work checksum --namespace acme,beta -- sha256sum\n  engine work resize --concurrency 4 --capability gpu -- ./resize --quality 80\n  engine work mail --check 'nc -z localhost 25' -- ./send",
		Args: func(cmd *cobra.Command, args []string) error {
			if dash := cmd.ArgsLenAtDash(); dash != 1 || len(args) < 2 {
				return cli.Usagef("a type, -- and a command are needed: write it as: %s", cmd.UseLine())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if cfg.Concurrency < 0 || cfg.Concurrency > workers.MaxConcurrency {
				return cli.Usagef("invalid --concurrency %d: use 1 to %d", cfg.Concurrency, workers.MaxConcurrency)
			}
			var err error
			if cfg.Namespaces, err = cli.Namespaces(a.Namespace, os.Getenv); err != nil {
				return err
			}
			a.Namespace = string(cfg.Namespaces[0]) // of the connection
			if cfg.Checks, err = shellChecks(checks, process.Env(env...)); err != nil {
				return err
			}
			opts := []process.Option{process.Grace(grace), process.Env(env...)}
			if stream {
				opts = append(opts, process.Stream())
			}
			return a.work(cmd.Context(), cfg, args[0], process.Handler(args[1:], opts...), args[1])
		},
	}
	f := cmd.Flags()
	f.Func("concurrency", "how many items to work on at once, a `number` (default: one for each processor, at least 4)", console.Positive(&cfg.Concurrency))
	f.StringSliceVar(&cfg.Capabilities, "capability", nil, "a `capability` of this worker (repeatable)")
	f.Func("id", "the worker's `id`, unique among those alive (default: host, process and a random part)", console.WorkerID(&cfg.ID))
	f.DurationVar(&cfg.DrainTimeout, "drain-timeout", 30*time.Second, "how long an interrupt lets commands finish")
	f.BoolVar(&cfg.Probe, "probe", false, "answer the engine's probes, so that it notices when this worker hangs")
	f.StringArrayVar(&checks, "check", nil, "a shell `command` that fails while this worker should take no new items (repeatable)")
	f.StringArrayVar(&env, "env", nil, "a `variable` of the command's environment: NAME passes on one that holds a login (such as NATS_PASSWORD), NAME=value sets one (repeatable)")
	f.BoolVar(&stream, "stream", false, "make standard output the item's output, for others to follow while the command runs")
	f.DurationVar(&grace, "grace", grace, "how long after SIGTERM a command gets SIGKILL")
	return cmd
}

// shellChecks returns health checks that run shell commands, each under the name of
// its program: the rest of a command may be long, or secret.
func shellChecks(commands []string, env process.Option) (map[string]workers.Check, error) {
	if len(commands) == 0 {
		return nil, nil
	}
	if len(commands) > workers.MaxChecks {
		return nil, cli.Usagef("there are %d of --check: use at most %d", len(commands), workers.MaxChecks)
	}
	if _, err := exec.LookPath("sh"); err != nil {
		return nil, fmt.Errorf("--check needs a shell: %w", err)
	}
	checks := map[string]workers.Check{}
	for _, command := range commands {
		if strings.TrimSpace(command) == "" {
			return nil, cli.Usagef("invalid --check %q: use a command", command)
		}
		program := checkName(command)
		name := program
		for n := 2; checks[name] != nil; n++ {
			name = fmt.Sprintf("%s %d", program, n)
		}
		checks[name] = process.Check([]string{"sh", "-c", command}, env)
	}
	return checks, nil
}

var plainProgram = regexp.MustCompile(`^[A-Za-z0-9._/+-]{1,200}$`)

// checkName is the name of the program that a command begins with, if that is plain.
func checkName(command string) string {
	program := strings.Fields(command)[0]
	if !plainProgram.MatchString(program) {
		return "check"
	}
	name := path.Base(program)
	return name[:min(len(name), wire.MaxCheckName-len(" 16"))]
}

func (a *app) work(ctx context.Context, cfg workers.Config, typ string, handler workers.Handler, program string) error {
	if err := checkType(typ); err != nil {
		return err
	}
	if _, err := exec.LookPath(program); err != nil {
		return fmt.Errorf("%w: give the path of a program that can be run", err)
	}
	a.TellRefusals = true
	return a.with(ctx, func(c *streamwright.Client) error {
		cfg.Names = c.Names()
		// The lines below tell how runs end, so the log need not.
		cfg.Logger = slog.New(withoutRuns{slog.NewTextHandler(a.Err, &slog.HandlerOptions{Level: slog.LevelWarn})})
		r := runPrinter{a: a, style: a.Style(), several: len(cfg.Namespaces) > 1, ended: map[runKey]ranItem{}}
		cfg.Settled = r.settled
		w, err := workers.New(c.Conn(), cfg)
		if err != nil {
			return err
		}
		if err := errors.Join(w.Use(r.middleware), workers.HandleRaw(w, typ, handler)); err != nil {
			return err
		}
		where := ""
		if r.several {
			where = " in " + join(cfg.Namespaces, ", ")
		}
		a.Notef("worker %s waits for %s items%s; Ctrl-C lets what runs finish", w.ID(), typ, where)
		told := make(chan struct{})
		stop := context.AfterFunc(ctx, func() {
			defer close(told)
			a.Notef("%s", waitsFor(w.Stats().Running, cfg.DrainTimeout, time.Now()))
		})
		err = w.Run(ctx)
		if !stop() {
			<-told
		}
		return err
	})
}

// waitsFor says what an interrupted worker waits for.
func waitsFor(runs int, limit time.Duration, now time.Time) string {
	if runs == 0 {
		return "stopping: nothing runs"
	}
	return fmt.Sprintf("stopping: waiting for %s to finish, until %s at the latest; Ctrl-C again ends at once", events.Count(runs, "run"), now.Add(limit).Format("15:04:05"))
}

// withoutRuns is a log without the failures of handlers.
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

// runPrinter prints a line for each run that has ended. All handlers share it.
type runPrinter struct {
	a       *app
	style   console.Style
	several bool // namespaces, so that each line has its own

	mu    sync.Mutex         // around the following
	ended map[runKey]ranItem // handlers that have returned, until the engine has answered
}

// runKey names a run.
type runKey struct {
	namespace events.Namespace
	id        events.ID
	attempt   events.Attempt
}

// ranItem is a run that has ended, for --json.
type ranItem struct {
	At         time.Time       `json:"at"`
	Namespace  string          `json:"namespace,omitempty"` // if the worker serves several
	ID         string          `json:"id"`
	Type       string          `json:"type"`
	Attempt    int             `json:"attempt"`
	DurationMS int64           `json:"duration_ms"`
	Result     json.RawMessage `json:"result,omitempty"`
	Error      string          `json:"error,omitempty"`
	Spawned    int             `json:"spawned,omitempty"` // children
	SnoozedMS  int64           `json:"snoozed_ms,omitempty"`
	Waits      bool            `json:"waits,omitempty"`   // for signals
	Refused    string          `json:"refused,omitempty"` // why the engine has not recorded the outcome
	waitsFor   []string
}

func (p *runPrinter) middleware(next workers.Handler) workers.Handler {
	return func(ctx context.Context, item *workers.RawItem) (any, error) {
		start := time.Now()
		returned, err := next(ctx, item)
		result := returned
		end := time.Now()
		out := ranItem{At: end, ID: item.ID.String(), Type: string(item.Type), Attempt: int(item.Attempt), DurationMS: end.Sub(start).Milliseconds()}
		if p.several {
			out.Namespace = string(item.Namespace)
		}
		switch end := result.(type) {
		case workers.Spawned:
			out.Spawned, result = len(end.Children), nil
		case workers.Snoozed:
			out.SnoozedMS, result = events.DurationOf(end.Delay).Milliseconds(), nil
		case workers.Waits:
			out.Waits, out.waitsFor, result = true, end.Names(), nil
		}
		if err != nil {
			out.Error = err.Error()
		} else if result != nil {
			out.Result, _ = json.Marshal(result) // a result that can't be written fails the run, which reports it
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.ended[runKey{item.Namespace, item.ID, item.Attempt}] = out
		return returned, err
	}
}

// settled prints a run once the engine has answered what became of it: the outcome
// may come too late, or be refused.
func (p *runPrinter) settled(s workers.Settled) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := runKey{s.Namespace, s.ID, s.Attempt}
	out, ok := p.ended[key]
	if !ok {
		return
	}
	delete(p.ended, key)
	switch {
	case s.Err != nil:
		out.Refused = wire.FromError(s.Err).Message
	case s.Event == wire.ReportFail && out.Error == "": // refused for its content
		out.Error, out.Result, out.Spawned, out.SnoozedMS, out.Waits = s.Error, nil, 0, 0, false
	}
	p.print(out)
}

// print prints a line. REQUIRES: mu.
func (p *runPrinter) print(r ranItem) {
	if p.a.JSON {
		_ = p.a.PrintJSON(r) // a closed standard output must not stop the work
		return
	}
	state, detail := p.style.State(events.StateCompleted), string(r.Result)
	switch {
	case r.Refused != "":
		state, detail = "not recorded", r.Refused
	case r.Spawned > 0:
		state, detail = events.StateWaiting.String()+"  ", "for "+console.Children(r.Spawned)
	case r.Waits:
		state, detail = events.StateWaiting.String()+"  ", "for "+cmp.Or(strings.Join(r.waitsFor, ", "), "a time")
	case r.SnoozedMS > 0:
		state, detail = "snoozed  ", "for "+millis(r.SnoozedMS)
	case r.Error != "":
		state, detail = p.style.State(events.StateFailed)+"   ", r.Error
	}
	id := r.ID
	if r.Namespace != "" {
		id = r.Namespace + "  " + id
	}
	line := fmt.Sprintf("%s  %s  #%d  %s  %6s  %s", p.style.Faint(r.At.Local().Format("15:04:05.000")), id, r.Attempt,
		state, millis(r.DurationMS), p.style.Clip(detail, 100))
	p.a.Printf("%s\n", strings.TrimRight(line, " "))
}
