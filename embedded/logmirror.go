package embedded

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/api"
	"github.com/streamwright/streamwright/api/live"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/dispatcher"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/events/eventlog"
	"github.com/streamwright/streamwright/internal/sleep"
	"github.com/streamwright/streamwright/projector"
	"github.com/streamwright/streamwright/projector/query"
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

// MirrorOptions say how to mirror a log.
type MirrorOptions struct {
	Site      string // its name, as the hub's [[leaf.sites]] has it
	Hub       string // where the hub takes leaf connections, such as nats-leaf://hub.example:7422
	Token     string // the site's; empty: the hub asks for none
	CA        string // PEM file of the CAs that the hub's certificate is checked against; empty: the system's
	Cert, Key string // PEM files of the site's own certificate, if the hub asks for one
	// Options configure the rest, as of an engine: the data folder, what listens, and who
	// may use it.
	Options Options
}

// check reports all that is wrong with the options, joined.
func (o *MirrorOptions) check(c *config.Config) error {
	errs := []error{config.CheckSiteName(o.Site), c.Validate()}
	refuse := func(wrong bool, text string) {
		if wrong {
			errs = append(errs, errors.New(text))
		}
	}
	refuse((o.Cert == "") != (o.Key == ""), "a certificate and its key belong together: give both or none")
	refuse(c.External(), "a mirror has a NATS server of its own: leave nats_url out")
	refuse(c.Cluster.On(), "a mirror is no node of a cluster: leave [cluster] out")
	refuse(c.Leaf.Listen != config.Off || len(c.Leaf.Sites) > 0, "a mirror has no sites: leave [leaf] out")
	refuse(o.Options.Memory || c.Server.Dir == "", "a mirror needs a data folder")
	return errors.Join(errs...)
}

// Mirror is a copy of the log of another engine, its hub, in this process, with all that
// reads it. It decides nothing, and is never the owner of the log: what decides is refused,
// with the name of the hub. Cut off from the hub it answers as of the last event that it
// has.
//
// The NATS server copies the hub's event stream, and the items' logs, over a leaf
// connection. Before it does, the hub compares the copy's last event with its own log.
type Mirror struct {
	e    *Engine
	o    MirrorOptions
	link *hubLink
	log  *mirroredLog

	cancel  context.CancelFunc
	ctx     context.Context // ends with Stop
	ready   chan struct{}   // closed when the hub may be asked
	watcher sync.WaitGroup
	wg      sync.WaitGroup // of answers under way
	looking sync.Mutex     // held while the hub is asked how its log is; guards looked
	looked  time.Time

	mu       sync.Mutex // guards what follows
	tip      eventlog.Tip
	heard    time.Time // when the hub last said how its log is
	lost     error     // why it did not when last asked; nil: it did
	differs  error     // why its log can't be followed; nil: it can
	followed time.Time // the identity of the log that is followed
	cut      time.Time // when the hub was found to be silent; zero: it is not
}

// hubLink is the leaf connection to the hub.
type hubLink struct {
	site    string
	remote  *natsserver.RemoteLeafOpts
	refused atomic.Pointer[string] // nil: nothing is known
}

func (l *hubLink) configure(opts *natsserver.Options, account string) {
	l.remote.LocalAccount = account
	opts.ServerName, opts.JetStreamDomain = "streamwright-mirror-"+l.site, l.site
	opts.LeafNode.Remotes, opts.LeafNode.ReconnectInterval = []*natsserver.RemoteLeafOpts{l.remote}, edgeRetry
	opts.PingInterval, opts.MaxPingsOut = edgePing, edgePings
}

// noted keeps an error of the server that says why the link is refused. It reports whether
// it was the last one too.
func (l *hubLink) noted(text string) bool {
	if l == nil {
		return false
	}
	why := linkRefusal(text)
	if why == "" {
		return false
	}
	before := l.refused.Swap(&why)
	return before != nil && *before == why
}

// StartMirror starts a mirror. It returns once queries are answered, whether or not the hub
// can be reached.
func StartMirror(ctx context.Context, o MirrorOptions) (*Mirror, error) {
	o.Options.Dir = cmp.Or(o.Options.Dir, o.Options.Config.Server.Dir, "mirror")
	o.Options.NATSListen = cmp.Or(o.Options.NATSListen, o.Options.Config.Server.NATSListen, "127.0.0.1:4224")
	o.Options.HTTP = cmp.Or(o.Options.HTTP, o.Options.Config.Server.HTTP, "127.0.0.1:8485")
	m := &Mirror{e: newEngine(o.Options), o: o, ready: make(chan struct{})}
	m.ctx, m.cancel = context.WithCancel(context.WithoutCancel(ctx))
	e := m.e
	e.given = e.cfg
	for _, step := range []func() error{func() error { return o.check(&e.cfg) }, e.openAccess, m.prepareLink} {
		if err := step(); err != nil {
			return nil, events.WithCode(events.CodeBadConfig, err)
		}
	}
	for _, step := range []func(context.Context) error{e.openDir, m.startServer, e.openStore, m.openLog, m.matchStore, m.startFollowing, m.serve} {
		if err := step(ctx); err != nil {
			undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
			defer cancel()
			return nil, errors.Join(err, m.Stop(undo))
		}
	}
	return m, nil
}

// hub names the hub for people.
func (m *Mirror) hub() string {
	u := *m.link.remote.URLs[0]
	u.User = nil
	return u.String()
}

func (m *Mirror) prepareLink() error {
	r, err := leafRemote(m.o.Hub, m.o.Site, m.o.Token, m.o.CA, m.o.Cert, m.o.Key)
	m.link = &hubLink{site: m.o.Site, remote: r}
	return err
}

func (m *Mirror) startServer(context.Context) (err error) {
	if err := m.e.dir.markMirror(m.o.Site); err != nil {
		return err
	}
	so := m.e.serverOptions()
	so.Hub = m.link
	if m.e.srv, err = startServer(so); err != nil {
		return err
	}
	m.e.copies.replicas = 1
	if m.e.nc, err = m.e.connect(true, nats.Name("streamwright mirror"), nats.MaxReconnects(-1)); err != nil {
		return err
	}
	_, err = m.e.nc.Subscribe(m.e.names().MirrorOrigin()+".CONSUMER.CREATE.*", func(msg *nats.Msg) {
		m.wg.Go(func() { m.feed(msg) })
	})
	return err
}

// origin says where the copies come from: this process answers for the hub.
func (m *Mirror) origin() eventlog.Origin {
	return eventlog.Origin{API: m.e.names().MirrorOrigin(), Deliver: m.e.names().MirrorFeed(m.o.Site)}
}

func (m *Mirror) openLog(ctx context.Context) error {
	c := m.e.logConfig()
	c.Existing = false
	l, err := eventlog.OpenMirror(ctx, c, m.origin())
	if err != nil {
		return err
	}
	m.log = &mirroredLog{l, m}
	m.e.eventLog = m.log
	return m.copyLogs(ctx, false)
}

// copyLogs makes the copy of the items' logs, if need be anew.
func (m *Mirror) copyLogs(ctx context.Context, anew bool) error {
	js, err := connect.JetStream(m.e.nc, m.e.names())
	if err != nil {
		return err
	}
	l, of := m.e.cfg.Limits, m.origin()
	c := jetstream.StreamConfig{
		Name: m.e.names().LogStream(), Description: "A mirror of the log records of items.", MaxMsgsPerSubject: api.MaxLogRecords, AllowDirect: true, Replicas: 1,
		MaxAge: cmp.Or(l.LogMaxAge, api.DefaultLogMaxAge), MaxBytes: cmp.Or(l.LogMaxBytes, api.DefaultLogMaxBytes), Discard: jetstream.DiscardOld,
		Mirror: &jetstream.StreamSource{Name: m.e.names().LogStream(), External: &jetstream.ExternalStream{APIPrefix: of.API, DeliverPrefix: of.Deliver}},
	}
	if anew {
		err = js.DeleteStream(ctx, c.Name)
	}
	if err == nil {
		_, err = js.CreateOrUpdateStream(ctx, c)
	}
	if err != nil {
		return fmt.Errorf("copy the items' logs: %w", err)
	}
	return nil
}

// matchStore makes sure that the store is that of the copy. It is made anew if it is not:
// the copy is what the hub has.
func (m *Mirror) matchStore(ctx context.Context) error {
	tip, err := m.log.Last(ctx)
	if err != nil {
		return err
	}
	e := m.e
	e.metrics.CountFrom(tip.Seq)
	why := e.unread
	if why == nil {
		why = e.store.CheckLog(ctx, tip.Identity(), m.log)
	}
	switch {
	case why == nil, e.unread == nil && errors.Is(why, eventlog.ErrTrimmed):
	case e.unread == nil && !errors.Is(why, projector.ErrDiverged):
		return why // the copy's own error
	default:
		if err := e.renewStore(why); err != nil {
			return err
		}
	}
	return e.store.SetIdentity(tip.Identity())
}

// hubLease is never this process's.
type hubLease struct{ hub string }

// Take implements [dispatcher.Lease].
func (l hubLease) Take(context.Context) (by string, err error) { return l.hub, nil }

// Changed implements [dispatcher.Lease].
func (hubLease) Changed() <-chan struct{} { return nil }

// startFollowing has a standby's follower project the copy.
func (m *Mirror) startFollowing(ctx context.Context) (err error) {
	e := m.e
	e.items = newItemLog(e.log)
	e.openQuotas()
	c := dispatcher.Config{
		Log: m.log, Store: e.store, Conn: e.nc, Names: e.names(), Owner: e.nodeName(), Version: Version,
		Lease: hubLease{m.hub()}, Defaults: e.cfg.TypeDefaults(), Limits: e.cfg.EngineLimits(), Logger: e.log,
		Hooks: e.metrics.Hook(dispatcher.Hooks{
			Projected: func(c *core.Changes) {
				e.service.Notify(c.Items)
				e.service.LogGrew()
				if e.live != nil {
					e.live.Projected(c)
				}
			},
			StandingBy: func(string) {
				if e.live != nil {
					e.live.Touch()
				}
			},
		}),
	}
	if e.dispatcher, err = dispatcher.New(c); err != nil {
		return err
	}
	e.watchSpace()
	if err := m.newFaces(); err != nil {
		return err
	}
	close(m.ready)
	m.watcher.Go(m.watch)
	return e.dispatcher.Start(ctx)
}

// watch asks the hub how its log is, now and then.
func (m *Mirror) watch() {
	for m.ctx.Err() == nil {
		m.look(true)
		_ = sleep.For(m.ctx, mirrorLook)
	}
}

// newFaces makes the API.
func (m *Mirror) newFaces() error {
	e := m.e
	logs, err := api.MirroredLogs(e.nc, e.names())
	if err != nil {
		return err
	}
	defaults := e.cfg.TypeDefaults()
	e.service, err = api.New(api.Config{
		Conn: e.nc, Names: e.names(), Core: mirrorCore{e.dispatcher, m}, Queries: queries{e.store, query.Of(e.store)}, Prover: prover{e}, Logs: logs, Metrics: e.metrics, Logger: e.log,
		Mirror: answeredHere, Written: e.dispatcher.Position, TypeDefaults: &defaults, RefuseStale: e.cfg.Cluster.StaleReads == config.RefuseStale,
		Quotas: e.quotas, Accounts: e.srv.hasAccounts, KnownUser: e.srv.userOf, UserRoles: e.userRoles.of,
		Full: e.space.full.Load, Storage: e.space.use,
		Info: wire.InfoReply{Version: Version, Owner: m.hub(), Node: m.o.Site, Durability: string(e.cfg.Server.Durability), DataDir: e.Dir(), NATS: publicURL(e.URL()), Prefix: e.names().Prefix},
	})
	if err == nil && e.cfg.Server.HTTP != config.Off {
		e.live, err = live.New(live.Config{Engine: e.service, Totals: e.service.Totals, Logger: e.log.With("part", "live")})
	}
	return err
}

// answeredHere reports whether a mirror answers an endpoint of the owner by its projection.
// Who works is not in that: stats have no workers.
func answeredHere(endpoint string) bool {
	return endpoint == wire.APIStats || endpoint == wire.APITypes
}

// serve begins to answer.
func (m *Mirror) serve(context.Context) error {
	e := m.e
	for _, end := range wire.Endpoints() {
		if !end.OwnerOnly() || answeredHere(end.Name) {
			continue
		}
		for _, subject := range []string{e.names().API(end.Name), e.names().Forward(end.Name)} {
			if _, err := e.nc.Subscribe(subject, func(msg *nats.Msg) { m.pass(&end, msg) }); err != nil {
				return err
			}
		}
	}
	if _, err := e.nc.Subscribe(e.names().SubmitAll(), m.refusePublish); err != nil {
		return err
	}
	if e.cfg.Server.HTTP != config.Off {
		if err := e.serveHTTP(); err != nil {
			return err
		}
	}
	return e.service.Start()
}

// refusal is the answer to what decides.
func (m *Mirror) refusal() *events.Error {
	return events.Refuse(events.CodeForbidden, "this is a mirror (the site %s), which decides nothing: ask the hub, %s", m.o.Site, m.hub())
}

// pass answers what only the owner can: it asks the hub for what changes nothing, and
// refuses the rest.
func (m *Mirror) pass(end *wire.Endpoint, msg *nats.Msg) {
	if !end.ReadOnly {
		m.respond(msg, wire.ErrorReply{Error: wire.FromError(m.refusal())})
		return
	}
	m.wg.Go(func() { // the hub bounds how many are under way, and mirrorAsks for how long
		a, err := m.ask(&mirrorAsk{Endpoint: end.Name, Body: msg.Data})
		if err != nil {
			m.respond(msg, wire.ErrorReply{Error: wire.FromError(err)})
			return
		}
		_ = msg.Respond(a.Reply) // who has gone needs no answer
	})
}

// refusePublish answers a plain publish of a submission as JetStream refuses one.
func (m *Mirror) refusePublish(msg *nats.Msg) {
	why := jetstream.APIError{Code: 403, ErrorCode: 1, Description: m.refusal().Message}
	m.respond(msg, map[string]any{"error": why})
}

func (m *Mirror) respond(msg *nats.Msg, reply any) {
	if data, err := json.Marshal(reply); err == nil && msg.Reply != "" {
		_ = msg.Respond(data) // who has gone needs no answer
	}
}

// ask asks the hub.
func (m *Mirror) ask(q *mirrorAsk) (mirrorAnswer, error) {
	var a mirrorAnswer
	q.At = uint64(m.e.dispatcher.Position())
	data, err := json.Marshal(q)
	if err != nil {
		return a, err
	}
	ctx, cancel := context.WithTimeout(m.ctx, mirrorAsks)
	defer cancel()
	r, err := m.e.nc.RequestWithContext(ctx, m.e.names().MirrorAsk(m.o.Site), data)
	if err == nil {
		err = json.Unmarshal(r.Data, &a)
	}
	if err == nil {
		return a, a.Error.Err()
	}
	return a, events.Refuse(events.CodeUnavailable, "the mirror %s is cut off from its hub, %s (%s), and this only the hub knows: ask again later, or the hub", m.o.Site, m.hub(), m.why(err))
}

// why says why the hub does not answer.
func (m *Mirror) why(err error) string {
	switch refused := m.link.refused.Load(); {
	case m.e.srv.ns().NumLeafNodes() > 0 && errors.Is(err, nats.ErrNoResponders):
		return "the link is up and no engine answers: see that the hub names this site in [[leaf.sites]], with mirror = true"
	case m.e.srv.ns().NumLeafNodes() > 0:
		return "the link is up and the owner of the log does not answer"
	case refused != nil:
		return *refused
	}
	return "the link is down"
}

// look asks the hub how its log is, unless that has just been done, and drops what the hub
// has dropped.
func (m *Mirror) look(now bool) (eventlog.Tip, error) {
	m.looking.Lock()
	defer m.looking.Unlock()
	m.mu.Lock()
	tip, err := m.tip, cmp.Or(m.differs, m.lost)
	m.mu.Unlock()
	if !now && time.Since(m.looked) < mirrorLook {
		return tip, err
	}
	a, err := m.ask(&mirrorAsk{})
	m.looked = time.Now()
	m.mu.Lock()
	if m.lost = err; err == nil {
		m.heard, m.cut = m.looked, time.Time{}
		m.tip = eventlog.Tip{Seq: events.Seq(a.Last), First: events.Seq(a.First), Time: a.Time, Created: a.Created}
		m.link.refused.Store(nil)
	} else if m.cut.IsZero() {
		m.cut = m.looked
	}
	tip, follows := m.tip, m.differs == nil && m.followed.Equal(a.Created)
	err = cmp.Or(m.differs, m.lost)
	m.mu.Unlock()
	if err == nil && follows {
		err = m.trim(tip.First)
	}
	return tip, err
}

// trim drops what the hub has dropped of its log.
func (m *Mirror) trim(first events.Seq) error {
	ctx, cancel := context.WithTimeout(m.ctx, mirrorAsks)
	defer cancel()
	tip, err := m.log.Last(ctx)
	if err != nil || tip.First >= first {
		return err
	}
	if err := m.e.store.Flush(); err != nil { // else a crash would have it made anew
		return err
	}
	m.e.log.Info("the mirror drops what its hub has dropped", "below", first)
	return m.log.Trim(ctx, first)
}

// feed answers the NATS server, which asks for a consumer of the hub's stream, as soon as
// there is one. If that takes too long it is told of one that sends nothing: the server asks
// again after ten seconds without a word, while after a refusal it would wait up to two
// minutes.
func (m *Mirror) feed(msg *nats.Msg) {
	select {
	case <-m.ready:
	case <-m.ctx.Done():
		return
	}
	stream := msg.Subject[strings.LastIndexByte(msg.Subject, '.')+1:]
	info, err := m.openFeed(stream, msg.Data)
	for begun := time.Now(); err != nil && time.Since(begun) < feedWithin; info, err = m.openFeed(stream, msg.Data) {
		if sleep.For(m.ctx, mirrorLook) != nil {
			return
		}
	}
	if err != nil {
		m.e.log.Debug("the hub sends nothing", "stream", stream, "error", err)
		info = &jetstream.ConsumerInfo{Stream: stream, Name: "none", Config: jetstream.ConsumerConfig{DeliverSubject: m.e.names().MirrorOrigin() + ".none"}}
	}
	m.respond(msg, struct {
		Type string `json:"type"`
		*jetstream.ConsumerInfo
	}{"io.nats.jetstream.api.v1.consumer_create_response", info})
}

func (m *Mirror) openFeed(stream string, request []byte) (*jetstream.ConsumerInfo, error) {
	var req struct {
		Config struct {
			From uint64 `json:"opt_start_seq"`
		} `json:"config"`
	}
	if err := json.Unmarshal(request, &req); err != nil {
		return nil, err
	}
	q := &mirrorAsk{Stream: stream, From: max(req.Config.From, 1)}
	isLog := stream == m.e.names().EventStream(0)
	if isLog && q.From > 1 {
		ctx, cancel := context.WithTimeout(m.ctx, mirrorAsks)
		defer cancel()
		sum, err := m.log.Checksum(ctx, events.Seq(q.From-1))
		if err != nil && !errors.Is(err, eventlog.ErrTrimmed) {
			return nil, err
		}
		q.Checksum = sum
	}
	a, err := m.ask(q)
	switch {
	case err != nil:
		return nil, err
	case a.Differs && !isLog:
		m.wg.Go(func() {
			if err := m.copyLogs(m.ctx, true); err != nil {
				m.e.log.Warn("the items' logs can't be copied anew", "error", err)
			}
		})
		return nil, errors.New("the hub's logs of items were made anew")
	case a.Differs:
		return nil, m.note(m.differ(q.From-1, &a), time.Time{})
	case a.Consumer == nil:
		return nil, errors.New("the hub has made no consumer")
	case isLog:
		_ = m.note(nil, a.Created)
	}
	return a.Consumer, nil
}

// differ explains that the hub's log is not the one that is copied.
func (m *Mirror) differ(last uint64, a *mirrorAnswer) error {
	what := fmt.Sprintf("the hub's log ends with event %d, and this mirror has event %d", a.Last, last)
	if a.Last >= last {
		what = fmt.Sprintf("event %d of the hub's log is not the one that this mirror has", last)
	}
	return events.WithCode(events.CodeLogLost, fmt.Errorf("%s: the hub was restored to an earlier position, or lost its end: this mirror copies nothing more. If the hub's log is right, stop the mirror, remove %s and start it again: it copies the log anew. If it is not, keep the folder", what, m.e.dir.path))
}

// note records whether the hub's log can be followed, and returns why not.
func (m *Mirror) note(differs error, followed time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if differs != nil && (m.differs == nil || m.differs.Error() != differs.Error()) {
		m.e.log.Error("the mirror does not follow its hub", "error", differs)
	}
	m.differs, m.followed = differs, followed
	return differs
}

// mirroredLog is the copy of the log.
type mirroredLog struct {
	*eventlog.JetStream
	m *Mirror
}

// Follow implements [eventlog.Log]. The copy has a hole where the hub dropped what had not
// been copied: what is in front of it goes, and the rest stands alone.
func (l *mirroredLog) Follow(ctx context.Context, from events.Seq, fn func(eventlog.Group) error) error {
	err := l.JetStream.Follow(ctx, from, fn)
	if !errors.Is(err, events.ErrCorrupt) || ctx.Err() != nil {
		return err
	}
	before, lerr := l.Last(ctx)
	if lerr != nil {
		return lerr
	}
	if _, lerr := l.m.look(true); lerr != nil {
		return fmt.Errorf("the copy of the log may have a hole, and the hub can't be asked: %w (%v)", lerr, err)
	}
	if now, lerr := l.Last(ctx); lerr != nil || now.First > before.First {
		return cmp.Or(lerr, error(&eventlog.TrimmedError{Asked: from, First: now.First}))
	}
	return err
}

// mirrorCore is the dispatcher of a mirror, as the API sees it.
type mirrorCore struct {
	*dispatcher.Engine
	m *Mirror
}

// StandsBy says how well the hub is followed.
func (c mirrorCore) StandsBy() (dispatcher.Standing, bool) {
	st, on := c.Engine.StandsBy()
	m := c.m
	m.mu.Lock()
	defer m.mu.Unlock()
	st.Owner, st.Heard = m.hub(), m.heard
	switch {
	case m.differs != nil:
		st.Fault = m.differs
	case !m.cut.IsZero() && time.Since(m.heard) > mirrorSilent:
		st.Fault = fmt.Errorf("cut off from the hub since %s: %s", m.cut.UTC().Format(time.RFC3339), m.why(m.lost))
	}
	return st, on
}

// Position returns the end of the hub's log as it was last heard.
func (c mirrorCore) Position() events.Seq {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	return max(c.Engine.Position(), c.m.tip.Seq)
}

// End returns the end of the hub's log, a second old at most.
func (c mirrorCore) End(context.Context) (events.Seq, error) {
	tip, err := c.m.look(false)
	return tip.Seq, err
}

// Loads returns none: no work is dispatched here.
func (c mirrorCore) Loads(context.Context) (map[events.Type]dispatcher.Load, error) { return nil, nil }

// Do refuses commands.
func (c mirrorCore) Do(context.Context, []core.Command, func([]dispatcher.Outcome)) error {
	return c.m.refusal()
}

// URL returns where programs connect to NATS; empty if nothing listens.
func (m *Mirror) URL() string { return m.e.URL() }

// HTTPURL returns the beginning of a URL of the HTTP server; empty if nothing listens.
func (m *Mirror) HTTPURL() string { return m.e.HTTPURL() }

// Connect opens an in-process connection with a client's rights. The caller closes it.
func (m *Mirror) Connect(opts ...nats.Option) (*nats.Conn, error) { return m.e.Connect(opts...) }

// Done is closed when the mirror has ended by itself: Stop then says why.
func (m *Mirror) Done() <-chan struct{} { return m.e.Done() }

// MirrorState says how a mirror is.
type MirrorState struct {
	Site      string        `json:"site"`
	Hub       string        `json:"hub"`
	CutOff    string        `json:"cut_off,omitempty"` // why it does not follow its hub; empty: it does
	Position  wire.Position `json:"position"`          // of the hub's log, as last heard
	Projected wire.Position `json:"projected"`         // what queries show
	HeardAt   time.Time     `json:"heard_at,omitzero"` // when the hub last said its position
}

// State says how the mirror is.
func (m *Mirror) State() MirrorState {
	c := mirrorCore{m.e.dispatcher, m}
	standing, _ := c.StandsBy()
	st := MirrorState{Site: m.o.Site, Hub: m.hub(), Position: wire.PositionOf(c.Position()), Projected: wire.PositionOf(m.e.store.Applied()), HeardAt: standing.Heard.UTC()}
	switch {
	case standing.Fault != nil:
		st.CutOff = standing.Fault.Error()
	case standing.Heard.IsZero():
		st.CutOff = "the hub has not answered yet"
	case m.copies().IsZero():
		st.CutOff = "the hub has not begun to send its log yet"
	}
	return st
}

// copies returns the identity of the log that is copied; zero: none yet.
func (m *Mirror) copies() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.followed
}

// Stop stops the mirror.
func (m *Mirror) Stop(ctx context.Context) error {
	m.cancel()
	m.watcher.Wait()
	err := m.e.Stop(ctx)
	m.wg.Wait()
	return err
}
