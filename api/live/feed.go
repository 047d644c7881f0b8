package live

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/streamwright/streamwright/api/rest"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/nudge"
	"github.com/streamwright/streamwright/wire"
)

const (
	// maxBacklog bounds the frames of events that wait for a slow client. When there
	// are more the oldest is only counted.
	maxBacklog = 8
	// maxFilterTypes bounds the types that one feed names.
	maxFilterTypes = 64
	// stopGrace bounds how long a stop waits for a write under way.
	stopGrace = time.Second
	// retryAfter is the wait suggested to a client for which there is no room.
	retryAfter = 5 * time.Second
)

// client is one feed's mailbox.
type client struct {
	types map[events.Type]bool // nil: all
	key   string               // names the filter
	wake  chan struct{}        // there is something new

	mu     sync.Mutex
	stats  []byte // the newest; nil: none since the last that was taken
	frames []frame
	lost   int    // events of frames that had no room
	expire func() // breaks off a write; nil: the handler has ended
}

// frame is a sample of what has happened, rendered once for all clients with a
// filter.
type frame struct {
	events         json.RawMessage
	shown, skipped int
}

func newFrame(shown []wire.HistoryEvent, skipped int) frame {
	data, err := json.Marshal(shown)
	if err != nil { // an event that can't be shown is not worth the others
		return frame{events: json.RawMessage("[]"), skipped: skipped + len(shown)}
	}
	return frame{events: data, shown: len(shown), skipped: skipped}
}

// count returns the number of events that the frame stands for.
func (f frame) count() int { return f.shown + f.skipped }

func (c *client) putStats(data []byte) {
	c.mu.Lock()
	c.stats = data
	c.mu.Unlock()
	nudge.Send(c.wake)
}

func (c *client) putEvents(f frame) {
	c.mu.Lock()
	if len(c.frames) == maxBacklog {
		c.lost += c.frames[0].count()
		c.frames = append(c.frames[:0], c.frames[1:]...)
	}
	c.frames = append(c.frames, f)
	c.mu.Unlock()
	nudge.Send(c.wake)
}

// end breaks off what the client's handler writes, in a moment.
func (c *client) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.expire != nil {
		c.expire()
	}
}

// next takes out what is to be written, nil for nothing.
func (c *client) next() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.stats != nil:
		data := c.stats
		c.stats = nil
		return data
	case len(c.frames) > 0:
		f := c.frames[0]
		c.frames = append(c.frames[:0], c.frames[1:]...)
		skipped := f.skipped + c.lost
		c.lost = 0
		return fmt.Appendf(nil, "event: events\ndata: {\"events\":%s,\"skipped\":%d}\n\n", f.events, skipped)
	}
	return nil
}

// LiveHandler answers GET /api/v1/live.
func (h *Hub) LiveHandler() http.Handler { return http.HandlerFunc(h.live) }

func (h *Hub) live(w http.ResponseWriter, r *http.Request) {
	types, err := readTypes(r)
	if err == nil {
		err = h.reserve()
	}
	if err != nil {
		rest.WriteProblem(w, err)
		return
	}
	defer h.feeds.Done()
	defer h.clients.Add(-1)
	ctl := http.NewResponseController(w)
	c := &client{types: types, key: filterKey(types), wake: make(chan struct{}, 1)}
	c.expire = func() { _ = ctl.SetWriteDeadline(time.Now().Add(stopGrace)) } // best effort: else the write ends by itself
	defer func() {
		c.mu.Lock()
		c.expire = nil
		c.mu.Unlock()
	}()
	select {
	case h.join <- c:
	case <-h.quit:
		rest.WriteProblem(w, errStopping)
		return
	case <-r.Context().Done():
		return
	}
	defer func() {
		select {
		case h.leave <- c:
		case <-h.quit:
		}
	}()
	if err := h.serve(r.Context(), ctl, w, c); err != nil {
		h.cfg.Logger.Debug("a live feed has ended", "client", r.RemoteAddr, "error", err)
	}
}

// serve writes what is in the mailbox until the client goes, or the hub stops.
func (h *Hub) serve(ctx context.Context, ctl *http.ResponseController, w http.ResponseWriter, c *client) error {
	// The server bounds how long a request may take to come; this one has.
	if err := ctl.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no") // a proxy in between must not hold it back
	if err := h.write(ctl, w, []byte("retry: 2000\n\n")); err != nil {
		return err
	}
	heartbeat := time.NewTicker(h.cfg.pace.heartbeat)
	defer heartbeat.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-h.quit:
			return errStopping
		case <-heartbeat.C:
			if err := h.write(ctl, w, []byte(": still here\n\n")); err != nil {
				return err
			}
		case <-c.wake:
			for data := c.next(); data != nil; data = c.next() {
				if err := h.write(ctl, w, data); err != nil {
					return err
				}
				if ctx.Err() != nil {
					return ctx.Err()
				}
			}
		}
	}
}

// write sends some bytes, which the client has to take in time.
func (h *Hub) write(ctl *http.ResponseController, w http.ResponseWriter, data []byte) error {
	if err := ctl.SetWriteDeadline(time.Now().Add(h.cfg.pace.write)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	select {
	case <-h.quit: // a stop's deadline was just moved
		return errStopping
	default:
	}
	if _, err := w.Write(data); err != nil {
		return err
	}
	return ctl.Flush()
}

// errStopping ends a feed. Its readers are many: they come back later than others.
var errStopping = &events.Error{Code: events.CodeUnavailable, Message: "the engine is shutting down: connect again", RetryAfter: retryAfter}

// reserve makes room for a feed, or fails if there is none.
func (h *Hub) reserve() error {
	h.feedMu.Lock()
	defer h.feedMu.Unlock()
	if h.ended {
		return errStopping
	}
	if h.clients.Load() >= MaxClients {
		return &events.Error{Code: events.CodeUnavailable, RetryAfter: retryAfter,
			Message: fmt.Sprintf("%d live feeds are open, which is as many as there may be: close one, or try again later", MaxClients)}
	}
	h.clients.Add(1)
	h.feeds.Add(1)
	return nil
}

// readTypes reads the filter of a request: types, repeated or with commas; nil
// for all.
func readTypes(r *http.Request) (map[events.Type]bool, error) {
	var types map[events.Type]bool
	for _, list := range r.URL.Query()["types"] {
		for name := range strings.SplitSeq(list, ",") {
			if name = strings.TrimSpace(name); name == "" {
				continue
			}
			t, err := events.ParseType(name)
			if err != nil {
				return nil, events.Refuse(events.CodeBadType, "types: %v", err)
			}
			if types == nil {
				types = map[events.Type]bool{}
			}
			if types[t] = true; len(types) > maxFilterTypes {
				return nil, events.Refuse(events.CodeBadRequest, "types has more than %d types: name fewer, or none for all", maxFilterTypes)
			}
		}
	}
	return types, nil
}

func filterKey(types map[events.Type]bool) string {
	if types == nil {
		return ""
	}
	var b strings.Builder
	for _, t := range sortedTypes(types, nil) {
		b.WriteString(string(t) + ",")
	}
	return b.String()
}

// ask asks the engine for its figures, with the workers if somebody is to see
// them.
func (h *Hub) ask(ctx context.Context, workers bool) (f answer) {
	ctx, cancel := context.WithTimeout(ctx, h.cfg.pace.call)
	defer cancel()
	stats, err := h.cfg.Engine.Call(ctx, wire.APIStats, nil)
	if err == nil {
		err = json.Unmarshal(stats, &f.stats)
	}
	if err != nil || !workers {
		f.err = err
		return f
	}
	list, err := h.cfg.Engine.Call(ctx, wire.APIWorkers, nil)
	var reply struct {
		Workers json.RawMessage `json:"workers"`
	}
	if err == nil {
		err = json.Unmarshal(list, &reply)
	}
	if err != nil {
		f.err = err
		return f
	}
	at, _ := json.Marshal(time.Now().UTC()) // the time of a clock can be written
	f.frame = bytes.Join([][]byte{[]byte("event: stats\ndata: {\"at\":"), at, []byte(`,"stats":`), bytes.TrimSpace(stats),
		[]byte(`,"workers":`), bytes.TrimSpace(reply.Workers), []byte("}\n\n")}, nil)
	return f
}

// maxReads bounds the replies with trends that are made at once.
const maxReads = 16

// TrendsHandler answers GET /api/v1/trends.
func (h *Hub) TrendsHandler() http.Handler { return http.HandlerFunc(h.trends) }

func (h *Hub) trends(w http.ResponseWriter, r *http.Request) {
	defer h.reads.Add(-1)
	if h.reads.Add(1) > maxReads {
		rest.WriteProblem(w, &events.Error{Code: events.CodeUnavailable, RetryAfter: time.Second, Message: fmt.Sprintf("%d requests for trends are under way: try again", maxReads)})
		return
	}
	types, err := readTypes(r)
	minutes := 60
	if m := r.URL.Query().Get("minutes"); m != "" && err == nil {
		if minutes, err = strconv.Atoi(m); err != nil || minutes < 1 || minutes > 60 {
			err = events.Refuse(events.CodeBadRequest, "minutes is %q: it must be 1 to 60", m)
		}
	}
	if err != nil {
		rest.WriteProblem(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if _, err := w.Write(h.ring.render(minutes*int(time.Minute/SampleEvery), types)); err != nil {
		h.cfg.Logger.Debug("trends could not be sent", "error", err)
	}
}
