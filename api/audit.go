package api

import (
	"context"
	"slices"
	"time"

	"github.com/streamwright/streamwright/eventlog/pages"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

const (
	// auditTime bounds how long one request reads the log. The next request continues at
	// its cursor.
	auditTime = 2 * time.Second
	// maxAuditBytes bounds the events of an answer, in bytes of their JSON.
	maxAuditBytes = 512 << 10
	// defaultActs is the number of acts of an answer.
	defaultActs = 50
	maxActs     = 1000
)

// audit lists who did what, from the log. Its events are the truth, and nothing is kept
// beside them, so it reaches back as far as the log.
func (t *tails) audit(ctx context.Context, c *call, req wire.Audit) (any, error) {
	q, err := t.auditQuery(&req)
	if err != nil {
		return nil, err
	}
	reply := wire.AuditReply{Acts: []wire.HistoryEvent{}}
	if req.Cursor == "" {
		if reply.FromSeq, reply.From, err = t.begins(ctx); err != nil {
			return nil, err
		}
	}
	limit := q.Limit
	for end := time.Now().Add(auditTime); ; {
		page, err := t.pages.Read(ctx, q, t.enter)
		if err != nil {
			return nil, notReached(q.From, err)
		}
		for _, ev := range page.Events {
			reply.Acts = append(reply.Acts, wire.FromEvent(ev))
			data, _ := ev.Data()
			q.MaxBytes -= len(data)
		}
		if !page.More && page.First == 0 {
			return reply, nil
		}
		if q.Limit = limit - len(reply.Acts); q.Limit == 0 || q.MaxBytes <= 0 || time.Now().After(end) {
			reply.NextCursor = page.Next.String()
			return reply, nil
		}
		q.From, q.Since = page.Next, time.Time{}
	}
}

// begins returns the first event that the log holds. It is zero for an empty log.
func (t *tails) begins(ctx context.Context) (events.Seq, time.Time, error) {
	k, err := t.pages.Kept(ctx)
	if err != nil {
		return 0, time.Time{}, notReached(0, err)
	}
	if k.First > k.Last {
		return 0, time.Time{}, nil
	}
	first := events.SeqOf(k.First, 0)
	page, err := t.pages.Read(ctx, pages.Query{From: first, Limit: 1}, t.enter)
	if err != nil || len(page.Events) == 0 {
		return first, time.Time{}, notReached(first, err)
	}
	return first, page.Events[0].At, nil
}

func (t *tails) auditQuery(r *wire.Audit) (q pages.Query, err error) {
	q = pages.Query{Since: r.Since, Limit: defaultActs, MaxBytes: maxAuditBytes}
	switch {
	case r.Limit < 0 || r.Limit > maxActs:
		return q, events.Refuse(events.CodeBadRequest, "limit is %d: it must be 1 to %d, or left out for %d", r.Limit, maxActs, defaultActs)
	case r.Limit > 0:
		q.Limit = r.Limit
	}
	if q.Kinds, err = actsOf(r.Action); err != nil {
		return q, err
	}
	if r.Type != "" {
		typ, err := events.ParseType(r.Type)
		if err != nil {
			return q, events.Refuse(events.CodeBadType, "%v", err)
		}
		q.Types = []events.Type{typ}
	}
	by := r.By
	q.Wants = func(_ context.Context, ev *events.Event) (bool, error) {
		return ev.By != "" && (by == "" || ev.By == by), nil
	}
	switch {
	case r.Cursor != "":
		q.Since = time.Time{}
		if q.From, err = events.ParseSeq(r.Cursor); err != nil {
			return q, events.Refuse(events.CodeBadRequest, "cursor is not the next_cursor of an earlier answer: %v", err)
		}
	case q.Since.IsZero():
		q.From = events.SeqOf(1, 0)
	}
	return q, nil
}

// actsOf returns the kinds of an action; empty: all but submissions, of which there are many.
func actsOf(action string) ([]events.Kind, error) {
	var all []events.Kind
	for k := range events.Kind(events.NumKinds) {
		if k.Act() && k != events.KindCreated {
			all = append(all, k)
		}
	}
	if action == "" {
		return all, nil
	}
	k, err := events.ParseKind(action)
	if err == nil && k.Act() {
		return []events.Kind{k}, nil
	}
	names := events.KindCreated.String()
	for _, k := range slices.Sorted(slices.Values(all)) {
		names += ", " + k.String()
	}
	return nil, events.Refuse(events.CodeBadRequest, "invalid action %q: use one of %s", events.Clip(action, 64), names)
}
