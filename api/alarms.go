package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/blobs"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

const (
	// roomFor is the time for which the fill of the streams is cached: the server is
	// asked once in that time, however many callers want to know.
	roomFor = 5 * time.Second
	// nearLimit is the part of a limit from which on an alarm warns, and atLimit
	// that at which the next submission may be one too many.
	nearLimit, atLimit = 0.8, 0.99
)

var descAlarm = desc("alarm", "1 while an alarm of this code and severity is raised, as `engine status` and the page show it.", "code", "severity")

// condition holds what the engine's health, readiness, alarms and metrics follow
// from. All of them are made of one look at it, so that they agree.
type condition struct {
	running   bool // not starting, not stopping
	connected bool // to NATS
	owned     bool
	standby   *standing // nil: it is the owner, or about to be
	apart     error     // why an owner does not reach most of the servers
	full      *RoomAlarm
	clock     error // why the NATS server's clock is implausible
	lag       uint64
	nodes     *wire.NodesReply // as they were seen last; nil: there is one
	me        string
	replicas  ReplicasRead // this node's own
	strange   int64        // messages in the log that no engine wrote, if there were some lately
	strangest uint64       // the sequence of the last of them

	// Of a further look; else they are empty.
	jetStream        error // it does not answer
	queued, maxQueue int64
	limits           []fill
}

// fill tells how much of a limit is used.
type fill struct {
	code       string
	used, most uint64
}

// look takes what is known without asking anyone.
func (s *Service) look() condition {
	s.mu.Lock()
	running := !s.closed && s.micro != nil
	s.mu.Unlock()
	var own ReplicasRead
	if s.Replicas != nil {
		own = s.Replicas()
	}
	c := condition{
		me: s.Info.Node, replicas: own, running: running, connected: s.Conn.Status() == nats.CONNECTED, owned: s.Metrics.owned.Load(), standby: s.standsBy(), full: s.Full(), clock: s.clockIsPlausible(),
		lag: s.lag(), nodes: s.seen.now(),
	}
	c.strange, c.strangest = s.Metrics.foreign.lately(time.Now())
	if c.standby == nil {
		c.apart = s.reach.lost(time.Now())
	}
	return c
}

// lookFurther asks JetStream as well, which takes at most readyTimeout, and now
// and then what its streams hold.
func (s *Service) lookFurther(ctx context.Context, types []events.TypeInfo) condition {
	c := s.look()
	c.maxQueue = int64(s.MaxQueued)
	for i := range types {
		c.queued += types[i].Waiting()
	}
	if c.connected {
		c.limits, c.jetStream = s.askJetStream(ctx, true)
	}
	return c
}

// alarms returns the alarms that the condition calls for, the gravest first.
func (c condition) alarms() []wire.Alarm {
	out := []wire.Alarm{}
	add := func(sev wire.AlarmSeverity, code, message, action string) {
		out = append(out, wire.Alarm{Code: code, Severity: sev, Message: message, Action: action})
	}
	if !c.connected {
		add(wire.AlarmCritical, wire.AlarmDisconnected, "The engine has no connection to NATS: nothing is decided or dispatched.", "Look whether the NATS server runs and can be reached. The engine connects again by itself.")
	}
	if f := c.full; f != nil { // before the ownership, which may be lost for want of room
		stops := "New work is refused; what was accepted goes on."
		if f.Hold {
			stops = "New work is refused and nothing new is begun; what runs goes on."
		}
		add(wire.AlarmCritical, f.Status, sentence(f.Fact)+" "+stops, sentence(f.Do)+" The engine then goes on by itself.")
	}
	if st := c.standby; st != nil && st.cutOff != nil {
		add(wire.AlarmCritical, wire.AlarmCutOff, fmt.Sprintf("This node is cut off from the log: what it shows is old (%v).", st.cutOff), "Look whether the NATS servers reach each other, and whether most of them run. The node catches up by itself.")
	}
	if c.apart != nil {
		add(wire.AlarmCritical, wire.AlarmCutOff, fmt.Sprintf("This node owned the log last, and does not reach most of the nodes: it can't record anything, and another may own the log by now (%v).", c.apart), "Look whether the NATS servers reach each other, and whether most of them run. The node goes on, or stands by, by itself.")
	}
	if c.connected && !c.owned && c.standby == nil {
		add(wire.AlarmCritical, wire.AlarmNotOwner, "The engine does not own its log: nothing is decided or dispatched.", "It is recovering, or another engine owns the log. If this lasts, its log says why.")
	}
	if c.jetStream != nil {
		add(wire.AlarmCritical, wire.AlarmJetStream, fmt.Sprintf("JetStream does not answer: nothing can be recorded (%v).", c.jetStream), "Look at the NATS server's log, and at its disk.")
	}
	if c.clock != nil {
		add(wire.AlarmCritical, wire.AlarmClock, "The NATS server's clock is implausible and not followed: nothing is pruned, and what is due by that clock alone waits. "+sentence(c.clock.Error()),
			"Set the clock of the NATS server's machine right; or, if it is right, run `engine clock accept`. `engine clock` shows both times.")
	}
	for _, f := range append([]fill{{wire.AlarmQueue, uint64(c.queued), uint64(c.maxQueue)}}, c.limits...) {
		f.alarm(add)
	}
	if c.lag > MaxReadyLag {
		sev := wire.AlarmWarning
		if c.lag > MaxLag {
			sev = wire.AlarmCritical
		}
		add(sev, wire.AlarmBehind, fmt.Sprintf("Queries are %d events behind the log: what is shown is old. Work goes on.", c.lag), "Look at the disk of store/: it may be slow or full.")
	}
	if c.strange > 0 {
		add(wire.AlarmWarning, wire.AlarmForeign, fmt.Sprintf("Something else writes to the event log: %d messages since this process started, the last with the sequence %d. They are skipped, but each that comes in the way of an append makes the engine start again from the log.", c.strange, c.strangest),
			"Look at that message (`nats stream get`), find the program that sends it, and allow no program but the engine to publish below `work.frame`.")
	}
	c.replicaAlarms(add)
	nodeAlarms(c.nodes, add)
	slices.SortStableFunc(out, func(a, b wire.Alarm) int {
		return slices.Index(severities, a.Severity) - slices.Index(severities, b.Severity)
	})
	return out
}

var severities = []wire.AlarmSeverity{wire.AlarmCritical, wire.AlarmWarning}

// fillTexts say of each limit what it bounds, what happens at it, and what to do.
var fillTexts = map[string]struct{ what, then, do string }{
	wire.AlarmQueue:     {"items wait; max_queued is", "submissions are refused (queue_full)", "Add workers, or raise max_queued in [limits]."},
	wire.AlarmIntake:    {"of plain publishes wait to be decided; the intake holds", "publishers get errors", "See why the engine does not decide them: other alarms, its log, `engine status`."},
	wire.AlarmDocuments: {"of large params and results are stored; blob_max_size is", "large documents are refused (blob_unavailable)", "Keep ended items for less time, or raise blob_max_size in [limits]."},
	wire.AlarmAck:       {"messages are dispatched to ack workers; their stream holds", "nothing more is dispatched to them", "Start more ack workers, or see why they do not ack."},
	wire.AlarmAccount:   {"are used by the engine's account on the NATS server; its limit is", "nothing can be recorded", "Raise the account's storage limit, or keep ended items for less time and run `engine cut`."},
}

func (f fill) alarm(add func(sev wire.AlarmSeverity, code, message, action string)) {
	if f.most == 0 || float64(f.used) < nearLimit*float64(f.most) {
		return
	}
	t := fillTexts[f.code]
	sev, when := wire.AlarmWarning, "At the limit"
	if f.used >= f.most || f.code != wire.AlarmQueue && float64(f.used) >= atLimit*float64(f.most) {
		sev, when = wire.AlarmCritical, "Now"
	}
	write := Size
	if f.code == wire.AlarmQueue || f.code == wire.AlarmAck {
		write = func(n uint64) string { return strconv.FormatUint(n, 10) }
	}
	add(sev, f.code, fmt.Sprintf("%s %s %s. %s %s.", write(f.used), t.what, write(f.most), when, t.then), t.do)
}

// sentence makes a text begin with a capital letter and end with a point.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	if c := text[0]; 'a' <= c && c <= 'z' {
		text = string(c-'a'+'A') + text[1:]
	}
	if end := text[len(text)-1]; end != '.' && end != '?' && end != '!' {
		text += "."
	}
	return text
}

// Size writes a number of bytes with its unit, rounded down to a tenth: 1.5 GiB.
func Size(n uint64) string {
	for _, u := range []struct {
		name  string
		shift uint
	}{{"TiB", 40}, {"GiB", 30}, {"MiB", 20}, {"KiB", 10}} {
		if n >= 1<<u.shift {
			tenths := (n >> (u.shift - 10) & 1023) * 10 >> 10
			return strings.Replace(fmt.Sprintf("%d.%d %s", n>>u.shift, tenths, u.name), ".0 ", " ", 1)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

// status returns what /healthz says: the gravest of the alarms that concern the process
// itself, or ok. What JetStream or a limit says is not of those: who watches
// /healthz restarts processes, which mends neither.
func (c condition) status() string {
	own := []string{wire.AlarmDisconnected, wire.AlarmNotOwner, wire.AlarmCutOff, wire.AlarmDiskLow, wire.AlarmStoreFull, wire.AlarmClock, wire.AlarmBehind}
	for _, a := range c.alarms() {
		if a.Severity == wire.AlarmCritical && slices.Contains(own, a.Code) {
			return a.Code
		}
	}
	return "ok"
}

// health holds JetStream's last answer.
type health struct {
	asked   sync.Mutex // held while JetStream is asked
	askedAt time.Time  // guarded by asked
	answer  error      // guarded by asked: what it then said
	account fill       // guarded by asked: what the account then used
	roomAt  time.Time  // guarded by asked: when room was asked for
	room    []fill     // guarded by asked: what the bounded streams then held
}

// askJetStream asks whether JetStream answers, unless it has just been asked, and
// with room what the bounded streams hold.
func (s *Service) askJetStream(ctx context.Context, room bool) ([]fill, error) {
	s.health.asked.Lock()
	defer s.health.asked.Unlock()
	asker := ctx
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if s.health.askedAt.IsZero() || time.Since(s.health.askedAt) >= readyFor {
		info, err := s.js.AccountInfo(ctx)
		if err != nil && asker.Err() != nil { // it says nothing about JetStream
			return nil, err
		}
		s.health.askedAt, s.health.answer = time.Now(), err
		s.health.account = fill{}
		if err == nil && info.Limits.MaxStore > 0 {
			s.health.account = fill{wire.AlarmAccount, info.Store, uint64(info.Limits.MaxStore)}
		}
	}
	if s.health.answer != nil || !room {
		return nil, s.health.answer
	}
	if s.health.roomAt.IsZero() || time.Since(s.health.roomAt) >= roomFor {
		fills := s.streamFills(ctx)
		if asker.Err() != nil {
			return nil, asker.Err()
		}
		s.health.room, s.health.roomAt = fills, time.Now()
	}
	return append([]fill{s.health.account}, s.health.room...), nil
}

// streamFills returns how full the streams are that refuse messages at their limit.
// A stream that can't be asked, or does not exist, is left out.
func (s *Service) streamFills(ctx context.Context) (fills []fill) {
	for _, o := range []struct {
		code, stream string
	}{{wire.AlarmIntake, s.Names.IntakeStream()}, {wire.AlarmDocuments, blobs.Stream(s.Names)}, {wire.AlarmAck, s.Names.DispatchStream()}} {
		st, err := s.js.Stream(ctx, o.stream)
		if err != nil {
			if !errors.Is(err, jetstream.ErrStreamNotFound) {
				s.Logger.Debug("what a stream holds is not known", "stream", o.stream, "error", err)
			}
			continue
		}
		info := st.CachedInfo() // as of just now
		if most := info.Config.MaxBytes; most > 0 {
			fills = append(fills, fill{o.code, info.State.Bytes, uint64(most)})
		} else if most := info.Config.MaxMsgs; most > 0 {
			fills = append(fills, fill{o.code, info.State.Msgs, uint64(most)})
		}
	}
	return fills
}

// alarms shows each alarm that there can be, zeros too.
func (c collector) alarms(out gauge, raised []wire.Alarm) {
	for _, code := range wire.AlarmCodes {
		for _, sev := range severities {
			is := slices.ContainsFunc(raised, func(a wire.Alarm) bool { return a.Code == code && a.Severity == sev })
			out(descAlarm, boolean(is), code, string(sev))
		}
	}
}
