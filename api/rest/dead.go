package rest

import (
	"context"
	"net/http"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// deadQuery is the input of the list of dead items. With group it is that of
// the causes.
type deadQuery struct {
	Group string `query:"group" doc:"cause: the causes of death in place of the items; then only type, reason, code and limit narrow it."`
	SelectQuery
	Cause string    `query:"cause" doc:"Only those that died of this cause: see /api/v1/causes."`
	Since time.Time `query:"since" doc:"Only those that ended at this time or later."`
	Until time.Time `query:"until" doc:"Only those that ended at this time or before."`
	After
}

func (q *deadQuery) selection() (wire.Selection, error) {
	l, err := q.list()
	l.MinPosition = q.MinPosition
	return wire.Selection{List: l, Cause: q.Cause, Since: q.Since, Until: q.Until}, err
}

// deadReply is the reply, for the document.
type deadReply struct {
	wire.Listed
	Causes []wire.Cause `json:"causes,omitempty" doc:"With group=cause."`
	Total  int          `json:"total,omitempty" doc:"With group=cause: causes without the limit."`
}

// causesQuery is the input of the list of causes.
type causesQuery struct {
	Type   string `query:"type" doc:"Only of this type."`
	Reason string `query:"reason" doc:"Only of this reason."`
	Code   string `query:"code" doc:"Only of this code."`
	Sort   string `query:"sort" doc:"last (if left out), first, count or dead, the highest first."`
	All    bool   `query:"all" doc:"Also those of which nothing is dead now."`
	Limit  string `query:"limit" doc:"How many at most."`
	After
}

func (q *causesQuery) query() (any, error) {
	limit, err := number("limit", q.Limit)
	return wire.CausesQuery{Type: q.Type, Reason: q.Reason, Code: q.Code, Sort: q.Sort, All: q.All, Limit: limit, MinPosition: q.MinPosition}, err
}

// registerDead adds the operations on dead letters.
func (s *Server) registerDead() {
	handle(s, operation{
		id: "dead", method: http.MethodGet, path: "/api/v1/dead", tag: tagDead, endpoint: wire.APIDead,
		summary: "Dead items", about: "A page of what has failed for good, or with group=cause what it has died of.", reply: typeOf[deadReply](),
	}, func(ctx context.Context, in *deadQuery) (*answer, error) {
		sel, err := in.selection()
		switch {
		case err != nil:
		case in.Group == "":
			return s.reply(ctx, wire.APIDead, sel)
		case in.Group != "cause":
			err = events.Refuse(events.CodeBadRequest, "group is %q: it must be cause, or left out", clip(in.Group, 64))
		default:
			causes := wire.CausesQuery{Type: sel.Type, Reason: sel.Reason, Code: sel.Code, Limit: sel.Limit, MinPosition: sel.MinPosition}
			return s.reply(ctx, wire.APICauses, causes)
		}
		return nil, problemOf(err)
	})
	register(s, operation{
		id: "causes", method: http.MethodGet, path: "/api/v1/causes", tag: tagDead, endpoint: wire.APICauses,
		summary: "What items have died of", about: "Deaths of one type, reason and code whose error texts differ in nothing but numbers, ids, paths and quoted texts have one cause.", reply: typeOf[wire.CausesReply](),
	}, func(in *causesQuery) (any, error) { return in.query() })
	register(s, operation{
		id: "purge-dead", method: http.MethodDelete, path: "/api/v1/dead/{id}", tag: tagDead, endpoint: wire.APIPurge,
		summary: "Forget an item that has ended", about: "Its history goes with it.", reply: typeOf[wire.ReplayReply](), refusals: []int{http.StatusNotFound, http.StatusConflict},
	}, func(in *struct {
		ItemPath
		Reason string `query:"reason" doc:"Why; the event says it."`
	}) (any, error) {
		return wire.Purge{ID: in.ID, Reason: in.Reason}, nil
	})
	for _, action := range []string{wire.BulkReplay, wire.BulkPurge} {
		register(s, operation{
			id: "bulk-" + action, method: http.MethodPost, path: "/api/v1/dead/" + action, tag: tagDead, endpoint: wire.APIBulk, pace: waiting,
			summary: map[string]string{wire.BulkReplay: "Replay many dead items", wire.BulkPurge: "Purge many dead items"}[action],
			about:   "One page of the selection, at most 1,000 items. Go on with next_cursor, in select.cursor, until there is none. dry_run only counts.",
			body:    typeOf[wire.Bulk](), omit: []string{"action"}, reply: typeOf[wire.BulkReply](),
		}, func(in *JSONBody) (any, error) { return withFields(in.RawBody, field{"action", action}) })
	}
}

// registerRejected adds the operations on rejected submissions.
func (s *Server) registerRejected() {
	type RejectedPath struct {
		Seq events.Seq `path:"seq" doc:"The position of its rejected event."`
	}
	register(s, operation{
		id: "rejected", method: http.MethodGet, path: "/api/v1/rejected", tag: tagRejected, endpoint: wire.APIRejected,
		summary: "Rejected submissions", about: "A page of plain publishes that became no item, newest first, without their originals.", reply: typeOf[wire.RejectedListed](),
	}, func(in *struct {
		Type   string `query:"type" doc:"Only of this type."`
		Code   string `query:"code" doc:"Only with this code."`
		Limit  string `query:"limit" doc:"How many at most: 1 to 1,000, 50 if left out."`
		Cursor string `query:"cursor" doc:"The next_cursor of the page before."`
		After
	}) (any, error) {
		limit, err := number("limit", in.Limit)
		return wire.ListRejected{Type: in.Type, Code: in.Code, Limit: limit, Cursor: in.Cursor, MinPosition: in.MinPosition}, err
	})
	register(s, operation{
		id: "get-rejected", method: http.MethodGet, path: "/api/v1/rejected/{seq}", tag: tagRejected, endpoint: wire.APIShowRejected,
		summary: "A rejected submission", about: "With its original body and headers.", reply: typeOf[wire.Rejected](), refusals: []int{http.StatusNotFound},
	}, func(in *struct {
		RejectedPath
		After
	}) (any, error) {
		return wire.GetRejected{Seq: in.Seq, MinPosition: in.MinPosition}, nil
	})
	register(s, operation{
		id: "replay-rejected", method: http.MethodPost, path: "/api/v1/rejected/{seq}/replay", tag: tagRejected, endpoint: wire.APIReplayRejected,
		summary: "Submit a rejected submission anew", about: "With the corrections that the body gives.",
		body: typeOf[wire.ReplayRejected](), bodyOptional: true, omit: []string{"seq"}, reply: typeOf[wire.Submitted](), refusals: []int{http.StatusNotFound, http.StatusConflict, http.StatusTooManyRequests},
	}, func(in *struct {
		RejectedPath
		JSONBody
	}) (any, error) {
		return withFields(in.RawBody, field{"seq", in.Seq})
	})
	register(s, operation{
		id: "purge-rejected", method: http.MethodDelete, path: "/api/v1/rejected/{seq}", tag: tagRejected, endpoint: wire.APIPurgeRejected,
		summary: "Forget a rejected submission", about: "It can't be replayed any more.", reply: typeOf[wire.PurgedRejected](), refusals: []int{http.StatusNotFound},
	}, func(in *struct {
		RejectedPath
		Reason string `query:"reason" doc:"Why; the event says it."`
	}) (any, error) {
		return wire.PurgeRejected{Seq: in.Seq, Reason: in.Reason}, nil
	})
}
