package embedded

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/streamwright/streamwright/api"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/dispatcher"
	"github.com/streamwright/streamwright/embedded/beat"
	"github.com/streamwright/streamwright/embedded/placement"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/lograte"
	"github.com/streamwright/streamwright/internal/nudge"
	"github.com/streamwright/streamwright/internal/sleep"
	"github.com/streamwright/streamwright/kvstate"
	"github.com/streamwright/streamwright/wire"
)

// Where several engines can reach one log (the nodes of a cluster, or on an existing
// NATS), the lease in the bucket work_partitions says which of them tries to own it.
// It only makes the others stand by: the log alone decides who may append, and fences
// latecomers. Only the server's clock ends a lease, and no clocks are compared.

const (
	// leaseAsk bounds one request for the lease: to find that its bucket is gone takes half of
	// that. leaderAsk bounds one of a node whose server leads the log, and which can do
	// without; servers that have just had an election drop requests.
	leaseAsk  = time.Second
	leaderAsk = 400 * time.Millisecond
	// takenWithin bounds the wait of an engine that stops for the word that another owns the
	// log now. The takeover is short as long as this node's server is there.
	takenWithin = 3 * time.Second
	// endsWithin bounds the wait for the end of an ownership before its lease goes to an heir,
	// whose first append ends it anyway, and endsLook is the time between two looks.
	endsWithin = time.Second
	endsLook   = 10 * time.Millisecond
	// passAfter is the time, in lives of a lease, for which an engine that holds it may fail
	// to take over, or to serve the log; then it lets another try. It leaves the lease to
	// others for minPass lives of it, each time twice as long, up to maxPass.
	passAfter = 5
	minPass   = 2
	maxPass   = 20
)

// lease holds this engine's claim to the log. It implements [dispatcher.Lease].
//
// The owner also says that it is there, on a subject of its own (a beat). While a standby
// hears that it does not ask for the lease: the bucket can be without a leader for some
// seconds although the owner is well, and an entry that could not be renewed in time would
// then change hands for nothing.
type lease struct {
	*base
	owns    atomic.Bool                           // this engine owns the log
	working atomic.Pointer[dispatcher.Dispatcher] // nil until it has begun to own it, or to stand by
	// call asks an endpoint of the API; nil until there is one.
	call func(ctx context.Context, endpoint string, data []byte) ([]byte, error)

	ttl    time.Duration
	owners *kvstate.Partitions
	me     kvstate.Owner
	beat   *beat.Beat
	wake   chan struct{} // something when the entry must be written

	mu       sync.Mutex // guards what follows; held while the bucket is asked
	rev      uint64     // 0: it is not held
	epoch    events.Epoch
	released bool      // for good
	failing  time.Time // of the first failure since it served the log well; zero: none
	ownedAt  time.Time // since when it serves the log; zero: it does not
	passes   int       // in a row
	passed   time.Time // the lease is left to others until then
	passedTo string    // to that one first; empty: to any

	heir   string // at the stop, of the lifecycle; empty: none
	cancel context.CancelFunc
	ended  sync.WaitGroup
}

// nodeFile names the data folder, for as long as it is there.
const nodeFile = "NODE"

// node reads the data folder's name, or gives it one. Without a folder it makes one
// up.
func (d *dataDir) node() (string, error) {
	if d == nil {
		return rand.Text(), nil
	}
	path := filepath.Join(d.path, nodeFile)
	b, err := os.ReadFile(path)
	if name := strings.TrimSpace(string(b)); err == nil && name != "" {
		return name, nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	name := rand.Text()
	return name, os.WriteFile(path, []byte(name+"\n"), 0o600)
}

// shared reports whether other engines can reach the log. Only then the lease is needed.
func (l *lease) shared() bool { return l.cfg.Server.NATSURL != "" || l.cfg.Cluster.On() }

// start prepares the lease. It does not take it.
func (l *lease) start(context.Context) error {
	if !l.shared() {
		return nil
	}
	js, err := connect.JetStream(l.nc, l.names())
	if err != nil {
		return fmt.Errorf("prepare the lease: %w", err)
	}
	node, err := l.dir.node()
	if err != nil {
		return fmt.Errorf("prepare the lease: name the data folder: %w", err)
	}
	l.ttl, l.me, l.wake = l.cfg.Cluster.Lease, kvstate.Owner{Owner: l.nodeName(), Node: node}, make(chan struct{}, 1)
	l.owners = kvstate.NewPartitions(js, l.names(), l.ttl).Replicate(l.copies.replicas, l.copies.placement)
	l.beat, err = beat.Listen(beat.Config{Conn: l.nc, Names: l.names(), Owner: l.me.Owner, Node: node, TTL: l.ttl, Leads: l.leads})
	if err != nil {
		return fmt.Errorf("prepare the lease: %w", err)
	}
	run, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	l.ended.Go(func() { l.renew(run) })
	if l.cfg.Cluster.On() {
		l.ended.Go(func() { l.bringTogether(run) })
	}
	l.ended.Go(func() { l.leaveFull(run) })
	l.ended.Go(func() { l.giveWhenAsked(run) })
	return nil
}

// leads reports whether this node is to take a free lease first: its server leads the log,
// or no node has a server.
func (l *lease) leads() bool { return l.srv == nil || l.srv.leadsLog(l.names()) }

// Take implements [dispatcher.Lease]. When the owner is not heard and the lease can't be asked
// for, since its bucket has no leader yet either, the node whose server leads the log goes
// ahead, and asks for the lease behind that: only one leads it, and the log fences.
func (l *lease) Take(ctx context.Context) (by string, err error) {
	if by := l.beat.Owner(ctx); by != "" {
		l.forgo()
		return by, nil
	}
	if to, passing := l.passing(); to != "" {
		return to, nil
	} else if passing {
		return "", dispatcher.ErrPassed
	}
	within, leads := leaseAsk, l.srv.leadsLog(l.names())
	if leads {
		within = leaderAsk
	}
	err = l.ask(ctx, true, within)
	var held *kvstate.HeldError
	switch {
	case errors.As(err, &held):
		return held.By.Owner, nil
	case err != nil && silence(err) && leads:
		if by := l.beat.Owner(ctx); by != "" { // it has begun to own the log meanwhile
			l.forgo()
			return by, nil
		}
		l.log.Warn("the lease of the log can't be asked for: this node's server leads the log, and takes it over", "error", err)
		return "", nil
	case err != nil && silence(err):
		// An owner may be there, and not be heard yet: this node may have been cut off until now.
		// Its beats come twice as often.
		if sleep.For(ctx, l.ttl/3) == nil {
			if by := l.beat.Owner(ctx); by != "" {
				return by, nil
			}
		}
	}
	return "", err
}

// forgo leaves the lease, if this engine holds it, to its end: another owns the log, which could
// not ask for it.
func (l *lease) forgo() {
	l.mu.Lock()
	l.rev = 0
	l.mu.Unlock()
}

// passing reports whether the lease is left to others, and to whom; empty: to any of them.
func (l *lease) passing() (to string, passing bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !time.Now().Before(l.passed) {
		return "", false
	}
	return l.passedTo, true
}

// Failed implements [dispatcher.Lease].
func (l *lease) Failed(why error, final bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, limit := time.Now(), passAfter*l.ttl
	if !l.ownedAt.IsZero() && now.Sub(l.ownedAt) > limit {
		l.failing, l.passes = time.Time{}, 0
	}
	if l.ownedAt = (time.Time{}); l.failing.IsZero() {
		l.failing = now
	}
	l.released = l.released || final
	if l.rev == 0 || !final && now.Sub(l.failing) < limit {
		return
	}
	pause := time.Duration(min(minPass<<min(l.passes, 8), maxPass)) * l.ttl
	if l.passes++; final {
		l.log.Error("this engine holds the lease of the log and can't serve it: leaving it to others", "error", why)
	} else {
		l.log.Error("this engine holds the lease of the log and can't take over: letting another try", "error", why, "tried", now.Sub(l.failing).Round(time.Second), "again_in", pause)
	}
	l.failing, l.passed, l.passedTo = time.Time{}, now.Add(pause), ""
	l.giveUp(context.Background(), "", "")
}

// handOn gives the lease to the heir, and has the dispatcher stand by. It reports whether the
// heir has said that it owns the log; if not, this engine may take it again later.
func (l *lease) handOn(ctx context.Context, heir string, because wire.TakeoverCause) bool {
	l.mu.Lock()
	l.passed, l.passedTo = time.Now().Add(minPass*l.ttl), heir
	l.mu.Unlock()
	l.working.Load().Reload()
	for end := time.Now().Add(endsWithin); l.owns.Load() && time.Now().Before(end); {
		if sleep.For(ctx, endsLook) != nil {
			return false
		}
	}
	l.mu.Lock()
	told := l.rev != 0 && l.giveUp(ctx, heir, because)
	l.mu.Unlock()
	return told && l.awaitHeir(ctx, heir)
}

// awaitHeir waits until the heir has said that it owns the log, which another has not since
// this engine did. It reports whether the heir has, in time.
func (l *lease) awaitHeir(ctx context.Context, heir string) bool {
	select {
	case <-l.beat.Taken():
		return true
	case <-time.After(takenWithin):
		l.log.Warn("the heir has not said that it owns the log", "heir", heir, "after", takenWithin)
	case <-ctx.Done():
	}
	return false
}

// giveUp releases the lease, which is held, tells the others, and reports whether they know.
// It takes no longer than leaseAsk. REQUIRES: mu.
func (l *lease) giveUp(ctx context.Context, heir string, because wire.TakeoverCause) bool {
	select {
	case <-l.beat.Taken(): // of an earlier owner
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, leaseAsk)
	defer cancel()
	err := l.owners.Release(ctx, 0, l.me, l.rev)
	if err == nil {
		err = l.beat.Release(heir, because)
	}
	if err == nil {
		err = l.nc.FlushWithContext(ctx)
	}
	if l.rev = 0; err != nil {
		l.log.Warn("the lease of the log could not be released: it ends by itself", "error", err, "within", l.ttl)
	}
	return err == nil
}

// Changed implements [dispatcher.Lease].
func (l *lease) Changed() <-chan struct{} { return l.beat.Changed() }

var errReleased = errors.New("the engine is stopping")

// ask renews the lease, or takes it if that is asked for. A *kvstate.HeldError says that
// another has it.
func (l *lease) ask(ctx context.Context, take bool, within time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.rev == 0 && !take:
		return nil
	case l.released:
		return errReleased
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	me := l.me
	me.Epoch, me.At = l.epoch, time.Now().UTC()
	rev, err := l.owners.Lease(ctx, 0, me, l.rev, l.beat.Gone())
	if held := (*kvstate.HeldError)(nil); err == nil || errors.As(err, &held) {
		l.rev = rev
	}
	return err
}

// owned notes the epoch, which the lease shows from then on, and says that this engine owns
// the log.
func (l *lease) owned(epoch events.Epoch) {
	if !l.shared() {
		return
	}
	l.mu.Lock()
	l.epoch, l.ownedAt = epoch, time.Now()
	l.mu.Unlock()
	_ = l.beat.Own(epoch) // fails when the connection is closed
	l.poke()
}

func (l *lease) holds() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rev != 0
}

// wants reports whether this engine owns the log, and does not leave it to others, for now or
// for good.
func (l *lease) wants() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.owns.Load() && !l.released && !time.Now().Before(l.passed)
}

// because says how the owner went from whom the present one has taken over.
func (l *lease) because(owner string) wire.TakeoverCause {
	if !l.shared() {
		return ""
	}
	return l.beat.Because(owner)
}

func (l *lease) poke() { nudge.Send(l.wake) }

// renew keeps the lease, once it is held, until ctx ends. When it is another's, or another
// owns the log in a later epoch, the dispatcher ends its ownership, and stands by: with nothing
// to append it does not find out. It renews a long lease as often as one of the
// default length: a node that starts with the default shortens the life of all entries in the
// bucket, and the owner's must outlive that.
func (l *lease) renew(ctx context.Context) {
	tick := time.NewTicker(min(l.ttl, config.DefaultLease) / 6)
	defer tick.Stop()
	trouble := lograte.NewTrouble(l.log, "the lease of the log could not be renewed")
	defer trouble.Stop()
	for odd := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		case <-l.beat.Heard():
			if d := l.working.Load(); d != nil && l.owns.Load() && l.beat.Epoch() > d.Epoch() {
				l.log.Warn("another engine has taken over the log: standing by")
				d.Reload()
			}
			continue
		case <-tick.C:
			if l.wants() {
				_ = l.beat.Here() // fails when the connection is closed
			}
			if odd = !odd; odd {
				continue
			}
		}
		had := l.holds()
		err := l.ask(ctx, l.wants(), leaseAsk)
		var held *kvstate.HeldError
		switch {
		case err == nil || ctx.Err() != nil:
		case errors.As(err, &held) && !had: // the last owner's, which ends soon
		case errors.As(err, &held):
			l.log.Warn("the lease of the log has gone to another engine", "owner", held.By.Owner)
			if d := l.working.Load(); d != nil {
				d.Reload()
			}
		default:
			trouble.Failed(err)
		}
	}
}

// choose notes which node is to own the log after this one.
func (l *lease) choose(ctx context.Context) error {
	if l.shared() && l.owns.Load() {
		l.heir = l.chooseHeir(ctx)
	}
	return nil
}

// stop releases the lease, so that a standby takes over at once: the heir, if there is
// one, and then stop waits until it has. Meanwhile this node's server still is there
// for it.
func (l *lease) stop(ctx context.Context) error {
	if !l.shared() {
		return nil
	}
	l.handOver(ctx, l.heir)
	l.cancel()
	l.ended.Wait()
	defer l.beat.Close()
	if l.release(ctx, l.heir) && l.heir != "" {
		l.awaitHeir(ctx, l.heir)
	}
	return nil
}

// release gives the lease up for good, and reports whether it was held, and others know.
func (l *lease) release(ctx context.Context, heir string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.released = true
	if l.rev == 0 {
		return false
	}
	return l.giveUp(ctx, heir, "")
}

const (
	// chooseWithin bounds the choice of an heir, while the owner still works.
	chooseWithin = time.Second
	// handLogWithin bounds the time in which the log's leadership goes to the heir. Nothing
	// is decided meanwhile.
	handLogWithin = time.Second
	// maxHeirLag is the lag of a standby that can be an heir.
	maxHeirLag = 10_000 // events
)

// chooseHeir returns the standby that should own the log after this engine; empty: there is none.
func (l *lease) chooseHeir(ctx context.Context) string {
	if l.call == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, chooseWithin)
	defer cancel()
	r, err := l.allNodes(ctx)
	if err != nil {
		l.log.Warn("the other nodes could not be asked: whoever is first takes the log over", "error", err)
		return ""
	}
	var servers []NodeState
	if l.cfg.Cluster.On() {
		servers = l.cluster().stream(ctx, l.names().EventStream(0)).Replicas
	}
	return heirOf(string(l.namespaceName()), l.room.Full() != nil, r.Nodes, servers)
}

// heirOf returns the standby that should own a log next; empty: none can. It prefers, in this order:
// a current replica of the log, if the owner is full, since only such a server can lead it; the
// owner's settings; such a replica; the least lag. Equals are spread by a hash of the log's name.
// Without servers, replicas are not considered.
func heirOf(log string, full bool, nodes []wire.Node, servers []NodeState) string {
	fit := slices.DeleteFunc(slices.Clone(nodes), func(n wire.Node) bool { return !canOwn(n) })
	if len(fit) == 0 {
		return ""
	}
	rank := func(is bool) int {
		if is {
			return 1
		}
		return 0
	}
	keeps := func(n wire.Node) bool {
		return slices.ContainsFunc(servers, func(s NodeState) bool { return s.Name == n.Node && s.Online && s.Current })
	}
	worse := func(a, b wire.Node) int {
		return cmp.Or(cmp.Compare(rank(full && keeps(b)), rank(full && keeps(a))), cmp.Compare(rank(a.SettingsDiffer), rank(b.SettingsDiffer)), cmp.Compare(rank(keeps(b)), rank(keeps(a))), cmp.Compare(a.LagEvents, b.LagEvents))
	}
	best := slices.MinFunc(fit, worse)
	var names []string
	for _, n := range fit {
		if worse(n, best) == 0 {
			names = append(names, n.Node)
		}
	}
	return placement.Heir(log, names)
}

// canOwn reports whether a standby follows the log, and has room.
func canOwn(n wire.Node) bool {
	return n.Online && n.Role == wire.RoleStandby && n.CutOff == "" && n.Full == "" && n.LagEvents <= maxHeirLag
}

// giveWhenAsked has the owner hand the log on to the node that it is asked to, if that one can
// own it.
func (l *lease) giveWhenAsked(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case a := <-l.beat.Asked():
			if l.wants() {
				a.Answer(l.give(ctx, a.To, a.Because))
			}
		}
	}
}

// give hands the log on to a node, if that one can own it.
func (l *lease) give(ctx context.Context, to string, because wire.TakeoverCause) error {
	if to == l.nodeName() {
		return nil
	}
	ask, cancel := context.WithTimeout(ctx, chooseWithin)
	r, err := l.allNodes(ask)
	cancel()
	if err != nil {
		return fmt.Errorf("%s could not be asked how it is: %w", to, err)
	}
	if !slices.ContainsFunc(r.Nodes, func(n wire.Node) bool { return n.Node == to && canOwn(n) }) {
		return fmt.Errorf("%s does not follow the log closely enough, or has no room", to)
	}
	l.log.Info("another node should own the log: handing it on", "to", to, "because", because)
	l.handOver(ctx, to)
	if !l.handOn(ctx, to, because) {
		return fmt.Errorf("%s has not taken it over", to)
	}
	l.mu.Lock()
	l.passed, l.passedTo = time.Time{}, "" // it has it: this node may be the next one's heir
	l.mu.Unlock()
	return nil
}

// allNodes asks all nodes how they are.
func (l *lease) allNodes(ctx context.Context) (r wire.NodesReply, err error) {
	data, err := l.call(ctx, wire.APINodes, nil)
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	return r, err
}

// leadsLog reports whether this is a node's server that leads the event stream.
func (s *server) leadsLog(n wire.Names) bool {
	return s != nil && s.member() != nil && s.ns().JetStreamIsStreamLeader(n.Account(), n.EventStream(0))
}

const (
	// leaderLook is the time between two looks whether the owner's server leads the log. One
	// that does not for leaderLooks in a row asks for it; after that it lets leaderRest pass.
	leaderLook  = 5 * time.Second
	leaderLooks = 3
	leaderRest  = time.Minute
)

// bringTogether has the owner's own server lead the log: an append then needs one way less
// between the nodes. It is in no hurry, since the change itself holds up appends for a moment.
func (l *lease) bringTogether(ctx context.Context) {
	l.watch(ctx, leaderLook, leaderLooks, leaderRest, func() bool { return !l.srv.leadsLog(l.names()) && l.room.Full() == nil }, func() {
		l.log.Info("another node's server leads the log: asking for it")
		try, cancel := context.WithTimeout(ctx, handLogWithin)
		defer cancel()
		if err := l.cluster().HandLog(try, l.nodeName()); err != nil {
			l.log.Warn("the log's leadership could not be had", "error", err)
		}
	})
}

// watch acts when the owner has found something wrong at several looks in a row, and rests
// after that.
func (l *lease) watch(ctx context.Context, every time.Duration, looks int, rest time.Duration, wrong func() bool, act func()) {
	for n := 0; sleep.For(ctx, every) == nil; {
		if n++; !l.wants() || !wrong() {
			n = 0
		}
		if n < looks {
			continue
		}
		act()
		if n = 0; sleep.For(ctx, rest) != nil {
			return
		}
	}
}

const (
	// fullLook is the time between two looks whether the owner has room. One that had none
	// fullLooks times in a row hands the log on; after a try it lets fullRest pass.
	fullLook  = time.Second
	fullLooks = 3
	fullRest  = time.Minute
)

// leaveFull has an owner without room for new work give the log to a standby that has some.
// If none has, the owner stays, and refuses new work.
func (l *lease) leaveFull(ctx context.Context) {
	l.watch(ctx, fullLook, fullLooks, fullRest, func() bool { return l.room.Full() != nil }, func() { l.handOnFull(ctx, l.room.Full()) })
}

// handOnFull gives the log to a standby, as at a stop: the log's leadership first, and then
// the lease, so that the heir's first append ends this ownership at the latest.
func (l *lease) handOnFull(ctx context.Context, full *api.RoomAlarm) {
	if full == nil {
		return // there is room again
	}
	heir := l.chooseHeir(ctx)
	if heir == "" {
		l.log.Warn("this node owns the log and has no room for new work, and no other has that could own it: new work is refused", "why", full.Fact, "look_again_in", fullRest)
		return
	}
	l.log.Warn("this node owns the log and has no room for new work: handing the log to one that has", "why", full.Fact, "to", heir)
	l.handOver(ctx, heir)
	if l.srv.leadsLog(l.names()) {
		l.log.Warn("this node's server still leads the log: it stays the owner", "try_again_in", fullRest)
		return
	}
	if l.handOn(ctx, heir, wire.TakeoverFull) {
		l.log.Info("the log was handed over", "to", heir)
	}
}

// handOver gives the leadership of the log to the heir's server, so that the heir appends
// where its log is, and no election is needed when this server stops.
func (l *lease) handOver(ctx context.Context, heir string) {
	if heir == "" || !l.cfg.Cluster.On() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, handLogWithin)
	defer cancel()
	if err := l.cluster().HandLog(ctx, heir); err != nil {
		l.log.Warn("the log's leadership was not handed on: its servers choose another leader", "to", heir, "error", err)
	}
}
