package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/api"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/internal/nudge"
	"github.com/streamwright/streamwright/internal/sleep"
	"github.com/streamwright/streamwright/wire"
)

const (
	// spaceRetry is the wait before the next try to start a namespace that did not start, or
	// has ended by itself; it doubles up to maxSpaceRetry.
	spaceRetry    = time.Second
	maxSpaceRetry = time.Minute
	// spaceStopTimeout bounds the stop of one that is started again, or is removed.
	spaceStopTimeout = 30 * time.Second
)

// spaces are the namespaces beside the default one, in this process. Those in the list that
// the default one's log has are started; one that is no more in it is stopped.
type spaces struct {
	home   *space // the default namespace
	wake   chan struct{}
	cancel context.CancelFunc
	runs   sync.WaitGroup // of run
	ended  sync.WaitGroup // of namespaces
	starts chan struct{}  // holds one for each that starts: they take turns
	placer *placer
	known  atomic.Bool // the list is not older than the end of the log that this process found

	mu sync.Mutex // guards by
	by map[events.Namespace]*tenant
}

func newSpaces(home *space) *spaces {
	s := &spaces{home: home, wake: make(chan struct{}, 1), starts: make(chan struct{}, max(2, runtime.GOMAXPROCS(0))), by: map[events.Namespace]*tenant{}}
	s.placer = &placer{home: home, all: s.all, wake: make(chan struct{}, 1)}
	home.faces.others, home.faces.listed, home.faces.list, home.faces.hand = s.handler, s.changed, s, s.hand
	return s
}

// open tells the NATS server of the namespaces, before anybody is answered, if they are others
// than those that have a folder.
func (s *spaces) open(context.Context) error {
	_, err := s.tell()
	return err
}

// start begins to hold the namespaces.
func (s *spaces) start() {
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.changed()
	s.runs.Go(func() { s.run(ctx) })
	s.runs.Go(func() { s.learn(ctx) })
	s.runs.Go(func() { s.placer.run(ctx) })
}

// learn waits until the list is known: a standby has it from a log that it may still be
// reading, in which namespaces come and go that are not there any more. Only then are folders
// of none removed, and those begun that have none here: what has a folder was there before.
func (s *spaces) learn(ctx context.Context) {
	for {
		if _, err := s.home.ledger.readToEnd(ctx); err == nil {
			break
		}
		if sleep.For(ctx, spaceRetry) != nil {
			return
		}
	}
	s.sweep()
	s.known.Store(true)
	s.changed()
}

// changed notes that the list has changed.
func (s *spaces) changed() { nudge.Send(s.wake) }

func (s *spaces) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		}
		if err := s.follow(); err != nil {
			s.home.log.Error("the list of namespaces can't be followed: trying again", "error", err, "in", spaceRetry)
			_ = sleep.For(ctx, spaceRetry) // the loop looks at ctx
			s.changed()
		}
	}
}

// tell tells the NATS server which namespaces there are, so that it knows who may do what in
// them. Before others can connect it has those of the last run: while the server reads its
// accounts again it refuses who is just connecting. The list is that of those to hold, also
// beside the server's error.
func (s *spaces) tell() (list []events.NamespaceInfo, err error) {
	if list, err = s.home.ledger.store.Namespaces(); err != nil {
		return nil, err
	}
	names := make([]events.Namespace, len(list))
	for i, info := range list {
		names[i] = info.Name
	}
	if !s.known.Load() {
		names = s.home.dir.namespaces()
		list = slices.DeleteFunc(list, func(info events.NamespaceInfo) bool { return !slices.Contains(names, info.Name) })
	}
	if err := s.home.srv.hold(names); err != nil {
		return list, fmt.Errorf("tell the NATS server of the namespaces: %w", err)
	}
	return list, nil
}

// follow starts and stops what the list says.
func (s *spaces) follow() error {
	list, err := s.tell()
	if list == nil && err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, info := range list {
		t := s.by[info.Name]
		if t == nil && err != nil { // the server does not let anybody into it yet
			continue
		}
		if t == nil {
			t = newTenant(s.home, info, s.starts, s.placer.wake)
			s.by[info.Name] = t
		}
		if t.createdAt.Equal(info.CreatedAt) {
			t.set(info)
		}
	}
	nudge.Send(s.placer.wake)
	for name, t := range s.by {
		listed := slices.ContainsFunc(list, func(info events.NamespaceInfo) bool { return info.Name == name && info.CreatedAt.Equal(t.createdAt) })
		if !listed && !t.leaves {
			t.leaves = true
			s.ended.Go(func() { s.end(t) })
		}
	}
	return err
}

// end stops a namespace that is off the list, and removes its folder. Another of its name, if
// there is one, begins behind that.
func (s *spaces) end(t *tenant) {
	t.end()
	s.mu.Lock()
	delete(s.by, t.name)
	s.mu.Unlock()
	s.changed()
}

// sweep removes the folders of namespaces that were removed while this process was down. They
// hold nothing that the log does not.
func (s *spaces) sweep() {
	list, err := s.home.ledger.store.Namespaces()
	if s.home.dir == nil || err != nil {
		return
	}
	root := filepath.Join(s.home.dir.path, namespaceFolder)
	entries, _ := os.ReadDir(root) // there may be none
	for _, e := range entries {
		listed := slices.ContainsFunc(list, func(info events.NamespaceInfo) bool { return string(info.Name) == e.Name() })
		path := filepath.Join(root, e.Name())
		if _, err := os.Stat(filepath.Join(path, restoreFile)); listed || err == nil { // a restore is not through
			continue
		}
		if err := os.RemoveAll(path); err != nil {
			s.home.log.Warn("the folder of a namespace that is not there any more can't be removed", "folder", e.Name(), "error", err)
		}
	}
}

// stop stops all namespaces, side by side.
func (s *spaces) stop(ctx context.Context) error {
	s.cancel()
	s.runs.Wait() // and begins no more
	s.mu.Lock()
	all := s.by
	s.by = map[events.Namespace]*tenant{}
	s.mu.Unlock()
	var errs []error
	var mu sync.Mutex
	for name, t := range all {
		s.ended.Go(func() {
			if err := t.stop(ctx); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, fmt.Errorf("stop the namespace %s: %w", name, err))
			}
		})
	}
	s.ended.Wait()
	return errors.Join(errs...)
}

// all returns the namespaces that are on the list.
func (s *spaces) all() (all []*tenant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.by {
		if !t.leaves {
			all = append(all, t)
		}
	}
	return all
}

// leases returns the leases of the namespaces that run here.
func (s *spaces) leases() (all []*lease) {
	for _, t := range s.all() {
		if now, _ := t.now(); now != nil {
			all = append(all, now.ledger.lease)
		}
	}
	return all
}

// get returns a namespace; nil if there is none.
func (s *spaces) get(name events.Namespace) *tenant {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.by[name]; t != nil && !t.leaves {
		return t
	}
	return nil
}

// handler returns what answers over HTTP for a namespace. The page and the documentation are
// those of the default one, and so don't show whether there is such a namespace; what is in
// one is for those alone who have a role in it.
func (s *spaces) handler(r *http.Request, name events.Namespace) (http.Handler, error) {
	home := s.home.faces
	path := r.URL.Path
	probe := path == "/healthz" || path == "/readyz"
	if name == events.DefaultNamespace || !probe && path != "/metrics" && !strings.HasPrefix(path, "/api/") {
		return home.handler(r.Context())
	}
	t := s.get(name)
	presents := strings.HasPrefix(path, wire.TokensPath) // which needs no login
	switch {
	case t == nil && presents:
		return s.noToken(r)
	case t == nil:
		return nil, s.home.guard.auth.Missing(r, string(name))
	}
	now, state := t.now()
	if now == nil && !presents || probe { // whose answers need no role
		if _, err := s.home.guard.auth.In(name).Authenticate(r); err != nil {
			return nil, err
		}
	}
	if now == nil {
		if presents {
			state = "present the token again in a moment"
		}
		return nil, events.Refuse(events.CodeUnavailable, "%s", state)
	}
	ctx, cancel := context.WithTimeout(r.Context(), stateTimeout) // the first request waits for what the cluster knows
	defer cancel()
	return now.faces.handler(ctx)
}

// noToken answers who presents a token in a namespace that is not there, as one that is there
// answers who presents an unknown one.
func (s *spaces) noToken(r *http.Request) (http.Handler, error) {
	h, err := s.home.faces.handler(r.Context())
	if err != nil {
		return nil, err
	}
	token := strings.TrimPrefix(r.URL.Path, wire.TokensPath)
	if token == "" || strings.Contains(token, "/") {
		return h, nil
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		unknown, at := *r, *r.URL
		at.Path, at.RawPath = wire.TokensPath+"unknown", ""
		unknown.URL = &at
		h.ServeHTTP(w, &unknown)
	}), nil
}

// tenant is a namespace beside the default one. It runs until it is stopped: one that fails
// to start, or ends by itself, is started again.
type tenant struct {
	name      events.Namespace
	createdAt time.Time
	home      *space
	starts    chan struct{}
	begun     chan struct{} // gets a signal when it has begun to run
	cancel    context.CancelFunc
	ended     chan struct{} // closed when nothing of it runs any more
	remove    chan struct{} // closed when it is to be removed
	leaves    bool          // it is off the list; guarded by spaces.mu
	changed   chan struct{} // holds one once it is to be started again with other limits

	mu      sync.Mutex // guards what follows
	info    events.NamespaceInfo
	space   *space // nil: it does not run
	failed  error  // why not; nil: it starts
	stopCtx context.Context
	stopErr error
}

// newTenant begins to run a namespace.
func newTenant(home *space, info events.NamespaceInfo, starts, begun chan struct{}) *tenant {
	ctx, cancel := context.WithCancel(context.Background())
	t := &tenant{name: info.Name, createdAt: info.CreatedAt, home: home, starts: starts, begun: begun, cancel: cancel, ended: make(chan struct{}), remove: make(chan struct{}), changed: make(chan struct{}, 1), info: info}
	if info.Removing { // by an earlier process, which has not come to its end
		close(t.remove)
	}
	go t.run(ctx)
	return t
}

// now returns the namespace as it runs; nil if it does not, and then why.
func (t *tenant) now() (s *space, state string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.space != nil:
		return t.space, ""
	case t.failed != nil:
		return nil, fmt.Sprintf("the namespace %s has failed, and is started again: %v", t.name, t.failed)
	}
	return nil, fmt.Sprintf("the namespace %s is starting: ask again", t.name)
}

// settings returns the settings of the list.
func (t *tenant) settings() events.NamespaceInfo {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.info
}

// set puts settings into force. The limits are those with which a namespace starts, so one
// that runs with others is started again.
func (t *tenant) set(info events.NamespaceInfo) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if info.Removing && !t.info.Removing {
		close(t.remove)
	}
	t.info = info
	if t.space != nil {
		t.apply()
	}
}

// apply has what runs follow the settings. REQUIRES: mu, space is not nil.
func (t *tenant) apply() {
	t.space.decider.set(t.info)
	t.space.turns.SetWeight(t.info.Weight)
	if t.info.Limits != t.space.info.Limits {
		nudge.Send(t.changed)
	}
}

// stop stops it, cutting short what is under way when ctx ends.
func (t *tenant) stop(ctx context.Context) error {
	t.mu.Lock()
	t.stopCtx = ctx
	t.mu.Unlock()
	t.cancel()
	<-t.ended
	return t.stopErr
}

// end stops one that is off the list, and removes its folder.
func (t *tenant) end() {
	ctx, cancel := context.WithTimeout(context.Background(), spaceStopTimeout)
	defer cancel()
	if err := errors.Join(t.stop(ctx), t.removeFolder()); err != nil {
		t.home.log.Warn("a namespace that was removed did not end in peace", "namespace", string(t.name), "error", err)
	}
}

// removeFolder removes the namespace's folder. REQUIRES: it does not run.
func (t *tenant) removeFolder() error {
	if t.home.dir == nil {
		return nil
	}
	return os.RemoveAll(t.home.dir.namespacePath(t.name))
}

// run runs the namespace until ctx ends, or it is to be removed. Then it destroys what the
// namespace holds, and takes it off the list.
func (t *tenant) run(ctx context.Context) {
	defer close(t.ended)
	for again := spaceRetry; ctx.Err() == nil; again = min(2*again, maxSpaceRetry) {
		begun := time.Now()
		err := t.once(ctx)
		for errors.Is(err, errLimits) && ctx.Err() == nil {
			t.home.log.Info("the limits of a namespace have changed: it is started again", "namespace", string(t.name))
			begun, again = time.Now(), spaceRetry
			err = t.once(ctx)
		}
		if err == nil || ctx.Err() != nil {
			if !errors.Is(err, context.Canceled) { // a start that was cut short
				t.stopErr = err
			}
			return
		}
		if time.Since(begun) > maxSpaceRetry {
			again = spaceRetry
		}
		t.mu.Lock()
		t.failed = err
		t.mu.Unlock()
		t.home.log.Error("a namespace does not run: trying again", "namespace", string(t.name), "error", err, "in", again)
		_ = sleep.For(ctx, again)
	}
}

// errLimits says that a namespace has ended to begin with other limits.
var errLimits = errors.New("its limits have changed")

// once does what is to be done with the namespace, until ctx ends: nil says that nothing is
// left to do. An error is that of a start, of an end by itself, or of the stop.
func (t *tenant) once(ctx context.Context) error {
	if t.isRemoved() {
		return t.destroy(ctx)
	}
	s, life, err := t.open(ctx)
	if err != nil {
		return err
	}
	t.mu.Lock()
	select {
	case <-t.changed: // of what ran before
	default:
	}
	t.space, t.failed = s, nil
	t.apply()
	t.mu.Unlock()
	s.log.Info("the namespace runs")
	nudge.Send(t.begun)
	limits := false
	select {
	case <-ctx.Done():
	case <-t.remove:
	case <-t.changed:
		limits = true
	case <-s.decider.dispatcher.Done():
	}
	t.mu.Lock()
	t.space = nil
	end := t.stopCtx
	t.mu.Unlock()
	if end == nil {
		var cancel context.CancelFunc
		end, cancel = context.WithTimeout(context.WithoutCancel(ctx), spaceStopTimeout)
		defer cancel()
	}
	err = life.stop(end)
	switch {
	case ctx.Err() != nil:
		return err
	case t.isRemoved():
		return t.destroy(ctx)
	case limits:
		if err != nil {
			t.home.log.Warn("a namespace did not stop in peace", "namespace", string(t.name), "error", err)
		}
		return errLimits
	}
	return errors.Join(errors.New("its engine has ended by itself"), err)
}

// isRemoved reports whether the namespace is to be removed.
func (t *tenant) isRemoved() bool {
	select {
	case <-t.remove:
		return true
	default:
		return false
	}
}

// destroyLook is the time between two looks whether another node has taken the namespace off
// the list.
const destroyLook = time.Second

// destroy destroys what the namespace holds here. The owner of the default namespace's log
// destroys the streams as well, and takes the namespace off the list; others wait for that.
func (t *tenant) destroy(ctx context.Context) error {
	err := t.removeFolder()
	if err != nil {
		return fmt.Errorf("destroy the folder: %w", err)
	}
	for ; !t.home.ledger.lease.owns.Load(); err = sleep.For(ctx, destroyLook) {
		if err != nil {
			return err
		}
	}
	if err := t.awaitLetGo(ctx); err != nil {
		return fmt.Errorf("wait until all nodes have let go of it: %w", err)
	}
	if err := t.stillRemoved(ctx); err != nil {
		return fmt.Errorf("see that it is still to be destroyed: %w", err)
	}
	if err := t.home.dropStreams(ctx, t.name); err != nil {
		return fmt.Errorf("destroy the streams: %w", err)
	}
	t.home.log.Warn("the namespace was removed, with all that it held", "namespace", string(t.name))
	return t.home.decider.decide(ctx, core.ForgetNamespace{Name: t.name, CreatedAt: t.createdAt})
}

// stillRemoved fails unless the namespace is still on the list as one to remove, by a log of
// which most nodes say that nobody has gone on with it: an owner that was cut off may have been
// followed by one that has destroyed it, and the name may have been given again.
func (t *tenant) stillRemoved(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stateTimeout)
	defer cancel()
	if _, err := t.home.ledger.eventLog.Confirm(ctx); err != nil {
		return err
	}
	if _, err := t.home.ledger.readToEnd(ctx); err != nil {
		return err
	}
	list, err := t.home.ledger.store.Namespaces()
	if err == nil && !slices.ContainsFunc(list, func(info events.NamespaceInfo) bool {
		return info.Name == t.name && info.CreatedAt.Equal(t.createdAt) && info.Removing
	}) {
		err = errors.New("another node has destroyed it")
	}
	return err
}

// sayHeld answers, for as long as the connection is open, that this process holds the namespace.
func (b *base) sayHeld(context.Context) error {
	_, err := b.nc.Subscribe(b.names().Held(), func(m *nats.Msg) { _ = m.Respond(nil) }) // who has gone needs no answer
	return err
}

// awaitLetGo returns once no process that can be reached holds the namespace: one that did
// would make anew what is destroyed.
func (t *tenant) awaitLetGo(ctx context.Context) error {
	for {
		ask, cancel := context.WithTimeout(ctx, leaseAsk)
		_, err := t.home.nc.RequestWithContext(ask, t.home.names().Namespace(t.name).Held(), nil)
		cancel()
		if errors.Is(err, nats.ErrNoResponders) || ctx.Err() != nil {
			return ctx.Err()
		}
		if err := sleep.For(ctx, heldLook); err != nil {
			return err
		}
	}
}

// heldLook is the time between two looks whether a namespace is still held.
const heldLook = 20 * time.Millisecond

// ownStreams returns the names of all streams of a namespace, and the JetStream that has them.
func (b *base) ownStreams(ctx context.Context, name events.Namespace) (js jetstream.JetStream, own []string, err error) {
	if js, err = connect.JetStream(b.nc, b.names()); err != nil {
		return nil, nil, err
	}
	list := js.StreamNames(ctx)
	for s := range list.Name() {
		if b.names().Namespace(name).OwnsAlone(s) {
			own = append(own, s)
		}
	}
	return js, own, list.Err()
}

// dropStreams deletes all streams of a namespace.
func (b *base) dropStreams(ctx context.Context, name events.Namespace) error {
	ctx, cancel := context.WithTimeout(ctx, spaceStopTimeout)
	defer cancel()
	js, own, err := b.ownStreams(ctx, name)
	if err != nil {
		return err
	}
	for _, s := range own {
		if err := js.DeleteStream(ctx, s); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return err
		}
	}
	return nil
}

// open starts the namespace in its turn.
func (t *tenant) open(ctx context.Context) (*space, *lifecycle, error) {
	select {
	case t.starts <- struct{}{}:
		defer func() { <-t.starts }()
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	b, err := t.home.namespace(t.settings())
	if err == nil {
		err = b.dir.checkRestored()
	}
	if err != nil {
		return nil, nil, err
	}
	s := newSpace(b, t.home.guard)
	s.faces.hand = t.home.faces.hand
	s.faces.replicas, s.faces.at = t.home.faces.replicas, t.home.faces.addr()
	s.faces.knowNode()
	life := &lifecycle{log: b.log}
	f := s.faces
	parts := slices.Concat([]part{
		{"the share of the processors", just(func() { b.turns = t.home.turns.Another(b.info.Weight) }), just(func() { b.turns.Close() })},
		{"the connection", b.openConnection, just(func() { b.nc.Close() })},
		{"the word that it is held", b.sayHeld, nil},
		{"the link", just(func() { f.face.link.Store(&link{b.srv, b.nc}) }), nil},
	}, s.logParts(), s.workParts(), []part{
		{"the sites", just(func() { f.sites.start(f.service) }), just(f.sites.stop)},
		{"what is done first", s.decider.settle, nil},
		{"HTTP", just(f.beginHTTP), f.stopHTTP},
		{"the answers", f.answer, nil},
		{"the heir", nil, s.ledger.lease.choose},
	})
	return s, life, life.start(ctx, parts...)
}

// State implements [api.Namespaces].
func (s *spaces) State(ctx context.Context, name events.Namespace) (st wire.NamespaceState, err error) {
	t := s.get(name)
	if t == nil {
		return wire.NamespaceState{State: wire.NamespaceStarting}, nil
	}
	now, why := t.now()
	t.mu.Lock()
	removing, failed := t.info.Removing, t.failed
	t.mu.Unlock()
	switch {
	case removing:
		return wire.NamespaceState{State: wire.NamespaceRemoving}, nil
	case now == nil && failed != nil:
		return wire.NamespaceState{State: wire.NamespaceFailed, Error: why}, nil
	case now == nil:
		return wire.NamespaceState{State: wire.NamespaceStarting}, nil
	}
	return now.state(ctx)
}

// hand has a namespace decide submissions of another, if it accepts them. Every node knows
// whom it accepts, as far as it has read the log of the default one.
func (s *spaces) hand(ctx context.Context, from, to events.Namespace, body []byte) ([]byte, error) {
	t := s.get(to)
	if t == nil {
		return nil, api.NotAccepted(from, to)
	}
	if info := t.settings(); info.Removing || !info.Accept.Has(from) {
		return nil, api.NotAccepted(from, to)
	}
	now, why := t.now()
	if now == nil {
		return nil, events.Refuse(events.CodeUnavailable, "%s", why)
	}
	return now.faces.service.Accept(ctx, body)
}

// Metrics implements [api.Namespaces].
func (s *spaces) Metrics() (list []api.NamespaceMetrics) {
	all := s.all()
	slices.SortFunc(all, func(a, b *tenant) int {
		return cmp.Or(a.createdAt.Compare(b.createdAt), strings.Compare(string(a.name), string(b.name)))
	})
	for _, t := range all {
		m := api.NamespaceMetrics{Name: t.name}
		if now, _ := t.now(); now != nil {
			m.Metrics = now.ledger.metrics
		}
		list = append(list, m)
	}
	return list
}

// AtRisk implements [api.Namespaces].
func (s *spaces) AtRisk(known []string, at time.Time) (n int, oldest time.Time) {
	for _, t := range s.all() {
		now, _ := t.now()
		if now == nil {
			continue
		}
		risks, looked := now.faces.service.AtRisk()
		if looked.Before(at) {
			at = looked
		}
		if slices.ContainsFunc(risks, func(w string) bool { return !slices.Contains(known, w) }) {
			n++
		}
	}
	return n, at
}

// stateTimeout bounds the wait for a namespace that has not read its log yet, or whose cluster
// has no leader.
const stateTimeout = 5 * time.Second

// readToEnd returns the end of the log, once the store has all up to there.
func (l *ledger) readToEnd(ctx context.Context) (eventlog.End, error) {
	end, err := l.eventLog.End(ctx)
	if err != nil {
		return end, err
	}
	if err := l.store.Await(ctx, end.Last); err != nil {
		return end, fmt.Errorf("wait until it has read its log: %w", err)
	}
	return end, nil
}

// state says how the namespace is, with all that was accepted before.
func (s *space) state(ctx context.Context) (st wire.NamespaceState, err error) {
	st = wire.NamespaceState{State: wire.NamespaceRunning, Owner: s.owner(), States: map[string]int64{}}
	st.Because = s.ledger.lease.because(st.Owner)
	ctx, cancel := context.WithTimeout(ctx, stateTimeout)
	defer cancel()
	end, err := s.ledger.readToEnd(ctx)
	if err != nil {
		return st, err
	}
	types, err := s.ledger.store.Types()
	if err != nil {
		return st, err
	}
	for _, t := range types {
		for state, n := range t.Counts {
			if n != 0 {
				st.States[events.ItemState(state).String()] += n
			}
		}
	}
	meta, err := s.ledger.store.Meta()
	if err != nil {
		return st, err
	}
	st.LastAt, st.LogBytes = meta.LastAt, int64(end.Bytes)
	js, err := connect.JetStream(s.nc, s.names())
	if err != nil {
		return st, err
	}
	intake, err := js.Stream(ctx, s.names().IntakeStream())
	if err != nil {
		return st, err
	}
	st.Undecided = int64(intake.CachedInfo().State.Msgs)
	return st, nil
}

// namespaceFolder has the folders of the namespaces beside the default one.
const namespaceFolder = "namespaces"

// namespaces returns the names of the namespaces that have a folder, sorted.
func (d *dataDir) namespaces() (names []events.Namespace) {
	if d == nil {
		return nil
	}
	entries, _ := os.ReadDir(filepath.Join(d.path, namespaceFolder)) // there may be none
	for _, e := range entries {
		if name, err := events.ParseNamespace(e.Name()); err == nil {
			names = append(names, name)
		}
	}
	return names
}

// namespacePath returns the path of a namespace's folder.
func (d *dataDir) namespacePath(name events.Namespace) string {
	return filepath.Join(d.path, namespaceFolder, string(name))
}

// namespace returns the folder of a namespace, in that of the process, which has the lock.
func (d *dataDir) namespace(name events.Namespace) (*dataDir, error) {
	if d == nil {
		return nil, nil
	}
	sub := &dataDir{path: d.namespacePath(name)}
	if err := os.MkdirAll(sub.path, 0o700); err != nil {
		return nil, fmt.Errorf("open the folder of the namespace %s: %w", name, err)
	}
	return sub, nil
}

// namespace returns the base of another namespace: with its own names and folder, without
// what engine.toml says of the default one alone, and without a connection yet.
func (b *base) namespace(info events.NamespaceInfo) (*base, error) {
	ns, name := *b, info.Name
	ns.info = info
	ns.starting, ns.nc = nil, nil
	ns.log = b.log.With("namespace", string(name))
	ns.cfg.Server.Prefix = b.names().Namespace(name).Prefix
	ns.cfg.Namespaces, ns.cfg.Types, ns.cfg.Schedules, ns.cfg.DedupHook, ns.cfg.Leaf = nil, nil, nil, config.DedupHook{}, config.Leaf{Sites: b.cfg.Leaf.In(name)}
	if n := info.Limits.MaxQueued; n > 0 {
		ns.cfg.Limits.MaxQueued = n
	}
	ns.o.DedupHook, ns.o.Score, ns.o.Role, ns.o.WaitingForNodes, ns.o.RestoreFrom, ns.o.RestoreNamespaces = nil, nil, nil, nil, b.o.RestoreNamespaces[name], nil
	var err error
	ns.dir, err = b.dir.namespace(name)
	return &ns, err
}
