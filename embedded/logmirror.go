package embedded

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/api"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/dispatcher"
	"github.com/streamwright/streamwright/embedded/logmirror"
	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/internal/sleep"
	"github.com/streamwright/streamwright/projector"
	"github.com/streamwright/streamwright/wire"
)

// MirrorOptions say how to mirror a log.
type MirrorOptions struct {
	Site string // its name, as the hub's [[leaf.sites]] has it
	// Namespace is the one whose log is copied, as the hub has it for the site; empty: default.
	Namespace events.Namespace
	Hub       string // where the hub takes leaf connections, such as nats-leaf://hub.example:7422
	Token     string // the site's; empty: the hub asks for none
	CA        string // PEM file of the CAs that the hub's certificate is checked against; empty: the system's
	Cert, Key string // PEM files of the site's own certificate, if the hub asks for one
	// Keep is how long the mirror keeps what the hub has cut of its log, and the items that
	// it has pruned; 0: it drops them as the hub does.
	Keep time.Duration
	// Options configure the rest, as of an engine: the data folder, what listens, and who
	// may use it.
	Options Options
}

// namespace returns the namespace whose log is copied.
func (o *MirrorOptions) namespace() events.Namespace {
	return cmp.Or(o.Namespace, events.DefaultNamespace)
}

// check reports all that is wrong with the options, joined.
func (o *MirrorOptions) check(c *config.Config) error {
	_, err := events.ParseNamespace(string(o.namespace()))
	errs := []error{config.CheckSiteName(o.Site), err, c.Validate()}
	refuse := func(wrong bool, text string) {
		if wrong {
			errs = append(errs, errors.New(text))
		}
	}
	refuse((o.Cert == "") != (o.Key == ""), "a certificate and its key belong together: give both or none")
	refuse(c.External(), "a mirror has a NATS server of its own: leave nats_url out")
	refuse(c.Cluster.On(), "a mirror is no node of a cluster: leave [cluster] out")
	refuse(c.Leaf.Listen != config.Off || len(c.Leaf.Sites) > 0, "a mirror has no sites: leave [leaf] out")
	refuse(o.Keep < 0, "what the hub has cut can't be kept for less than no time: leave keep out")
	refuse(o.Options.Memory || c.Server.Dir == "", "a mirror needs a data folder")
	return errors.Join(errs...)
}

// Mirror is a copy of the log of a namespace of another engine, its hub, in this process, with
// all that reads it. It decides nothing, and is never the owner of the log: what decides is refused,
// with the name of the hub. Cut off from the hub it answers as of the last event that it
// has.
//
// The NATS server copies the hub's event stream, and the items' logs, over a leaf
// connection. Before it does, the hub compares the copy's last event with its own log.
type Mirror struct {
	e    *Engine
	o    MirrorOptions
	link *hubLink
	log  *eventlog.JetStream

	cancel context.CancelFunc
	ctx    context.Context    // ends with Stop
	ready  chan struct{}      // closed when hub is set
	wg     sync.WaitGroup     // of answers under way
	feeds  sync.WaitGroup     // of those to the NATS server
	asks   *nats.Subscription // its questions
	asked  chan struct{}      // closed when it can ask no more
	hub    *logmirror.Link
	rounds rounds
	cuts   sync.WaitGroup // of cutRounds
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
	opts.ConnectErrorReports = everyFailure
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
	o.Options.keepPruned = o.Keep > 0
	m := &Mirror{e: newEngine(o.Options), o: o, ready: make(chan struct{})}
	e := m.e
	for _, step := range []func() error{func() error { return o.check(&e.cfg) }, m.enterNamespace, e.guard.open, m.prepareLink} {
		if err := step(); err != nil {
			return nil, events.WithCode(events.CodeBadConfig, err)
		}
	}
	m.ctx, m.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if err := e.life.start(ctx, m.parts()...); err != nil {
		m.cancel()
		return nil, err
	}
	return m, nil
}

// parts returns the parts of a mirror in the order of their starts.
func (m *Mirror) parts() []part {
	b, l, d, f := m.e.base, m.e.ledger, m.e.decider, m.e.faces
	return []part{
		{"the data folder", b.openDir, b.closeDir},
		{"what answers at the start", f.openStarting, f.closeStarting},
		{"the answers of the hub", nil, just(m.awaitAnswers)},
		{"the NATS server", m.startServer, func(context.Context) error { return b.srv.Stop() }},
		{"the connection", b.openConnection, just(func() { b.nc.Close() })},
		{"the answers to the NATS server", m.answerServer, just(m.cutOff)},
		{"the watch on room", just(b.watchRoom), just(func() { b.room.Stop() })},
		{"the store", l.openStore, l.closeStore},
		{"the event log", m.openLog, func(context.Context) error { return l.eventLog.Close() }},
		{"the copy of the items' logs", func(ctx context.Context) error { return m.copyLogs(ctx, false) }, nil},
		{"the match of store and log", m.matchStore, nil},
		{"the rounds", m.openRounds, nil},
		{"the quotas", just(m.e.faces.openQuotas), nil},
		{"the dispatcher", m.newDispatcher, func(ctx context.Context) error { return d.dispatcher.Stop(ctx) }},
		{"the heed of room", just(d.heedRoom), just(func() { d.unheed() })},
		{"the API", m.openAPI, func(ctx context.Context) error { return f.service.Stop(ctx) }},
		{"HTTP", nil, f.stopHTTP},
		{"the link to the hub", just(m.follow), just(m.cutOff)},
		{"the follower", func(ctx context.Context) error { return d.dispatcher.Start(ctx) }, nil},
		{"the answers", m.serve, nil},
	}
}

// hubURL names the hub for people.
func (m *Mirror) hubURL() string {
	u := *m.link.remote.URLs[0]
	u.User = nil
	return u.String()
}

func (m *Mirror) prepareLink() error {
	r, err := leafRemote(m.o.Hub, m.o.Site, m.o.Token, m.o.CA, m.o.Cert, m.o.Key)
	m.link = &hubLink{site: m.o.Site, remote: r}
	return err
}

// enterNamespace has all names be those of the namespace, as they are at the hub.
func (m *Mirror) enterNamespace() error {
	if name, b := m.o.namespace(), m.e.base; name != events.DefaultNamespace {
		b.cfg.Server.Prefix, b.info.Name, m.e.faces.only = b.names().Namespace(name).Prefix, name, name
	}
	return nil
}

func (m *Mirror) startServer(context.Context) (err error) {
	if err := m.e.dir.markMirror(m.o.Site, m.o.namespace()); err != nil {
		return err
	}
	so := m.e.serverOptions()
	if m.e.other() {
		so.Namespaces = []events.Namespace{m.o.namespace()}
	}
	so.Hub = m.link
	if m.e.srv, err = startServer(so); err != nil {
		return err
	}
	m.e.copies.replicas = 1
	return nil
}

// answerServer answers the questions of the NATS server to the hub, once there is a link.
func (m *Mirror) answerServer(context.Context) (err error) {
	m.asks, err = m.e.nc.Subscribe(m.e.names().MirrorOrigin()+".CONSUMER.CREATE.*", func(msg *nats.Msg) {
		m.feeds.Go(func() {
			select {
			case <-m.ready:
				m.hub.Feed(msg)
			case <-m.ctx.Done():
			}
		})
	})
	if err == nil {
		m.asked = make(chan struct{})
		m.asks.SetClosedHandler(func(string) { close(m.asked) })
	}
	return err
}

// origin says where the copies come from: this process answers for the hub.
func (m *Mirror) origin() eventlog.Origin {
	return eventlog.Origin{API: m.e.names().MirrorOrigin(), Deliver: m.e.names().MirrorFeed(m.o.Site)}
}

func (m *Mirror) openLog(ctx context.Context) error {
	c := m.e.ledger.logConfig()
	c.Existing, c.Gaps = false, m.o.Keep > 0
	l, err := eventlog.OpenMirror(ctx, c, m.origin())
	if err != nil {
		return err
	}
	m.log, m.e.ledger.eventLog = l, l
	return nil
}

// copyLogs makes the copy of the items' logs, if need be anew.
func (m *Mirror) copyLogs(ctx context.Context, anew bool) error {
	js, err := connect.JetStream(m.e.nc, m.e.names())
	if err != nil {
		return err
	}
	l, of := m.e.cfg.Limits, m.origin()
	age, size := cmp.Or(l.LogMaxAge, api.DefaultLogMaxAge), cmp.Or(l.LogMaxBytes, api.DefaultLogMaxBytes)
	if m.o.Keep > 0 {
		age, size = max(age, m.o.Keep), cmp.Or(l.LogMaxBytes, -1)
	}
	c := jetstream.StreamConfig{
		Name: m.e.names().LogStream(), Description: "A mirror of the log records of items.", MaxMsgsPerSubject: api.MaxLogRecords, AllowDirect: true, Replicas: 1,
		MaxAge: age, MaxBytes: size, Discard: jetstream.DiscardOld,
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
	return m.e.ledger.match(ctx, func(eventlog.Tip, error) bool { return false })
}

// hubLease is never this process's.
type hubLease struct{ hub string }

// Take implements [dispatcher.Lease].
func (l hubLease) Take(context.Context) (by string, err error) { return l.hub, nil }

// Changed implements [dispatcher.Lease].
func (hubLease) Changed() <-chan struct{} { return nil }

// Failed implements [dispatcher.Lease].
func (hubLease) Failed(error, bool) {}

// newDispatcher makes a standby's follower, which projects the copy.
func (m *Mirror) newDispatcher(context.Context) (err error) {
	e := m.e
	m.hub = logmirror.NewLink(logmirror.LinkConfig{
		Conn: e.nc, Names: e.names(), Site: m.o.Site, Hub: m.hubURL(), Dir: e.dir.path, Log: m.log, Logger: e.log,
		Position: func() events.Seq { return e.decider.dispatcher.Position() }, Why: m.why, Answered: func() { m.link.refused.Store(nil) },
		LogsAnew: func(ctx context.Context) error { return m.copyLogs(ctx, true) },
	})
	if m.o.Keep == 0 {
		m.hub.Cut = m.cut
	}
	c := dispatcher.Config{
		Log: logmirror.Log{JetStream: m.log, Link: m.hub}, Store: e.ledger.store, Conn: e.nc, Names: e.names(), Owner: e.nodeName(), Version: Version,
		Lease: hubLease{m.hubURL()}, Defaults: e.cfg.TypeDefaults(), Limits: e.cfg.EngineLimits(), Logger: e.log,
		Hooks: e.ledger.metrics.Hook(dispatcher.Hooks{
			Projected: func(c *core.Changes) {
				e.faces.service.Notify(c.Items)
				e.faces.service.LogGrew()
				if e.faces.live != nil {
					e.faces.live.Projected(c)
				}
			},
			StandingBy: func(string) {
				if e.faces.live != nil {
					e.faces.live.Touch()
				}
			},
		}),
	}
	e.decider.dispatcher, err = dispatcher.New(c)
	return err
}

// follow begins to follow the hub.
func (m *Mirror) follow() {
	close(m.ready)
	m.hub.Start()
	if m.o.Keep > 0 {
		m.cuts.Go(m.cutRounds)
	}
}

// openAPI makes the API.
func (m *Mirror) openAPI(context.Context) error {
	f := m.e.faces
	return f.newService(api.Config{
		Core: logmirror.Core{Dispatcher: f.decider.dispatcher, Link: m.hub}, Logs: api.MirroredLogs(f.nc, f.names()), Mirror: answeredHere, Written: f.decider.dispatcher.Position,
		Info: wire.InfoReply{Owner: m.hubURL(), Node: m.o.Site},
	})
}

// answeredHere reports whether a mirror answers an endpoint of the owner by its projection.
// Who works is not in that: stats have no workers.
func answeredHere(endpoint string) bool {
	return endpoint == wire.APIStats || endpoint == wire.APITypes
}

// serve begins to answer.
func (m *Mirror) serve(ctx context.Context) error {
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
	if e.other() {
		only := wire.ErrorReply{Error: wire.FromError(access.OnlyNamespace(m.o.namespace()))}
		if _, err := e.nc.Subscribe(e.names().Namespace(events.DefaultNamespace).API("*"), func(msg *nats.Msg) { logmirror.Respond(msg, only) }); err != nil {
			return err
		}
	}
	if err := e.faces.serveHTTP(ctx); err != nil {
		return err
	}
	return e.faces.answer(ctx)
}

// pass answers what only the owner can: it asks the hub for what changes nothing, and
// refuses the rest.
func (m *Mirror) pass(end *wire.Endpoint, msg *nats.Msg) {
	if !end.ReadOnly {
		logmirror.Respond(msg, wire.ErrorReply{Error: wire.FromError(m.hub.Refusal())})
		return
	}
	if end.Name == wire.APIWhy {
		if reply := m.whyPruned(msg.Data); reply != nil {
			logmirror.Respond(msg, reply)
			return
		}
	}
	m.wg.Go(func() { // the hub bounds how many are under way, and the link for how long
		reply, err := m.hub.Ask(end.Name, msg.Data)
		if err != nil {
			logmirror.Respond(msg, wire.ErrorReply{Error: wire.FromError(err)})
			return
		}
		_ = msg.Respond(reply) // who has gone needs no answer
	})
}

// refusePublish answers a plain publish of a submission as JetStream refuses one.
func (m *Mirror) refusePublish(msg *nats.Msg) {
	why := jetstream.APIError{Code: 403, ErrorCode: 1, Description: m.hub.Refusal().Message}
	logmirror.Respond(msg, map[string]any{"error": why})
}

// why says why the hub does not answer.
func (m *Mirror) why(err error) string {
	switch refused := m.link.refused.Load(); {
	case m.e.srv.ns().NumLeafNodes() > 0 && errors.Is(err, nats.ErrNoResponders):
		why := "the link is up and no engine answers: see that the hub names this site in [[leaf.sites]], with mirror = true"
		if m.e.other() {
			why += fmt.Sprintf(" and namespace = %q", m.o.namespace())
		}
		return why
	case m.e.srv.ns().NumLeafNodes() > 0:
		why := "the link is up and the owner of the log does not answer"
		if m.e.other() {
			why += fmt.Sprintf(": see that the hub has the namespace %s", m.o.namespace())
		}
		return why
	case refused != nil:
		return *refused
	}
	return "the link is down"
}

// URL returns where programs connect to NATS; empty if nothing listens.
func (m *Mirror) URL() string { return m.e.URL() }

// HTTPURL returns the beginning of a URL of the HTTP server; empty if nothing listens.
func (m *Mirror) HTTPURL() string { return m.e.HTTPURL() }

// Done is closed when the mirror has ended by itself: Stop then says why.
func (m *Mirror) Done() <-chan struct{} { return m.e.Done() }

// MirrorState says how a mirror is.
type MirrorState = logmirror.State

// State says how the mirror is.
func (m *Mirror) State() MirrorState {
	return logmirror.Core{Dispatcher: m.e.decider.dispatcher, Link: m.hub}.State(m.e.ledger.store.Applied())
}

// Stop stops the mirror. It is as [Engine.Stop].
func (m *Mirror) Stop(ctx context.Context) error { return m.e.life.stop(ctx) }

// cutOff ends the link to the hub: first of all, so that no answer waits for it. It may be
// called again.
func (m *Mirror) cutOff() {
	m.cancel()
	if m.hub != nil {
		m.hub.Stop()
	}
	_ = m.asks.Unsubscribe() // fails when the connection is closed
	<-m.asked
	m.feeds.Wait()
	m.cuts.Wait()
}

// awaitAnswers returns once no answer is under way any more: the connection is closed.
func (m *Mirror) awaitAnswers() {
	m.wg.Wait()
	if m.hub != nil {
		m.hub.Wait()
	}
}

// cut has the copy begin where the hub's log does.
func (m *Mirror) cut(ctx context.Context, first uint64) error {
	tip, err := m.log.Last(ctx)
	if err != nil || tip.First >= first {
		return err
	}
	if err := m.e.ledger.store.Flush(); err != nil { // else a crash would have it made anew
		return err
	}
	m.e.log.Info("the mirror drops what its hub has dropped", "below", first)
	return m.log.Trim(ctx, first)
}

const (
	// roundsFile, in the data folder of a mirror with Keep, holds its rounds.
	roundsFile = "rounds.json"
	// roundsKept bounds the rounds that are remembered: they are at least this part of Keep
	// apart.
	roundsKept = 100
	// roundsLook is the time between two looks at them, and trimWithin bounds a cut.
	roundsLook = time.Second
	trimWithin = time.Minute
)

// round is one of the hub's: the log from its begin on stands alone.
type round struct {
	Begin events.Seq `json:"begin"`
	End   events.Seq `json:"end"`
	At    time.Time  `json:"at"` // when it ended
}

// rounds are where the copy can be cut, in order. JetStream alone, by a maximal age, would cut
// it anywhere, and a log that begins anywhere can't be replayed. If the file is lost the copy
// is kept for longer.
type rounds struct {
	file string
	list []round
}

func (m *Mirror) openRounds(context.Context) error {
	if m.o.Keep == 0 {
		return nil
	}
	m.rounds.file = filepath.Join(m.e.dir.path, roundsFile)
	data, err := os.ReadFile(m.rounds.file)
	if err == nil {
		err = json.Unmarshal(data, &m.rounds.list)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read where the copy can be cut: %w: remove %s", err, m.rounds.file)
	}
	return nil
}

func (r *rounds) save() error {
	data, err := json.Marshal(r.list)
	if err == nil {
		err = replaceFile(r.file, string(data), true)
	}
	if err != nil {
		return fmt.Errorf("note where the copy can be cut: %w", err)
	}
	return nil
}

// note adds the last round that is projected.
func (r *rounds) note(meta events.Meta, keep time.Duration) error {
	if n := len(r.list); meta.CutEnd == 0 || n > 0 && meta.CutTime.Sub(r.list[n-1].At) <= keep/roundsKept {
		return nil
	}
	r.list = append(r.list, round{meta.CutAt, meta.CutEnd, meta.CutTime})
	return r.save()
}

// old returns the last round that ended longer than keep ago, and drops those before it.
func (r *rounds) old(keep time.Duration) (at round, found bool) {
	for len(r.list) > 1 && time.Since(r.list[1].At) > keep {
		r.list = r.list[1:]
	}
	if len(r.list) == 0 || time.Since(r.list[0].At) <= keep {
		return at, false
	}
	return r.list[0], true
}

// cutRounds cuts the copy and the store, now and then, until the mirror stops.
func (m *Mirror) cutRounds() {
	for sleep.For(m.ctx, roundsLook) == nil {
		if err := m.cutRound(); err != nil && !errors.Is(err, projector.ErrProving) && m.ctx.Err() == nil {
			m.e.log.Warn("the mirror can't drop what it has kept for long enough: trying again", "error", err)
		}
	}
}

// cutRound cuts the copy and the store at the last round that ended longer than Keep ago:
// what was pruned by then has been kept for that long.
func (m *Mirror) cutRound() error {
	meta, err := m.e.ledger.store.Meta()
	if err == nil {
		err = m.rounds.note(meta, m.o.Keep)
	}
	at, found := m.rounds.old(m.o.Keep)
	if err != nil || !found {
		return err
	}
	trim, cancel := context.WithTimeout(m.ctx, trimWithin)
	defer cancel()
	tip, err := m.log.Last(trim)
	if err != nil || tip.First >= at.Begin.Frame() {
		return err
	}
	err = m.e.ledger.store.DropPruned(at.End, func() error {
		trim, cancel := context.WithTimeout(m.ctx, trimWithin)
		defer cancel()
		return m.log.Trim(trim, at.Begin.Frame())
	})
	if err != nil {
		return err
	}
	m.e.log.Info("the mirror drops what it has kept for long enough", "below", at.Begin.Frame(), "pruned_before", at.End)
	return m.rounds.save()
}

// whyPruned explains an item that the hub has pruned, nil for any other.
func (m *Mirror) whyPruned(request []byte) *wire.WhyReply {
	var q wire.Why
	if json.Unmarshal(request, &q) != nil {
		return nil
	}
	id, err := events.ParseID(q.ID)
	if err != nil {
		return nil
	}
	it, err := m.e.ledger.store.Item(id)
	if err != nil || it == nil || it.PrunedSeq == 0 {
		return nil
	}
	return &wire.WhyReply{
		ID: it.ID.String(), Type: string(it.Type), State: it.State, At: time.Now().UTC(), Position: wire.PositionOf(m.e.ledger.store.Applied()),
		Reasons: core.Explain(nil, it, time.Time{}),
	}
}
