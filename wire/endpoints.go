package wire

import (
	"net/http"
	"reflect"
	"slices"

	"github.com/streamwright/streamwright/events"
)

// The names of the endpoints. [Endpoints] says what each takes and answers.
const (
	APISubmit     = "submit"
	APIBatch      = "batch"
	APIGet        = "get"
	APIList       = "list"
	APIWait       = "wait"
	APICancel     = "cancel"
	APISignal     = "signal"
	APIToken      = "token"
	APILink       = "link"
	APIApprovals  = "approvals"
	APIApproval   = "approval"
	APIAnswer     = "answer"
	APIHistory    = "history"
	APILogs       = "logs"
	APIOutput     = "output"
	APIEvents     = "events"
	APIAudit      = "audit"
	APITree       = "tree"
	APIWhy        = "why"
	APIPlace      = "place"
	APIHeld       = "held"
	APIReschedule = "reschedule"

	APIRegister    = "register"
	APIHeartbeat   = "heartbeat"
	APIReport      = "report"
	APIOutputWrite = "output_write"
	APIProbed      = "probed"
	APIOffer       = "offer"
	APIUnregister  = "unregister"

	APIStats        = "stats"
	APITypes        = "types"
	APIWorkers      = "workers"
	APIInfo         = "info"
	APINodes        = "nodes"
	APINodeRemove   = "node_remove"
	APIConfigure    = "configure"
	APITypeRemove   = "type_remove"
	APIPause        = "pause"
	APIResume       = "resume"
	APICircuitReset = "circuit_reset"
	APIDrain        = "drain"
	APIUndrain      = "undrain"

	APIDead           = "dead"
	APICauses         = "causes"
	APIReplay         = "replay"
	APIPurge          = "purge"
	APIBulk           = "bulk"
	APIRejected       = "rejected"
	APIShowRejected   = "show_rejected"
	APIReplayRejected = "replay_rejected"
	APIPurgeRejected  = "purge_rejected"

	APISchedules      = "schedules"
	APIScheduleSet    = "schedule_set"
	APIScheduleRemove = "schedule_remove"
	APISchedulePause  = "schedule_pause"
	APIScheduleResume = "schedule_resume"
	APIScheduleFire   = "schedule_fire"
	APITicks          = "ticks"

	APINamespaces      = "namespaces"
	APINamespace       = "namespace"
	APINamespaceSet    = "namespace_set"
	APINamespaceChange = "namespace_change"
	APINamespaceRemove = "namespace_remove"

	APICut         = "cut"
	APIClock       = "clock"
	APIClockAccept = "clock_accept"
	APIState       = "state"
	APIVerify      = "verify"
	APIRebuild     = "rebuild"
)

// Endpoint is one request that the engine answers. Everything that has to know
// the endpoints goes by it: the NATS service, the HTTP server, the roles and
// NATS permissions, the schemas, the TypeScript types and the generated docs.
type Endpoint struct {
	Name           string
	Request, Reply reflect.Type
	Roles          Roles // any one of them suffices

	ReadOnly bool // changes nothing, so it may be repeated at will
	Owner    bool // reads what only the log's owner knows
	Array    bool // an array of requests is answered with an array of replies
	Stream   bool // replies come until one is done
	Waits    bool // may be open for long: a user's quota bounds how many are
	Once     bool // asked twice, it may do more than asked once, or answer otherwise
	Makes    bool // makes items
	Defines  bool // makes a type known that nobody has used
	// Key is the field of a request that tells it from others: asked again with the same
	// one, it does nothing more; asked again without one, it does it again.
	Key     string
	Private bool // between the engine's own parts: not part of the protocol

	// Everywhere: it tells of all namespaces, or changes them, so that it takes roles in every
	// one. The default namespace alone answers it.
	Everywhere bool

	Refuses []events.Code // that are specific to it: see Refusals

	Routes []Route // on HTTP, where the request needs nothing but its fields
}

// OwnerOnly reports whether only the owner of the log answers: what decides, and
// what asks for that which only it knows. Any node answers the others, by its
// own projection.
func (e *Endpoint) OwnerOnly() bool { return e.Owner || !e.ReadOnly && !e.Stream }

// makes and defines list why what an endpoint makes, or a new type, is refused, beside what
// is wrong with itself.
var (
	makes   = []events.Code{events.CodeIDConflict, events.CodeQueueFull}
	defines = []events.Code{events.CodeTooManyTypes, events.CodeTypeNotAllowed}
)

// Refusals lists the codes that follow from what the endpoint does, beside those that any may
// return.
func (e *Endpoint) Refusals() []events.Code {
	codes := slices.Clone(e.Refuses)
	if e.Makes {
		codes = append(codes, makes...)
	}
	if e.Makes || e.Defines {
		codes = append(codes, defines...)
	}
	if e.Request.Implements(typeOf[Awaiting]()) {
		codes = append(codes, events.CodePositionAhead)
	}
	return codes
}

// Route is an HTTP operation that makes one request of an endpoint and answers
// with its reply. Parameters of the path are fields of the request; so are the
// parameters of the query of a GET or DELETE, and the members of another's body.
type Route struct {
	ID             string // of the operation in the OpenAPI document
	Method, Path   string
	Tag            string
	Summary, About string

	Renamed map[string]string // parameters of the path that are fields of another name
	Fixed   map[string]any    // fields that the path decides
	Hidden  []string          // fields that the route's document leaves out
	Slow    bool              // may take minutes
	Open    bool              // for everyone, known or not: what it carries is its right
}

var endpoints = func() []Endpoint {
	const (
		submits  = Roles(RoleSubmit)
		works    = Roles(RoleWork)
		reads    = Roles(RoleRead)
		operates = Roles(RoleOperate)
		approves = Roles(RoleApprove | RoleOperate)

		get, post, put, patch, del = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete
		v1                         = "/api/v1"
	)
	var (
		missing   = []events.Code{events.CodeNotFound}
		signals   = []events.Code{events.CodeNotFound, events.CodeWrongState, events.CodeEnded, events.CodeMailboxFull}
		answers   = []events.Code{events.CodeNotFound, events.CodeWrongState, events.CodeAlreadyCompleted, events.CodeEnded}
		tokens    = []events.Code{events.CodeNotFound, events.CodeAlreadyCompleted, events.CodeEnded, events.CodeMailboxFull}
		conflicts = []events.Code{events.CodeNotFound, events.CodeWrongState}
		adds      = []events.Code{events.CodeNotFound, events.CodeWrongState, events.CodeQueueFull}
		inFile    = []events.Code{events.CodeSetInFile}
		fixed     = []events.Code{events.CodeNotFound, events.CodeSetInFile}
		removes   = []events.Code{events.CodeNotFound, events.CodeSetInFile, events.CodeWrongState}
		sessions  = []events.Code{events.CodeUnknownWorker, events.CodeWorkerIDInUse}
		writes    = []events.Code{events.CodeNotFound, events.CodeStaleToken}
		position  = []string{"min_position"}
	)
	return []Endpoint{
		// For producers.
		{Name: APISubmit, Roles: submits, Makes: true, Key: "id", Refuses: missing, Request: typeOf[Submit](), Reply: typeOf[Submitted](), Array: true},
		{Name: APIBatch, Roles: submits, Makes: true, Key: "id", Refuses: conflicts, Request: typeOf[Batch](), Reply: typeOf[BatchReply](), Routes: []Route{
			{ID: "open-batch", Method: post, Path: v1 + "/batches", Tag: "work", Hidden: []string{"seal"},
				Summary: "Open a batch",
				About: "A batch is an item that runs nothing. It waits for the items that are submitted with its id in batch, and completes when their number is settled, by count or by sealing it, and the last of them has ended. " +
					"GET /api/v1/work/{id} shows its progress, DELETE cancels those of its items that have not ended, GET /api/v1/work?batch={id} lists its items. callback is submitted with it and runs when it has ended. With an id the request may be repeated."},
			{ID: "seal-batch", Method: post, Path: v1 + "/batches/{id}/seal", Tag: "work", Fixed: map[string]any{"seal": true},
				Hidden:  []string{"name", "callback", "labels", "priority", "source", "tenant", "traceparent", "trigger"},
				Summary: "Settle how many items a batch has", About: "The batch ends with the last of them. Sealing it again with the same count changes nothing."},
		}},
		{Name: APIGet, Roles: reads, ReadOnly: true, Refuses: missing, Request: typeOf[Get](), Reply: typeOf[Item]()},
		{Name: APIList, Roles: reads, ReadOnly: true, Request: typeOf[List](), Reply: typeOf[Listed](), Routes: []Route{
			{ID: "list-work", Method: get, Path: v1 + "/work", Tag: "work",
				Summary: "List items", About: "A page of items, the latest change of state first, without params and result. A page may be shorter than the limit, even empty, and still have a next_cursor; without one it is the last."},
		}},
		{Name: APIWait, Roles: Roles(RoleSubmit | RoleRead), ReadOnly: true, Waits: true, Refuses: missing, Request: typeOf[Wait](), Reply: typeOf[Waited](), Routes: []Route{
			{ID: "wait-for-work", Method: post, Path: v1 + "/work/wait", Tag: "work", Slow: true,
				Summary: "Wait for many items to end", About: "Up to 1,000 items: all of them, or any one. The answer comes once they have ended or the time is up, with the items that have ended, and which have not: ask again for those. An unknown id is refused at once."},
		}},
		{Name: APICancel, Roles: Roles(RoleSubmit | RoleOperate), Refuses: conflicts, Request: typeOf[Cancel](), Reply: typeOf[Cancelled](), Routes: []Route{
			{ID: "cancel-work", Method: del, Path: v1 + "/work/{id}", Tag: "work",
				Summary: "Cancel an item", About: "It is cancelled at once. was_running says that it was claimed or running, worker_told that its worker was sent the cancel; a worker that missed it learns of it with its next heartbeat or report. Cancelling again changes nothing."},
		}},
		{Name: APISignal, Roles: Roles(RoleSubmit | RoleOperate), Key: "msg_id", Refuses: signals, Request: typeOf[Signal](), Reply: typeOf[Signalled](), Routes: []Route{
			{ID: "signal-work", Method: post, Path: v1 + "/work/{id}/signals", Tag: "work",
				Summary: "Send an item a signal", About: "It comes into the item's mailbox, whatever the item is doing, and is kept until a run that was given it has ended with an outcome. If the item waits for a signal of that name, it goes on. With a msg_id the request may be repeated: a signal with the id of one that has come is that one."},
		}},
		{Name: APIToken, Roles: AllRoles, Key: "token", Refuses: tokens, Request: typeOf[PresentToken](), Reply: typeOf[TokenPresented](), Routes: []Route{
			{ID: "present-token", Method: post, Path: TokensPath + "{token}", Tag: "work", Open: true,
				Summary: "Present a token", About: "A handler has made the token, and its item waits for it. Whoever presents it says how the wait ends, once: with a result, any JSON document of at most 64 KiB, or with an error. The token is all that is needed: no login. The same answer again is answered as the first was, another is refused (already_completed)."},
		}},
		{Name: APILink, Roles: AllRoles, ReadOnly: true, Refuses: missing, Request: typeOf[ShowLink](), Reply: typeOf[Approval](), Routes: []Route{
			{ID: "show-link", Method: get, Path: TokensPath + "{token}", Tag: "approvals", Open: true,
				Summary: "Show the question that a link is for", About: "The link is all that is needed: no login. It is answered by presenting its token. A token that is no link is unknown here."},
		}},
		{Name: APIApprovals, Roles: approves | reads, ReadOnly: true, Request: typeOf[Approvals](), Reply: typeOf[ApprovalsReply](), Routes: []Route{
			{ID: "approvals", Method: get, Path: v1 + "/approvals", Tag: "approvals",
				Summary: "List the questions that items ask", About: "Those last touched first: asked, reminded of, signalled. Without the role read, they are those that one may answer. A page may be shorter than the limit, even empty, and still have a next_cursor."},
		}},
		{Name: APIApproval, Roles: approves | reads, ReadOnly: true, Refuses: missing, Request: typeOf[ShowApproval](), Reply: typeOf[Approval](), Routes: []Route{
			{ID: "show-approval", Method: get, Path: v1 + "/approvals/{id}", Tag: "approvals",
				Summary: "Show the question that an item asks", About: "The last that it has asked: with answered, if somebody has answered it. Without the role read, one that one may answer."},
		}},
		{Name: APIAnswer, Roles: approves, Refuses: answers, Request: typeOf[Answer](), Reply: typeOf[AnswerReply](), Routes: []Route{
			{ID: "answer", Method: post, Path: v1 + "/approvals/{id}", Tag: "approvals",
				Summary: "Answer the question that an item asks", About: "Once: of two answers the first counts, and the second is refused with who has answered (already_completed). The same answer again is answered as the first was. Give the number of the question that was read, so that another is not answered in its place."},
		}},
		{Name: APIHistory, Roles: reads, ReadOnly: true, Refuses: missing, Request: typeOf[History](), Reply: typeOf[HistoryReply](), Routes: []Route{
			{ID: "work-history", Method: get, Path: v1 + "/work/{id}/history", Tag: "work",
				Summary: "Show an item's events", About: "Everything that has happened to the item, oldest first, with the time that it spent in each state."},
		}},
		{Name: APILogs, Roles: reads, ReadOnly: true, Refuses: missing, Request: typeOf[Logs](), Reply: typeOf[LogsReply]()},
		{Name: APIOutput, Roles: reads, ReadOnly: true, Refuses: missing, Request: typeOf[Output](), Reply: typeOf[OutputReply]()},
		{Name: APIEvents, Roles: reads, ReadOnly: true, Waits: true, Request: typeOf[ReadEvents](), Reply: typeOf[EventsReply]()},
		{Name: APIAudit, Roles: reads, ReadOnly: true, Request: typeOf[Audit](), Reply: typeOf[AuditReply](), Routes: []Route{
			{ID: "audit", Method: get, Path: v1 + "/audit", Tag: "engine",
				Summary: "List who did what", About: "Cancels, replays, changed orders, pauses, settings, schedules and the like, oldest first, each with by: who asked for it, as the access layer knew. It reads the log, and reaches back as far as that does: see from."},
		}},
		{Name: APITree, Roles: reads, ReadOnly: true, Refuses: missing, Request: typeOf[Tree](), Reply: typeOf[TreeReply](), Routes: []Route{
			{ID: "work-tree", Method: get, Path: v1 + "/work/{id}/tree", Tag: "work",
				Summary: "Show what an item has spawned, and what has spawned it", About: "The item with the items below it, and the path of the items above it."},
		}},
		{Name: APIWhy, Roles: reads, ReadOnly: true, Owner: true, Refuses: missing, Request: typeOf[Why](), Reply: typeOf[WhyReply](), Routes: []Route{
			{ID: "work-why", Method: get, Path: v1 + "/work/{id}/why", Tag: "work",
				Summary: "Explain why an item is not running", About: "What stands in its way now, the most telling first."},
		}},
		{Name: APIPlace, Roles: Roles(RoleSubmit | RoleRead), ReadOnly: true, Owner: true, Private: true, Request: typeOf[QueuePositions](), Reply: typeOf[PlaceReply]()},
		{Name: APIHeld, Roles: reads, ReadOnly: true, Refuses: missing, Request: typeOf[HolderRequest](), Reply: typeOf[Holder](), Routes: []Route{
			{ID: "type-holder", Method: get, Path: v1 + "/types/{type}/holder", Tag: "types",
				Summary: "Show the item that holds a dedup key", About: "The live item of the type that a submission with this dedup key would be a duplicate of; 404 if there is none. The answer may be outdated when it arrives: the submission alone decides."},
		}},
		{Name: APIReschedule, Roles: operates, Refuses: conflicts, Request: typeOf[Reschedule](), Reply: typeOf[Rescheduled](), Routes: []Route{
			{ID: "reschedule-work", Method: patch, Path: v1 + "/work/{id}", Tag: "work",
				Summary: "Change a queued item's order", About: "Its priority, or when it is due. Only queued items can be changed."},
		}},

		// Of workers.
		{Name: APIRegister, Roles: works, Defines: true, Refuses: sessions, Request: typeOf[Register](), Reply: typeOf[Registered]()},
		{Name: APIHeartbeat, Roles: works, Refuses: sessions, Request: typeOf[Heartbeat](), Reply: typeOf[HeartbeatReply]()},
		{Name: APIReport, Roles: works, Refuses: sessions, Request: typeOf[[]Report](), Reply: typeOf[[]Reported]()},
		{Name: APIOutputWrite, Roles: works, Refuses: writes, Request: typeOf[OutputWrite](), Reply: typeOf[OutputSummary]()},
		{Name: APIProbed, Roles: works, Refuses: sessions, Request: typeOf[Probed](), Reply: typeOf[OK]()},
		{Name: APIOffer, Roles: works, Refuses: sessions, Request: typeOf[Offer](), Reply: typeOf[OK]()},
		{Name: APIUnregister, Roles: works, Refuses: sessions, Request: typeOf[Unregister](), Reply: typeOf[OK]()},

		// For operators and observers.
		{Name: APIStats, Roles: reads, ReadOnly: true, Owner: true, Request: typeOf[StatsRequest](), Reply: typeOf[StatsReply](), Routes: []Route{
			{ID: "stats", Method: get, Path: v1 + "/stats", Tag: "engine",
				Summary: "Show the engine at a glance", About: "Items by state, type and priority, what runs, the workers, and the rates."},
		}},
		{Name: APITypes, Roles: reads, ReadOnly: true, Owner: true, Request: typeOf[StatsRequest](), Reply: typeOf[TypesReply](), Routes: []Route{
			{ID: "types", Method: get, Path: v1 + "/types", Tag: "types",
				Summary: "List the types and their settings", About: "With pauses, and the circuits that are not closed."},
		}},
		{Name: APIWorkers, Roles: reads, ReadOnly: true, Owner: true, Request: typeOf[StatsRequest](), Reply: typeOf[WorkersReply](), Routes: []Route{
			{ID: "workers", Method: get, Path: v1 + "/workers", Tag: "workers", Hidden: position,
				Summary: "List the registered workers", About: "Including those that died recently."},
		}},
		{Name: APIInfo, Roles: AllRoles, ReadOnly: true, Request: typeOf[StatsRequest](), Reply: typeOf[InfoReply](), Routes: []Route{
			{ID: "info", Method: get, Path: v1 + "/info", Tag: "engine", Hidden: position,
				Summary: "Show who answers", About: "The engine's version, its position, where its data is and what it keeps."},
		}},
		{Name: APINodes, Roles: reads, ReadOnly: true, Request: typeOf[StatsRequest](), Reply: typeOf[NodesReply](), Routes: []Route{
			{ID: "nodes", Method: get, Path: v1 + "/nodes", Tag: "engine", Hidden: position,
				Summary: "Show the nodes", About: "All engines of this log: which of them owns it, how far the others are behind, where the streams are, and what is at risk."},
		}},
		{Name: APINodeRemove, Roles: operates, Once: true, Refuses: conflicts, Request: typeOf[NodeRemove](), Reply: typeOf[Changed](), Routes: []Route{
			{ID: "remove-node", Method: del, Path: v1 + "/nodes/{node}", Tag: "engine",
				Summary: "Remove a dead node", About: "The other nodes of the cluster no longer count it, and keep its copies of the streams themselves. It must not be online, and can't come back with its folder."},
		}},
		{Name: APIConfigure, Roles: operates, Defines: true, Refuses: inFile, Request: typeOf[Configure](), Reply: typeOf[TypeReply]()},
		{Name: APITypeRemove, Roles: operates, Once: true, Refuses: conflicts, Request: typeOf[TypeRemove](), Reply: typeOf[Changed](), Routes: []Route{
			{ID: "delete-type", Method: del, Path: v1 + "/types/{type}", Tag: "types",
				Summary: "Remove an unused type", About: "Its settings and its pause go with it. Refused while it has items (ended ones that are still kept, too), a schedule or a worker (wrong_state), or a table in engine.toml (set_in_file). Its next submission makes it known again."},
		}},
		{Name: APIPause, Roles: operates, Defines: true, Request: typeOf[Pause](), Reply: typeOf[Changed](), Routes: []Route{
			{ID: "pause-type", Method: post, Path: v1 + "/types/{type}/pause", Tag: "types",
				Summary: "Pause a type", About: "Its items wait until it is resumed, or until the time given; running items go on. For a paused type, the end of the pause is changed. A type can be paused before its first item."},
		}},
		{Name: APIResume, Roles: operates, Refuses: missing, Request: typeOf[Resume](), Reply: typeOf[Changed](), Routes: []Route{
			{ID: "resume-type", Method: post, Path: v1 + "/types/{type}/resume", Tag: "types",
				Summary: "Resume a paused type", About: "Its items run again."},
		}},
		{Name: APICircuitReset, Roles: operates, Refuses: missing, Request: typeOf[CircuitReset](), Reply: typeOf[Changed](), Routes: []Route{
			{ID: "reset-type-circuit", Method: post, Path: v1 + "/types/{type}/circuit/reset", Tag: "types", Hidden: []string{"worker"},
				Summary: "Close a type's circuit", About: "Its items run again at once."},
			{ID: "reset-worker-circuit", Method: post, Path: v1 + "/workers/{id}/circuit/reset", Tag: "workers", Renamed: map[string]string{"id": "worker"}, Hidden: []string{"type"},
				Summary: "Close a worker's circuit", About: "It gets work again at once."},
		}},
		{Name: APIDrain, Roles: operates, Refuses: missing, Request: typeOf[Drain](), Reply: typeOf[OK](), Routes: []Route{
			{ID: "drain-worker", Method: post, Path: v1 + "/workers/{id}/drain", Tag: "workers", Renamed: map[string]string{"id": "worker"},
				Summary: "Drain a worker", About: "It finishes what it runs, and gets no more. The drain is recorded, and outlives a restart of the engine and of the worker; it ends when the worker unregisters."},
		}},
		{Name: APIUndrain, Roles: operates, Request: typeOf[Undrain](), Reply: typeOf[Changed](), Routes: []Route{
			{ID: "undrain-worker", Method: post, Path: v1 + "/workers/{id}/undrain", Tag: "workers", Renamed: map[string]string{"id": "worker"},
				Summary: "End the drain of a worker", About: "It may get work again. A worker that has learned of the drain may have stopped for good."},
		}},

		// Dead letters and rejected submissions.
		{Name: APIDead, Roles: reads, ReadOnly: true, Request: typeOf[Selection](), Reply: typeOf[Listed](), Routes: []Route{
			{ID: "dead", Method: get, Path: v1 + "/dead", Tag: "dead letters", Hidden: []string{"state", "waits_for", "worker"},
				Summary: "List dead items", About: "A page of what has failed for good, the last dead first, without params and result."},
		}},
		{Name: APICauses, Roles: reads, ReadOnly: true, Request: typeOf[CausesQuery](), Reply: typeOf[CausesReply](), Routes: []Route{
			{ID: "causes", Method: get, Path: v1 + "/causes", Tag: "dead letters",
				Summary: "List the causes of death", About: "Deaths with the same type, reason and code whose error texts differ only in numbers, ids, paths and quoted texts have one cause."},
		}},
		{Name: APIReplay, Roles: operates, Once: true, Refuses: adds, Request: typeOf[Replay](), Reply: typeOf[ReplayReply](), Routes: []Route{
			{ID: "replay-work", Method: post, Path: v1 + "/work/{id}/replay", Tag: "work",
				Summary: "Queue a dead or cancelled item again", About: "Fields that the body leaves out stay as they were; without a body all do."},
			{ID: "replay-dead", Method: post, Path: v1 + "/dead/{id}/replay", Tag: "dead letters",
				Summary: "Queue a dead or cancelled item again", About: "Fields that the body leaves out stay as they were; without a body all do."},
		}},
		{Name: APIPurge, Roles: operates, Once: true, Refuses: conflicts, Request: typeOf[Purge](), Reply: typeOf[ReplayReply](), Routes: []Route{
			{ID: "purge-dead", Method: del, Path: v1 + "/dead/{id}", Tag: "dead letters",
				Summary: "Delete an item that has ended", About: "Its history is deleted with it. The event log holds its params and result until it is cut."},
		}},
		{Name: APIBulk, Roles: operates, Once: true, Refuses: missing, Request: typeOf[Bulk](), Reply: typeOf[BulkReply](), Routes: []Route{
			{ID: "bulk-replay", Method: post, Path: v1 + "/dead/replay", Tag: "dead letters", Fixed: map[string]any{"action": BulkReplay}, Slow: true,
				Summary: "Replay many dead items", About: "One page of the selection, at most 1,000 items. Go on with next_cursor, in select.cursor, until there is none. dry_run only counts."},
			{ID: "bulk-purge", Method: post, Path: v1 + "/dead/purge", Tag: "dead letters", Fixed: map[string]any{"action": BulkPurge}, Slow: true,
				Summary: "Purge many dead items", About: "One page of the selection, at most 1,000 items. Go on with next_cursor, in select.cursor, until there is none. dry_run only counts."},
			{ID: "bulk-cancel", Method: post, Path: v1 + "/work/cancel", Tag: "work", Fixed: map[string]any{"action": BulkCancel}, Slow: true,
				Hidden:  []string{"available_at", "delay_ms", "max_attempts", "now", "params", "patch", "priority"},
				Summary: "Cancel many items", About: "One page of those of the selection that have not ended, at most 1,000 items. Go on with next_cursor, in select.cursor, until there is none. dry_run only counts."},
			{ID: "bulk-reschedule", Method: post, Path: v1 + "/work/reschedule", Tag: "work", Fixed: map[string]any{"action": BulkReschedule}, Slow: true,
				Hidden:  []string{"max_attempts", "params", "patch", "reason"},
				Summary: "Change the order of many queued items", About: "Their priority, or when they are due. One page of the queued items of the selection, at most 1,000. Go on with next_cursor, in select.cursor, until there is none. dry_run only counts."},
		}},
		{Name: APIRejected, Roles: reads, ReadOnly: true, Request: typeOf[ListRejected](), Reply: typeOf[RejectedListed](), Routes: []Route{
			{ID: "rejected", Method: get, Path: v1 + "/rejected", Tag: "rejected",
				Summary: "List rejected submissions", About: "A page of plain publishes that became no item, newest first, without their originals."},
		}},
		{Name: APIShowRejected, Roles: reads, ReadOnly: true, Refuses: missing, Request: typeOf[GetRejected](), Reply: typeOf[Rejected](), Routes: []Route{
			{ID: "get-rejected", Method: get, Path: v1 + "/rejected/{seq}", Tag: "rejected", Hidden: []string{"intake_seq"},
				Summary: "Show a rejected submission", About: "With its original body and headers."},
		}},
		{Name: APIReplayRejected, Roles: operates, Makes: true, Refuses: adds, Request: typeOf[ReplayRejected](), Reply: typeOf[Submitted](), Routes: []Route{
			{ID: "replay-rejected", Method: post, Path: v1 + "/rejected/{seq}/replay", Tag: "rejected",
				Summary: "Submit a rejected submission again", About: "With the corrections in the body."},
		}},
		{Name: APIPurgeRejected, Roles: operates, Once: true, Refuses: missing, Request: typeOf[PurgeRejected](), Reply: typeOf[PurgedRejected](), Routes: []Route{
			{ID: "purge-rejected", Method: del, Path: v1 + "/rejected/{seq}", Tag: "rejected",
				Summary: "Delete a rejected submission", About: "It can no longer be replayed. The event log holds its original until it is cut."},
		}},

		// Schedules.
		{Name: APISchedules, Roles: reads, ReadOnly: true, Request: typeOf[StatsRequest](), Reply: typeOf[SchedulesReply](), Routes: []Route{
			{ID: "schedules", Method: get, Path: v1 + "/schedules", Tag: "schedules",
				Summary: "List the schedules", About: "By name, with their next tick and what became of the last."},
		}},
		{Name: APIScheduleSet, Roles: operates, Refuses: inFile, Request: typeOf[Schedule](), Reply: typeOf[ScheduleReply](), Routes: []Route{
			{ID: "put-schedule", Method: put, Path: v1 + "/schedules/{name}", Tag: "schedules",
				Summary: "Set a schedule", About: "Create it, or replace the one of this name; setting the same again changes nothing. A schedule of engine.toml can't be changed (set_in_file)."},
		}},
		{Name: APIScheduleRemove, Roles: operates, Once: true, Refuses: fixed, Request: typeOf[ScheduleName](), Reply: typeOf[ScheduleReply](), Routes: []Route{
			{ID: "delete-schedule", Method: del, Path: v1 + "/schedules/{name}", Tag: "schedules",
				Summary: "Remove a schedule", About: "The items that it has made stay."},
		}},
		{Name: APISchedulePause, Roles: operates, Refuses: fixed, Request: typeOf[ScheduleName](), Reply: typeOf[ScheduleReply](), Routes: []Route{
			{ID: "pause-schedule", Method: post, Path: v1 + "/schedules/{name}/pause", Tag: "schedules",
				Summary: "Pause a schedule", About: "Its ticks pass without an item."},
		}},
		{Name: APIScheduleResume, Roles: operates, Refuses: fixed, Request: typeOf[ScheduleName](), Reply: typeOf[ScheduleReply](), Routes: []Route{
			{ID: "resume-schedule", Method: post, Path: v1 + "/schedules/{name}/resume", Tag: "schedules",
				Summary: "Resume a schedule", About: "Its ticks make items again."},
		}},
		{Name: APIScheduleFire, Roles: operates, Makes: true, Key: "id", Refuses: adds, Request: typeOf[ScheduleFire](), Reply: typeOf[Submitted](), Routes: []Route{
			{ID: "fire-schedule", Method: post, Path: v1 + "/schedules/{name}/fire", Tag: "schedules",
				Summary: "Make an item of a schedule now", About: "With an id in the body, repeating the request returns the same item."},
		}},
		{Name: APITicks, Roles: reads, ReadOnly: true, Request: typeOf[Ticks](), Reply: typeOf[TicksReply](), Routes: []Route{
			{ID: "ticks", Method: get, Path: v1 + "/ticks", Tag: "schedules",
				Summary: "Show when a schedule would tick next", About: "A preview of a timing: no schedule is needed. Each tick has the offset of the time zone."},
		}},

		// Namespaces.
		{Name: APINamespaces, Roles: reads, Everywhere: true, ReadOnly: true, Request: typeOf[StatsRequest](), Reply: typeOf[NamespacesReply](), Routes: []Route{
			{ID: "namespaces", Method: get, Path: v1 + "/namespaces", Tag: "namespaces",
				Summary: "List the namespaces", About: "By name, with how each is at the node that answers. The default one is always there, and not among them."},
		}},
		{Name: APINamespace, Roles: reads, Everywhere: true, ReadOnly: true, Refuses: missing, Request: typeOf[NamespaceGet](), Reply: typeOf[NamespaceInfo](), Routes: []Route{
			{ID: "get-namespace", Method: get, Path: v1 + "/namespaces/{name}", Tag: "namespaces",
				Summary: "Show a namespace", About: "Its settings, and how it is at the node that answers."},
		}},
		{Name: APINamespaceSet, Roles: operates, Everywhere: true, Refuses: inFile, Request: typeOf[NamespaceSet](), Reply: typeOf[NamespaceReply](), Routes: []Route{
			{ID: "put-namespace", Method: put, Path: v1 + "/namespaces/{name}", Tag: "namespaces",
				Summary: "Add or change a namespace", About: "What the body leaves out stays as it is, or is the default of a new one; setting the same again changes nothing. A namespace of engine.toml can't be changed (set_in_file)."},
		}},
		{Name: APINamespaceChange, Roles: operates, Everywhere: true, Refuses: fixed, Request: typeOf[NamespaceChange](), Reply: typeOf[NamespaceReply](), Routes: []Route{
			{ID: "patch-namespace", Method: patch, Path: v1 + "/namespaces/{name}", Tag: "namespaces",
				Summary: "Change a namespace", About: "One that is there; what the body leaves out stays as it is. A namespace of engine.toml can't be changed (set_in_file)."},
			{ID: "pause-namespace", Method: post, Path: v1 + "/namespaces/{name}/pause", Tag: "namespaces", Fixed: map[string]any{"paused": true},
				Hidden: []string{"limits", "node"}, Summary: "Pause a namespace", About: "It stops, and keeps what it holds."},
			{ID: "resume-namespace", Method: post, Path: v1 + "/namespaces/{name}/resume", Tag: "namespaces", Fixed: map[string]any{"paused": false},
				Hidden: []string{"limits", "node"}, Summary: "Resume a paused namespace", About: "It goes on where it was."},
			{ID: "move-namespace", Method: post, Path: v1 + "/namespaces/{name}/move", Tag: "namespaces",
				Hidden: []string{"limits", "paused"}, Summary: "Move a namespace to a node", About: "The node should own the namespace's log from then on. An empty name leaves the choice to the nodes."},
		}},
		{Name: APINamespaceRemove, Roles: operates, Everywhere: true, Once: true, Refuses: removes, Request: typeOf[NamespaceRemove](), Reply: typeOf[NamespaceRemoval](), Routes: []Route{
			{ID: "delete-namespace", Method: del, Path: v1 + "/namespaces/{name}", Tag: "namespaces",
				Summary: "Remove a namespace with all that it holds", About: "Its items, histories, documents and logs are destroyed, and can't be brought back. Refused while items have not ended, and while what it holds is not known (wrong_state), unless force is set. dry_run removes nothing, and answers what would be destroyed."},
		}},

		// The engine itself.
		{Name: APICut, Roles: operates, Request: typeOf[Cut](), Reply: typeOf[Retention]()},
		{Name: APIClock, Roles: reads, ReadOnly: true, Owner: true, Request: typeOf[StatsRequest](), Reply: typeOf[Clock](), Routes: []Route{
			{ID: "clock", Method: get, Path: v1 + "/clock", Tag: "engine", Hidden: position,
				Summary: "Show the engine's clock", About: "Its time, the NATS server's, and whether that is plausible."},
		}},
		{Name: APIClockAccept, Roles: operates, Once: true, Request: typeOf[AcceptClock](), Reply: typeOf[Clock](), Routes: []Route{
			{ID: "accept-clock", Method: post, Path: v1 + "/clock/accept", Tag: "engine",
				Summary: "Confirm the NATS server's clock", About: "From then on its time is the engine's, however far the two are apart. Everything that is due by it then happens. It is recorded, and may set the clock back."},
		}},
		{Name: APIState, Roles: reads, ReadOnly: true, Stream: true, Refuses: missing, Request: typeOf[StateAt](), Reply: typeOf[StateReply]()},
		{Name: APIVerify, Roles: reads, ReadOnly: true, Stream: true, Request: typeOf[Verify](), Reply: typeOf[VerifyReply]()},
		{Name: APIRebuild, Roles: operates, Stream: true, Request: typeOf[StatsRequest](), Reply: typeOf[VerifyReply]()},
	}
}()

var endpointByName = func() map[string]*Endpoint {
	m := make(map[string]*Endpoint, len(endpoints))
	for i := range endpoints {
		m[endpoints[i].Name] = &endpoints[i]
	}
	return m
}()

// Endpoints lists every endpoint: first for producers, then for workers, then for
// operators. The caller must not change the list.
func Endpoints() []Endpoint { return endpoints }

// EndpointOf returns the endpoint of a name, such as APISubmit.
func EndpointOf(name string) (Endpoint, bool) {
	e, ok := endpointByName[name]
	if !ok {
		return Endpoint{}, false
	}
	return *e, true
}

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }
