package streamwright

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
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
	workID, err := events.ParseID(id)
	if err != nil {
		return events.Refuse(events.CodeBadID, "%v", err)
	}
	item, err := c.Get(ctx, id) // an unknown item is refused before anything waits for it
	if err != nil {
		return err
	}
	if item.State == events.StateMerged && item.MergedInto != "" {
		return c.FollowLogs(ctx, item.MergedInto, fn)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	feed, err := openLogFeed(ctx, c, id, c.set.names.Log(events.Type(item.Type), workID))
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
	return followTo(ctx, feed, ended, fn)
}

// followTo tells fn the records of a feed. Once the item has ended, so does the
// feed.
func followTo(ctx context.Context, f *logFeed, ended <-chan error, fn func(LogRecord) error) error {
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
				if err := fn(rec); err != nil {
					return err
				}
			}
			if page.last {
				return nil
			}
		case <-ctx.Done():
			return endOf("follow the log", ctx.Err(), nil)
		}
	}
}

// logFeed gives the records of an item's log in pages, which the engine reads.
// A record that is published wakes it.
type logFeed struct {
	c      *Client
	id     string
	sub    *nats.Subscription
	wake   chan struct{} // room for one
	ended  atomic.Bool   // nothing more is written to the log
	next   chan logged
	done   chan struct{}
	cancel context.CancelFunc
}

// logged is a page of an item's log, or the error of reading it.
type logged struct {
	records []LogRecord
	last    bool // it was asked for after finish, and nothing is behind it
	err     error
}

// logLook is the interval at which a log is looked at when nothing shows that it has grown.
const logLook = time.Second

func openLogFeed(ctx context.Context, c *Client, id, subject string) (*logFeed, error) {
	f := &logFeed{c: c, id: id, wake: make(chan struct{}, 1), next: make(chan logged), done: make(chan struct{})}
	sub, err := c.nc.Subscribe(subject, func(*nats.Msg) { f.look() })
	if err != nil {
		return nil, c.failed("follow the log", err)
	}
	f.sub = sub
	ctx, f.cancel = context.WithCancel(ctx)
	go f.run(ctx)
	return f, nil
}

// look makes the feed look for more at once.
func (f *logFeed) look() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// finish says that the log is complete: the feed reads what is there and ends.
func (f *logFeed) finish() {
	f.ended.Store(true)
	f.look()
}

func (f *logFeed) run(ctx context.Context) {
	defer close(f.done)
	after, patience := uint64(0), f.c.set.patience
	for {
		ended := f.ended.Load()
		reply, err := askFor[wire.LogsReply](ctx, f.c, wire.APILogs, wire.Logs{ID: f.id, After: &after}, 0, patience)
		patience = forever
		if n := len(reply.Records); n > 0 {
			after = reply.Records[n-1].Seq
		}
		select {
		case f.next <- logged{reply.Records, ended && !reply.More, err}:
		case <-ctx.Done():
			return
		}
		if err != nil || !reply.More && !f.wait(ctx) {
			return
		}
	}
}

// wait returns when the log may have grown; false when ctx has ended.
func (f *logFeed) wait(ctx context.Context) bool {
	t := time.NewTimer(logLook)
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
func (f *logFeed) close() {
	f.cancel()
	_ = f.sub.Unsubscribe() // fails when the connection is closed, and is not needed then
	<-f.done
}
