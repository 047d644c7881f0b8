package mcpserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Bounds of what is shown.
const (
	maxTypes    = 25
	maxPage     = 50
	maxText     = 300     // bytes of an error or a line in a list
	maxDocument = 4 << 10 // bytes of the params or the result of an item
	maxEventDoc = 500     // bytes of an event's data
	maxOutput   = 5 << 10 // bytes of an item's output, of which JSON may make six times as many
)

// none is the input of a tool that takes nothing.
type none struct{}

type itemIn struct {
	ID string `json:"id" jsonschema:"the item's id, 26 characters"`
}

type partIn struct {
	itemIn
	Limit int `json:"limit,omitempty" jsonschema:"how many of the last ones to show, 1 to 50; 20 if left out"`
}

// filters say which items are meant. An item must match all of them.
type filters struct {
	State         string `json:"state,omitempty" jsonschema:"queued, waiting, claimed, running, completed, dead, cancelled or merged"`
	Type          string `json:"type,omitempty" jsonschema:"the type of work"`
	Tenant        string `json:"tenant,omitempty"`
	Label         string `json:"label,omitempty" jsonschema:"a label, as name=value"`
	Batch         string `json:"batch,omitempty" jsonschema:"the id of the batch that they are of, or of the item that has spawned them"`
	Schedule      string `json:"schedule,omitempty" jsonschema:"the name of the schedule that has made them"`
	Code          string `json:"code,omitempty" jsonschema:"the code of the last failure"`
	Cause         string `json:"cause,omitempty" jsonschema:"a cause of death, from dead_causes"`
	Error         string `json:"error,omitempty" jsonschema:"words that all occur in the last failure's message or code"`
	CreatedAfter  string `json:"created_after,omitempty" jsonschema:"a time in RFC 3339"`
	CreatedBefore string `json:"created_before,omitempty" jsonschema:"a time in RFC 3339"`
}

// selection reads the filters.
func (f *filters) selection() (s streamwright.Selection, err error) {
	s.State, s.Type, s.Tenant, s.Label, s.Batch, s.Schedule, s.Code, s.Cause, s.Error = f.State, f.Type, f.Tenant, f.Label, f.Batch, f.Schedule, f.Code, f.Cause, f.Error
	var err1, err2 error
	s.CreatedAfter, err1 = at("created_after", f.CreatedAfter)
	s.CreatedBefore, err2 = at("created_before", f.CreatedBefore)
	return s, errors.Join(err1, err2)
}

type listIn struct {
	filters
	Worker string `json:"worker,omitempty" jsonschema:"only items that this worker holds now"`
	pageIn
}

type searchIn struct {
	Query string `json:"query" jsonschema:"an item's id; else a type, tenant, dedup key or label's value, or words of the last failure"`
	pageIn
}

type pageIn struct {
	Limit  int    `json:"limit,omitempty" jsonschema:"how many at most, 1 to 50; 20 if left out"`
	Cursor string `json:"cursor,omitempty" jsonschema:"next_cursor of the page before"`
}

type approvalsIn struct {
	Type string `json:"type,omitempty" jsonschema:"only of items of this type of work"`
	pageIn
}

type causesIn struct {
	Type  string `json:"type,omitempty" jsonschema:"only of this type of work"`
	Limit int    `json:"limit,omitempty" jsonschema:"how many at most, 1 to 50; 20 if left out"`
}

type typesIn struct {
	Type string `json:"type,omitempty" jsonschema:"only this type of work"`
	spanIn
}

type spanIn struct {
	Limit int `json:"limit,omitempty" jsonschema:"how many at most, 1 to 50; 20 if left out"`
	Skip  int `json:"skip,omitempty" jsonschema:"how many to leave out at the beginning: those that were shown before"`
}

// part is the part of a list that is to be shown.
func part[T any](all []T, in spanIn) ([]T, error) {
	limit, err := page(in.Limit, maxPage)
	if err != nil {
		return nil, err
	}
	all = all[min(max(in.Skip, 0), len(all)):]
	return all[:min(limit, len(all))], nil
}

type waitIn struct {
	itemIn
	Seconds float64 `json:"timeout_seconds,omitempty" jsonschema:"how long to wait, up to 120; 30 if left out"`
}

// time bounds the wait.
func (w waitIn) time() time.Duration {
	return time.Duration(min(max(cmp.Or(w.Seconds, 30), 0), 120) * float64(time.Second))
}

// reading adds the tools that change nothing.
func (t *tools) reading() {
	add(t, reads, "status", "Show the engine at a glance: alarms, what needs attention, items by state, throughput over the last minute, and the types with most to do.", t.status)
	add(t, reads, "list_items", "List items, the latest change first, without params and results. All filters given must match.", t.list)
	add(t, reads, "search_items", "Find items by what a person would type: an id, a type, a tenant, a dedup key, a label's value, or words of an error.", t.search)
	add(t, reads, "show_item", "Show all of an item: its state, settings, last error, params and result (of each at most 4 KB).", t.show)
	add(t, reads, "explain_item", "Explain why an item is not running now, the most telling reason first; for one that has ended, how it ended.", t.explain)
	add(t, reads, "item_history", "Show the events of an item, oldest first, with the milliseconds that it spent in the state that each ends.", t.history)
	add(t, reads, "item_logs", "Show the last lines that the runs of an item have logged.", t.logs)
	add(t, reads, "item_output", "Show the output of an item so far, such as the text of a language model: of its last run that wrote any, the last 5 KB.", t.output)
	add(t, reads, "list_approvals", "List the questions that items ask people and nobody has answered, the latest change first. Only a person may answer them.", t.approvals)
	add(t, reads, "item_tree", "Show the items that an item has spawned, to a depth of 5 and at most 50 of them, and those that have spawned it.", t.tree)
	add(t, reads, "wait_for_item", "Wait until an item has ended, and show it; after the timeout, show it as it is.", t.wait)
	add(t, reads, "dead_causes", "List what items have died of: deaths whose errors differ only in numbers, ids and paths have one cause. Those that died last come first.", t.causes)
	add(t, reads, "list_types", "List types of work with their settings, queues, pauses and circuits. Settings that end in _ms are milliseconds.", t.types)
	add(t, reads, "list_workers", "List the workers: what they serve, how much of their room is taken, and whether they are well.", t.workers)
	add(t, reads, "list_schedules", "List the schedules, with their next tick and what became of the last.", t.schedules)
}

// brief is an item in a list.
type brief struct {
	ID          string           `json:"id"`
	Type        string           `json:"type"`
	State       events.ItemState `json:"state"`
	Priority    int              `json:"priority"`
	Attempt     int              `json:"attempt"`
	MaxAttempts int              `json:"max_attempts"`
	Tenant      string           `json:"tenant,omitempty"`
	Worker      string           `json:"worker,omitempty"`
	Reason      string           `json:"reason,omitempty"`
	Code        string           `json:"code,omitempty"`
	Error       string           `json:"error,omitempty"`
	CreatedAt   time.Time        `json:"created_at"`
	AvailableAt time.Time        `json:"available_at,omitzero"`
	StartedAt   time.Time        `json:"started_at,omitzero"`
	FinishedAt  time.Time        `json:"finished_at,omitzero"`
}

func briefOf(it streamwright.WorkItem) brief {
	b := brief{ID: it.ID, Type: it.Type, State: it.State, Priority: it.Priority, Attempt: it.Attempt, MaxAttempts: it.MaxAttempts, Tenant: it.Tenant, Worker: it.Worker,
		Reason: events.Clip(it.Reason, maxText), CreatedAt: it.CreatedAt, AvailableAt: it.AvailableAt, StartedAt: it.StartedAt, FinishedAt: it.FinishedAt}
	if it.Error != nil {
		b.Code, b.Error = it.Error.Code, events.Clip(it.Error.Message, maxText)
	}
	return b
}

type listed struct {
	Items      []brief `json:"items"`
	NextCursor string  `json:"next_cursor,omitempty"`
	Stale      string  `json:"stale,omitempty"` // why some may be missing
}

func listedOf(p streamwright.Page, err error) (any, error) {
	out := listed{Items: make([]brief, len(p.Items)), NextCursor: p.NextCursor, Stale: p.Stale}
	for i, it := range p.Items {
		out.Items[i] = briefOf(it)
	}
	return out, err
}

func (t *tools) list(ctx context.Context, in listIn) (any, error) {
	sel, err := in.selection()
	if err != nil {
		return nil, err
	}
	if sel.Limit, err = page(in.Limit, maxPage); err != nil {
		return nil, err
	}
	sel.Worker, sel.Cursor = in.Worker, in.Cursor
	if sel.Cause != "" {
		return listedOf(t.c.DeadLetters().List(ctx, sel))
	}
	return listedOf(t.c.List(ctx, sel.List))
}

func (t *tools) search(ctx context.Context, in searchIn) (any, error) {
	limit, err := page(in.Limit, maxPage)
	if err != nil {
		return nil, err
	}
	return listedOf(t.c.List(ctx, streamwright.Filter{Q: in.Query, Limit: limit, Cursor: in.Cursor}))
}

// whole shows an item with long documents cut.
func whole(it streamwright.WorkItem, err error) (any, error) {
	it.Params, it.Result = clipped(it.Params, maxDocument), clipped(it.Result, maxDocument)
	if it.Error != nil {
		short := *it.Error
		short.Message = events.Clip(short.Message, maxDocument)
		it.Error = &short
	}
	return it, err
}

func (t *tools) show(ctx context.Context, in itemIn) (any, error) { return whole(t.c.Get(ctx, in.ID)) }

func (t *tools) explain(ctx context.Context, in itemIn) (any, error) { return t.c.Why(ctx, in.ID) }

func (t *tools) wait(ctx context.Context, in waitIn) (any, error) {
	until, cancel := context.WithTimeout(ctx, in.time())
	defer cancel()
	it, err := t.c.Wait(until, in.ID)
	if until.Err() != nil && ctx.Err() == nil {
		it, err = t.c.Get(ctx, in.ID)
	}
	return whole(it, err)
}

func (t *tools) history(ctx context.Context, in partIn) (any, error) {
	limit, err := page(in.Limit, maxPage)
	if err != nil {
		return nil, err
	}
	evs, totals, err := t.c.Account(ctx, in.ID)
	all := len(evs)
	evs = last(evs, limit)
	for i := range evs {
		evs[i].Data = clipped(evs[i].Data, maxEventDoc)
	}
	return struct {
		Count  int                         `json:"count"` // of all
		Events []streamwright.Event        `json:"events"`
		Totals streamwright.StateDurations `json:"totals"`
	}{all, evs, totals}, err
}

func (t *tools) logs(ctx context.Context, in partIn) (any, error) {
	limit, err := page(in.Limit, maxPage)
	if err != nil {
		return nil, err
	}
	records, err := t.c.Logs(ctx, in.ID, limit)
	for i := range records {
		records[i].Message = events.Clip(records[i].Message, maxText)
	}
	return map[string]any{"records": records}, err
}

func (t *tools) output(ctx context.Context, in itemIn) (any, error) {
	text, err := t.c.Output(ctx, in.ID)
	all := len(text)
	text = last(text, maxOutput)
	return map[string]any{"bytes": all, "from": all - len(text), "text": strings.ToValidUTF8(string(text), "\ufffd")}, err
}

func (t *tools) approvals(ctx context.Context, in approvalsIn) (any, error) {
	limit, err := page(in.Limit, maxPage)
	if err != nil {
		return nil, err
	}
	r, err := t.c.Approvals(ctx, streamwright.Approvals{Type: in.Type, Limit: limit, Cursor: in.Cursor})
	for i := range r.Approvals {
		r.Approvals[i].Title = events.Clip(r.Approvals[i].Title, maxText)
	}
	return r, err
}

func (t *tools) tree(ctx context.Context, in itemIn) (any, error) {
	return t.c.TreeWithin(ctx, in.ID, 5, maxPage)
}

func (t *tools) causes(ctx context.Context, in causesIn) (any, error) {
	limit, err := page(in.Limit, maxPage)
	if err != nil {
		return nil, err
	}
	r, err := t.c.DeadLetters().Causes(ctx, streamwright.CausesQuery{Type: in.Type, Limit: limit})
	for i := range r.Causes {
		r.Causes[i].Error = events.Clip(r.Causes[i].Error, maxText)
	}
	return r, err
}

// typeBrief is a type of work at a glance.
type typeBrief struct {
	Type           string                `json:"type"`
	States         map[string]int64      `json:"items_by_state"`
	InFlight       int                   `json:"in_flight"` // with workers, or on their way
	Workers        int                   `json:"workers"`
	FreeSlots      int                   `json:"free_slots"`
	Scheduled      int64                 `json:"not_due_yet,omitempty"`
	OldestSeconds  float64               `json:"oldest_waits_seconds,omitempty"`
	MeanRunSeconds float64               `json:"mean_run_seconds,omitempty"`
	PerSecond      wire.PerSecond        `json:"per_second"`
	Paused         *streamwright.Pause   `json:"paused,omitempty"`
	Circuit        *streamwright.Circuit `json:"circuit,omitempty"`
	Settings       any                   `json:"settings,omitempty"`
}

func typeBriefOf(s wire.TypeStats) typeBrief {
	return typeBrief{Type: s.Type, States: s.States, InFlight: s.InFlight, Workers: s.Workers, FreeSlots: max(s.Slots-s.InFlight, 0), Scheduled: s.Scheduled,
		OldestSeconds: seconds(s.Oldest.Duration), MeanRunSeconds: seconds(s.MeanRun.Duration),
		PerSecond: s.PerSecond, Paused: s.Paused, Circuit: s.Circuit}
}

func (t *tools) status(ctx context.Context, _ none) (any, error) {
	info, err := t.c.Engine().Info(ctx)
	if err != nil {
		return nil, err
	}
	s, err := t.c.Engine().Stats(ctx)
	if err != nil {
		return nil, err
	}
	busiest := slices.SortedStableFunc(slices.Values(s.Types), func(a, b wire.TypeStats) int { return cmp.Compare(toDo(b), toDo(a)) })
	var types []typeBrief
	for _, of := range busiest[:min(len(busiest), maxTypes)] {
		types = append(types, typeBriefOf(of))
	}
	return struct {
		Version   string                    `json:"version"`
		Role      wire.NodeRole             `json:"role"`
		Alarms    []streamwright.Alarm      `json:"alarms"`
		Attention []wire.Attention          `json:"attention"`
		States    map[string]int64          `json:"items_by_state"`
		InFlight  int                       `json:"in_flight"`
		Workers   map[wire.WorkerStatus]int `json:"workers_by_status"`
		PerSecond wire.PerSecond            `json:"per_second"`
		Rejected  int64                     `json:"rejected_submissions"`
		TypeCount int                       `json:"type_count"`
		Types     []typeBrief               `json:"types_with_most_to_do"`
	}{info.Version, info.Role, s.Alarms, s.Attention, s.States, s.InFlight, s.WorkersByStatus, s.PerSecond, s.Rejected, len(s.Types), types}, nil
}

// toDo counts the items of a type that someone may want to hear of.
func toDo(s wire.TypeStats) int64 {
	return s.States["queued"] + s.States["waiting"] + s.States["claimed"] + s.States["running"] + s.States["dead"]
}

func (t *tools) types(ctx context.Context, in typesIn) (any, error) {
	infos, err := t.c.Types().List(ctx)
	if err != nil {
		return nil, err
	}
	s, err := t.c.Engine().Stats(ctx)
	if err != nil {
		return nil, err
	}
	if in.Type != "" {
		infos = slices.DeleteFunc(infos, func(i streamwright.TypeInfo) bool { return i.Type != in.Type })
		if len(infos) == 0 {
			return nil, fmt.Errorf("there is no type %q: leave type out to list them all", in.Type)
		}
	}
	count := len(infos)
	if infos, err = part(infos, in.spanIn); err != nil {
		return nil, err
	}
	types := []typeBrief{}
	for _, info := range infos {
		b := typeBrief{Type: info.Type}
		if i := slices.IndexFunc(s.Types, func(of wire.TypeStats) bool { return of.Type == info.Type }); i >= 0 {
			b = typeBriefOf(s.Types[i])
		}
		b.Settings, b.Paused, b.Circuit = info.Settings, info.Paused, info.Circuit
		types = append(types, b)
	}
	return map[string]any{"count": count, "types": types}, nil
}

func (t *tools) workers(ctx context.Context, in spanIn) (any, error) {
	all, err := t.c.Workers().List(ctx)
	if err != nil {
		return nil, err
	}
	shown, err := part(all, in)
	for i := range shown {
		shown[i].Types = shown[i].Types[:min(len(shown[i].Types), maxTypes)]
	}
	return map[string]any{"count": len(all), "workers": shown}, err
}

func (t *tools) schedules(ctx context.Context, in spanIn) (any, error) {
	all, err := t.c.Schedules().List(ctx)
	if err != nil {
		return nil, err
	}
	shown, err := part(all, in)
	for i := range shown {
		shown[i].Params = clipped(shown[i].Params, maxEventDoc)
	}
	return map[string]any{"count": len(all), "schedules": shown}, err
}
