package workers

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/repeat"
	"github.com/streamwright/streamwright/internal/standing"
	"github.com/streamwright/streamwright/wire"
)

// report is one element of a report request. It has one owner at a time: the
// queue, then the sender that took it.
type report struct {
	wire.Report
	run   *run
	tries int

	// Of reports from the middle of a run; see line.go.
	saved chan error // gets the answer to a checkpoint or a token; room for one
	given bool       // nobody waits for saved any more; guarded by Worker.mu
	last  bool       // progress that goes ahead of the outcome
}

// size estimates the bytes that the report takes in a request.
func (r *report) size() int { return 200 + r.Report.Size() }

// reporter is the queue of reports and its senders. The queue is bounded by
// the worker's runs: each has at most one start or outcome, one report of
// progress (two at its end) and one checkpoint.
type reporter struct {
	w *Worker

	mu     sync.Mutex // taken after Worker.mu, never before it
	some   *sync.Cond
	queue  []*report
	later  []*report // got no answer; come back when timer fires
	timer  *time.Timer
	up     bool // connected
	closed bool
}

func newReporter(w *Worker) *reporter {
	q := &reporter{w: w}
	q.some = sync.NewCond(&q.mu)
	return q
}

// add takes reports that are to be sent in this order.
func (q *reporter) add(rs ...*report) {
	q.mu.Lock()
	q.queue = append(q.queue, rs...)
	q.mu.Unlock()
	q.some.Signal()
}

// addLater puts reports back that got no answer, for another try after a
// backoff with jitter.
func (q *reporter) addLater(rs []*report) {
	if len(rs) == 0 {
		return
	}
	wait := backoffMax
	for _, r := range rs {
		wait = min(wait, backoff(r.tries))
		r.tries++
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	q.later = append(q.later, rs...)
	if q.timer == nil {
		q.timer = time.AfterFunc(wait, q.retryNow)
	}
}

// backoff returns the wait before the next try, after tries of them.
func backoff(tries int) time.Duration {
	return repeat.Backoff{Min: backoffMin, Max: backoffMax}.Wait(tries)
}

// retryNow makes everything that waits for another try due.
func (q *reporter) retryNow() {
	q.mu.Lock()
	if q.timer != nil {
		q.timer.Stop()
		q.timer = nil
	}
	q.queue = append(q.queue, q.later...)
	q.later = nil
	q.mu.Unlock()
	q.some.Broadcast()
}

func (q *reporter) setUp(up bool) {
	q.mu.Lock()
	q.up = up
	q.mu.Unlock()
	q.some.Broadcast()
}

func (q *reporter) close() {
	q.mu.Lock()
	q.closed = true
	if q.timer != nil {
		q.timer.Stop()
	}
	q.mu.Unlock()
	q.some.Broadcast()
}

// take waits for reports and a connection, and takes what fits one request.
// It returns nil once the reporter is closed.
func (q *reporter) take(into []*report) []*report {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.closed && (len(q.queue) == 0 || !q.up) {
		q.some.Wait()
	}
	if q.closed {
		return nil
	}
	into = into[:0]
	bytes := 0
	for len(into) < min(len(q.queue), MaxReports) && bytes < MaxReportBytes {
		r := q.queue[len(into)]
		bytes += r.size()
		into = append(into, r)
	}
	left := copy(q.queue, q.queue[len(into):])
	clear(q.queue[left:])
	q.queue = q.queue[:left]
	return into
}

// run is one sender: one request outstanding at a time.
func (q *reporter) run() {
	defer q.w.loops.Done()
	s := &sender{q: q}
	for {
		batch := q.take(s.batch)
		if batch == nil {
			return
		}
		s.batch = batch
		s.send()
	}
}

// sender keeps the buffers of one sender goroutine.
type sender struct {
	q       *reporter
	batch   []*report
	wire    []wire.Report
	body    []byte
	replies []wire.Reported
}

// send asks the engine about the batch and passes the answers on.
func (s *sender) send() {
	w := s.q.w
	s.batch = w.reports.dropLapsed(s.batch, time.Now())
	if len(s.batch) == 0 {
		return
	}
	err := s.ask()
	if err != nil {
		level := w.log.Debug
		if !transient(err) {
			level = w.log.Warn
		}
		level("reports got no answer; asking again", "reports", len(s.batch), "err", err)
		s.q.addLater(s.batch)
		return
	}
	s.q.addLater(w.reports.answered(s.batch, s.replies))
}

// ask sends the batch and reads the replies, one for each.
func (s *sender) ask() error {
	w := s.q.w
	w.mu.Lock()
	session := w.session.id
	w.mu.Unlock()
	s.wire = s.wire[:0]
	for _, r := range s.batch {
		r.Session = session
		s.wire = append(s.wire, r.Report)
	}
	body, err := wire.EncodeReports(s.body[:0], s.wire)
	if err != nil {
		return fmt.Errorf("encode reports: %w", err)
	}
	s.body = body
	reply, err := w.link.request(w.life, wire.APIReport, body, requestTimeout)
	if err != nil {
		return err
	}
	clear(s.replies)
	list, ok := wire.DecodeReported(s.replies[:0], reply)
	if s.replies = list; !ok {
		clear(s.replies)
		s.replies = s.replies[:0]
		if err := json.Unmarshal(reply, &s.replies); err != nil {
			return fmt.Errorf("decode the engine's answer to reports: %w", err)
		}
	}
	if len(s.replies) != len(s.batch) {
		return fmt.Errorf("the engine answered %d of %d reports", len(s.replies), len(s.batch))
	}
	return nil
}

// dropLapsed forgets items that were handed back before their start, once their lease is over
// (the engine has taken them back), and reports that nobody waits for.
func (q *reporter) dropLapsed(batch []*report, now time.Time) []*report {
	q.w.mu.Lock()
	defer q.w.unlock()
	rest := batch[:0]
	for _, rep := range batch {
		r := rep.run
		if r.line.drop(rep) {
			continue
		}
		if r.state == returning && r.lapsed(now) {
			q.w.log.Warn("an item's lease ran out before the engine answered", "item", r.msg.ID, "type", string(r.reg.typ))
			q.w.table.setState(r, gone)
			continue
		}
		rest = append(rest, rep)
	}
	q.w.noteDrained()
	return rest
}

// answered acts on the engine's answers and returns what must be asked again.
func (q *reporter) answered(batch []*report, replies []wire.Reported) (again []*report) {
	q.w.mu.Lock()
	defer q.w.unlock()
	for i, rep := range batch {
		var code events.Code
		if e := replies[i].Error; e != nil {
			code = e.Code
		} else if !replies[i].OK {
			code = events.CodeInternal
		}
		switch {
		case code == events.CodeUnknownWorker, code == events.CodeWorkerIDInUse:
			// Not the item's fault: at worst its lease runs out and another
			// worker gets it.
			q.w.session.needed()
			again = append(again, rep)
		case standing.Transient(code):
			again = append(again, rep)
		case rep.midRun():
			rep.run.line.answered(rep, &replies[i], code)
		default:
			q.outcomeAnswered(rep, &replies[i], code)
		}
	}
	q.w.noteDrained()
	return again
}

// outcomeAnswered acts on the definitive answer to anything else. REQUIRES: mu.
func (q *reporter) outcomeAnswered(rep *report, reply *wire.Reported, code events.Code) {
	r := rep.run
	if code != "" && q.failInstead(rep, reply, code) {
		return
	}
	q.w.settle(r, &rep.Report, reply.State, reply.Error.Err())
	switch code {
	case "":
		switch rep.Event {
		case wire.ReportComplete:
			q.w.stats.Completed++
		case wire.ReportFail:
			q.w.stats.Failed++
		case wire.ReportRelease:
			q.w.stats.Released++
		case wire.ReportSpawn:
			q.w.stats.Spawned++
		case wire.ReportSnooze:
			q.w.stats.Snoozed++
		case wire.ReportWait:
			q.w.stats.Waited++
		}
	case events.CodeTooLarge, events.CodeBadRequest, events.CodeBadParams:
		q.w.log.Error("the engine refused a report", "item", r.msg.ID, "event", rep.Event, "err", reply.Error)
	default:
		if r.state != returning && !r.letGo {
			q.w.log.Warn("an outcome came too late and was refused", "item", r.msg.ID, "type", string(r.reg.typ), "event", rep.Event, "err", reply.Error)
		}
	}
	q.w.table.setState(r, gone)
}

// failInstead fails an item whose outcome was refused because of its content,
// not because of the item's state; it reports whether it does. REQUIRES: mu.
func (q *reporter) failInstead(rep *report, reply *wire.Reported, code events.Code) bool {
	fail := FailBadSpawn
	switch code {
	case events.CodeStaleToken, events.CodeWrongState, events.CodeWrongAttempt, events.CodeWrongWorker:
		return false
	}
	switch rep.Event {
	case wire.ReportSpawn, wire.ReportSnooze, wire.ReportWait:
	case wire.ReportComplete:
		if fail = FailBadResult; code == events.CodeNotFound {
			return false
		}
	default:
		return false
	}
	r := rep.run
	q.w.log.Warn("the engine refused an outcome; the item fails", "item", r.msg.ID, "type", string(r.reg.typ), "event", rep.Event, "err", reply.Error)
	q.add(q.of(r, wire.Report{Event: wire.ReportFail, Error: reply.Error.Error(), Code: fail, Retryable: new(bool)}))
	return true
}
