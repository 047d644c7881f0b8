package clustertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/nats-io/nats.go"
	"github.com/oklog/ulid/v2"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

const (
	tryTimeout = 2 * time.Second // of one request of the history
	keyUses    = 12              // submissions under one dedup key
	hotKeys    = 6               // dedup keys in use at once
	recentIDs  = 40              // of which clients get and cancel
)

// load is what clients do to a cluster, and what they were told.
type load struct {
	t    *testing.T
	c    *cluster
	seed uint64
	wg   sync.WaitGroup
	ctx  context.Context // ended when no more is submitted
	work context.Context // ended when the workers are to stop
	stop func()
	end  func()

	began time.Time
	runs  atomic.Int64 // handlers started

	mu       sync.Mutex // guards what follows
	ops      []porcupine.Operation
	asked    map[input]bool // requests without an answer
	parts    map[string]string
	accepted map[string]bool
	types    map[string]string
	keys     []*dedupKey
	recent   []string
	libErrs  []error
	sent     map[string][]string // when each dispatch was given to a worker, and to which
	slowest  time.Duration       // submission of the root client
}

type dedupKey struct {
	name string
	left int
}

func newLoad(c *cluster, seed uint64) *load {
	l := &load{t: c.t, c: c, seed: seed, began: time.Now(), asked: map[input]bool{}, parts: map[string]string{}, accepted: map[string]bool{}, sent: map[string][]string{}, types: map[string]string{}}
	l.ctx, l.stop = context.WithCancel(c.t.Context())
	l.work, l.end = context.WithCancel(c.t.Context())
	c.t.Cleanup(func() {
		l.stop()
		l.end()
		l.wg.Wait()
	})
	return l
}

// now is the time of the history.
func (l *load) now() int64 { return int64(time.Since(l.began)) }

// record adds an operation to the history. One that repeats a request without an
// answer, and has none either, adds nothing: that one may take effect later too,
// and no request takes effect twice.
func (l *load) record(client int, in input, call int64, out output) {
	op := porcupine.Operation{ClientId: client, Input: in, Output: out, Call: call, Return: l.now()}
	l.mu.Lock()
	defer l.mu.Unlock()
	if out.unknown {
		if in.op == opGet || l.asked[in] {
			return
		}
		l.asked[in], op.Return = true, never
	}
	if in.op == opSubmit && !out.unknown && out.refused == "" {
		l.accepted[in.id] = true
	}
	l.ops = append(l.ops, op)
}

// dispatched remembers that a worker was given a dispatch: it must be once.
func (l *load) dispatched(token, worker string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent[token] = append(l.sent[token], fmt.Sprintf("%s %s", time.Now().UTC().Format("15:04:05.000"), worker))
}

func (l *load) partOf(id string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.parts[id]
}

func (l *load) counts() (accepted int, runs int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.accepted), l.runs.Load()
}

// definite are the codes of refusals that leave everything as it was. After any
// other error a request may have taken effect.
var definite = map[events.Code]bool{
	events.CodeNotFound: true, events.CodeWrongState: true, events.CodeIDConflict: true, events.CodeQueueFull: true,
	events.CodeStaleToken: true, events.CodeWrongAttempt: true, events.CodeWrongWorker: true,
}

// client speaks the protocol, and records what it asks and is told.
type client struct {
	l        *load
	n        int
	nc       *nats.Conn
	rng      *rand.Rand
	position uint64 // the highest that it was told
	since    int64  // when it asked what it was told that for
}

func (l *load) client(n int) *client {
	return &client{l: l, n: n, nc: l.c.connect(), rng: rand.New(rand.NewPCG(l.seed, uint64(n)))}
}

// refusal is the error of a reply.
type refusal struct {
	Error *struct{ Code events.Code }
}

// errNothing says that a request did not reach an engine.
var errNothing = errors.New("nobody was asked")

// ask makes one try of a request, and decodes its answer.
func (c *client) ask(endpoint string, request, reply any) (output, error) {
	body, err := json.Marshal(request)
	if err != nil {
		c.l.t.Error(err)
		return output{}, errNothing
	}
	msg, err := c.nc.Request(wire.Default.API(endpoint), body, tryTimeout)
	if errors.Is(err, nats.ErrNoResponders) {
		return output{}, errNothing
	}
	if err != nil {
		return unknown, err
	}
	var r refusal
	if msg.Header.Get("Nats-Service-Error") != "" {
		if json.Unmarshal(msg.Data, &r) != nil || r.Error == nil || !definite[r.Error.Code] {
			return unknown, fmt.Errorf("%s", msg.Data)
		}
		return output{refused: string(r.Error.Code)}, nil
	}
	if err := json.Unmarshal(msg.Data, reply); err != nil {
		c.l.t.Errorf("%s answers %q: %v", endpoint, msg.Data, err)
		return unknown, err
	}
	return output{}, nil
}

// told remembers a position, and when the client asked for what it came with.
func (c *client) told(p wire.Position, asked int64) {
	if n, err := strconv.ParseUint(string(p), 10, 64); err == nil && n > c.position {
		c.position, c.since = n, max(c.since, asked)
	}
}

// run submits, gets and cancels until the load stops.
func (c *client) run() {
	defer c.nc.Close()
	for c.l.ctx.Err() == nil {
		switch p := c.rng.IntN(100); {
		case p < 55:
			c.submit()
		case p < 80:
			c.get(c.someItem())
		default:
			c.cancel(c.someItem())
		}
		pause(c.l.ctx, time.Duration(5+c.rng.IntN(15))*time.Millisecond)
	}
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// newItem chooses an id, and for most a dedup key.
func (c *client) newItem() (id, key string) {
	l := c.l
	l.mu.Lock()
	defer l.mu.Unlock()
	id = ulid.Make().String()
	l.parts[id], l.types[id] = id, "raw"
	if c.rng.IntN(100) < 60 {
		for len(l.keys) < hotKeys {
			l.keys = append(l.keys, &dedupKey{name: ulid.Make().String(), left: keyUses})
		}
		i := c.rng.IntN(len(l.keys))
		key = l.keys[i].name
		l.parts[id] = "key " + key
		if l.keys[i].left--; l.keys[i].left == 0 {
			l.keys = append(l.keys[:i], l.keys[i+1:]...)
		}
	}
	l.recent = append(l.recent, id)
	l.recent = l.recent[max(0, len(l.recent)-recentIDs):]
	return id, key
}

func (c *client) someItem() string {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	if len(c.l.recent) == 0 {
		return ""
	}
	return c.l.recent[c.rng.IntN(len(c.l.recent))]
}

// submit asks until there is an answer, or a few times.
func (c *client) submit() {
	id, key := c.newItem()
	in := input{op: opSubmit, part: c.l.partOf(id), id: id}
	for try := 0; try < 20 && c.l.ctx.Err() == nil; try++ {
		var reply wire.Submitted
		call := c.l.now()
		out, err := c.ask("submit", wire.Submit{Type: "raw", ID: id, DedupKey: key, Params: json.RawMessage(`{"n":1}`)}, &reply)
		if !errors.Is(err, errNothing) {
			if err == nil && out.refused == "" {
				out = output{state: reply.State.String(), repeat: reply.Repeat, into: reply.MergedInto}
				c.told(reply.Position, call)
			}
			c.l.record(c.n, in, call, out)
		}
		if err == nil {
			return
		}
		pause(c.l.ctx, 100*time.Millisecond)
	}
}

// get asks once. A node may answer from a store that is behind others, but not behind
// what this client was told: so the answer may be as old as that.
func (c *client) get(id string) {
	if id == "" {
		return
	}
	var reply wire.Item
	request := wire.Get{ID: id}
	if c.position > 0 {
		request.MinPosition = wire.Position(strconv.FormatUint(c.position, 10))
	}
	out, err := c.ask("get", request, &reply)
	if err != nil {
		return
	}
	if out.refused == "" {
		out.state = reply.State.String()
	}
	c.l.record(c.n, input{op: opGet, part: c.l.partOf(id), id: id}, c.since, out)
}

func (c *client) cancel(id string) {
	if id == "" {
		return
	}
	in := input{op: opCancel, part: c.l.partOf(id), id: id}
	var reply wire.Cancelled
	call := c.l.now()
	out, err := c.ask("cancel", wire.Cancel{ID: id}, &reply)
	if errors.Is(err, errNothing) {
		return
	}
	if err == nil && out.refused == "" {
		out.state = reply.State.String()
		c.told(reply.Position, call)
	}
	c.l.record(c.n, in, call, out)
}
