package rest

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// WorkerBridge serves the worker API, implemented by *bridge.Bridge. Its errors are
// *events.Errors.
type WorkerBridge interface {
	Register(ctx context.Context, reg wire.WorkerRegistration) (wire.WorkerSession, error)
	Poll(ctx context.Context, worker string, req wire.Poll) (wire.Polled, error)
	// Undelivered hands back the items of a poll whose reply could not be written.
	Undelivered(worker string, items []wire.PolledItem)
	Report(ctx context.Context, worker, session string, reports []wire.Report) ([]wire.Reported, error)
	Heartbeat(ctx context.Context, worker string, req wire.WorkerHeartbeat) (wire.WorkerOrders, error)
	Probe(ctx context.Context, worker string, req wire.ProbeWait) (wire.ProbeAsked, error)
	Log(ctx context.Context, worker string, req wire.WorkerLogs) error
	Output(ctx context.Context, worker string, req wire.WorkerOutput) (wire.OutputSummary, error)
	Unregister(ctx context.Context, worker, session string) error
}

// maxControlBody bounds the bodies of registrations, polls and heartbeats: none
// is a large one, which would have a place while a poll waits.
const maxControlBody = LargeBody

// RegisterWorkers adds the worker API. Call it before Listen.
func (s *Server) RegisterWorkers(b WorkerBridge) {
	handleWorker(s, workerOperation{
		"register-worker", http.MethodPost, "/api/v1/workers", wire.APIRegister, ordinary, http.StatusCreated, "Register a worker",
		"The session of the reply is the worker's secret, and goes with each of its requests. A worker id that is alive under another session is refused with worker_id_in_use.",
	}, func(ctx context.Context, in *struct {
		Body wire.WorkerRegistration
	}) (wire.WorkerSession, error) {
		return b.Register(ctx, in.Body)
	})
	handleWorker(s, workerOperation{
		"poll-work", http.MethodPost, workerPath + "/poll", wire.APIHeartbeat, waiting, 0, "Wait for work",
		"Returns when there is work, when wait_ms is over (0 to 60,000; 30,000 if left out), or when the worker is to drain. With 0 it waits for the engine's answer alone, for up to 100 ms. What is returned is claimed for the worker: run it at once. Unless something is reported of it within 5 seconds, it is taken back. A worker has one poll open at a time: a second one takes over from the first, which is refused with worker_id_in_use.",
	}, func(ctx context.Context, in *struct {
		WorkerPath
		Body wire.Poll
	}) (wire.Polled, error) {
		got, err := b.Poll(ctx, in.ID, in.Body)
		if len(got.Items) > 0 {
			ctx.Value(unwrittenKey{}).(*unwritten).then = func() { b.Undelivered(in.ID, got.Items) }
		}
		return got, err
	}, flushed)
	s.reportWork(b)
	handleWorker(s, workerOperation{
		"worker-heartbeat", http.MethodPost, workerPath + "/heartbeat", wire.APIHeartbeat, ordinary, 0, "Keep a worker alive, and what it runs",
		"Renews the leases of the runs that in_flight names, and of no others. Runs in cancel and lost must stop; all runs must, if the answer is worker_id_in_use: another worker has registered under the id.",
	}, func(ctx context.Context, in *struct {
		WorkerPath
		Body wire.WorkerHeartbeat
	}) (wire.WorkerOrders, error) {
		return b.Heartbeat(ctx, in.ID, in.Body)
	})
	handleWorker(s, workerOperation{
		"worker-probe", http.MethodPost, workerPath + "/probe", wire.APIProbed, waiting, 0, "Wait for a probe, and answer the one before",
		"For a worker that has registered with probe. Returns the nonce of a probe as soon as the engine asks whether the worker is well, or nothing when wait_ms is over (0 to 60,000; 30,000 if left out). The next request answers it, with the nonce and the checks that fail. A worker has one such request open at a time: a second one takes over from the first, which is refused with worker_id_in_use.",
	}, func(ctx context.Context, in *struct {
		WorkerPath
		Body wire.ProbeWait
	}) (wire.ProbeAsked, error) {
		return b.Probe(ctx, in.ID, in.Body)
	})
	handleWorker(s, workerOperation{
		"worker-log", http.MethodPost, workerPath + "/log", wire.APIReport, ordinary, 0, "Write to the logs of items",
		"At most 1,000 records, for people who follow an item's log: they are kept as long as the stream of logs has room, and a record may be lost.",
	}, func(ctx context.Context, in *struct {
		WorkerPath
		Body wire.WorkerLogs
	}) (wire.OK, error) {
		return wire.OK{OK: true}, b.Log(ctx, in.ID, in.Body)
	})
	handleWorker(s, workerOperation{
		"worker-output", http.MethodPost, workerPath + "/output", wire.APIOutputWrite, ordinary, 0, "Write to the output of an item",
		"A chunk of at most 64 KiB, as text or in base64. With its offset, the bytes that the run has written before, it may be sent again without being stored twice; the reply has the offset of the next one. stale_token: the run does not have the item any more, and must stop.",
	}, func(ctx context.Context, in *struct {
		WorkerPath
		Body wire.WorkerOutput
	}) (wire.OutputSummary, error) {
		return b.Output(ctx, in.ID, in.Body)
	})
	handleWorker(s, workerOperation{
		"unregister-worker", http.MethodDelete, workerPath, wire.APIUnregister, ordinary, http.StatusOK, "Unregister a worker",
		"What it was given and has not started goes to others at once; what it runs goes when its leases are over.",
	}, func(ctx context.Context, in *struct {
		WorkerPath
		Session string `header:"Work-Session" required:"true" doc:"The session that the worker was given when it registered."`
	}) (wire.OK, error) {
		return wire.OK{OK: true}, b.Unregister(ctx, in.ID, in.Session)
	})
}

const workerPath = "/api/v1/workers/{id}"

// WorkerPath is the input of an operation on a worker.
type WorkerPath struct {
	ID string `path:"id" maxLength:"128" doc:"The worker's id."`
}

// workerOperation is an operation of the worker API whose body huma reads.
type workerOperation struct {
	id, method, path, endpoint string
	pace                       pace
	status                     int // of the reply; 0: 200
	summary, about             string
}

// handleWorker adds an operation of the worker API.
func handleWorker[In, Out any](s *Server, o workerOperation, handler func(context.Context, *In) (Out, error), around ...func(huma.Context, func(huma.Context))) {
	huma.Register(s.api, huma.Operation{
		OperationID: o.id, Method: o.method, Path: o.path, Summary: o.summary, Description: o.about, Tags: []string{tagWorkerAPI}, DefaultStatus: o.status,
		Metadata: map[string]any{needsKey: access.Needs(o.endpoint), paceKey: o.pace, endpointKey: o.endpoint}, MaxBodyBytes: maxControlBody, BodyReadTimeout: bodyBounded,
		Errors: always, Middlewares: around,
	}, func(ctx context.Context, in *In) (*struct{ Body Out }, error) {
		reply, err := handler(ctx, in)
		if err != nil {
			return nil, problemOf(s.whyEnded(ctx, err))
		}
		return &struct{ Body Out }{reply}, nil
	})
}

// unwritten holds what follows if a reply can't be written.
type unwritten struct{ then func() }

type unwrittenKey struct{}

// flushed is around an operation whose handler must know whether its reply was written. A
// reply that was written and did not arrive is not noticed.
func flushed(ctx huma.Context, next func(huma.Context)) {
	u := &unwritten{}
	next(huma.WithValue(ctx, unwrittenKey{}, u))
	if u.then == nil {
		return
	}
	_, w := humago.Unwrap(ctx)
	if http.NewResponseController(w).Flush() != nil {
		u.then()
	}
}

// workReport is a wire.Report, less what the session says.
type workReport struct {
	ID      string `json:"id"`
	Token   string `json:"token"`
	Event   string `json:"event" doc:"One of start, progress, checkpoint, token, complete, fail, release, snooze, spawn, wait."`
	Worker  string `json:"worker,omitempty" doc:"If it is there it must be the worker of the path."`
	Attempt int    `json:"attempt,omitempty"`
	Start   bool   `json:"start,omitempty" doc:"The run has started: all reports but start and release say so, with or without it."`

	Result       json.RawMessage `json:"result,omitempty" doc:"Of complete: any JSON of up to 256 KiB."`
	Strict       bool            `json:"strict,omitempty" doc:"Of complete: refused while signals have come that the run was not given."`
	Error        string          `json:"error,omitempty" doc:"Of fail."`
	Code         string          `json:"code,omitempty" doc:"Of fail: the worker's own code of the failure."`
	Retryable    *bool           `json:"retryable,omitempty" doc:"Of fail; true if left out."`
	RetryAfterMS int64           `json:"retry_after_ms,omitempty" doc:"Of fail."`
	Reason       string          `json:"reason,omitempty" doc:"Of release and snooze."`

	Percent    int             `json:"percent,omitempty" doc:"Of progress: 0 to 100."`
	Message    string          `json:"message,omitempty" doc:"Of progress."`
	Checkpoint json.RawMessage `json:"checkpoint,omitempty" doc:"Of checkpoint: any JSON of up to 64 KiB."`
	DelayMS    int64           `json:"delay_ms,omitempty" doc:"Of snooze."`
	Wait       *wire.WaitFor   `json:"wait,omitempty" doc:"Of wait: the signals, the deadline, and what becomes of the item then."`
	WaitToken  *wire.WaitToken `json:"wait_token,omitempty" doc:"Of token: the name of the signal, and the token's hash."`

	Children     []wire.Submit      `json:"children,omitempty" doc:"Of spawn: submissions."`
	Continuation *wire.ContinueWith `json:"continuation,omitempty" doc:"Of spawn: the item runs again when its children have ended."`
	ChildPolicy  events.ChildPolicy `json:"child_policy,omitempty" doc:"Of spawn."`
}

func (r *workReport) wire() wire.Report {
	return wire.Report{
		ID: r.ID, Token: r.Token, Event: r.Event, Worker: r.Worker, Attempt: r.Attempt, Start: r.Start,
		Result: r.Result, Strict: r.Strict, Error: r.Error, Code: r.Code, Retryable: r.Retryable, RetryAfter: events.Millis(r.RetryAfterMS), Reason: r.Reason,
		ReportFlow: wire.ReportFlow{
			Percent: r.Percent, Message: r.Message, Checkpoint: r.Checkpoint, Delay: events.Millis(r.DelayMS), Wait: r.Wait, WaitToken: r.WaitToken,
			Children: r.Children, Continuation: r.Continuation, ChildPolicy: r.ChildPolicy,
		},
	}
}
