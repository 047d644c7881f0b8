package api

import (
	"context"
	"sync"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

// Bounds of waits.
const (
	// MaxWaits bounds the waits under way at once.
	MaxWaits    = 10_000
	MaxWait     = 300 * time.Second
	DefaultWait = 30 * time.Second

	// maxMergeHops bounds how far a wait follows merged items.
	maxMergeHops = 16
	// wakers is the number of goroutines that answer waits that have ended.
	wakers = 2
)

// waits are the requests that wait for an item to end. None has a goroutine:
// a commit of the projection or a timer takes the waiter out of the table and
// hands it to one of the wakers.
type waits struct {
	s    *Service
	done chan *waiter // taken out, to be answered; holds all there can be
	stop chan struct{}
	wg   sync.WaitGroup

	mu     sync.Mutex
	byItem map[events.ID]map[*waiter]struct{} // guarded by mu
	n      int                                // waiters not answered yet; guarded by mu
	closed bool                               // guarded by mu
}

// waiter is one request. It is in the table, in done, or with one goroutine.
type waiter struct {
	c     *call
	id    events.ID // the item that it waits for now
	timer *time.Timer
	until time.Time
	// reason it was taken out; written by whoever does so.
	timedOut bool
	left     bool
	again    bool // it was not there at first, and is looked for once more
	// forget ends the watch over the caller; nil if he can't leave.
	forget func() bool
}

func newWaits(s *Service) *waits {
	w := &waits{s: s, done: make(chan *waiter, MaxWaits), stop: make(chan struct{}), byItem: map[events.ID]map[*waiter]struct{}{}}
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
	var id events.ID
	if err == nil {
		id, err = parseID(req.ID)
	}
	if err == nil {
		err = s.waits.enter()
	}
	if err != nil {
		c.reply(nil, err)
		return
	}
	d := DefaultWait
	if req.Timeout.Duration > 0 {
		d = req.Timeout.Duration
	}
	w := &waiter{c: c, id: id, until: time.Now().Add(d)}
	if c.ctx != nil {
		w.forget = context.AfterFunc(c.ctx, func() { s.waits.leave(w) })
	}
	if seq, err := req.MinPosition.Seq(); err == nil && seq <= s.Queries.Applied() {
		s.waits.look(w)
		return
	}
	s.waits.awaitFirst(w, req.MinPosition)
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
func (ws *waits) enter() error {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.closed {
		return events.ErrShuttingDown
	}
	if ws.n >= MaxWaits {
		return &events.Error{Code: events.CodeUnavailable, Message: "the engine has as many waits under way as it takes: ask for the item now and then instead", RetryAfter: time.Second}
	}
	ws.n++
	return nil
}

// answer replies to a waiter that is in nobody else's hands.
func (ws *waits) answer(w *waiter, v any, err error) {
	ws.mu.Lock()
	ws.n--
	ws.mu.Unlock()
	if w.forget != nil {
		w.forget()
	}
	w.c.reply(v, err)
}

// look answers a waiter if its item has ended, and else puts it into the table.
// It enters first and looks then, so that no end is missed.
func (ws *waits) look(w *waiter) {
	for range maxMergeHops {
		if !ws.put(w) {
			ws.answer(w, nil, events.ErrShuttingDown)
			return
		}
		if w.c.gone() {
			if ws.take(w) {
				ws.answer(w, nil, errLeft)
			}
			return
		}
		it, err := ws.s.Queries.Item(w.id)
		if err == nil && it != nil && !it.State.Terminal() {
			return
		}
		if !ws.take(w) {
			return // a commit or the timer has it already
		}
		switch {
		case err != nil:
			ws.answer(w, nil, err)
			return
		case it == nil:
			ws.missing(w)
			return
		case it.State == events.StateMerged && !it.MergedInto.IsZero():
			w.id = it.MergedInto
		default:
			v, err := ws.s.engine.whole(w.id)
			ws.answer(w, v, err)
			return
		}
	}
	ws.answer(w, nil, events.Refuse(events.CodeInternal, "item %s was merged more than %d times over", w.id, maxMergeHops))
}

// missing handles a waiter whose item is not there. Another client may have just
// submitted it: see lookup.
func (ws *waits) missing(w *waiter) {
	if w.again {
		ws.answer(w, nil, ws.s.absent(ws.s.ctx, noItem(w.id)))
		return
	}
	w.again, w.timedOut = true, false
	ws.awaitFirst(w, wire.PositionOf(ws.s.Core.Position()))
}

func (ws *waits) put(w *waiter) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.closed {
		return false
	}
	set := ws.byItem[w.id]
	if set == nil {
		set = map[*waiter]struct{}{}
		ws.byItem[w.id] = set
	}
	set[w] = struct{}{}
	w.timer = time.AfterFunc(time.Until(w.until), func() { ws.timeOut(w) })
	return true
}

// take removes a waiter from the table; false if it is not there any more.
func (ws *waits) take(w *waiter) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return ws.remove(w)
}

// remove is take for callers that hold mu.
func (ws *waits) remove(w *waiter) bool {
	set := ws.byItem[w.id]
	if _, ok := set[w]; !ok {
		return false
	}
	delete(set, w)
	if len(set) == 0 {
		delete(ws.byItem, w.id)
	}
	w.timer.Stop()
	return true
}

func (ws *waits) timeOut(w *waiter) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.remove(w) {
		w.timedOut = true
		ws.done <- w // never full: it has room for all waiters
	}
}

// leave takes out a waiter whose caller has gone. One that is in somebody's
// hands is not in the table: look sees that the caller has gone when it would
// put it back.
func (ws *waits) leave(w *waiter) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.remove(w) {
		w.left = true
		ws.done <- w // never full: it has room for all waiters
	}
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
		for w := range ws.byItem[i.New.ID] {
			ws.remove(w)
			ws.done <- w
		}
	}
}

// Awaits reports whether a wait would end by what a commit of the projection is
// to change, so that the commit should come soon.
func (s *Service) Awaits(items []core.ItemChange) bool {
	ws := s.waits
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if len(ws.byItem) == 0 {
		return false
	}
	for _, i := range items {
		if i.New != nil && i.New.State.Terminal() && len(ws.byItem[i.New.ID]) > 0 {
			return true
		}
	}
	return false
}

// run answers waiters that were taken out.
func (ws *waits) run() {
	for {
		select {
		case w := <-ws.done:
			ws.finish(w)
		case <-ws.stop:
			return
		}
	}
}

func (ws *waits) finish(w *waiter) {
	if w.left {
		ws.answer(w, nil, errLeft)
		return
	}
	if !w.timedOut {
		ws.look(w) // it may have been merged into another
		return
	}
	v, found, err := ws.s.Queries.Full(w.id)
	if err == nil && !found {
		ws.missing(w)
		return
	}
	ws.answer(w, v, err)
}

// close answers every waiter and ends the wakers.
func (ws *waits) close() {
	ws.mu.Lock()
	if ws.closed {
		ws.mu.Unlock()
		return
	}
	ws.closed = true
	var left []*waiter
	for _, set := range ws.byItem {
		for w := range set {
			left = append(left, w)
		}
	}
	for _, w := range left {
		ws.remove(w)
	}
	ws.mu.Unlock()
	close(ws.stop)
	ws.wg.Wait()
	for {
		select {
		case w := <-ws.done:
			left = append(left, w)
			continue
		default:
		}
		break
	}
	for _, w := range left {
		ws.answer(w, nil, events.ErrShuttingDown)
	}
}

// count returns the number of waits under way.
func (ws *waits) count() int {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return ws.n
}
