package api

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

// Bounds of waits.
const (
	// MaxWaits bounds the waits under way at once, and maxAwaited the items that they wait
	// for, an item counted once for each wait.
	MaxWaits    = 10_000
	maxAwaited  = 100_000
	MaxWait     = 300 * time.Second
	DefaultWait = 30 * time.Second

	// maxMergeHops bounds how far a wait follows merged items.
	maxMergeHops = 16
	// wakers is the number of goroutines that answer waits that have ended.
	wakers = 2
	// maxWaitedBytes bounds the items of an answer that are shown whole. What comes behind
	// them has some hundred bytes each, so that an answer fits in a message.
	maxWaitedBytes = 1 << 20
)

// leftOut is the note of an ended item that is not shown whole.
const leftOut = "only its id, type and state are shown, the answer would be too large: get the item for the rest"

// waits are the requests that wait for items to end. None has a goroutine: a commit of
// the projection or a timer hands the waiter to one of the wakers. A commit costs one
// look-up for each item that it ends, however many items the waits are for.
type waits struct {
	s    *Service
	done chan *waiter // to be looked at; holds all there can be
	stop chan struct{}
	wg   sync.WaitGroup

	mu      sync.Mutex
	byItem  map[events.ID]map[*awaited]struct{} // guarded by mu
	n       int                                 // waiters not answered yet; guarded by mu
	awaited int                                 // items that they wait for; guarded by mu
	closed  bool                                // guarded by mu
}

// waiter is one request. It is held by one goroutine, or lies in done, or its open items
// are in the table.
type waiter struct {
	c     *call
	items []*awaited // in the order asked, each id once
	any   bool       // one that has ended is enough
	until time.Time
	timer *time.Timer // set by its first holder
	again bool        // items that were not there at first are looked for once more; of its holder
	// forget ends the watch over the caller; nil if he can't leave.
	forget func() bool

	held     bool       // a goroutine has it, or done; guarded by waits.mu
	open     int        // items in the table; guarded by waits.mu
	ended    int        // items that have ended; guarded by waits.mu
	woken    []*awaited // items to look up: not looked up yet, or merged into others; guarded by waits.mu
	timedOut bool       // guarded by waits.mu
	left     bool       // guarded by waits.mu
}

// awaited is an item that a waiter waits for.
type awaited struct {
	w     *waiter
	asked events.ID
	id    events.ID        // asked, or the item that it was merged into; of the waiter's holder
	hops  int              // how often it was merged; of the waiter's holder
	state events.ItemState // as last known; guarded by waits.mu
	ended bool             // guarded by waits.mu
}

func newWaits(s *Service) *waits {
	w := &waits{s: s, done: make(chan *waiter, MaxWaits), stop: make(chan struct{}), byItem: map[events.ID]map[*awaited]struct{}{}}
	for range wakers {
		w.wg.Go(w.run)
	}
	return w
}

func (s *Service) wait(c *call) {
	req, err := decode[wire.Wait](c.data)
	if err == nil && (req.Timeout.Duration < 0 || req.Timeout.Duration > MaxWait) {
		err = events.Refuse(events.CodeBadTime, "timeout_ms is %d: it must be 1 to %d, or left out for %d", req.Timeout.Milliseconds(), MaxWait.Milliseconds(), DefaultWait.Milliseconds())
	}
	w := &waiter{c: c, any: req.Any, held: true}
	if err == nil {
		err = w.read(req.IDs)
	}
	if err == nil {
		err = s.waits.enter(w)
	}
	if err != nil {
		c.reply(nil, err)
		return
	}
	d := DefaultWait
	if req.Timeout.Duration > 0 {
		d = req.Timeout.Duration
	}
	w.until = time.Now().Add(d)
	if c.ctx != nil {
		w.forget = context.AfterFunc(c.ctx, func() { s.waits.leave(w) })
	}
	seq, err := req.MinPosition.Seq()
	switch projected := err == nil && seq <= s.Queries.Applied(); {
	case !projected:
		s.waits.awaitFirst(w, req.MinPosition)
	case len(w.items) == 1:
		s.waits.look(w)
	default: // takes longer than the endpoint's subscription can wait
		s.waits.hand(w)
	}
}

// hand gives a waiter that the caller holds to the wakers.
func (ws *waits) hand(w *waiter) {
	ws.mu.Lock()
	closed := ws.closed
	if !closed {
		ws.done <- w // never full: it has room for all waiters
	}
	ws.mu.Unlock()
	if closed {
		ws.answer(w, nil, events.ErrShuttingDown)
	}
}

// read sets the items that a waiter waits for.
func (w *waiter) read(ids []string) error {
	if len(ids) == 0 || len(ids) > wire.MaxWaitIDs {
		return events.Refuse(events.CodeBadRequest, "ids has %d elements: wait for 1 to %d items at once", len(ids), wire.MaxWaitIDs)
	}
	w.items = make([]*awaited, 0, len(ids))
	seen := make(map[events.ID]struct{}, len(ids))
	for _, text := range ids {
		id, err := parseID(text)
		if err != nil {
			return err
		}
		if _, twice := seen[id]; twice {
			continue
		}
		seen[id] = struct{}{}
		w.items = append(w.items, &awaited{w: w, asked: id, id: id})
	}
	w.woken = append(w.woken, w.items...)
	return nil
}

// awaitFirst waits for the caller's position on a goroutine of its own, if
// there is room.
func (ws *waits) awaitFirst(w *waiter, min wire.Position) {
	s := ws.s
	select {
	case s.arriving <- struct{}{}:
	default:
		ws.answer(w, nil, errBusy)
		return
	}
	go func() {
		defer func() { <-s.arriving }()
		ctx, cancel := context.WithTimeout(s.ctx, awaitTimeout)
		defer cancel()
		if err := s.engine.await(ctx, min); err != nil {
			ws.answer(w, nil, err)
			return
		}
		ws.look(w)
	}()
}

// enter counts a waiter in.
func (ws *waits) enter(w *waiter) error {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.closed {
		return events.ErrShuttingDown
	}
	if ws.n >= MaxWaits || ws.awaited+len(w.items) > maxAwaited {
		return &events.Error{Code: events.CodeUnavailable, Message: "the engine has as many waits under way as it takes: ask for the items now and then instead", RetryAfter: time.Second}
	}
	ws.n++
	ws.awaited += len(w.items)
	return nil
}

// answer replies to a waiter that the caller holds.
func (ws *waits) answer(w *waiter, v any, err error) {
	ws.mu.Lock()
	ws.withdraw(w)
	ws.n--
	ws.awaited -= len(w.items)
	ws.mu.Unlock()
	if w.timer != nil {
		w.timer.Stop()
	}
	if w.forget != nil {
		w.forget()
	}
	w.c.reply(v, err)
}

// look looks up the items of a waiter that the caller holds, and answers it if they have
// ended or its time is over. Else it lets go of it.
func (ws *waits) look(w *waiter) {
	if w.timer == nil {
		w.timer = time.AfterFunc(time.Until(w.until), func() { ws.timeOut(w) })
	}
	for {
		woken, over, err := ws.next(w)
		if err != nil {
			ws.answer(w, nil, err)
			return
		}
		var missing []*awaited
		for _, a := range woken {
			there, err := ws.lookUp(a)
			if err != nil {
				ws.answer(w, nil, err)
				return
			}
			if !there {
				missing = append(missing, a)
			}
		}
		if len(missing) > 0 {
			ws.missing(w, missing)
			return
		}
		if over || ws.enough(w) {
			v, err := ws.waited(w)
			ws.answer(w, v, err)
			return
		}
		if ws.letGo(w) {
			return
		}
	}
}

// next takes what is to be looked up for a waiter. over says that it is to be answered
// then, and err that it is to be refused.
func (ws *waits) next(w *waiter) (woken []*awaited, over bool, err error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	switch {
	case ws.closed:
		return nil, true, events.ErrShuttingDown
	case w.left || w.c.gone():
		return nil, true, errLeft
	}
	woken, w.woken = w.woken, nil
	return woken, w.timedOut, nil
}

// lookUp looks up an item, through those that it was merged into, and puts it into the
// table unless it has ended. It reports false for one that is not there. It enters first
// and looks then, so that no end is missed.
func (ws *waits) lookUp(a *awaited) (there bool, err error) {
	for ; a.hops <= maxMergeHops; a.hops++ {
		ws.put(a)
		it, err := ws.s.Queries.Item(a.id)
		if err == nil && it != nil && !it.State.Terminal() {
			ws.mu.Lock()
			if !a.ended {
				a.state = it.State
			}
			ws.mu.Unlock()
			return true, nil
		}
		if !ws.take(a) {
			return true, nil // a commit has it already
		}
		switch {
		case err != nil:
			return true, err
		case it == nil:
			return false, nil
		case it.State == events.StateMerged && !it.MergedInto.IsZero():
			a.id = it.MergedInto
		default:
			ws.mu.Lock()
			a.end(it.State)
			ws.mu.Unlock()
			return true, nil
		}
	}
	return true, events.Refuse(events.CodeInternal, "item %s was merged more than %d times over", a.asked, maxMergeHops)
}

// missing handles a waiter with items that are not there. Another client may have just
// submitted them: see lookup.
func (ws *waits) missing(w *waiter, items []*awaited) {
	if w.again {
		ws.answer(w, nil, ws.s.absent(ws.s.ctx, noItem(items[0].id)))
		return
	}
	w.again = true
	ws.mu.Lock()
	w.woken = append(w.woken, items...)
	ws.mu.Unlock()
	ws.awaitFirst(w, wire.PositionOf(ws.s.Core.Position()))
}

// enough reports whether a waiter can be answered.
func (ws *waits) enough(w *waiter) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return w.ended == len(w.items) || w.any && w.ended > 0
}

// letGo ends the hold of a waiter, unless there is something to look at.
func (ws *waits) letGo(w *waiter) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.closed || w.ripe() {
		return false
	}
	w.held = false
	return true
}

// waited is the answer to a waiter that the caller holds.
func (ws *waits) waited(w *waiter) (any, error) {
	ws.mu.Lock()
	ws.withdraw(w) // from here on its items are its holder's
	ws.mu.Unlock()
	var reply wire.Waited
	reply.Ended = []wire.Item{}
	shown := make(map[events.ID]struct{}, w.ended)
	size := 0
	for _, a := range w.items {
		into := ""
		if a.id != a.asked {
			into = a.id.String()
		}
		if !a.ended {
			reply.Pending = append(reply.Pending, wire.PendingItem{ID: a.asked.String(), State: a.state, MergedInto: into})
			continue
		}
		if into != "" {
			if reply.Merged == nil {
				reply.Merged = map[string]string{}
			}
			reply.Merged[a.asked.String()] = into
		}
		if _, twice := shown[a.id]; twice {
			continue
		}
		shown[a.id] = struct{}{}
		it, err := ws.endedItem(a, len(w.items) > 1, &size)
		if err != nil {
			return nil, err
		}
		reply.Ended = append(reply.Ended, it)
	}
	return reply, nil
}

// endedItem returns an item as an answer shows it, whole while there is room. size is
// that of the answer so far.
func (ws *waits) endedItem(a *awaited, many bool, size *int) (wire.Item, error) {
	brief := wire.Item{ID: a.id.String(), State: a.state, Notes: []string{leftOut}}
	if *size > maxWaitedBytes {
		it, err := ws.s.Queries.Item(a.id)
		if it != nil {
			brief.Type = string(it.Type)
		}
		return brief, err
	}
	it, found, err := ws.s.Queries.Full(a.id)
	if err != nil || !many {
		if err == nil && !found {
			err = noItem(a.id)
		}
		return it, err
	}
	if !found { // it ended, and was purged since
		brief.Notes = []string{"it is gone: it was purged after it had ended"}
		return brief, nil
	}
	data, err := json.Marshal(it)
	if err != nil {
		return it, err
	}
	if *size += len(data); *size > maxWaitedBytes {
		brief.Type = it.Type
		return brief, nil
	}
	return it, nil
}

// end records that an item has ended. The caller holds mu.
func (a *awaited) end(state events.ItemState) {
	a.state, a.ended = state, true
	a.w.ended++
}

// ripe reports whether a waiter is to be looked at. The caller holds mu. Merged items are
// looked up when nothing else is waited for: what they were merged into may have ended.
func (w *waiter) ripe() bool {
	return w.timedOut || w.left || w.open == 0 || w.any && (w.ended > 0 || len(w.woken) > 0)
}

func (ws *waits) put(a *awaited) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	set := ws.byItem[a.id]
	if set == nil {
		set = map[*awaited]struct{}{}
		ws.byItem[a.id] = set
	}
	set[a] = struct{}{}
	a.w.open++
}

// take removes an item of a waiter from the table; false if it is not there any more.
func (ws *waits) take(a *awaited) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return ws.remove(a)
}

// remove is take for callers that hold mu.
func (ws *waits) remove(a *awaited) bool {
	set := ws.byItem[a.id]
	if _, ok := set[a]; !ok {
		return false
	}
	delete(set, a)
	if len(set) == 0 {
		delete(ws.byItem, a.id)
	}
	a.w.open--
	return true
}

// withdraw removes all of a waiter from the table. The caller holds mu.
func (ws *waits) withdraw(w *waiter) {
	for _, a := range w.items {
		if w.open == 0 {
			return
		}
		ws.remove(a)
	}
}

// wake hands a waiter to the wakers, unless somebody holds it, who will see what has
// happened when he lets go. The caller holds mu.
func (ws *waits) wake(w *waiter) {
	if !w.held {
		w.held = true
		ws.done <- w // never full: it has room for all waiters
	}
}

func (ws *waits) timeOut(w *waiter) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w.timedOut = true
	ws.wake(w)
}

// leave has a waiter answered whose caller has gone.
func (ws *waits) leave(w *waiter) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w.left = true
	ws.wake(w)
}

// Notify tells waiting callers what a commit of the projection has changed. It must
// be called after each commit; it never blocks.
func (s *Service) Notify(items []core.ItemChange) {
	s.items.commits.happened()
	ws := s.waits
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if len(ws.byItem) == 0 {
		return
	}
	for _, i := range items {
		if i.New == nil || !i.New.State.Terminal() {
			continue
		}
		for a := range ws.byItem[i.New.ID] {
			ws.remove(a)
			if i.New.State == events.StateMerged {
				a.state = i.New.State
				a.w.woken = append(a.w.woken, a)
			} else {
				a.end(i.New.State)
			}
			if a.w.ripe() {
				ws.wake(a.w)
			}
		}
	}
}

// Awaits reports whether a wait may end by what a commit of the projection is
// to change, so that the commit should come soon.
func (s *Service) Awaits(items []core.ItemChange) bool {
	ws := s.waits
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if len(ws.byItem) == 0 {
		return false
	}
	ends := 0
	for _, i := range items {
		if i.New != nil && i.New.State.Terminal() {
			ends++
		}
	}
	for _, i := range items {
		if i.New == nil || !i.New.State.Terminal() {
			continue
		}
		for a := range ws.byItem[i.New.ID] {
			if a.w.any || a.w.open <= ends {
				return true
			}
		}
	}
	return false
}

// run answers waiters that are to be looked at.
func (ws *waits) run() {
	for {
		select {
		case w := <-ws.done:
			ws.look(w)
		case <-ws.stop:
			return
		}
	}
}

// close answers every waiter and ends the wakers.
func (ws *waits) close() {
	ws.mu.Lock()
	if ws.closed {
		ws.mu.Unlock()
		return
	}
	ws.closed = true
	for _, set := range ws.byItem {
		for a := range set {
			ws.wake(a.w)
		}
	}
	ws.mu.Unlock()
	close(ws.stop)
	ws.wg.Wait()
	for {
		select {
		case w := <-ws.done:
			ws.look(w)
			continue
		default:
		}
		return
	}
}

// count returns the number of waits under way.
func (ws *waits) count() int {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return ws.n
}
