package streamwright

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Get returns an item, with params and result. An unknown id is CodeNotFound.
func (c *Client) Get(ctx context.Context, id string) (WorkItem, error) {
	return c.get(ctx, wire.Get{ID: id})
}

// GetByIntake returns the item that a plain publish became, by the sequence
// number in the publish's ack. It may be asked at once: the engine waits for its
// decision, for two seconds at most. After that, and for a publish that was
// rejected, it is CodeNotFound.
func (c *Client) GetByIntake(ctx context.Context, seq uint64) (WorkItem, error) {
	return c.get(ctx, wire.Get{IntakeSeq: seq})
}

func (c *Client) get(ctx context.Context, g wire.Get) (WorkItem, error) {
	g.MinPosition = c.Position()
	it, err := ask[WorkItem](ctx, c, wire.APIGet, g)
	c.ObservePosition(it.Position)
	return it, err
}

// List returns a page of items, newest change first, without params and
// results. A page may be short, even empty, and still have a NextCursor; go on
// with that as the filter's Cursor until there is none, or use [Client.All].
func (c *Client) List(ctx context.Context, f Filter) (Page, error) {
	if f.MinPosition == "" {
		f.MinPosition = c.Position()
	}
	return ask[Page](ctx, c, wire.APIList, f)
}

// All lists page after page. The filter's Limit is the size of a page. It ends
// after the first error.
func (c *Client) All(ctx context.Context, f Filter) iter.Seq2[WorkItem, error] {
	return func(yield func(WorkItem, error) bool) {
		for {
			page, err := c.List(ctx, f)
			if err != nil {
				yield(WorkItem{}, err)
				return
			}
			for _, it := range page.Items {
				if !yield(it, nil) {
					return
				}
			}
			if f.Cursor = page.NextCursor; f.Cursor == "" {
				return
			}
		}
	}
}

// History returns an item's events, oldest first.
func (c *Client) History(ctx context.Context, id string) ([]Event, error) {
	r, err := ask[wire.HistoryReply](ctx, c, wire.APIHistory, wire.History{ID: id, MinPosition: c.Position()})
	return r.Events, err
}

// Logs returns the last records of an item's log, oldest first: limit of them,
// at most 10,000; 0 means 1,000.
func (c *Client) Logs(ctx context.Context, id string, limit int) ([]LogRecord, error) {
	r, err := ask[wire.LogsReply](ctx, c, wire.APILogs, wire.Logs{ID: id, Limit: limit})
	return r.Records, err
}

// Stats returns the engine at a glance.
func (c *Client) Stats(ctx context.Context) (Stats, error) {
	return ask[Stats](ctx, c, wire.APIStats, wire.StatsRequest{MinPosition: c.Position()})
}

// Types lists the types and their settings.
func (c *Client) Types(ctx context.Context) ([]TypeInfo, error) {
	r, err := ask[wire.TypesReply](ctx, c, wire.APITypes, wire.StatsRequest{MinPosition: c.Position()})
	return r.Types, err
}

// Workers lists the registered workers.
func (c *Client) Workers(ctx context.Context) ([]WorkerInfo, error) {
	r, err := ask[wire.WorkersReply](ctx, c, wire.APIWorkers, struct{}{})
	return r.Workers, err
}

// Info describes the engine.
func (c *Client) Info(ctx context.Context) (Info, error) {
	return ask[Info](ctx, c, wire.APIInfo, struct{}{})
}

const (
	// waitFor is the time for which the engine holds one wait request: short enough that
	// a wait survives an engine's restart soon, long enough to cost nothing.
	waitFor = 15 * time.Second
	// maxMergeHops bounds how far Wait follows merged items.
	maxMergeHops = 16
)

// Wait returns an item once it is completed, dead or cancelled, trying until
// ctx ends. Of an item that was merged into another it returns that other one.
func (c *Client) Wait(ctx context.Context, id string) (WorkItem, error) {
	for hops := 0; ; {
		it, err := c.waitOnce(ctx, id)
		switch {
		case err != nil:
			return it, err
		case it.State == events.StateMerged && it.MergedInto != "":
			if hops++; hops > maxMergeHops {
				return it, events.Refuse(events.CodeInternal, "item %s was merged more than %d times over", id, maxMergeHops)
			}
			id = it.MergedInto
		case it.State.Terminal():
			return it, nil
		}
	}
}

// waitOnce asks once for an item, as it is when it ends or after waitFor.
func (c *Client) waitOnce(ctx context.Context, id string) (WorkItem, error) {
	hold := waitFor
	if end, ok := ctx.Deadline(); ok {
		hold = max(min(hold, time.Until(end)), time.Millisecond)
	}
	req := wire.Wait{ID: id, TimeoutMS: wire.Millis(hold), MinPosition: c.Position()}
	it, err := askFor[WorkItem](ctx, c, wire.APIWait, req, hold+c.set.tryTimeout, forever)
	c.ObservePosition(it.Position)
	return it, err
}

// What the engine answers about the past, as it goes over the wire.
type (
	// StateDurations is the time an item has spent in each state.
	StateDurations = wire.StateDurations
	// State is the engine as of a moment.
	State = wire.State
	// StateProgress is the progress of a StateAt.
	StateProgress = wire.StateReply
)

// PointInTime is a point of the log's past: a position, or a time (then its last
// event not after that), or whichever of the two comes first.
type PointInTime struct {
	Position wire.Position
	Time     time.Time
}

// GetAt returns an item as it was at a moment, folded from its own history. Its
// Notes say what of it is not known any more; its AsOf, as of which event it is
// shown. An item that was not there yet is CodeNotFound.
func (c *Client) GetAt(ctx context.Context, id string, m PointInTime) (WorkItem, error) {
	return ask[WorkItem](ctx, c, wire.APIGet, wire.Get{ID: id, AtPosition: m.Position, AtTime: m.Time, MinPosition: c.Position()})
}

// Account returns an item's events, oldest first, with what each state has
// taken, and the sums.
func (c *Client) Account(ctx context.Context, id string) ([]Event, StateDurations, error) {
	r, err := ask[wire.HistoryReply](ctx, c, wire.APIHistory, wire.History{ID: id, MinPosition: c.Position()})
	return r.Events, r.Totals, err
}

// StateAt has the engine replay its log up to a moment, and returns what it was
// like then. progress, which may be nil, is told how far it is. One replay is
// under way at a time; another is CodeUnavailable. A moment before the log's
// first event is CodeNotFound.
func (c *Client) StateAt(ctx context.Context, m PointInTime, progress func(StateProgress)) (State, error) {
	body, err := json.Marshal(wire.StateAt{AtPosition: m.Position, AtTime: m.Time})
	if err != nil {
		return State{}, unreadable(wire.APIState, err)
	}
	sub, err := c.sendAsync(wire.APIState, body)
	if err != nil {
		return State{}, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	for {
		r, err := nextReply[StateProgress](ctx, c, wire.APIState, sub)
		if err != nil {
			return State{}, err
		}
		if r.Done && r.State != nil {
			return *r.State, nil
		}
		if progress != nil {
			progress(r)
		}
	}
}

// nextReply reads the next of a stream of replies.
func nextReply[T any](ctx context.Context, c *Client, op string, sub *nats.Subscription) (v T, err error) {
	quiet, cancel := context.WithTimeout(ctx, proofSilence)
	defer cancel()
	msg, err := sub.NextMsgWithContext(quiet)
	if err != nil {
		if ctx.Err() != nil {
			return v, endOf(op, ctx.Err(), nil)
		}
		return v, c.failed(op, err)
	}
	data, err := content(op, msg)
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return v, unreadable(op, err)
	}
	return v, nil
}

// Holder is the live item that holds a dedup key, as the KV bucket of taken keys
// shows it.
type Holder = wire.Holder

const (
	bucketTimeout = time.Second      // for one entry of the bucket
	bucketAgain   = 10 * time.Second // after the bucket did not answer, it is left alone for so long

	// holderLook is the interval at which a watched key is looked at when nothing shows that
	// its holder has changed.
	holderLook = time.Second
)

// Holder returns the live item of a type that holds a dedup key: the one that a
// submission with this key would be a duplicate of. A key that nobody holds is
// CodeNotFound; that includes one that a completed item keeps for its dedup
// window. It needs the role read.
//
// It reads the bucket of taken keys, which does not trouble the engine, and is
// some milliseconds behind it. It asks the engine if there is no such bucket, if
// the client's user may not read it, or if the bucket does not show yet what the
// engine has told this client.
//
// The answer is a hint: the key may be taken, or free, by the time that it is
// read. The submission alone decides.
func (c *Client) Holder(ctx context.Context, typ, key string) (Holder, error) {
	h, held, known := c.bucketHolder(ctx, typ, key)
	switch {
	case !known:
		return c.askHolder(ctx, typ, key, c.set.patience)
	case !held:
		return Holder{}, events.Refuse(events.CodeNotFound, "no live item of type %s holds the dedup key %q", typ, key)
	}
	return h, nil
}

// WatchHolder tells fn which item holds a dedup key of a type: at once, and again
// whenever the holder or its state has changed. A [Holder] without ID says that the
// key is free. States that come and go within some milliseconds may be left out. It
// ends with fn's error, or when ctx ends. It needs the role read.
//
// It asks the engine, each second and whenever the bucket of taken keys shows a
// change.
func (c *Client) WatchHolder(ctx context.Context, typ, key string, fn func(Holder) error) error {
	// First what is refused: a subscription that is denied would fail other requests.
	if _, err := c.askHolder(ctx, typ, key, c.set.patience); err != nil && events.CodeOf(err) != events.CodeNotFound {
		return err
	}
	wake := make(chan struct{}, 1)
	subject := "$KV." + c.set.names.Bucket(wire.DedupBucket) + "." + wire.DedupEntry(events.Type(typ), key)
	sub, err := c.nc.Subscribe(subject, func(*nats.Msg) {
		select {
		case wake <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return c.failed("watch a dedup key", err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	var last Holder
	for first := true; ; first = false {
		h, err := c.askHolder(ctx, typ, key, forever)
		if err != nil && events.CodeOf(err) != events.CodeNotFound {
			return err
		}
		if first || h != last {
			if err := fn(h); err != nil {
				return err
			}
			last = h
		}
		timer := time.NewTimer(holderLook)
		select {
		case <-wake:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return endOf("watch a dedup key", ctx.Err(), nil)
		}
		timer.Stop()
	}
}

// askHolder asks the engine who holds a key.
func (c *Client) askHolder(ctx context.Context, typ, key string, patience time.Duration) (Holder, error) {
	return askFor[Holder](ctx, c, wire.APIHeld, wire.HolderRequest{Type: typ, Key: key, MinPosition: c.Position()}, c.set.tryTimeout, patience)
}

// bucketHolder reads the holder of a key from the bucket. known is false if the
// engine is to be asked.
func (c *Client) bucketHolder(ctx context.Context, typ, key string) (h Holder, held, known bool) {
	t, err := events.ParseType(typ)
	if err != nil || key == "" || len(key) > events.MaxKeyLen || time.Now().UnixNano() < c.noBucket.Load() {
		return h, false, false
	}
	names := c.find.Names(ctx)
	if names.Domain == names.ImportDomain() {
		return h, false, false // an account without JetStream
	}
	if !c.bucketShows(ctx, names, c.seen.Load()) {
		return h, false, false
	}
	data, held, known := c.bucketEntry(ctx, names, wire.DedupEntry(t, key))
	if held && json.Unmarshal(data, &h) != nil {
		return Holder{}, false, false
	}
	return h, held, known
}

// bucketShows reports whether the bucket is filled, and shows a position.
func (c *Client) bucketShows(ctx context.Context, names wire.Names, seen uint64) bool {
	data, _, _ := c.bucketEntry(ctx, names, wire.DedupPosition)
	var shown struct {
		Position wire.Position `json:"position"`
	}
	if json.Unmarshal(data, &shown) != nil {
		return false
	}
	at, err := shown.Position.Seq()
	return err == nil && uint64(at) >= seen
}

// bucketEntry reads an entry of the bucket. known is false if that gave no answer.
func (c *Client) bucketEntry(ctx context.Context, names wire.Names, entry string) (data []byte, found, known bool) {
	bucket := names.Bucket(wire.DedupBucket)
	subject := names.JetStream("DIRECT.GET.KV_" + bucket + ".$KV." + bucket + "." + entry)
	try, cancel := c.trying(ctx, subject, bucketTimeout)
	defer cancel()
	m, err := c.nc.RequestWithContext(try, subject, nil)
	if err != nil {
		if ctx.Err() == nil {
			c.noBucket.Store(time.Now().Add(bucketAgain).UnixNano())
		}
		return nil, false, false
	}
	switch status := m.Header.Get("Status"); {
	case status == "404":
		return nil, false, true
	case status != "":
		return nil, false, false
	}
	if m.Header.Get("KV-Operation") != "" || m.Header.Get("Nats-Marker-Reason") != "" {
		return nil, false, true // deleted
	}
	return m.Data, true, true
}

// Reason is one reason why an item is not running, in words and as a stable
// code (the Why… constants of package events).
type Reason = events.BlockReason

// Explanation holds the reasons why an item is not running.
type Explanation = wire.WhyReply

// Why explains why an item is not running now: all reasons at once, the most
// telling first. For a running item it says so; for one that has ended, how. An unknown id is CodeNotFound.
func (c *Client) Why(ctx context.Context, id string) (Explanation, error) {
	return ask[Explanation](ctx, c, wire.APIWhy, wire.Why{ID: id, MinPosition: c.Position()})
}

// Tree returns an item with what it has spawned, to a depth of 10 and at most
// 200 items, and with the items that it was spawned by.
func (c *Client) Tree(ctx context.Context, id string) (Tree, error) {
	return c.TreeWithin(ctx, id, 0, 0)
}

// TreeWithin is Tree with bounds of the caller's: at most depth levels (to 100) and
// limit items (to 10,000) below the item; 0 is the default.
func (c *Client) TreeWithin(ctx context.Context, id string, depth, limit int) (Tree, error) {
	return ask[Tree](ctx, c, wire.APITree, wire.Tree{ID: id, Depth: depth, Limit: limit, MinPosition: c.Position()})
}
