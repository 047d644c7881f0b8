package rest

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/streamwright/streamwright/eventlog/pages"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Events is the engine's log, to be read live.
type Events interface {
	// Tail gives the events of the log; see [pages.Reader.Tail].
	Tail(ctx context.Context, cfg pages.TailConfig, fn func(events.Event) error) error
	// Of returns a filter for the events of a tenant's items, or of those with a label,
	// name=value; nil if neither is given.
	Of(tenant, label string) (pages.Filter, error)
	// Kept says what the log holds.
	Kept(ctx context.Context) (pages.Kept, error)
}

// maxEventIDs bounds the ids that a feed of events is filtered by.
const maxEventIDs = 100

// eventsQuery is the input of the feed of events.
type eventsQuery struct {
	Type        []string `query:"type,explode" doc:"Only of these types; may be given several times."`
	Kind        []string `query:"kind,explode" doc:"Only of these kinds, such as completed; may be given several times. See docs/reference/EVENTS.md."`
	ID          []string `query:"id,explode" doc:"Only of these items, at most 100; may be given several times."`
	Tenant      string   `query:"tenant" doc:"Only of items of this tenant."`
	Label       string   `query:"label" doc:"Only of items with this label: name=value."`
	Since       string   `query:"since" doc:"Begin with the events from this time on (RFC 3339), or this long ago (as 10m)."`
	FromSeq     string   `query:"from_seq" doc:"Begin with this position."`
	LastEventID string   `header:"Last-Event-ID" doc:"Go on right behind this position; goes before since and from_seq. Browsers send it when they connect again."`
}

// gap says that the log does not hold some positions any more.
type gap struct {
	From events.Seq `json:"from"`
	To   events.Seq `json:"to"`
}

// registerEvents adds the feed of events.
func (s *Server) registerEvents() {
	o := operation{
		id: "events", method: http.MethodGet, path: "/api/v1/events", tag: tagEvents, endpoint: wire.APIEvents, pace: endless, stream: true,
		summary: "The events of the log, live",
		about: "A stream of server-sent events. Each has the event's position as id, its kind as event, and the event as data. They come in the order of the log, each exactly once to one who connects again with Last-Event-ID, as browsers do. " +
			"Without since, from_seq and Last-Event-ID it begins with what comes next.\n\n" +
			"An event gap {from, to} says that retention has cut the positions from to to before they were sent. Comments come while nothing happens. A client that leaves its feed unread for 10 s is disconnected; it loses nothing.",
		reply: typeOf[wire.HistoryEvent](),
	}
	huma.Register(s.api, s.doc.operation(o), func(ctx context.Context, in *eventsQuery) (*streamed, error) {
		f, err := s.newFeed(ctx, in)
		if err != nil {
			return nil, problemOf(err)
		}
		leave, err := s.enterStream()
		if err != nil {
			return nil, problemOf(err)
		}
		return &streamed{func(hc huma.Context) {
			defer leave()
			s.serveStream(hc, "events", f.source)
		}}, nil
	})
}

// serveStream streams until its end.
func (s *Server) serveStream(hc huma.Context, what string, from source) {
	st, err := s.openStream(hc)
	if err == nil {
		err = st.pump(hc.Context(), from)
	}
	// A write that fails ends the request's context as well.
	if stalled := errors.Is(err, os.ErrDeadlineExceeded); stalled || err != nil && hc.Context().Err() == nil {
		s.cfg.Logger.Info("a feed has ended", "feed", what, "client", hc.RemoteAddr(), "error", err)
	}
}

// feed is one client's feed of events.
type feed struct {
	log  Events
	cfg  pages.TailConfig
	ids  map[events.ID]bool // none: all
	from events.Seq         // where it begins; 0: at cfg.Since
	gap  *gap
}

// newFeed reads what a client asks for, and finds out where it begins.
func (s *Server) newFeed(ctx context.Context, in *eventsQuery) (*feed, error) {
	if s.cfg.Events == nil {
		return nil, s.lacks("has no feed of events")
	}
	f := &feed{log: s.cfg.Events}
	if err := f.filter(in); err != nil {
		return nil, err
	}
	var err error
	if f.cfg.Wants, err = f.log.Of(in.Tenant, in.Label); err != nil {
		return nil, err
	}
	resumed, err := f.begin(in)
	if err != nil || !f.cfg.Since.IsZero() {
		return f, err
	}
	ctx, cancel := context.WithTimeout(ctx, RequestTime)
	defer cancel()
	kept, err := f.log.Kept(ctx)
	if err != nil {
		return nil, events.WithCode(events.CodeUnavailable, err)
	}
	if f.from == 0 {
		// A client that has the head of the reply counts on what comes after it,
		// so where the feed begins is settled before.
		f.from = events.SeqOf(kept.Last+1, 0)
		f.cfg.FromSeq = f.from
		return f, nil
	}
	if f.from.Frame() > kept.Last+1 {
		return nil, events.Refuse(events.CodeBadRequest, "position %d is not reached yet: the log ends before %d; if it went further once, the engine has another log now, and you begin anew", f.from, events.SeqOf(kept.Last+1, 0))
	}
	if first := events.SeqOf(kept.First, 0); f.from < first {
		if kept.First > 1 && (resumed || f.from > 1) {
			f.gap = &gap{From: f.from, To: first - 1}
		}
		f.from = first
	}
	f.cfg.FromSeq = f.from
	return f, nil
}

func (f *feed) filter(in *eventsQuery) error {
	for _, text := range in.Type {
		t, err := events.ParseType(text)
		if err != nil {
			return events.Refuse(events.CodeBadType, "%v", err)
		}
		f.cfg.Types = append(f.cfg.Types, t)
	}
	for _, text := range in.Kind {
		k, err := events.ParseKind(text)
		if err != nil {
			return events.Refuse(events.CodeBadRequest, "%v", err)
		}
		f.cfg.Kinds = append(f.cfg.Kinds, k)
	}
	if len(in.ID) > maxEventIDs {
		return events.Refuse(events.CodeTooLarge, "%d ids are given: at most %d are allowed", len(in.ID), maxEventIDs)
	}
	for _, text := range in.ID {
		id, err := events.ParseID(text)
		if err != nil {
			return events.Refuse(events.CodeBadID, "%v", err)
		}
		if f.ids == nil {
			f.ids = map[events.ID]bool{}
		}
		f.ids[id] = true
	}
	if err := f.cfg.Validate(); err != nil {
		return events.Refuse(events.CodeTooLarge, "%v", err)
	}
	return nil
}

// begin reads where to begin: f.from, or f.cfg.Since, or neither for what comes
// next. resumed: the client has had what is before.
func (f *feed) begin(in *eventsQuery) (resumed bool, err error) {
	switch {
	case in.LastEventID != "":
		last, err := strconv.ParseUint(in.LastEventID, 10, 64)
		if err != nil || last+1 == 0 {
			return false, events.Refuse(events.CodeBadRequest, "the header Last-Event-ID must be the id of the last event received, a whole number")
		}
		f.from = events.Seq(last + 1)
		return true, nil
	case in.FromSeq != "" && in.Since != "":
		return false, events.Refuse(events.CodeBadRequest, "both from_seq and since are given: give one of them")
	case in.FromSeq != "":
		seq, err := events.ParseSeq(in.FromSeq)
		if err != nil {
			return false, events.Refuse(events.CodeBadRequest, "from_seq: %v", err)
		}
		f.from = max(seq, 1)
	case in.Since != "":
		if f.cfg.Since, err = moment(in.Since); err != nil {
			return false, err
		}
	}
	return false, nil
}

// moment reads a time or a duration before now.
func moment(text string) (time.Time, error) {
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return time.Now().Add(-ago), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, events.Refuse(events.CodeBadTime, "since must be a time such as 2030-01-31T08:00:00Z, or such as 10m for ten minutes ago")
	}
	return t, nil
}

// errCut ends a feed whose log was cut ahead of it: the client connects again, and
// hears of the gap.
var errCut = errors.New("retention has cut the log ahead of the feed")

// source gives the feed's records.
func (f *feed) source(ctx context.Context, fn func(record) error) error {
	if f.gap != nil {
		if err := fn(record{name: "gap", id: uint64(f.gap.To), data: f.gap}); err != nil {
			return err
		}
	}
	whole := len(f.cfg.Types) == 0 && len(f.cfg.Kinds) == 0 && f.cfg.Wants == nil // nothing is left out
	due := f.from.Frame()
	return f.log.Tail(ctx, f.cfg, func(ev events.Event) error {
		if whole && due > 0 && ev.Seq.Frame() > due {
			if err := f.checkCut(ctx, due); err != nil {
				return err
			}
		}
		due = ev.Seq.Frame() + 1
		if f.ids != nil && !f.ids[ev.ID] {
			return nil
		}
		return fn(record{name: ev.Kind.String(), id: uint64(ev.Seq), data: wire.FromEvent(ev)})
	})
}

// checkCut looks whether frames that the feed has passed over were cut from the log, or
// are foreign.
func (f *feed) checkCut(ctx context.Context, due uint64) error {
	kept, err := f.log.Kept(ctx)
	if err == nil && kept.First > due {
		err = errCut
	}
	return err
}
