package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/eventlog/pages"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Bounds of log readers.
const (
	// MaxTails bounds the requests for events under way at once, nearly all
	// of them waiting for the next event.
	MaxTails = 1000
	// maxTailReads bounds how many of them read the log at the same time. They take
	// turns: each reads at most one page.
	maxTailReads = 8
	// replyMargin is the room in a reply for what stands around the events.
	replyMargin = 4 << 10
)

// tails answers requests for events of the log.
type tails struct {
	s       *Service
	pages   *pages.Reader
	room    chan struct{} // a token for each request under way
	reading chan struct{} // a token for each that reads
	items   *itemBook
}

func newTails(s *Service) *tails {
	t := &tails{
		s: s, pages: pages.NewReader(s.Conn, s.Names, s.Written, s.Queries.Meta),
		room: make(chan struct{}, MaxTails), reading: make(chan struct{}, maxTailReads),
	}
	t.items = &itemBook{s: s, pages: t.pages}
	return t
}

// LogGrew tells the service that the log has grown. It never waits.
func (s *Service) LogGrew() { s.tails.pages.Grown() }

// Feed is the log as feeds of events read it, which take turns with the requests
// for events.
type Feed struct{ t *tails }

// Feed returns the log for feeds of events.
func (s *Service) Feed() Feed { return Feed{s.tails} }

// Tail gives the events of the log; see [pages.Reader.Tail].
func (f Feed) Tail(ctx context.Context, cfg pages.TailConfig, fn func(events.Event) error) error {
	return f.t.pages.Tail(ctx, cfg, f.t.enter, fn)
}

// Of returns a filter for the events of a tenant's items, or of those with a label, name=value;
// nil if neither is given.
func (f Feed) Of(tenant, label string) (pages.Filter, error) {
	return f.t.items.of(tenant, label)
}

// Kept says what the log holds.
func (f Feed) Kept(ctx context.Context) (pages.Kept, error) { return f.t.pages.Kept(ctx) }

// enter waits for a turn to read.
func (t *tails) enter(ctx context.Context) (done func(), err error) {
	select {
	case t.reading <- struct{}{}:
		return func() { <-t.reading }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *Service) readEvents(c *call) {
	s.async(s.tails.room, wire.MaxEventsWait+controlTimeout, s.tails.read)(c)
}

// read answers a request for events.
func (t *tails) read(ctx context.Context, c *call) (any, error) {
	req, err := decode[wire.ReadEvents](c.data)
	if err != nil {
		return nil, err
	}
	q, err := pageQuery(&req)
	if err != nil {
		return nil, err
	}
	if q.Wants, err = t.items.of(req.Tenant, req.Label); err != nil {
		return nil, err
	}
	page, err := t.pages.Read(ctx, q, t.enter)
	if err != nil {
		return nil, notReached(req.FromSeq, err)
	}
	return t.reply(c, &req, &page)
}

// notReached gives an error of reading the log from a position its code.
func notReached(from events.Seq, err error) error {
	var behind *eventlog.BehindError
	if errors.As(err, &behind) {
		return events.Refuse(events.CodeBadRequest, "position %d is not reached yet: the log ends before %d; if it went further once, the engine has another log now, and you begin anew", from, events.SeqOf(behind.Last+1, 0))
	}
	return unreachable(err)
}

// unreachable gives an error of a log that can't be reached now its code; others it returns as they are.
func unreachable(err error) error {
	if errors.Is(err, eventlog.ErrUnreachable) {
		return events.WithCode(events.CodeUnavailable, err)
	}
	return err
}

// reply writes a page, or as much of it as goes into one reply. It is written
// by hand because encoding/json would escape what stands in the events.
func (t *tails) reply(c *call, req *wire.ReadEvents, page *pages.Page) (any, error) {
	head := struct {
		NextSeq events.Seq      `json:"next_seq"`
		More    bool            `json:"more,omitempty"`
		Gap     *wire.EventsGap `json:"gap,omitempty"`
	}{page.Next, page.More, nil}
	if page.First > 0 && req.FromSeq > 1 {
		head.Gap = &wire.EventsGap{From: req.FromSeq, To: page.First - 1}
	}
	var list bytes.Buffer
	list.WriteString(`{"events":[`)
	enc := json.NewEncoder(&list)
	enc.SetEscapeHTML(false)
	limit := c.limit()
	for i := range page.Events {
		before := list.Len()
		if i > 0 {
			list.WriteByte(',')
		}
		if err := enc.Encode(wire.FromEvent(page.Events[i])); err != nil {
			return nil, err
		}
		list.Truncate(list.Len() - 1) // its newline
		if i > 0 && int64(list.Len()) > limit-replyMargin {
			list.Truncate(before)
			head.NextSeq, head.More = page.Events[i].Seq, true
			break
		}
	}
	tail, err := json.Marshal(head)
	if err != nil {
		return nil, err
	}
	list.WriteString("],")
	list.Write(tail[1:])
	return encoded(list.Bytes()), nil
}

// pageQuery reads and checks a request.
func pageQuery(r *wire.ReadEvents) (q pages.Query, err error) {
	wait := r.Wait.Duration
	switch {
	case r.FromSeq > 0 && !r.Since.IsZero():
		return q, events.Refuse(events.CodeBadRequest, "both from_seq and since are given: give one of them")
	case r.Limit < 0 || r.Limit > wire.MaxEvents:
		return q, events.Refuse(events.CodeBadRequest, "limit is %d: it must be 1 to %d, or left out for %d", r.Limit, wire.MaxEvents, wire.MaxEvents)
	case r.MaxBytes < 0 || r.MaxBytes > wire.MaxEventsBytes:
		return q, events.Refuse(events.CodeBadRequest, "max_bytes is %d: it must be 1 to %d, or left out for %d", r.MaxBytes, wire.MaxEventsBytes, wire.MaxEventsBytes)
	case r.Wait.Duration < 0 || r.Wait.Duration > wire.MaxEventsWait:
		return q, events.Refuse(events.CodeBadTime, "wait_ms is %d: it must be 0 to %d", r.Wait.Milliseconds(), wire.MaxEventsWait.Milliseconds())
	case len(r.Types) > wire.MaxEventTypes || len(r.Kinds) > wire.MaxEventTypes:
		return q, events.Refuse(events.CodeTooLarge, "%d types and %d kinds are given: at most %d of each are allowed", len(r.Types), len(r.Kinds), wire.MaxEventTypes)
	}
	q = pages.Query{From: r.FromSeq, Since: r.Since, Limit: r.Limit, MaxBytes: r.MaxBytes, Wait: wait}
	for _, text := range r.Types {
		t, err := events.ParseType(text)
		if err != nil {
			return q, events.Refuse(events.CodeBadType, "%v", err)
		}
		q.Types = append(q.Types, t)
	}
	for _, text := range r.Kinds {
		k, err := events.ParseKind(text)
		if err != nil {
			return q, events.Refuse(events.CodeBadRequest, "%v", err)
		}
		q.Kinds = append(q.Kinds, k)
	}
	if r.ID != "" {
		q.ID, err = parseID(r.ID)
	}
	return q, err
}
