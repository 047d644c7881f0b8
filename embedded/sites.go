package embedded

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/api"
	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/embedded/logmirror"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

const (
	// siteLookEvery is the time between two looks at the sites' streams.
	siteLookEvery = 2 * time.Second
	// siteLookTimeout bounds a look at one of them.
	siteLookTimeout = 5 * time.Second
	// siteKeep is how long a site keeps what is decided: until the events are surely on disk
	// (two minutes on an existing NATS), and as long as the site's server has to recognise a
	// message id that comes again.
	siteKeep = 3 * time.Minute
)

// sites looks after the streams of the sites at the edge: it has them drop what the log
// has answered for siteKeep, and knows who is connected. It answers the mirrors of its
// namespace.
type sites struct {
	*base
	ledger *ledger
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu  sync.Mutex
	all []site // guarded by mu; those of the namespace, as configured

	mirrors []*logmirror.Hub // those of the sites that mirror the log
}

// site is what is known of one site.
type site struct {
	state wire.SiteState
	// answered is the position at since, which the site may forget siteKeep later.
	answered uint64
	since    time.Time
	behind   bool // its stream ends before what is answered, and that has been logged
}

// start begins to look after the sites, if there are any.
func (s *sites) start(service *api.Service) {
	all := s.cfg.Leaf.In(s.namespaceName())
	ctx, cancel := context.WithCancel(context.Background())
	s.mu.Lock()
	s.cancel, s.all = cancel, make([]site, len(all))
	for i := range all {
		s.all[i].state = wire.SiteState{Site: all[i].Name, Mirror: all[i].Mirror}
	}
	s.mu.Unlock()
	for i := range all {
		if all[i].Mirror {
			s.serveMirror(i, service)
		} else {
			s.wg.Go(func() { s.watch(ctx, i) })
		}
	}
}

// serveMirror answers a site that mirrors the log.
func (s *sites) serveMirror(i int, service *api.Service) {
	h, err := logmirror.Serve(logmirror.HubConfig{
		Conn: s.nc, Names: s.names(), Site: s.all[i].state.Site, Owns: s.ledger.lease.owns.Load, Log: s.ledger.eventLog, Call: service.Call, Logger: s.log,
		Heard: func(at, end events.Seq) {
			s.mu.Lock()
			defer s.mu.Unlock()
			st := &s.all[i].state
			st.HeardAt, st.Decided, st.Waiting = time.Now().UTC(), uint64(at), uint64(end-min(end, at))
		},
	})
	if err != nil { // the connection is closed
		s.log.Error("a mirror can't ask", "error", err)
		return
	}
	s.mirrors = append(s.mirrors, h)
}

func (s *sites) stop() {
	s.cancel()
	for _, m := range s.mirrors {
		m.Stop()
	}
	s.wg.Wait()
}

// states returns what is known of the sites, as configured; nil without any.
func (s *sites) states() []wire.SiteState {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) == 0 {
		return nil
	}
	list := make([]wire.SiteState, len(s.all))
	for i := range s.all {
		list[i] = s.all[i].state
		if at := &list[i]; at.Mirror {
			at.Connected = time.Since(at.HeardAt) < logmirror.Silent
		}
	}
	return slices.Clip(list)
}

func (s *sites) watch(ctx context.Context, i int) {
	tick := time.NewTicker(siteLookEvery)
	defer tick.Stop()
	for {
		if err := s.look(ctx, i, time.Now()); err != nil && ctx.Err() == nil {
			s.log.Debug("a site can't be looked at", "site", s.all[i].state.Site, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look asks a site for its stream, and has it drop what it need not keep.
func (s *sites) look(ctx context.Context, i int, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, siteLookTimeout)
	defer cancel()
	meta, err := s.ledger.store.Meta()
	if err != nil {
		return err
	}
	name := s.all[i].state.Site
	answered := meta.SiteSeq(name)
	n := s.names().Site(name)
	js, err := connect.JetStream(s.nc, n)
	if err != nil {
		return err
	}
	stream, err := js.Stream(ctx, n.SiteStream(name))
	drop := s.note(i, answered, stream, err, now)
	if err != nil || drop == 0 {
		return err
	}
	if err := stream.Purge(ctx, jetstream.WithPurgeSequence(drop+1)); err != nil {
		return fmt.Errorf("have the site drop what is decided, up to message %d: %w", drop, err)
	}
	return nil
}

// note records a look at a site, and returns the message up to which it may drop its
// stream; 0: nothing.
func (s *sites) note(i int, answered uint64, stream jetstream.Stream, failed error, now time.Time) (drop uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := &s.all[i]
	at.state.Connected, at.state.Decided = failed == nil, answered
	if failed != nil {
		return 0
	}
	st := stream.CachedInfo().State
	at.state.HeardAt = now.UTC()
	gone := st.FirstSeq - min(st.FirstSeq, 1) // the last message that the site has dropped
	at.state.Waiting = st.LastSeq - min(st.LastSeq, max(answered, gone))
	if behind := st.LastSeq < answered; behind != at.behind {
		at.behind = behind
		if behind {
			s.log.Error("a site's stream ends before what the log has answered of it: it was made anew while the site's clock was wrong, and what is published there is not taken in until it has passed that message",
				"site", at.state.Site, "ends", st.LastSeq, "answered", answered)
		}
	}
	if at.since.IsZero() {
		at.answered, at.since = answered, now
	}
	if now.Sub(at.since) < siteKeep {
		return 0
	}
	if at.answered > gone {
		drop = at.answered
	}
	at.answered, at.since = answered, now
	return drop
}
