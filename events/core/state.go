package core

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/streamwright/streamwright/events"
)

// The bounds of what a State keeps in memory of what is already projected.
// What is not projected yet comes on top; the sequencer bounds that.
const (
	CacheItems = 1 << 14
	CacheBytes = 32 << 20 // of params

	maxStale = 1000 // frames that are passed over, from the cut on

	maxHistorySize = 4096 // events that room is made for in advance
)

// State is the partition as of its last decided event: see the package
// comment. Owned by one goroutine.
type State struct {
	base     Base
	defaults events.TypeSettings
	limits   events.Limits
	reads    int  // the highest format level: see SetFormatLevel
	keeps    bool // pruned items: see Keeper

	meta   events.Meta
	newest events.Epoch // of the frames: meta has it once everything is known (Partial)
	stale  []uint64     // frames passed over since the last event
	types  map[events.Type]*typeEntry
	items  map[events.ID]*entry
	keys   overlay[events.KeyRef, keyEntry]

	// What has changed since the last TakeChanges.
	changed     bool
	dirtyItems  []*entry
	dirtyTypes  []*typeEntry
	forgotten   []events.Type
	dirtyDocs   []Document
	dirtyKeys   []events.KeyRef
	merged      []events.MergedEntry
	noted       []events.Event // of causes
	rejected    []RejectedChange
	history     []events.Event
	restated    []EncodedHistory
	folds       []events.Fold
	historySize int // of the last one taken: the next will be like it

	// What changed and the base may not have yet: documents other than params,
	// and who waits for whom.
	docs overlay[docRef, []byte]
	// keptRejected holds, by the sequence of their events, whether submissions that
	// became no item are kept; those before rejectedFrom are not.
	keptRejected overlay[events.Seq, bool]
	rejectedFrom events.Seq

	waiters overlay[waitRef, bool]
	waitsOf map[events.ID]map[events.ID]bool // the waiters overlay, by what is waited for

	schedules records[events.Schedule]
	workers   records[events.Circuit] // of workers that fail, by id
	causes    causes
	drains    records[events.Drain] // by worker

	namespaces records[events.NamespaceInfo] // without the default one
	circuits   circuits
	pauseEnds  map[events.Type]time.Time // of the pauses that end by themselves; follows from types

	drainVersion uint64

	follow []events.ID // items that may need a follow-up; see TakeFollowUps

	// Where the clock was set back, which the base may not know yet: what had
	// expired by then stays so. tookBack is the latest of them for the next Changes.
	setBacks []setBack
	tookBack KeyTimes
	due      time.Time // see SetDue

	decider decider // of the command that is being decided
	applier applier // of the event that is being applied

	toRecarry []events.ID // see TakeRecarry

	// What may leave memory, oldest touch first.
	projected  events.Seq
	touched    fifo[touch]
	cacheBytes int
	maxItems   int // CacheItems; smaller in tests
	maxBytes   int // CacheBytes
	maxDrains  int // MaxDrains; smaller in tests
}

// entry is an item in memory.
type entry struct {
	id       events.ID
	cur      *events.Item // nil: it does not exist any more, which the base may not know yet
	prev     *events.Item // at the last TakeChanges; nil: it did not exist
	reborn   bool         // it has been forgotten since, and exists anew
	params   []byte
	paramsAt events.Seq // of the replayed event that gave them; 0: they came from the base
	fresh    bool       // cur was made since the last TakeChanges: only the State has it
	dirty    bool       // in dirtyItems
	seq      events.Seq // of its newest touch
}

type typeEntry struct {
	info  events.TypeInfo
	dirty bool
}

type keyEntry struct {
	held  events.HeldKey
	has   bool
	dirty bool // in dirtyKeys
}

type touch struct {
	id  events.ID
	seq events.Seq
}

// NewState loads what is always in memory (the partition's record, the types)
// and starts an overlay over base. It errs only when base does.
func NewState(base Base) (*State, error) {
	s := &State{
		base: base, reads: events.FormatLevel, defaults: events.DefaultTypeSettings(), maxItems: CacheItems, maxBytes: CacheBytes, maxDrains: events.MaxDrains,
		types: map[events.Type]*typeEntry{}, items: map[events.ID]*entry{}, keys: newOverlay[events.KeyRef, keyEntry](),
		docs: newOverlay[docRef, []byte](), keptRejected: newOverlay[events.Seq, bool](), waiters: newOverlay[waitRef, bool](), waitsOf: map[events.ID]map[events.ID]bool{},
		schedules: newRecords[events.Schedule](events.RecordSchedule), workers: newRecords[events.Circuit](events.RecordWorker), causes: causes{records: newRecords[events.Cause](events.RecordCause), max: events.MaxCauses},
		drains: newRecords[events.Drain](events.RecordDrain), namespaces: newRecords[events.NamespaceInfo](events.RecordNamespace),
	}
	if k, ok := base.(Keeper); ok {
		s.keeps = k.KeepsPruned()
	}
	var err error
	if s.meta, err = base.Meta(); err != nil {
		return nil, fmt.Errorf("load state: %w", err)
	}
	s.projected = s.meta.Applied
	types, err := base.Types()
	if err != nil {
		return nil, fmt.Errorf("load state: %w", err)
	}
	for _, t := range types {
		s.types[t.Type] = &typeEntry{info: t}
	}
	if err := errors.Join(s.schedules.load(base), s.workers.load(base), s.causes.load(base), s.drains.load(base), s.namespaces.load(base)); err != nil {
		return nil, fmt.Errorf("load state: %w", err)
	}
	s.loadCircuits()
	s.loadPauses()
	s.causes.countIdle()
	return s, nil
}

// Reload drops all that the base does not have, and loads the rest anew: for a base that
// has changed by itself. Items that the State has given out stay as they are.
func (s *State) Reload() error {
	fresh, err := NewState(s.base)
	if err != nil {
		return err
	}
	fresh.defaults, fresh.limits, fresh.reads = s.defaults, s.limits, s.reads
	fresh.maxItems, fresh.maxBytes, fresh.causes.max, fresh.maxDrains = s.maxItems, s.maxBytes, s.causes.max, s.maxDrains
	fresh.drainVersion += s.drainVersion + 1 // or a change could go unnoticed
	fresh.circuits.version += s.circuits.version + 1
	*s = *fresh
	return nil
}

// SetDefaults sets the settings that Decide records for a type when it is
// first seen.
func (s *State) SetDefaults(d events.TypeSettings) { s.defaults = d }

// Meta returns the partition's record.
func (s *State) Meta() events.Meta { return s.meta }

// Settings returns a type's settings, and whether the type is known; the defaults
// if it is not.
func (s *State) Settings(t events.Type) (events.TypeSettings, bool) {
	info, known := s.info(t)
	return info.Settings, known
}

// Type returns what is known of a type, false if nothing is.
func (s *State) Type(t events.Type) (events.TypeInfo, bool) {
	if e := s.types[t]; e != nil {
		return e.info, true
	}
	return events.TypeInfo{}, false
}

// info returns what is known of a type, not to be written, and whether anything
// is; the defaults if not.
func (s *State) info(t events.Type) (*events.TypeInfo, bool) {
	if e := s.types[t]; e != nil {
		return &e.info, true
	}
	return &events.TypeInfo{Type: t, Settings: s.defaults}, false
}

// TypeNames lists the known types in order.
func (s *State) TypeNames() []events.Type { return slices.Sorted(maps.Keys(s.types)) }

// Item returns the item, nil if there is none. It is immutable once the
// Changes that hold it have been taken.
func (s *State) Item(id events.ID) (*events.Item, error) {
	e, err := s.entry(id)
	if e == nil || err != nil {
		return nil, err
	}
	return e.cur, nil
}

// Params returns an item's params.
func (s *State) Params(id events.ID) ([]byte, error) {
	if e := s.items[id]; e != nil && (e.params != nil || e.cur == nil) {
		return e.params, nil
	}
	p, err := s.base.Document(events.DocParams, id)
	if err != nil {
		return nil, fmt.Errorf("read params of %s: %w", id, err)
	}
	return p, nil
}

// Key returns the holder of a key at a time, and whether there is one. Message ids
// have a time of their own: see [events.Meta.KeyTime].
func (s *State) Key(ref events.KeyRef, at time.Time) (events.HeldKey, bool, error) {
	held, has := events.HeldKey{}, false
	if k, ok := s.keys.get(ref); ok {
		held, has = k.held, k.has
	} else {
		var err error
		if held, has, err = s.base.Key(ref); err != nil {
			return events.HeldKey{}, false, fmt.Errorf("look up key: %w", err)
		}
		has = has && !s.goneBack(held)
	}
	if ref.Kind == events.KeyMsgID {
		at = s.meta.MsgIDAt
	}
	if has && keyExpired(held, at) {
		return events.HeldKey{}, false, nil
	}
	return held, has, nil
}

// entry returns the item's entry, loading it from the base, nil if there is
// no such item.
func (s *State) entry(id events.ID) (*entry, error) {
	if e := s.items[id]; e != nil {
		return e.known(), nil
	}
	it, err := s.base.Item(id)
	if err != nil {
		return nil, fmt.Errorf("read item %s: %w", id, err)
	}
	if it == nil {
		return nil, nil
	}
	// Here too, since commands that are refused load items and make no events;
	// and before the new one is in, which the caller is about to use.
	s.evict()
	e := &entry{id: id, cur: it, prev: it}
	s.items[id] = e
	s.touch(e, s.projected)
	return e.known(), nil
}

// known returns the entry, nil if its item does not exist any more.
func (e *entry) known() *entry {
	if e.cur == nil || e.cur.PrunedSeq != 0 {
		return nil
	}
	return e
}

// Prefetch reads items that will be asked for soon, and their params if those
// will be, if the base is a [BatchBase]. At most CacheItems/2 ids are of use.
func (s *State) Prefetch(ids []events.ID, withParams bool) error {
	loader, ok := s.base.(BatchBase)
	if !ok {
		return nil
	}
	missing := make([]events.ID, 0, len(ids))
	for _, id := range ids {
		if s.items[id] == nil {
			missing = append(missing, id)
		}
	}
	slices.SortFunc(missing, compareIDs)
	missing = slices.Compact(missing)
	s.evict()
	err := loader.Load(missing, withParams, func(it *events.Item, params []byte) {
		e := &entry{id: it.ID, cur: it, prev: it, params: params}
		s.items[it.ID] = e
		s.cacheBytes += len(params)
		s.touch(e, s.projected)
	})
	if err != nil {
		return fmt.Errorf("read %d items: %w", len(missing), err)
	}
	return nil
}

// touch notes that e was used at seq, which delays its leaving memory.
func (s *State) touch(e *entry, seq events.Seq) {
	e.seq = max(e.seq, seq)
	s.touched.push(touch{e.id, e.seq})
}

// writable returns the item for writing: a copy of its own until the next
// TakeChanges.
func (a *applier) writable(e *entry) *events.Item {
	if !e.fresh {
		c := *e.cur
		e.cur, e.fresh = &c, true
	}
	if a.unseen() && e.id != a.ev.ID && a.carried(e.cur) {
		a.recarry(e.cur) // the change comes with an event that some readers skip
	}
	a.markDirty(e)
	return e.cur
}

func (a *applier) markDirty(e *entry) {
	if !e.dirty {
		e.dirty = true
		a.dirtyItems = append(a.dirtyItems, e)
	}
}

// typeOf returns the type's entry for writing, making it if need be.
func (a *applier) typeOf(t events.Type) *typeEntry {
	e := a.types[t]
	if e == nil {
		e = &typeEntry{info: events.TypeInfo{Type: t, Settings: events.DefaultTypeSettings(), Source: events.SourceDefault}}
		a.types[t] = e
	}
	if !e.dirty {
		e.dirty = true
		a.dirtyTypes = append(a.dirtyTypes, e)
	}
	return e
}

// setKey gives a key to a holder, or (has false) frees it.
func (a *applier) setKey(held events.HeldKey, has bool) {
	if a.meta.Partial && held.Ref.Kind.Unowned() {
		return // its former value is unknown; the end of the round has the new one
	}
	a.putKey(held, has)
}

func (a *applier) putKey(held events.HeldKey, has bool) {
	if k, _ := a.keys.get(held.Ref); !k.dirty {
		a.dirtyKeys = append(a.dirtyKeys, held.Ref)
	}
	a.keys.set(held.Ref, keyEntry{held: held, has: has, dirty: true}, a.meta.Applied)
}

// record adds an event to the history of its item.
func (a *applier) record() {
	if a.history == nil {
		a.history = make([]events.Event, 0, min(a.historySize, maxHistorySize))
	}
	a.history = append(a.history, a.ev)
}

// TakeChanges returns what has changed since the last call, nil if nothing
// has. It must be called only between decisions. The caller must call
// [State.Projected] once the changes are written.
func (s *State) TakeChanges() *Changes {
	if !s.changed {
		return nil
	}
	c := &Changes{Meta: s.meta, Documents: s.dirtyDocs, Merged: s.merged, History: s.history, Restated: s.restated, Folds: s.folds, Noted: s.noted, Rejected: s.rejected, Forgotten: s.forgotten, SetBack: s.tookBack}
	c.Items = make([]ItemChange, 0, len(s.dirtyItems))
	for _, e := range s.dirtyItems {
		c.Items = e.appendChanges(c.Items)
		e.prev, e.fresh, e.dirty, e.reborn = e.cur, false, false, false
	}
	for _, t := range s.dirtyTypes {
		c.Types = append(c.Types, t.info)
		t.dirty = false
	}
	for _, ref := range s.dirtyKeys {
		k := s.keys.m[ref]
		c.Keys = append(c.Keys, KeyChange{Key: k.v.held, Has: k.v.has})
		k.v.dirty = false
		s.keys.m[ref] = k
	}
	c.Records = s.namespaces.take(s.drains.take(s.causes.take(s.workers.take(s.schedules.take(nil)))))
	clear(s.dirtyItems) // or they would stay reachable
	s.dirtyItems, s.dirtyTypes, s.dirtyKeys = s.dirtyItems[:0], s.dirtyTypes[:0], s.dirtyKeys[:0]
	s.historySize = len(s.history)
	s.dirtyDocs, s.merged, s.history, s.restated, s.folds = nil, nil, nil, nil, nil
	s.follow = nil // what nobody has taken is in the projection's index
	s.noted, s.rejected, s.forgotten, s.tookBack = nil, nil, nil, KeyTimes{}
	s.changed = false
	return c
}

// Projected tells the State that its base has everything up to seq, so that
// what no later event has touched may leave memory.
func (s *State) Projected(seq events.Seq) {
	s.projected = max(s.projected, seq)
	s.setBackProjected()
	s.keys.settle(s.projected, nil)
	s.docs.settle(s.projected, nil)
	s.keptRejected.settle(s.projected, nil)
	s.waiters.settle(s.projected, s.forgetWaiter)
	s.evict()
}

// evict drops the items that have rested longest from memory, as far as the bounds
// ask for it and the base has them. Items that are still to be projected, or are
// being changed, stay.
func (s *State) evict() {
	for s.touched.len() > s.maxItems || s.cacheBytes > s.maxBytes {
		t, ok := s.touched.peek()
		if !ok || t.seq > s.projected {
			return
		}
		s.touched.pop()
		if e := s.items[t.id]; e != nil && e.seq <= t.seq && !e.dirty {
			s.cacheBytes -= len(e.params)
			delete(s.items, t.id)
		}
	}
}

// SetLimits sets the engine's own settings.
func (s *State) SetLimits(l events.Limits) { s.limits = l }

// appendChanges appends what has become of the item since the last call.
func (e *entry) appendChanges(to []ItemChange) []ItemChange {
	switch {
	case e.cur == nil && e.prev == nil:
		return to
	case e.reborn && e.prev != nil && e.cur != nil:
		return append(to, ItemChange{Old: e.prev}, ItemChange{New: e.cur})
	}
	return append(to, ItemChange{Old: e.prev, New: e.cur})
}

// Projectable reports whether the projection, at the position last given to
// [State.Projected], has every change of an item. Only then is what it holds beside
// the item complete.
func (s *State) Projectable(id events.ID) bool {
	e := s.items[id]
	return e == nil || !e.dirty && e.seq <= s.projected && (e.cur == nil || e.cur.Seq <= s.projected)
}
