package measure

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/internal/sleep"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

// Streamwright is the queue of one type of an engine, in the client's namespace, by the Go
// client and package workers.
type Streamwright struct {
	Client *streamwright.Client
	// Dial connects a worker: it has a connection of its own, as its process would.
	Dial  func() (*nats.Conn, error)
	Type  string
	Slots int                                  // of a worker
	Edit  func(seq int, it *streamwright.Item) // before it is submitted; nil: as it is
	// Decode reads what an item carries, such as [SeqOf]; nil: all of it.
	Decode func([]byte) (Payload, error)
}

var _ Queue = (*Streamwright)(nil)

func (q *Streamwright) item(p Payload) streamwright.Item {
	it := streamwright.Item{Type: q.Type, Params: p.JSON()}
	if q.Edit != nil {
		q.Edit(p.Seq, &it)
	}
	return it
}

// Submit implements [Queue].
func (q *Streamwright) Submit(ctx context.Context, p Payload) error {
	_, err := q.Client.Submit(ctx, q.item(p))
	return err
}

// SubmitMany implements [Queue].
func (q *Streamwright) SubmitMany(ctx context.Context, ps []Payload) error {
	items := make([]streamwright.Item, len(ps))
	for i, p := range ps {
		items[i] = q.item(p)
	}
	out, err := q.Client.SubmitMany(ctx, items)
	if err != nil {
		return err
	}
	for _, s := range out {
		if s.Error != nil {
			return s.Error.Err()
		}
	}
	return nil
}

// AddNamespace adds a namespace, and returns once it runs, at the node if one is named.
func AddNamespace(ctx context.Context, list streamwright.Namespaces, name, node string) error {
	change := streamwright.NamespaceChange{}
	if node != "" {
		change.Node = &node
	}
	info, err := list.Set(ctx, name, change)
	for err == nil {
		if s := info.State; s != nil && s.State == wire.NamespaceRunning && (node == "" || s.Owner == node) {
			return nil
		}
		if err := sleep.For(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("the namespace %s is not ready (%+v): %w", name, info.State, err)
		}
		info, err = list.Get(ctx, name)
	}
	return err
}

// Work implements [Queue].
func (q *Streamwright) Work(ctx context.Context, handle func(Payload)) (stop func() error, err error) {
	decode := q.Decode
	if decode == nil {
		decode = func(data []byte) (p Payload, err error) { return p, json.Unmarshal(data, &p) }
	}
	w, err := StartWorker(ctx, q.Dial, workers.Config{Concurrency: q.Slots, Namespaces: []streamwright.Namespace{q.Client.Namespace()}}, func(_ context.Context, it *workers.RawItem) (any, error) {
		p, err := decode(it.Raw)
		if err == nil {
			handle(p)
		}
		return nil, err
	}, q.Type)
	return w.Stop, err
}

// Worker is a worker that runs on a connection of its own.
type Worker struct {
	Conn   *nats.Conn
	worker *workers.Worker
}

// StartWorker starts a worker of several types. It logs nothing.
func StartWorker(ctx context.Context, dial func() (*nats.Conn, error), c workers.Config, handle workers.Handler, types ...string) (*Worker, error) {
	nc, err := dial()
	if err != nil {
		return nil, err
	}
	c.Logger = slog.New(slog.DiscardHandler)
	w, err := workers.New(nc, c)
	if err == nil {
		for _, t := range types {
			workers.HandleRaw(w, t, handle)
		}
		err = w.Start(ctx)
	}
	if err != nil {
		nc.Close()
	}
	return &Worker{nc, w}, err
}

// Stop stops the worker, in order.
func (w *Worker) Stop() error {
	defer w.Conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return w.worker.Stop(ctx)
}

// Drained implements [Queue].
func (q *Streamwright) Drained(ctx context.Context, n int) (bool, error) {
	s, err := q.Client.Engine().Stats(ctx)
	for _, t := range s.Types {
		if string(t.Type) == q.Type {
			return t.States["completed"] >= int64(n), err
		}
	}
	return n == 0 && err == nil, err
}

// Close implements [Queue].
func (q *Streamwright) Close() error {
	q.Client.Close()
	return nil
}
