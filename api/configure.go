package api

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/streamwright/streamwright/dispatcher"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

// typeAPI shows and changes types.
type typeAPI struct {
	*engine
	typesMu sync.Mutex // held while a type is configured
}

func (a *typeAPI) handle(h *handlers) {
	projected(h, wire.APITypes, a.list)
	on(h, wire.APIConfigure, a.configure)
	on(h, wire.APITypeRemove, a.remove)
	on(h, wire.APIPause, a.pause)
	on(h, wire.APIResume, a.resume)
}

// configure changes some of a type's settings. The request names those to
// change; a command carries all. One request at a time reads and writes, so
// that none undoes another's change.
func (a *typeAPI) configure(ctx context.Context, c *call, req wire.Configure) (any, error) {
	t, err := events.ParseType(req.Type)
	if err != nil {
		return nil, events.Refuse(events.CodeBadType, "%v", err)
	}
	a.typesMu.Lock()
	defer a.typesMu.Unlock()
	if err := a.await(ctx, wire.PositionOf(a.Core.Position())); err != nil {
		return nil, err
	}
	info, err := a.info(t)
	if err != nil {
		return nil, err
	}
	wanted, err := overlay(info.Settings, req.Settings)
	if err != nil {
		return nil, err
	}
	if a.OwnedByFile != nil {
		if owned := a.OwnedByFile(t, wanted); len(owned) > 0 {
			return nil, events.Refuse(events.CodeSetInFile, "engine.toml sets %s of type %s: change it there and restart the engine", strings.Join(owned, ", "), t)
		}
	}
	return a.applySettings(ctx, t, wanted)
}

// remove forgets a type that nothing uses, and answers once queries no longer
// see it.
func (a *typeAPI) remove(ctx context.Context, c *call, req wire.TypeRemove) (any, error) {
	return a.change(ctx, core.RemoveType{Type: events.Type(req.Type)})
}

// info returns what is known of a type. An unknown one has the engine's defaults, and
// stays unknown: a request that is refused must not make it.
func (a *typeAPI) info(t events.Type) (events.TypeInfo, error) {
	types, err := a.Queries.Types()
	if err != nil {
		return events.TypeInfo{}, err
	}
	for _, info := range types {
		if info.Type == t {
			return info, nil
		}
	}
	return events.TypeInfo{Type: t, Source: events.SourceDefault, Settings: a.defaults()}, nil
}

// defaults returns the settings of a type that has none of its own, for the caller
// to keep.
func (a *typeAPI) defaults() events.TypeSettings {
	if a.TypeDefaults == nil {
		return events.DefaultTypeSettings()
	}
	set := *a.TypeDefaults
	set.Rates, set.QueueSteps = slices.Clone(set.Rates), slices.Clone(set.QueueSteps)
	return set
}

// overlay lays the fields of a request over settings. Fields that are objects are
// merged, such as a backoff with only the maximum given.
func overlay(settings events.TypeSettings, patch []byte) (events.TypeSettings, error) {
	if len(patch) == 0 {
		return settings, events.Refuse(events.CodeBadRequest, "nothing to change: give settings")
	}
	set := settings
	set.PerPriority = nil
	for p, o := range settings.PerPriority { // a copy: decoding writes into it
		if set.PerPriority == nil {
			set.PerPriority = map[events.Priority]events.PriorityOverride{}
		}
		set.PerPriority[p] = o
	}
	set.Codes = maps.Clone(settings.Codes)
	// A value that is named is chosen, also when it is the default's.
	var named struct {
		Timeout  *json.RawMessage `json:"timeout_ms"`
		Attempts *json.RawMessage `json:"max_attempts"`
	}
	if err := json.Unmarshal(patch, &named); err != nil {
		return settings, malformed(err)
	}
	set.TimeoutSet = set.TimeoutSet || named.Timeout != nil
	set.MaxAttemptsSet = set.MaxAttemptsSet || named.Attempts != nil
	if err := decodeInto(patch, &set); err != nil {
		return settings, err
	}
	return set, nil
}

func (a *typeAPI) applySettings(ctx context.Context, t events.Type, set events.TypeSettings) (any, error) {
	o, err := a.one(ctx, core.Configure{Type: t, Source: events.SourceAPI, Settings: set})
	if err != nil {
		return nil, err
	}
	if err := a.await(ctx, wire.PositionOf(o.Position)); err != nil {
		return nil, err
	}
	info, err := a.info(t)
	if err != nil {
		return nil, err
	}
	return a.reply(info), nil
}

// one decides one command and waits for the outcome.
func (e *engine) one(ctx context.Context, cmd core.Command) (dispatcher.Outcome, error) {
	o, err := e.decideAll(ctx, []core.Command{cmd})
	if err != nil {
		return dispatcher.Outcome{}, err
	}
	return o[0], o[0].Err
}

func (a *typeAPI) list(ctx context.Context, _ *call, req wire.StatsRequest) (any, error) {
	types, err := a.Queries.Types()
	if err != nil {
		return nil, err
	}
	defaults := a.defaults()
	reply := wire.TypesReply{Types: make([]wire.TypeReply, len(types)), Defaults: &defaults, Stale: a.lacking(ctx)}
	for i, t := range types {
		reply.Types[i] = a.reply(t)
	}
	unset := events.UnsetTypeSettings()
	reply.Unset = &unset
	return reply, nil
}

// reply returns a type as queries show it.
func (a *typeAPI) reply(t events.TypeInfo) wire.TypeReply {
	out := wire.FromType(t)
	if a.NamedByFile != nil {
		out.SetInFile = a.NamedByFile(t.Type)
	}
	return out
}

func (a *typeAPI) pause(ctx context.Context, c *call, req wire.Pause) (any, error) {
	return a.change(ctx, core.PauseType{Type: events.Type(req.Type), Reason: req.Reason, By: c.author(req.By), Until: req.Until, For: req.For.Duration})
}

func (a *typeAPI) resume(ctx context.Context, c *call, req wire.Resume) (any, error) {
	return a.change(ctx, core.ResumeType{Type: events.Type(req.Type), By: c.author(req.By)})
}
