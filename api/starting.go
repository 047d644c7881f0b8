package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/sleep"
	"github.com/streamwright/streamwright/wire"
)

const (
	// StatusStarting is the status in /healthz of an engine that starts.
	StatusStarting = "starting"
	// startingLook is the time between two looks whether another node answers requests.
	startingLook = time.Second
	// startingRetry is when to ask an engine that starts again.
	startingRetry = time.Second
)

// StartingConfig configures a Starting.
type StartingConfig struct {
	Node wire.Node // what is known of this node from the beginning
	// Cluster says what this node knows of the servers that hold the log; nil: nobody else
	// can reach it.
	Cluster func(context.Context) Cluster
	// Replicas adds what this node has found when it read its own replicas; nil: nothing.
	Replicas func(*wire.Node)
	Logger   *slog.Logger
}

// Starting answers in place of a Service until there is one: how the nodes are, and to
// everything else that the engine starts, and what it waits for. Over NATS it answers only
// while no node does that has started, and only what any node may: requests that need an
// owner find none, so none is ever answered by it and decided by another.
type Starting struct {
	cfg    StartingConfig
	ctx    context.Context
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu       sync.Mutex // guards what follows
	doing    string
	warnings []string   // of the last look at the nodes
	nc       *nats.Conn // nil: not connected yet
	names    wire.Names
	guard    *guard
	heard    *nats.Subscription
	micro    micro.Service // while this node answers requests
}

// NewStarting returns a Starting that answers calls of this process.
func NewStarting(cfg StartingConfig) *Starting {
	s := &Starting{cfg: cfg, doing: "it begins"}
	s.cfg.Node.Role, s.cfg.Node.Online, s.cfg.Node.Since = wire.RoleStarting, true, time.Now().UTC().Truncate(time.Millisecond)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Doing notes what the engine does, or waits for, from now on.
func (s *Starting) Doing(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doing = what
}

// ServesHTTP tells where the engine's HTTP server listens.
func (s *Starting) ServesHTTP(addr string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cfg.Node.HTTP = addr
}

// Connected has it answer over NATS too. at is the address of the NATS server.
func (s *Starting) Connected(nc *nats.Conn, names wire.Names, at string) error {
	sub, err := nc.Subscribe(names.Nodes(), s.answerNodes)
	if err != nil {
		return fmt.Errorf("answer while starting: %w", err)
	}
	s.mu.Lock()
	s.nc, s.names, s.heard, s.cfg.Node.NATS = nc, names, sub, at
	s.guard = newGuard(nc, names)
	s.mu.Unlock()
	s.done.Go(s.watch)
	return nil
}

// Stop ends all answers over NATS. Calls are answered until the end.
func (s *Starting) Stop() {
	s.cancel()
	s.done.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.heard != nil {
		_ = s.heard.Unsubscribe() // fails when the connection is closed
		s.heard = nil
	}
}

// watch answers requests while no node does that has started.
func (s *Starting) watch() {
	defer s.answer(false)
	for {
		s.answer(!s.look())
		if sleep.For(s.ctx, startingLook) != nil {
			return
		}
	}
}

// look keeps what is at risk now, and reports whether a node answers that has started.
func (s *Starting) look() (served bool) {
	r := s.nodes(s.ctx)
	s.mu.Lock()
	s.warnings = r.Warnings
	s.mu.Unlock()
	return slices.ContainsFunc(r.Nodes, func(n wire.Node) bool { return n.Online && n.Role != wire.RoleStarting })
}

// answer begins or ends to answer requests. watch alone calls it.
func (s *Starting) answer(on bool) {
	if on == (s.micro != nil) {
		return
	}
	if !on {
		_ = s.micro.Stop() // fails when the connection is closed
		s.micro = nil
		return
	}
	svc, err := micro.AddService(s.nc, micro.Config{Name: wire.Service, Version: semver(s.cfg.Node.Version), Description: "event-sourced work engine, starting"})
	for _, e := range wire.Endpoints() {
		if err == nil && !e.OwnerOnly() {
			err = svc.AddEndpoint(e.Name, s.handler(e.Name), micro.WithEndpointSubject(s.names.API(e.Name)), micro.WithEndpointPendingLimits(MaxPendingRequests, MaxPendingBytes))
		}
	}
	if err != nil && s.ctx.Err() == nil && !errors.Is(err, nats.ErrConnectionClosed) {
		s.cfg.Logger.Warn("requests over NATS are not answered while the engine starts", "error", err)
	}
	s.micro = svc
}

// handler answers an endpoint over NATS.
func (s *Starting) handler(endpoint string) micro.HandlerFunc {
	return func(req micro.Request) {
		if reason, _, _ := s.guard.check(s.names.API(endpoint), req); reason != "" {
			return
		}
		data, err := s.Call(s.ctx, endpoint, req.Data())
		reply := &nats.Msg{Subject: req.Reply(), Data: data}
		if err != nil {
			reply = refusal(req.Reply(), wire.FromError(err))
		}
		_ = s.nc.PublishMsg(reply) // fails when the connection is closed
	}
}

// answerNodes answers another node that asks how this one is.
func (s *Starting) answerNodes(m *nats.Msg) {
	if len(m.Data) > 0 {
		return // what it is to do; it can't yet
	}
	data, err := json.Marshal(s.node())
	if err == nil && m.Reply != "" {
		_ = s.nc.Publish(m.Reply, data) // fails when the connection is closed
	}
}

func (s *Starting) node() wire.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.cfg.Node
	n.Starting = s.doing
	if s.cfg.Replicas != nil {
		s.cfg.Replicas(&n)
	}
	return n
}

// Call answers a request of this process, as Service.Call does: it says how the nodes are,
// and refuses the rest.
func (s *Starting) Call(ctx context.Context, endpoint string, _ []byte) ([]byte, error) {
	if endpoint != wire.APINodes {
		return nil, s.Refusal()
	}
	return json.Marshal(s.nodes(ctx))
}

// Document refuses as Call does.
func (s *Starting) Document(context.Context, string, bool) ([]byte, error) {
	return nil, s.Refusal()
}

// Refusal returns the error of a request that an engine that starts can't answer.
func (s *Starting) Refusal() error {
	return &events.Error{Code: events.CodeUnavailable, Message: "the engine is starting: " + s.node().Starting + ": ask again; `engine cluster` and /healthz show how far it is", RetryAfter: startingRetry}
}

// nodes says how the nodes are.
func (s *Starting) nodes(ctx context.Context) wire.NodesReply {
	var c Cluster
	if s.cfg.Cluster != nil {
		c = s.cfg.Cluster(ctx)
	}
	s.mu.Lock()
	nc, names := s.nc, s.names
	s.mu.Unlock()
	var others []wire.Node
	var err error
	if nc != nil && s.cfg.Cluster != nil {
		others, err = gather(ctx, nc, names, c.Nodes)
	}
	return nodesReply(c, s.node(), others, err)
}

// HealthHandler answers /healthz: 503, and what the engine waits for.
func (s *Starting) HealthHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := s.node()
		w.Header().Set("Retry-After", "1")
		s.mu.Lock()
		h := Health{Status: StatusStarting, Starting: n.Starting, Warnings: s.warnings}
		s.mu.Unlock()
		answer(w, false, h)
	})
}

// ReadyHandler answers /readyz: 503.
func (s *Starting) ReadyHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1")
		answer(w, false, Readiness{Checks: []ReadyCheck{{Check: "running", Why: "the engine is starting: " + s.node().Starting}}})
	})
}
