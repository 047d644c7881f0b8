package rest

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// registerEngine adds the operations on the engine as a whole.
func (s *Server) registerEngine() {
	register(s, operation{
		id: "stats", method: http.MethodGet, path: "/api/v1/stats", tag: tagEngine, endpoint: wire.APIStats,
		summary: "The engine at a glance", about: "Items by state, type and priority, what runs, who works, and how fast.",
		reply: typeOf[wire.StatsReply](),
	}, func(in *After) (any, error) { return wire.See{MinPosition: in.MinPosition}, nil })
	register(s, operation{
		id: "info", method: http.MethodGet, path: "/api/v1/info", tag: tagEngine, endpoint: wire.APIInfo,
		summary: "Who answers", about: "The engine's version, its position, where its data is and what it keeps.",
		reply: typeOf[wire.InfoReply](),
	}, func(*struct{}) (any, error) { return wire.See{}, nil })
	register(s, operation{
		id: "clock", method: http.MethodGet, path: "/api/v1/clock", tag: tagEngine, endpoint: wire.APIClock,
		summary: "The engine's clock", about: "Its time, that of the NATS server, and whether that is plausible.",
		reply: typeOf[wire.Clock](),
	}, func(*struct{}) (any, error) { return wire.See{}, nil })
	register(s, operation{
		id: "accept-clock", method: http.MethodPost, path: "/api/v1/clock/accept", tag: tagEngine, endpoint: wire.APIClockAccept,
		summary: "Confirm the NATS server's clock", about: "From then on its time is the engine's, however far it is from that. Everything that is due by it then happens. It is recorded, and may set the clock back.",
		body: typeOf[wire.AcceptClock](), bodyOptional: true, reply: typeOf[wire.Clock](),
	}, func(in *JSONBody) (any, error) { return withFields(in.RawBody) })
	handle(s, operation{
		id: "state", method: http.MethodGet, path: "/api/v1/state", tag: tagEngine, endpoint: wire.APIState, pace: waiting,
		summary: "The engine as it was", about: "The state as of a position or a time, by replaying the log up to there: it takes as long as that takes, and one is made at a time.",
		reply: typeOf[wire.State](),
	}, func(ctx context.Context, in *AtQuery) (*output, error) {
		pos, when, err := in.moment()
		if err == nil && in.At == "" {
			err = events.Refuse(events.CodeBadRequest, "at is missing: give a position, or a time")
		}
		if err != nil {
			return nil, problemOf(err)
		}
		reply, err := call[struct{ State json.RawMessage }](ctx, s, wire.APIState, wire.StateAt{AtPosition: pos, AtTime: when})
		if err != nil {
			return nil, problemOf(err)
		}
		return &output{Status: http.StatusOK, Body: reply.State}, nil
	})
}

// registerWorkers adds the operations on workers.
func (s *Server) registerWorkers() {
	register(s, operation{
		id: "workers", method: http.MethodGet, path: "/api/v1/workers", tag: tagWorkers, endpoint: wire.APIWorkers,
		summary: "The registered workers", about: "With those that have died of late.", reply: typeOf[wire.WorkersReply](),
	}, func(*struct{}) (any, error) { return wire.See{}, nil })
	type WorkerPath struct {
		ID string `path:"id" doc:"The worker's id."`
	}
	ofWorker := func(in *struct {
		WorkerPath
		JSONBody
	}) (any, error) {
		return withFields(in.RawBody, field{"worker", in.ID})
	}
	register(s, operation{
		id: "drain-worker", method: http.MethodPost, path: "/api/v1/workers/{id}/drain", tag: tagWorkers, endpoint: wire.APIDrain,
		summary: "Drain a worker", about: "It finishes what it runs, and gets no more. It is recorded, and outlives a restart of the engine and of the worker; it ends when the worker unregisters.",
		body: typeOf[wire.Drain](), bodyOptional: true, omit: []string{"worker"}, reply: typeOf[wire.OK](), refusals: []int{http.StatusNotFound},
	}, ofWorker)
	register(s, operation{
		id: "undrain-worker", method: http.MethodPost, path: "/api/v1/workers/{id}/undrain", tag: tagWorkers, endpoint: wire.APIUndrain,
		summary: "End the drain of a worker", about: "It may have work again. One that has heard of the drain may have stopped for good.",
		body: typeOf[wire.Undrain](), bodyOptional: true, omit: []string{"worker"}, reply: typeOf[wire.Changed](),
	}, ofWorker)
	register(s, operation{
		id: "reset-worker-circuit", method: http.MethodPost, path: "/api/v1/workers/{id}/circuit/reset", tag: tagWorkers, endpoint: wire.APICircuitReset,
		summary: "Close a worker's circuit", about: "It gets work again at once.", reply: typeOf[wire.Changed](), refusals: []int{http.StatusNotFound},
	}, func(in *WorkerPath) (any, error) { return wire.CircuitReset{Worker: in.ID}, nil })
}
