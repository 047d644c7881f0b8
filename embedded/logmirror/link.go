package logmirror

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/dispatcher"
	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/internal/sleep"
	"github.com/streamwright/streamwright/wire"
)

const (
	// mirrorLook is the time between two questions to the hub how its log is. Queries
	// share them.
	mirrorLook = time.Second
	// mirrorAsks bounds a question to the hub.
	mirrorAsks = 10 * time.Second
	// feedWithin is how long the NATS server's question for a consumer is held while there
	// is none: less than the 30 s for which it waits.
	feedWithin = 18 * time.Second
)

// LinkConfig says what a Link joins. All fields but Cut must be set.
type LinkConfig struct {
	Conn     *nats.Conn // to the mirror's own NATS server
	Names    wire.Names
	Site     string
	Hub      string              // where it is, for people
	Dir      string              // the data folder, for people
	Log      *eventlog.JetStream // the copy
	Position func() events.Seq   // of the last event that was read of it
	Why      func(error) string  // why the hub does not answer
	Answered func()              // the hub has answered
	// Cut, if set, has the copy begin where the hub's log does, at a frame. It is called now
	// and then while the two are one log. Without it the copy keeps what the hub cuts.
	Cut func(ctx context.Context, first uint64) error
	// LogsAnew has the copy of the items' logs made anew.
	LogsAnew func(context.Context) error
	Logger   *slog.Logger
}

// Link is what a mirror knows of its hub.
type Link struct {
	LinkConfig
	cancel  context.CancelFunc
	ctx     context.Context // ends with Stop
	watcher sync.WaitGroup
	wg      sync.WaitGroup
	looking sync.Mutex // held while the hub is asked how its log is; guards looked
	looked  time.Time

	mu       sync.Mutex // guards what follows
	end      eventlog.End
	heard    time.Time // when the hub last said how its log is
	lost     error     // why it did not when last asked; nil: it did
	differs  error     // why its log can't be followed; nil: it can
	followed time.Time // the identity of the log that is followed
	cut      time.Time // when the hub was found to be silent; zero: it is not
}

// NewLink makes a Link, which asks the hub nothing by itself until Start.
func NewLink(c LinkConfig) *Link {
	l := &Link{LinkConfig: c}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// Start begins to ask the hub how its log is, now and then.
func (l *Link) Start() {
	l.watcher.Go(func() {
		for l.ctx.Err() == nil {
			_, _ = l.Look(true) // a failure is noted
			_ = sleep.For(l.ctx, mirrorLook)
		}
	})
}

// Stop ends all questions to the hub.
func (l *Link) Stop() {
	l.cancel()
	l.watcher.Wait()
}

// Wait returns once what was under way at Stop has ended. REQUIRES: Feed is called no more.
func (l *Link) Wait() { l.wg.Wait() }

// Refusal is the answer to what decides.
func (l *Link) Refusal() *events.Error {
	return events.Refuse(events.CodeForbidden, "this is a mirror (the site %s), which decides nothing: ask the hub, %s", l.Site, l.Hub)
}

// Copies returns the identity of the log that is copied; zero: none yet.
func (l *Link) Copies() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.followed
}

// Ask asks the hub for the owner's answer to a request that changes nothing.
func (l *Link) Ask(endpoint string, body []byte) ([]byte, error) {
	a, err := l.ask(&mirrorAsk{Endpoint: endpoint, Body: body})
	return a.Reply, err
}

// Respond sends a reply.
func Respond(msg *nats.Msg, reply any) {
	if data, err := json.Marshal(reply); err == nil && msg.Reply != "" {
		_ = msg.Respond(data) // who has gone needs no answer
	}
}

// ask asks the hub.
func (l *Link) ask(q *mirrorAsk) (mirrorAnswer, error) {
	var a mirrorAnswer
	q.At = uint64(l.Position())
	data, err := json.Marshal(q)
	if err != nil {
		return a, err
	}
	ctx, cancel := context.WithTimeout(l.ctx, mirrorAsks)
	defer cancel()
	r, err := l.Conn.RequestWithContext(ctx, l.Names.MirrorAsk(l.Site), data)
	if err == nil {
		err = json.Unmarshal(r.Data, &a)
	}
	if err == nil {
		return a, a.Error.Err()
	}
	return a, events.Refuse(events.CodeUnavailable, "the mirror %s is cut off from its hub, %s (%s), and this only the hub knows: ask again later, or the hub", l.Site, l.Hub, l.Why(err))
}

// Look asks the hub how its log is, unless that has just been done, and drops what the hub
// has dropped.
func (l *Link) Look(now bool) (eventlog.End, error) {
	l.looking.Lock()
	defer l.looking.Unlock()
	l.mu.Lock()
	end, err := l.end, cmp.Or(l.differs, l.lost)
	l.mu.Unlock()
	if !now && time.Since(l.looked) < mirrorLook {
		return end, err
	}
	a, err := l.ask(&mirrorAsk{})
	l.looked = time.Now()
	l.mu.Lock()
	if l.lost = err; err == nil {
		l.heard, l.cut = l.looked, time.Time{}
		l.end = eventlog.End{Tip: eventlog.Tip{Seq: a.Last, First: a.First, Time: a.Time, Created: a.Created}, Last: a.End}
		l.Answered()
	} else if l.cut.IsZero() {
		l.cut = l.looked
	}
	end, follows := l.end, l.differs == nil && l.followed.Equal(a.Created)
	err = cmp.Or(l.differs, l.lost)
	l.mu.Unlock()
	if err == nil && follows && l.Cut != nil {
		ctx, cancel := context.WithTimeout(l.ctx, mirrorAsks)
		defer cancel()
		err = l.Cut(ctx, end.First)
	}
	return end, err
}

// Feed answers the NATS server, which asks for a consumer of the hub's stream, as soon as
// there is one. If that takes too long it is told of one that sends nothing: the server asks
// again after ten seconds without a word, while after a refusal it would wait up to two
// minutes.
func (l *Link) Feed(msg *nats.Msg) {
	stream := msg.Subject[strings.LastIndexByte(msg.Subject, '.')+1:]
	info, err := l.openFeed(stream, msg.Data)
	for begun := time.Now(); err != nil && time.Since(begun) < feedWithin; info, err = l.openFeed(stream, msg.Data) {
		if sleep.For(l.ctx, mirrorLook) != nil {
			break // the server that stops must have an answer too, or it would wait for one
		}
	}
	if err != nil {
		l.Logger.Debug("the hub sends nothing", "stream", stream, "error", err)
		info = &jetstream.ConsumerInfo{Stream: stream, Name: "none", Config: jetstream.ConsumerConfig{DeliverSubject: l.Names.MirrorOrigin() + ".none"}}
	}
	Respond(msg, struct {
		Type string `json:"type"`
		*jetstream.ConsumerInfo
	}{"io.nats.jetstream.api.v1.consumer_create_response", info})
}

func (l *Link) openFeed(stream string, request []byte) (*jetstream.ConsumerInfo, error) {
	var req struct {
		Config struct {
			From uint64 `json:"opt_start_seq"`
		} `json:"config"`
	}
	if err := json.Unmarshal(request, &req); err != nil {
		return nil, err
	}
	q := &mirrorAsk{Stream: stream, From: max(req.Config.From, 1)}
	isLog := stream == l.Names.EventStream(0)
	if isLog && q.From > 1 {
		ctx, cancel := context.WithTimeout(l.ctx, mirrorAsks)
		defer cancel()
		sum, err := l.Log.Checksum(ctx, q.From-1)
		if err != nil && !errors.Is(err, eventlog.ErrTrimmed) {
			return nil, err
		}
		q.Checksum = sum
	}
	a, err := l.ask(q)
	switch {
	case err != nil:
		return nil, err
	case a.Differs && !isLog && l.Cut == nil:
		// The hub has lost its last records, or does not tell of them yet: what is kept here is not
		// given up for that.
		return nil, errors.New("the hub has fewer records of items' logs than were copied: going on when it has more")
	case a.Differs && !isLog:
		l.wg.Go(func() {
			if err := l.LogsAnew(l.ctx); err != nil {
				l.Logger.Warn("the items' logs can't be copied anew", "error", err)
			}
		})
		return nil, errors.New("the hub's logs of items were made anew")
	case a.Differs:
		return nil, l.note(l.differ(q.From-1, &a), time.Time{})
	case a.Consumer == nil:
		return nil, errors.New("the hub has made no consumer")
	case isLog:
		_ = l.note(nil, a.Created)
	}
	return a.Consumer, nil
}

// differ explains that the hub's log is not the one that is copied.
func (l *Link) differ(last uint64, a *mirrorAnswer) error {
	cause := "the hub was restored to an earlier position, or lost its end"
	if ns := l.Names.InNamespace(); ns != events.DefaultNamespace {
		cause += fmt.Sprintf(", or the namespace %s was removed there and added again", ns)
	}
	what := fmt.Sprintf("the hub's log ends with frame %d, and this mirror has frame %d", a.Last, last)
	if a.Last >= last {
		what = fmt.Sprintf("frame %d of the hub's log is not the one that this mirror has", last)
	}
	if l.Cut == nil {
		return events.WithCode(events.CodeLogLost, fmt.Errorf("%s: %s: this mirror copies nothing more. If the hub's log is right, keep %s as the archive of what was, and start another mirror in a folder of its own", what, cause, l.Dir))
	}
	return events.WithCode(events.CodeLogLost, fmt.Errorf("%s: %s: this mirror copies nothing more. If the hub's log is right, stop the mirror, remove %s and start it again: it copies the log anew. If it is not, keep the folder", what, cause, l.Dir))
}

// note records whether the hub's log can be followed, and returns why not.
func (l *Link) note(differs error, followed time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if differs != nil && (l.differs == nil || l.differs.Error() != differs.Error()) {
		l.Logger.Error("the mirror does not follow its hub", "error", differs)
	}
	l.differs, l.followed = differs, followed
	return differs
}

// Log is the copy of the log, as it is followed.
type Log struct {
	*eventlog.JetStream
	Link *Link
}

// Follow implements [eventlog.Log]. The copy has a hole where the hub dropped what had not
// been copied: what is in front of it goes, and the rest stands alone.
func (l Log) Follow(ctx context.Context, from uint64, fn func(eventlog.Frame) error) error {
	err := l.JetStream.Follow(ctx, from, fn)
	if !errors.Is(err, events.ErrCorrupt) || ctx.Err() != nil {
		return err
	}
	before, lerr := l.Last(ctx)
	if lerr != nil {
		return lerr
	}
	if _, lerr := l.Link.Look(true); lerr != nil {
		return fmt.Errorf("the copy of the log may have a hole, and the hub can't be asked: %w (%v)", lerr, err)
	}
	if now, lerr := l.Last(ctx); lerr != nil || now.First > before.First {
		return cmp.Or(lerr, error(&eventlog.TrimmedError{Asked: from, First: now.First}))
	}
	return err
}

// Core is the dispatcher of a mirror, as the API sees it.
type Core struct {
	*dispatcher.Dispatcher
	Link *Link
}

// StandsBy says how well the hub is followed.
func (c Core) StandsBy() (dispatcher.Standing, bool) {
	st, on := c.Dispatcher.StandsBy()
	l := c.Link
	l.mu.Lock()
	defer l.mu.Unlock()
	st.Owner, st.Heard = l.Hub, l.heard
	switch {
	case l.differs != nil:
		st.Fault = l.differs
	case !l.cut.IsZero() && time.Since(l.heard) > Silent:
		st.Fault = fmt.Errorf("cut off from the hub since %s: %s", l.cut.UTC().Format(time.RFC3339), l.Why(l.lost))
	}
	return st, on
}

// Position returns the end of the hub's log as it was last heard.
func (c Core) Position() events.Seq {
	c.Link.mu.Lock()
	defer c.Link.mu.Unlock()
	return max(c.Dispatcher.Position(), c.Link.end.Last)
}

// Events returns the number of events in it.
func (c Core) Events() uint64 {
	c.Link.mu.Lock()
	defer c.Link.mu.Unlock()
	return max(c.Dispatcher.Events(), c.Link.end.Events)
}

// End returns the end of the hub's log, a second old at most.
func (c Core) End(context.Context) (events.Seq, error) {
	end, err := c.Link.Look(false)
	return end.Last, err
}

// Loads returns none: no work is dispatched here.
func (c Core) Loads(context.Context) (map[events.Type]dispatcher.Load, error) { return nil, nil }

// Do refuses commands.
func (c Core) Do(context.Context, []core.Command, func([]dispatcher.Outcome)) error {
	return c.Link.Refusal()
}

// State says how a mirror is.
type State struct {
	Site      string        `json:"site"`
	Hub       string        `json:"hub"`
	CutOff    string        `json:"cut_off,omitempty"` // why it does not follow its hub; empty: it does
	Position  wire.Position `json:"position"`          // of the hub's log, as last heard
	Projected wire.Position `json:"projected"`         // what queries show
	HeardAt   time.Time     `json:"heard_at,omitzero"` // when the hub last said its position
}

// State says how the mirror is whose store is at a position.
func (c Core) State(applied events.Seq) State {
	standing, _ := c.StandsBy()
	st := State{Site: c.Link.Site, Hub: c.Link.Hub, Position: wire.PositionOf(c.Position()), Projected: wire.PositionOf(applied), HeardAt: standing.Heard.UTC()}
	switch {
	case standing.Fault != nil:
		st.CutOff = standing.Fault.Error()
	case standing.Heard.IsZero():
		st.CutOff = "the hub has not answered yet"
	case c.Link.Copies().IsZero():
		st.CutOff = "the hub has not begun to send its log yet"
	}
	return st
}
