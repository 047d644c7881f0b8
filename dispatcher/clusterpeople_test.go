package dispatcher

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/dispatcher/retention"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/wire/command"
)

// people are the clients and workers of a cluster. Each is at some server, and asks again
// until it has an answer, or gives up.
type people struct {
	c        *cluster
	ids      uint64
	space    byte                     // in the ids that they make: of the namespace
	accepted map[events.ID]events.Seq // submissions that were answered, and the position told
	order    []events.ID              // of accepted
	runs     []*clusterRun            // runs that workers have begun
	alive    map[string]int           // workers and their slots
	sessions map[string]string        // of workers
	lives    int                      // sessions that there have been
	lost     int                      // requests given up
	acks     []uint64                 // messages that ack workers have
	set      events.TypeSettings
	limits   events.Limits
	rng      *rand.Rand // of the present deed
	post     post
}

// clusterRun is a run that a worker was given.
type clusterRun struct {
	m    *simRun
	busy bool // it waits for an answer
}

const clusterType = events.Type("email")

func newPeople(c *cluster) *people {
	p := &people{c: c, accepted: map[events.ID]events.Seq{}, alive: map[string]int{"w0": 3, "w1": 2}, sessions: map[string]string{}, rng: c.rng}
	p.post.newID = p.id
	for i := range 3 {
		p.newSession("w" + strconv.Itoa(i))
	}
	p.set = events.DefaultTypeSettings()
	p.set.Backoff.Jitter = 0
	p.set.MaxAttempts, p.set.Capacity = 50, 8
	if c.rng.IntN(3) == 0 {
		p.limits.Pools = map[string]events.Pool{"llm": {Slots: 4}}
		p.set.Pool = "llm"
	}
	if c.rng.IntN(3) == 0 {
		p.set.GroupCapacity = 1 + c.rng.IntN(2)
		p.set.Rates = []events.RateLimit{{Per: events.PerTenant, At: events.AtDispatch, N: 3, Interval: events.Millis(10_000), Burst: 2}}
	}
	p.set.AssignBy = []string{"", events.AssignRoundRobin, events.PerTenant, events.PerLabel + "customer"}[c.rng.IntN(4)]
	if c.cutting {
		p.set.Retain = events.Retention{Completed: events.Millis(20_000), Dead: events.Millis(40_000), Cancelled: events.Millis(1), Merged: events.Millis(1)}
	}
	c.After(time.Second, p.configure)
	c.After(2*time.Second, p.beat)
	return p
}

func (p *people) id() (id events.ID) {
	p.ids++
	id[0], id[1] = 2, p.space
	for i := range 8 {
		id[15-i] = byte(p.ids >> (8 * i))
	}
	return id
}

// asking is a request that is asked until it is answered. It makes the job of each try;
// the job calls answered, at the engine, with whether the answer says what became of it.
type asking struct {
	at     int // the server that the asker is connected to
	tries  int
	job    func(n *clusterNode, l *loop, asked events.Seq, answered func(known bool)) job
	hears  func() // the asker has the answer
	gives  func() // it has given up
	served bool
}

// ask sends a request to a node that thinks it is the owner.
func (p *people) ask(a *asking) {
	c := p.c
	if a.served {
		return
	}
	if a.tries--; a.tries < 0 {
		p.lost++
		if a.gives != nil {
			a.gives()
		}
		return
	}
	if n := p.owner(a.at); n != nil {
		asked := c.logEnd()
		deliver := c.between(50*time.Microsecond, 2*time.Millisecond)
		c.After(deliver, func() { p.arrive(a, n, asked) })
	}
	c.After(c.between(500*time.Millisecond, 3*time.Second), func() { p.ask(a) })
}

func (p *people) arrive(a *asking, n *clusterNode, asked events.Seq) {
	c := p.c
	switch {
	case a.served || !n.owns() || n.l.closing || !c.log.Reaches(a.at, n.at):
		return
	case n.paused(c.at):
		c.After(n.asleep.Sub(c.at)+time.Millisecond, func() { p.arrive(a, n, asked) })
		return
	case len(n.l.queues.urgent.jobs) >= maxPendingJobs:
		return
	}
	l := n.l
	l.queues.urgent.jobs = append(l.queues.urgent.jobs, a.job(n, l, asked, func(known bool) {
		if !known || c.rng.IntN(20) == 0 && !c.calm || !c.log.Reaches(n.at, a.at) {
			return // the answer is lost
		}
		c.After(c.between(50*time.Microsecond, 2*time.Millisecond), func() {
			if !a.served {
				a.served = true
				if a.hears != nil {
					a.hears()
				}
			}
		})
	}))
	n.kick()
}

// owner is one of the nodes within reach that think they are the owner; nil for none.
func (p *people) owner(at int) *clusterNode {
	var owners []*clusterNode
	for _, n := range p.c.nodes {
		if n.owns() && p.c.log.Reaches(at, n.at) {
			owners = append(owners, n)
		}
	}
	if len(owners) == 0 {
		return nil
	}
	return owners[p.c.rng.IntN(len(owners))]
}

// command asks for commands to be decided.
func (p *people) command(tries int, hears func([]Outcome), what string, cmds ...core.Command) {
	p.commandAt(p.c.rng.IntN(p.c.servers()), tries, hears, what, cmds...)
}

// repeat asks, at a server, for something that was decided already.
func (p *people) repeat(at int) {
	if len(p.order) > 0 && !p.c.calm {
		p.c.figures.repeats++
		id := p.order[p.c.rng.IntN(len(p.order))]
		p.commandAt(at, 1, nil, "a repeat", core.Submit{Type: clusterType, NewID: id, ID: id, Priority: prio(5)})
	}
}

func (p *people) commandAt(at, tries int, hears func([]Outcome), what string, cmds ...core.Command) {
	var out []Outcome
	a := &asking{at: at, tries: tries}
	a.job = func(n *clusterNode, l *loop, asked events.Seq, answered func(bool)) job {
		return &commandJob{cmds: cmds, done: func(outcomes []Outcome) {
			known := true
			for i, o := range outcomes {
				if events.CodeOf(o.Err) == events.CodeUnavailable {
					known = false
					continue
				}
				pos := o.Position
				if o.Err != nil {
					pos = 0
				}
				p.c.oracle.told(n, l, asked, pos, what)
				p.checkOutcome(n, o, what)
				p.judge(n, mailTold{cmd: cmds[i], repeat: o.Decision.Repeat, err: o.Err, asked: asked})
			}
			if known {
				out = slices.Clone(outcomes)
			}
			answered(known)
		}}
	}
	a.hears = func() {
		if hears != nil {
			hears(out)
		}
	}
	p.ask(a)
}

// checkOutcome holds an answer against the log.
func (p *people) checkOutcome(n *clusterNode, o Outcome, what string) {
	p.c.oracle.look()
	id := o.Decision.ID
	if o.Err == nil && !id.IsZero() && p.c.oracle.life(id, o.Position) == nil {
		p.c.failf("n%d answers %s with item %s, which is not in the log at %d", n.n, what, id, o.Position)
	}
}

// judge holds an answer about signals, tokens and questions against the log.
func (p *people) judge(n *clusterNode, a mailTold) {
	a.now = p.c.logEnd()
	if err := p.c.oracle.mail.judge(a); err != nil {
		p.c.failf("n%d: %w", n.n, err)
	}
}

// at returns the server that a worker is connected to.
func (p *people) at(worker string) int { return int(worker[1]-'0') % p.c.servers() }

// report sends a worker's report. start says that it reports the run's start as well.
func (p *people) report(tries int, m *simRun, event string, start bool, hears func(wire.Reported), gives func()) {
	r := m.report(event)
	r.Start = start
	p.send(tries, m, r, hears, gives)
}

func (p *people) send(tries int, m *simRun, r wire.Report, hears func(wire.Reported), gives func()) {
	var got wire.Reported
	a := &asking{at: p.at(m.worker), tries: tries, gives: gives}
	a.job = func(n *clusterNode, l *loop, asked events.Seq, answered func(bool)) job {
		r := r
		if d := l.table.ByID[m.id]; p.c.bug == bugStaleToken && d != nil {
			r.Token = d.Token.String()
		}
		rep := command.Report{Report: &r}
		p.c.failed(rep.Prepare(p.id, 1000))
		return &reportJob{reports: []command.Report{rep}, done: func(out []wire.Reported) {
			known := out[0].OK || out[0].Error.Code != events.CodeUnavailable
			if known {
				got = out[0]
				p.checkReport(n, l, asked, m, &r, got)
			}
			answered(known)
		}}
	}
	a.hears = func() { hears(got) }
	p.ask(a)
}

// checkReport holds the answer to a report against the log.
func (p *people) checkReport(n *clusterNode, l *loop, asked events.Seq, m *simRun, r *wire.Report, got wire.Reported) {
	c := p.c
	c.oracle.look()
	if !got.OK || got.Position == "" {
		return // not taken, or only put back
	}
	pos, err := strconv.ParseUint(string(got.Position), 10, 64)
	c.failed(err)
	c.oracle.told(n, l, asked, events.Seq(pos), r.Event)
	switch r.Event {
	case wire.ReportToken:
		p.judge(n, mailTold{cmd: core.GiveToken{Run: core.Run{ID: m.id}, Hash: r.WaitToken.Hash}})
	case wire.ReportStart:
		if !c.oracle.tokens[m.token] {
			c.failf("n%d answers that %s has started under %s, and the log does not know that claim", n.n, m.id, m.token)
		}
		c.failed(c.oracle.mail.started(m.token, m.left.Waited))
	case wire.ReportComplete:
		if v := c.oracle.life(m.id, events.Seq(pos)); v == nil || v.completed == 0 || v.completed > events.Seq(pos) || v.under != m.token {
			c.failf("n%d answers that %s is completed under %s at %d: the log says %+v", n.n, m.id, m.token, pos, v)
		}
	}
}

func (c *cluster) servers() int { return c.size }

// configure sets the type's settings, and a schedule.
func (p *people) configure() {
	p.command(1000, nil, "configure", core.Configure{Type: clusterType, Source: events.SourceAPI, Settings: p.set},
		core.SetSchedule{Schedule: events.Schedule{Name: "tick", Type: clusterType, Every: events.Millis(15_000), Source: "api"}})
	if p.c.ack {
		p.command(1000, nil, "configure", core.Configure{Type: ackType, Source: events.SourceAPI, Settings: p.ackSettings()})
	}
}

// ackSettings are those of the type with ack workers.
func (p *people) ackSettings() events.TypeSettings {
	set := events.DefaultTypeSettings()
	set.Backoff.Jitter = 0
	set.Protocol, set.Capacity, set.MaxAttempts, set.PoisonAfter, set.Lease = events.ProtocolAck, 3, 50, 50, events.Millis(20_000)
	set.Retain = p.set.Retain
	return set
}

// ackPull has an ack worker take a message.
func (p *people) ackPull() {
	if seq, _ := p.c.world.ackPull(ackType); seq > 0 {
		p.acks = append(p.acks, seq)
	}
}

// ackAnswer has an ack worker say something of a message.
func (p *people) ackAnswer() {
	if len(p.acks) > 0 {
		p.ackSay(p.rng.IntN(len(p.acks)), []core.AckSignal{core.AckSeen, core.AckDone, core.AckDone, core.AckNak, core.AckTerm}[p.rng.IntN(5)])
	}
}

func (p *people) ackSay(i int, kind core.AckSignal) {
	c, seq := p.c, p.acks[i]
	if m := c.world.acks.msgs[seq]; m != nil && !m.over && kind == core.AckDone {
		c.oracle.acked[m.id] = true
	}
	if kind != core.AckSeen {
		c.figures.acks++
		p.acks = slices.Delete(p.acks, i, i+1)
	}
	c.world.ackAnswer(seq, kind, time.Duration(p.rng.IntN(3))*time.Second)
	for _, n := range c.nodes {
		if n.owns() {
			n.kick()
		}
	}
}

// raise asks for the next format level, as an operator might while not all read it.
func (p *people) raise() {
	if p.c.mixed {
		p.command(1, nil, "raise", core.RaiseFormat{Level: nextLevel, Version: "2.0.0"})
	}
}

// beat is the heartbeats of the workers: they renew what they run, and register.
func (p *people) beat() {
	c := p.c
	for _, w := range slices.Sorted(maps.Keys(p.alive)) {
		at := p.at(w)
		var in []wire.RunRef
		for _, r := range p.runs {
			if r.m.worker == w {
				in = append(in, wire.RunRef{ID: r.m.id.String(), Token: r.m.token.String()})
			}
		}
		n := p.owner(at)
		if n == nil || n.paused(c.at) {
			continue
		}
		h := &wire.Heartbeat{Register: wire.Register{Worker: w, Session: p.sessions[w], Types: []string{string(clusterType), string(remindType)}, Slots: p.alive[w]}, InFlight: in}
		c.After(c.between(50*time.Microsecond, 2*time.Millisecond), func() {
			if n.owns() && p.alive[w] > 0 {
				for _, was := range n.reg.List() { // an earlier life of the worker has ended
					if was.Worker == w && was.Session != h.Session {
						n.reg.Remove(events.WorkerID(w), was.Session)
					}
				}
				err := n.reg.Put(h.Register, n.l.clock.Now())
				c.failed(err)
				n.reg.Beat(&wire.Heartbeat{Register: h.Register})
				n.sig.Heartbeat(h)
				n.kick()
			}
		})
	}
	c.After(c.between(time.Second, 4*time.Second), p.beat)
}

// The deeds of people.

func (p *people) submit() {
	cmds := make([]core.Command, 1+p.rng.IntN(4))
	for i := range cmds {
		id := p.id()
		s := core.Submit{Type: clusterType, NewID: id, ID: id, Priority: prio(events.Priority(3 + p.rng.IntN(4)))}
		if p.c.ack && p.rng.IntN(3) == 0 {
			s.Type = ackType
		}
		if p.rng.IntN(3) == 0 {
			s.DedupKey = strconv.Itoa(p.rng.IntN(5))
			s.DedupPolicy = []events.DedupPolicy{"", events.DedupDistinct, events.DedupSupersede, events.DedupDefer}[p.rng.IntN(4)]
		}
		if p.rng.IntN(4) == 0 {
			s.Delay = time.Duration(p.rng.IntN(20)) * time.Second
		}
		if p.rng.IntN(3) == 0 {
			s.ID, s.IdempotencyKey = events.ID{}, "key-"+strconv.Itoa(p.rng.IntN(8))
		}
		switch {
		case len(p.set.Rates) > 0 || p.set.AssignBy == events.PerTenant:
			s.Tenant = "t" + strconv.Itoa(p.rng.IntN(3))
		case strings.HasPrefix(p.set.AssignBy, events.PerLabel):
			s.Labels = map[string]string{"customer": strconv.Itoa(p.rng.IntN(5))}
		}
		if p.rng.IntN(6) == 0 && len(p.order) > 0 {
			s.After, s.AfterPolicy = []events.ID{p.order[p.rng.IntN(len(p.order))]}, events.AfterRun
		}
		cmds[i] = s
	}
	p.command(30, func(out []Outcome) {
		for _, o := range out {
			if o.Err == nil {
				p.took(o)
			}
		}
	}, "a submission", cmds...)
}

// took notes a submission that was accepted.
func (p *people) took(o Outcome) {
	p.accepted[o.Decision.ID] = o.Position
	p.order = append(p.order, o.Decision.ID)
}

func (p *people) publish() {
	w := p.c.world
	if !p.c.log.Majority(p.rng.IntN(p.c.servers())) {
		return
	}
	m := &nats.Msg{Subject: "work.intake.0.email", Data: []byte([]string{`{"n":1}`, `no json`}[p.rng.IntN(2)]), Header: nats.Header{}}
	if p.rng.IntN(2) == 0 {
		m.Header.Set(nats.MsgIdHdr, fmt.Sprint("m-", p.rng.IntN(5)))
	}
	w.intake, w.published = append(w.intake, m), append(w.published, p.c.at)
	for _, n := range p.c.nodes {
		if n.owns() {
			n.kick()
		}
	}
}

// newSession begins a life of a worker.
func (p *people) newSession(w string) {
	p.lives++
	p.sessions[w] = "s" + strconv.Itoa(p.lives)
}

// reborn has a worker end without a word, and begin a new life.
func (p *people) reborn() {
	w := "w" + strconv.Itoa(p.rng.IntN(3))
	p.runs = slices.DeleteFunc(p.runs, func(r *clusterRun) bool { return !r.busy && r.m.worker == w })
	p.newSession(w)
}

// receive has a worker get what was sent to a session, if it is the one of its present life.
// Some begin at once and say so; of the others the end says both.
func (p *people) receive(m *simRun) {
	c := p.c
	mine := 0
	for _, r := range p.runs {
		if r.m.token == m.token {
			return // it has come twice
		}
		if r.m.worker == m.worker && !r.busy {
			mine++
		}
	}
	if p.alive[m.worker] == 0 || p.sessions[m.worker] != m.session {
		return
	}
	if c.figures.assigned++; mine >= p.alive[m.worker] {
		p.report(4, m, wire.ReportRelease, false, func(wire.Reported) {}, nil)
		return
	}
	r := &clusterRun{m: m}
	p.runs = append(p.runs, r)
	if c.rng.IntN(3) == 0 && !c.calm {
		p.sayMore(r, c.rng)
		return
	}
	if c.rng.IntN(2) == 0 {
		p.report(6, m, wire.ReportStart, false, func(got wire.Reported) {
			if !got.OK {
				c.figures.takenBack++
				p.forget(r)
			}
		}, nil)
	}
}

func (p *people) finish() {
	for range 1 + p.rng.IntN(3) {
		if len(p.runs) == 0 {
			return
		}
		r := p.runs[p.rng.IntN(len(p.runs))]
		if r.busy {
			continue
		}
		p.say(r, []string{wire.ReportComplete, wire.ReportComplete, wire.ReportComplete, wire.ReportFail, wire.ReportRelease}[p.rng.IntN(5)])
	}
}

// say reports the end of a run.
func (p *people) say(r *clusterRun, event string) {
	r.busy = true
	p.report(6, r.m, event, event != wire.ReportRelease, func(wire.Reported) { p.forget(r) }, func() { r.busy = false })
}

func (p *people) forget(r *clusterRun) {
	p.runs = slices.DeleteFunc(p.runs, func(o *clusterRun) bool { return o == r })
}

// die has runs end with no word.
func (p *people) die() {
	p.runs = slices.DeleteFunc(p.runs, func(r *clusterRun) bool { return !r.busy && p.rng.IntN(2) == 0 })
}

func (p *people) workers() {
	w := "w" + strconv.Itoa(p.rng.IntN(3))
	if p.rng.IntN(3) == 0 {
		delete(p.alive, w)
		if n := p.owner(0); n != nil {
			n.reg.Remove(events.WorkerID(w), "")
		}
		return
	}
	p.alive[w] = 1 + p.rng.IntN(4)
}

func (p *people) touch() {
	if len(p.order) == 0 {
		return
	}
	id := p.order[p.rng.IntN(len(p.order))]
	cmd := []core.Command{
		core.Cancel{ID: id}, core.Cancel{ID: id}, core.Replay{ID: id}, core.Reschedule{ID: id, Now: true},
		core.Reschedule{ID: id, Priority: prio(events.Priority(p.rng.IntN(10)))},
		core.Reschedule{ID: id, Delay: time.Duration(p.rng.IntN(20)) * time.Second},
	}[p.rng.IntN(6)]
	p.command(3, nil, fmt.Sprintf("%T", cmd), cmd)
}

// letter has somebody send a signal, answer, present a token, or start an item or wake it; or two
// at once.
func (p *people) letter(rng *rand.Rand) {
	p.post.rng = rng
	cmd, err := p.post.next(p.c.oracle.state, p.order)
	p.c.failed(err)
	cmds := []core.Command{cmd}
	if rng.IntN(3) == 0 {
		cmds = append(cmds, p.post.another(cmd))
	}
	for _, cmd := range cmds {
		p.command(1+rng.IntN(8), func(out []Outcome) {
			if _, ok := cmd.(core.Submit); ok && out[0].Err == nil {
				p.took(out[0])
			}
		}, fmt.Sprintf("%T", cmd), cmd)
	}
}

func (p *people) hold() {
	w := events.WorkerID("w" + strconv.Itoa(p.rng.IntN(3)))
	cmd := []core.Command{
		core.PauseType{Type: clusterType, For: time.Duration(1+p.rng.IntN(20)) * time.Second}, core.PauseType{Type: clusterType},
		core.ResumeType{Type: clusterType}, core.ResumeType{Type: clusterType}, core.DrainWorker{Worker: w}, core.EndDrain{Worker: w},
	}[p.rng.IntN(6)]
	p.command(3, nil, fmt.Sprintf("%T", cmd), cmd)
}

// more has a run spawn, snooze, or tell how far it is.
func (p *people) more() {
	if len(p.runs) == 0 {
		return
	}
	r := p.runs[p.rng.IntN(len(p.runs))]
	if r.busy {
		return
	}
	run := core.Run{ID: r.m.id, Token: r.m.token, Worker: events.WorkerID(r.m.worker)}
	var cmd core.Command
	switch p.rng.IntN(3) {
	case 0:
		if p.c.oracle.unfinished() > 40 {
			return
		}
		sp := core.Spawn{Run: run, Continues: p.rng.IntN(2) == 0}
		for range 1 + p.rng.IntN(3) {
			sp.Children = append(sp.Children, core.Submit{Type: clusterType, NewID: p.id()})
		}
		cmd = sp
	case 1:
		cmd = core.Snooze{Run: run, Delay: time.Duration(1+p.rng.IntN(20)) * time.Second}
	case 2:
		cmd = core.ReportProgress{Run: run, Percent: p.rng.IntN(101)}
	}
	p.command(3, func(out []Outcome) {
		if endsRun(cmd) {
			p.forget(r)
		}
	}, fmt.Sprintf("%T", cmd), cmd)
}

// sayMore has a run make tokens, and end in a wait. Somebody may know of it.
func (p *people) sayMore(r *clusterRun, rng *rand.Rand) {
	r.busy = true
	rep := r.m.report("")
	p.post.rng = rng
	p.post.ofRun(&rep)
	p.send(6, r.m, rep, func(got wire.Reported) {
		r.busy = false
		if !got.OK {
			p.forget(r)
			return
		}
		p.post.heard(rep)
		for range p.c.rng.IntN(3) {
			p.c.After(p.c.between(0, 10*time.Second), func() {
				if !p.c.calm {
					p.letter(p.c.rng)
				}
			})
		}
		if rep.Wait != nil {
			p.forget(r)
		} else {
			p.sayMore(r, p.c.rng)
		}
	}, func() { r.busy = false })
}

// read reads, from any node, something that somebody was told of: a node that has come as
// far as the position told has it.
func (p *people) read() {
	n := p.c.nodes[p.rng.IntN(len(p.c.nodes))]
	if len(p.order) == 0 || !n.up || n.moving {
		return
	}
	id, at := p.order[p.rng.IntN(len(p.order))], n.store.Applied()
	if at < p.accepted[id] {
		return // it would wait
	}
	p.c.figures.reads++
	it, err := n.store.Item(id)
	p.c.failed(err)
	if v := p.c.oracle.life(id, at); (it == nil) != (v == nil) {
		p.c.failf("n%d at %d reads of item %s, accepted at %d: %v; the log says %+v", n.n, at, id, p.accepted[id], it, v)
	}
}

// cut asks for a round of snapshots.
func (p *people) cut() {
	if n := p.owner(0); n != nil && p.c.cutting && !n.paused(p.c.at) && !n.l.closing {
		l := n.l
		l.queues.urgent.jobs = append(l.queues.urgent.jobs, &question[retention.Status]{
			read: func(l *loop) (retention.Status, error) { l.retention.Ask(0); return l.retention.Status(), nil }, out: make(chan answer[retention.Status], 1)})
		n.kick()
	}
}
