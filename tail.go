package streamwright

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/nudge"
	"github.com/streamwright/streamwright/wire"
)

// TailOptions selects the events of Tail, and where it begins. The zero value is all
// events, from now on.
type TailOptions struct {
	Types []string // only of these types
	Kinds []Kind   // only of these kinds
	ID    string   // only of this item

	Tenant string // only of items of this tenant
	Label  string // only of items with this label: name=value

	// At most one of these two says where to begin.
	Since   time.Time // with events from then on
	FromSeq Seq       // with this position, or the first that is kept
}

// Tail calls fn with the events of the log, live and in order, until ctx ends or fn
// fails, and returns that error. The engine filters the events. An event is delivered
// once its whole decision is in the log, so a decision that a crash cut short is never
// seen. Each event is delivered once: across a reconnect, or a restart of the engine, no
// event is skipped and none repeated. A Tail that is so far behind that retention cuts
// the log ahead of it ends with an error of the code not_found.
func (c *Client) Tail(ctx context.Context, o TailOptions, fn func(Event) error) error {
	req, err := o.request()
	if err != nil {
		return err
	}
	f, err := openFeed(ctx, c, req)
	if err != nil {
		return err
	}
	defer f.close()
	for first := true; ; first = false {
		select {
		case m := <-f.pages:
			if m.err != nil {
				return m.err
			}
			if gap := m.page.Gap; gap != nil && !first {
				return events.Refuse(events.CodeNotFound, "tail: retention has cut the positions %d to %d before they were read: begin anew, and read faster or keep more", gap.From, gap.To)
			}
			for _, ev := range m.page.Events {
				if err := fn(ev); err != nil {
					return err
				}
				if ctx.Err() != nil {
					return endOf("tail", ctx.Err(), nil)
				}
			}
		case <-ctx.Done():
			return endOf("tail", ctx.Err(), nil)
		}
	}
}

// maxTailFilters bounds the types of one tail, and its kinds.
const maxTailFilters = wire.MaxEventTypes

// request returns the first request for the events that the options select.
func (o *TailOptions) request() (req wire.ReadEvents, err error) {
	for _, t := range o.Types {
		if _, err := events.ParseType(t); err != nil {
			return req, events.Refuse(events.CodeBadType, "%v", err)
		}
	}
	var kinds []string
	for _, k := range o.Kinds {
		if _, err := events.ParseKind(k.String()); err != nil {
			return req, events.Refuse(events.CodeBadRequest, "%v", err)
		}
		kinds = append(kinds, k.String())
	}
	if o.ID != "" {
		if _, err := events.ParseID(o.ID); err != nil {
			return req, events.Refuse(events.CodeBadID, "%v", err)
		}
	}
	if o.FromSeq > 0 && !o.Since.IsZero() {
		return req, events.Refuse(events.CodeBadRequest, "both a position and a time to begin with are given: give one of them")
	}
	req = wire.ReadEvents{FromSeq: o.FromSeq, Since: o.Since, Types: distinct(o.Types), Kinds: distinct(kinds), ID: strings.ToUpper(o.ID), Tenant: o.Tenant, Label: o.Label}
	if n := max(len(req.Types), len(req.Kinds)); n > maxTailFilters {
		return req, events.Refuse(events.CodeTooLarge, "%d types or kinds are asked for: at most %d of each are allowed; leave out the types or the kinds", n, maxTailFilters)
	}
	return req, nil
}

// distinct are the values without repetitions.
func distinct(values []string) []string {
	values = slices.Clone(values)
	slices.Sort(values)
	return slices.Compact(values)
}

// feed asks for the pages of the log, one ahead of their use. It takes itself up
// again after a lost connection, and when the engine has restarted.
type feed struct {
	c      *Client
	pages  chan fed
	done   chan struct{}
	cancel context.CancelFunc
}

type fed struct {
	page wire.EventsReply
	err  error
}

// feedWait is the time for which one request for events waits for the first: if its
// engine dies, another is asked soon after.
const feedWait = 5 * time.Second

// openFeed asks for the first page, which settles where the feed begins.
func openFeed(ctx context.Context, c *Client, req wire.ReadEvents) (*feed, error) {
	first, err := ask[wire.EventsReply](ctx, c, wire.APIEvents, req)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	f := &feed{c: c, pages: make(chan fed), done: make(chan struct{}), cancel: cancel}
	go f.run(ctx, req, first)
	return f, nil
}

func (f *feed) run(ctx context.Context, req wire.ReadEvents, page wire.EventsReply) {
	defer close(f.done)
	req.Since, req.Wait = time.Time{}, events.DurationOf(feedWait)
	for {
		if len(page.Events) > 0 || page.Gap != nil {
			if !f.send(ctx, fed{page: page}) {
				return
			}
		}
		req.FromSeq = page.NextSeq
		var err error
		page, err = askFor[wire.EventsReply](ctx, f.c, wire.APIEvents, req, feedWait, forever)
		if err != nil {
			f.send(ctx, fed{err: err})
			return
		}
	}
}

func (f *feed) send(ctx context.Context, v fed) bool {
	select {
	case f.pages <- v:
		return true
	case <-ctx.Done():
		return false
	}
}

// close ends the feed and awaits its goroutine.
func (f *feed) close() {
	f.cancel()
	<-f.done
}

// FollowLogs calls fn with each record of an item's log, the existing ones first, and
// returns nil once the item is completed, dead or cancelled and fn has had its last
// record. It ends early with fn's error, or when ctx ends.
func (c *Client) FollowLogs(ctx context.Context, id string, fn func(LogRecord) error) error {
	return follow(ctx, c, id, follower[LogRecord]{
		what: "log", subject: c.set.names.Log, seq: func(r *LogRecord) uint64 { return r.Seq }, fn: fn,
		page: func(ctx context.Context, id string, after uint64, patience time.Duration) ([]LogRecord, bool, error) {
			r, err := askFor[wire.LogsReply](ctx, c, wire.APILogs, wire.Logs{ID: id, After: &after}, 0, patience)
			return r.Records, r.More, err
		},
	})
}

// FollowOutput calls fn with each chunk of what an item's runs write, behind the one with the
// sequence after (0: from the beginning), and returns nil once the item is completed, dead or
// cancelled and fn has had its last chunk. A chunk with Reset begins what another run writes:
// what was written before is void. It ends early with fn's error, or when ctx ends.
func (c *Client) FollowOutput(ctx context.Context, id string, after uint64, fn func(OutputChunk) error) error {
	return follow(ctx, c, id, follower[OutputChunk]{
		what: "output", subject: c.set.names.Output, seq: func(o *OutputChunk) uint64 { return o.Seq }, fn: fn, after: after,
		page: func(ctx context.Context, id string, after uint64, patience time.Duration) ([]OutputChunk, bool, error) {
			return c.outputPage(ctx, id, after, patience)
		},
	})
}

func (c *Client) outputPage(ctx context.Context, id string, after uint64, patience time.Duration) ([]OutputChunk, bool, error) {
	r, err := askFor[wire.OutputReply](ctx, c, wire.APIOutput, wire.Output{ID: id, After: after}, 0, patience)
	return r.Chunks, r.More, err
}

// OutputChunks returns a page of what an item's last run that wrote something has written so
// far, behind the chunk with the sequence after (0: from the beginning). It is empty if there
// is nothing.
func (c *Client) OutputChunks(ctx context.Context, id string, after uint64) ([]OutputChunk, error) {
	chunks, _, err := c.outputPage(ctx, id, after, c.set.patience)
	return chunks, err
}

// Output returns what an item's last run that wrote something has written so far.
func (c *Client) Output(ctx context.Context, id string) ([]byte, error) {
	var out []byte
	for after, more := uint64(0), true; more; {
		var chunks []OutputChunk
		var err error
		if chunks, more, err = c.outputPage(ctx, id, after, c.set.patience); err != nil {
			return nil, err
		}
		for i := range chunks {
			b, err := chunks[i].Bytes()
			if err != nil {
				return nil, err
			}
			if chunks[i].Reset {
				out = nil
			}
			after, out = chunks[i].Seq, append(out, b...)
		}
	}
	return out, nil
}

// follower follows what an item's runs write, in records of one kind.
type follower[T any] struct {
	what    string
	subject func(events.Type, events.ID) string
	page    func(ctx context.Context, id string, after uint64, patience time.Duration) (records []T, more bool, err error)
	seq     func(*T) uint64
	fn      func(T) error
	after   uint64
}

// follow follows an item, or the one that it was merged into, to its end.
func follow[T any](ctx context.Context, c *Client, id string, f follower[T]) error {
	workID, err := events.ParseID(id)
	if err != nil {
		return events.Refuse(events.CodeBadID, "%v", err)
	}
	item, err := c.Get(ctx, id) // an unknown item is refused before anything waits for it
	if err != nil {
		return err
	}
	if item.State == events.StateMerged && item.MergedInto != "" {
		return follow(ctx, c, item.MergedInto, f)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	feed, err := openItemFeed(ctx, c, id, f.subject(events.Type(item.Type), workID), f)
	if err != nil {
		return err
	}
	defer feed.close()
	ended, finished := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(finished)
		_, err := c.Wait(ctx, id)
		ended <- err
	}()
	defer func() {
		cancel()
		<-finished
	}()
	return feed.to(ctx, ended)
}

// itemFeed gives what an item's runs write in pages, which the engine reads. A record that
// is published wakes it.
type itemFeed[T any] struct {
	follower[T]
	id     string
	sub    *nats.Subscription
	wake   chan struct{} // room for one
	ended  atomic.Bool   // nothing more is written
	next   chan fedPage[T]
	done   chan struct{}
	cancel context.CancelFunc
}

// fedPage is a page of records, or the error of reading it.
type fedPage[T any] struct {
	records []T
	last    bool // it was asked for after finish, and nothing is behind it
	err     error
}

// itemLook is the interval at which a feed looks when nothing shows that there is more.
const itemLook = time.Second

func openItemFeed[T any](ctx context.Context, c *Client, id, subject string, of follower[T]) (*itemFeed[T], error) {
	f := &itemFeed[T]{follower: of, id: id, wake: make(chan struct{}, 1), next: make(chan fedPage[T]), done: make(chan struct{})}
	sub, err := c.nc.Subscribe(subject, func(*nats.Msg) { f.look() })
	if err != nil {
		return nil, c.failed("follow the "+f.what, err)
	}
	f.sub = sub
	ctx, f.cancel = context.WithCancel(ctx)
	go f.run(ctx, c.set.patience)
	return f, nil
}

// to tells fn the records of the feed. Once the item has ended, so does the feed.
func (f *itemFeed[T]) to(ctx context.Context, ended <-chan error) error {
	for {
		select {
		case err := <-ended:
			if err != nil {
				return err
			}
			ended = nil
			f.finish()
		case page := <-f.next:
			if page.err != nil {
				return page.err
			}
			for _, rec := range page.records {
				if err := f.fn(rec); err != nil {
					return err
				}
			}
			if page.last {
				return nil
			}
		case <-ctx.Done():
			return endOf("follow the "+f.what, ctx.Err(), nil)
		}
	}
}

// look makes the feed look for more at once.
func (f *itemFeed[T]) look() { nudge.Send(f.wake) }

// finish says that nothing more is written: the feed reads what is there and ends.
func (f *itemFeed[T]) finish() {
	f.ended.Store(true)
	f.look()
}

func (f *itemFeed[T]) run(ctx context.Context, patience time.Duration) {
	defer close(f.done)
	for {
		ended := f.ended.Load()
		records, more, err := f.page(ctx, f.id, f.after, patience)
		patience = forever
		if n := len(records); n > 0 {
			f.after = f.seq(&records[n-1])
		}
		select {
		case f.next <- fedPage[T]{records, ended && !more, err}:
		case <-ctx.Done():
			return
		}
		if err != nil || !more && !f.wait(ctx) {
			return
		}
	}
}

// wait returns when there may be more; false when ctx has ended.
func (f *itemFeed[T]) wait(ctx context.Context) bool {
	t := time.NewTimer(itemLook)
	defer t.Stop()
	select {
	case <-f.wake:
	case <-t.C:
	case <-ctx.Done():
		return false
	}
	return true
}

// close ends the feed and awaits its goroutine.
func (f *itemFeed[T]) close() {
	f.cancel()
	_ = f.sub.Unsubscribe() // fails when the connection is closed, and is not needed then
	<-f.done
}
