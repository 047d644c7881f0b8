package rest

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// WorkerBridge is what the worker API stands on; *bridge.Bridge is it. The
// errors are *events.Errors.
type WorkerBridge interface {
	Register(ctx context.Context, reg wire.WorkerRegistration) (wire.WorkerSession, error)
	Poll(ctx context.Context, worker string, req wire.Poll) (wire.Polled, error)
	Report(ctx context.Context, worker, session string, reports []wire.Report) ([]wire.Reported, error)
	Heartbeat(ctx context.Context, worker string, req wire.WorkerHeartbeat) (wire.WorkerOrders, error)
	Probe(ctx context.Context, worker string, req wire.ProbeWait) (wire.ProbeAsked, error)
	Unregister(ctx context.Context, worker, session string) error
}

// maxControlBody bounds the bodies of registrations, polls and heartbeats: none
// is a large one, which would have a place while a poll waits.
const maxControlBody = LargeBody

// RegisterWorkers adds the worker API. It is called before Listen.
func (s *Server) RegisterWorkers(b WorkerBridge) {
	s.registerWorker(b)
	s.pollWork(b)
	s.reportWork(b)
	s.workerHeartbeat(b)
	s.workerProbe(b)
	s.unregisterWorker(b)
}

// answer makes an operation's output of a reply.
func answer[T any](reply T, err error) (*struct{ Body T }, error) {
	if err != nil {
		return nil, problemOf(err)
	}
	return &struct{ Body T }{reply}, nil
}

func workerOperation(id, method, path, endpoint, summary, text string) huma.Operation {
	return huma.Operation{
		OperationID: id, Method: method, Path: path, Summary: summary, Description: text, Tags: []string{tagWorkerAPI},
		Metadata: map[string]any{needsKey: access.Needs(endpoint), paceKey: ordinary}, MaxBodyBytes: maxControlBody, BodyReadTimeout: bodyBounded,
		Errors: []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusServiceUnavailable},
	}
}

func (s *Server) registerWorker(b WorkerBridge) {
	op := workerOperation("register-worker", http.MethodPost, "/api/v1/workers", wire.APIRegister, "Register a worker",
		"The session of the reply is the worker's secret, and goes with each of its requests. A worker id that is alive under another session is refused with worker_id_in_use.")
	op.DefaultStatus = http.StatusCreated
	huma.Register(s.api, op, func(ctx context.Context, in *struct {
		Body wire.WorkerRegistration
	}) (*struct{ Body wire.WorkerSession }, error) {
		return answer(b.Register(ctx, in.Body))
	})
}

func (s *Server) pollWork(b WorkerBridge) {
	op := workerOperation("poll-work", http.MethodPost, "/api/v1/workers/{id}/poll", wire.APIRegister, "Wait for work",
		"Returns when there is work, when wait_ms is over (0 to 60,000; 30,000 if left out), or when the worker is to drain. With claim, what is returned is claimed and started. A worker has one poll open at a time: a second one takes over from the first, which is refused with worker_id_in_use.")
	op.Metadata[paceKey] = waiting
	huma.Register(s.api, op, func(ctx context.Context, in *struct {
		ID   string `path:"id" maxLength:"128" doc:"The worker's id."`
		Body wire.Poll
	}) (*struct{ Body wire.Polled }, error) {
		polled, err := b.Poll(ctx, in.ID, in.Body)
		return answer(polled, s.whyEnded(ctx, err))
	})
}

func (s *Server) workerHeartbeat(b WorkerBridge) {
	huma.Register(s.api, workerOperation("worker-heartbeat", http.MethodPost, "/api/v1/workers/{id}/heartbeat", wire.APIHeartbeat, "Keep a worker alive, and what it runs",
		"Renews the leases of the runs that in_flight names, and of no others. Runs in cancel and lost must stop; all runs must, if the answer is worker_id_in_use: another worker has registered under the id.",
	), func(ctx context.Context, in *struct {
		ID   string `path:"id" maxLength:"128" doc:"The worker's id."`
		Body wire.WorkerHeartbeat
	}) (*struct{ Body wire.WorkerOrders }, error) {
		return answer(b.Heartbeat(ctx, in.ID, in.Body))
	})
}

func (s *Server) workerProbe(b WorkerBridge) {
	op := workerOperation("worker-probe", http.MethodPost, "/api/v1/workers/{id}/probe", wire.APIProbed, "Wait for a probe, and answer the one before",
		"For a worker that has registered with probe. Returns the nonce of a probe as soon as the engine asks whether the worker is well, or nothing when wait_ms is over (0 to 60,000; 30,000 if left out). The next request answers it, with the nonce and the checks that fail. A worker has one such request open at a time: a second one takes over from the first, which is refused with worker_id_in_use.")
	op.Metadata[paceKey] = waiting
	huma.Register(s.api, op, func(ctx context.Context, in *struct {
		ID   string `path:"id" maxLength:"128" doc:"The worker's id."`
		Body wire.ProbeWait
	}) (*struct{ Body wire.ProbeAsked }, error) {
		asked, err := b.Probe(ctx, in.ID, in.Body)
		return answer(asked, s.whyEnded(ctx, err))
	})
}

func (s *Server) unregisterWorker(b WorkerBridge) {
	op := workerOperation("unregister-worker", http.MethodDelete, "/api/v1/workers/{id}", wire.APIUnregister, "Unregister a worker",
		"What it was given and has not claimed goes to others at once; what it runs goes when its leases are over.")
	op.DefaultStatus = http.StatusOK
	huma.Register(s.api, op, func(ctx context.Context, in *struct {
		ID      string `path:"id" maxLength:"128" doc:"The worker's id."`
		Session string `header:"Work-Session" required:"true" doc:"The session that the worker was given when it registered."`
	}) (*struct{ Body wire.OK }, error) {
		err := b.Unregister(ctx, in.ID, in.Session)
		return answer(wire.OK{OK: true}, err)
	})
}

// workReport is a wire.Report, less what the session says.
type workReport struct {
	ID      string `json:"id"`
	Token   string `json:"token"`
	Event   string `json:"event" doc:"One of claim, start, progress, checkpoint, complete, fail, release, snooze, spawn."`
	Worker  string `json:"worker,omitempty" doc:"If it is there it must be the worker of the path."`
	Attempt int    `json:"attempt,omitempty"`
	Start   bool   `json:"start,omitempty" doc:"With claim: start at once."`

	Result       json.RawMessage `json:"result,omitempty" doc:"Of complete: any JSON of up to 256 KiB."`
	Error        string          `json:"error,omitempty" doc:"Of fail."`
	Code         string          `json:"code,omitempty" doc:"Of fail: the worker's own code of the failure."`
	Retryable    *bool           `json:"retryable,omitempty" doc:"Of fail; true if left out."`
	RetryAfterMS int64           `json:"retry_after_ms,omitempty" doc:"Of fail."`
	Reason       string          `json:"reason,omitempty" doc:"Of release and snooze."`

	Percent    int             `json:"percent,omitempty" doc:"Of progress: 0 to 100."`
	Message    string          `json:"message,omitempty" doc:"Of progress."`
	Checkpoint json.RawMessage `json:"checkpoint,omitempty" doc:"Of checkpoint: any JSON of up to 64 KiB."`
	DelayMS    int64           `json:"delay_ms,omitempty" doc:"Of snooze."`

	Children     []wire.Submit      `json:"children,omitempty" doc:"Of spawn: submissions."`
	Continuation *wire.ContinueWith `json:"continuation,omitempty" doc:"Of spawn: the item runs again when its children have ended."`
	ChildPolicy  events.ChildPolicy `json:"child_policy,omitempty" doc:"Of spawn."`
}

func (r *workReport) wire() wire.Report {
	return wire.Report{
		ID: r.ID, Token: r.Token, Event: r.Event, Worker: r.Worker, Attempt: r.Attempt, Start: r.Start,
		Result: r.Result, Error: r.Error, Code: r.Code, Retryable: r.Retryable, RetryAfterMS: r.RetryAfterMS, Reason: r.Reason,
		ReportFlow: wire.ReportFlow{
			Percent: r.Percent, Message: r.Message, Checkpoint: r.Checkpoint, DelayMS: r.DelayMS,
			Children: r.Children, Continuation: r.Continuation, ChildPolicy: r.ChildPolicy,
		},
	}
}
