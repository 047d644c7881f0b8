package acceptance

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// ackLease is the lease of the type that the crowd works on.
const ackLease = 2 * time.Second

const ackToml = `
[types.thumb]
protocol = "ack"
capacity = 30
lease = "2s"
max_attempts = 1000
poison_after = 1000
backoff = {initial = "10ms", max = "50ms"}
[types.thumb.codes.lease_expired]
max_attempts = 1000
`

// crowd are ack workers of the type thumb: programs with nats.go and nothing
// of ours. They answer in all ways there are, and remember what they did. Each
// connection ends with the server that it was made to, so that it is known in
// which of the server's lives a message was delivered.
type crowd struct {
	t   *testing.T
	rnd *rand.Rand // owned by the consumer's callback, of which there is one at a time
	wg  sync.WaitGroup

	mu        sync.Mutex // guards what follows
	nc        *nats.Conn
	life      int
	died      map[int]time.Time    // when a life of the server ended by a kill
	runs      map[string][]*ackRun // by item
	confirmed int
	delivered int
	ending    bool // all is acked
}

// ackRun is one delivery and its answer.
type ackRun struct {
	seq       uint64
	attempt   int
	life      int       // of the server, in which it was delivered
	answer    string    // as it was meant
	confirmed int       // life in which the server has confirmed an ack; 0: it has not
	at        time.Time // when it has
}

// unstored bounds how old an ack can be that a kill undoes. The server confirms acks before it
// stores them, which it does ten times a second, and less often on a busy machine.
const unstored = time.Second

func newCrowd(t *testing.T) *crowd {
	c := &crowd{t: t, rnd: rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1)), runs: map[string][]*ackRun{}, died: map[int]time.Time{}}
	t.Cleanup(func() { c.leave(); c.wg.Wait() })
	return c
}

// join connects to the server, which has begun another life, and takes whatever
// comes from then on.
func (c *crowd) join(url string) {
	c.t.Helper()
	var nc *nats.Conn
	eventually(c.t, "the server takes connections", func() (ok bool) {
		var err error
		nc, err = nats.Connect(url, append(login(c.t, url, access.Work.String()), nats.NoReconnect())...)
		return err == nil
	})
	c.mu.Lock()
	c.life++
	life := c.life
	c.nc = nc
	c.mu.Unlock()
	js := jetStream(c.t, nc)
	var cons jetstream.Consumer
	eventually(c.t, "there is a consumer", func() (ok bool) {
		var err error
		cons, err = js.Consumer(context.Background(), "WORK_DISPATCH", "thumb")
		return err == nil
	})
	_ = must(cons.Consume(func(m jetstream.Msg) { c.take(m, life) }, jetstream.PullMaxMessages(10), jetstream.PullExpiry(5*time.Second)))(c.t)
}

// dies notes that the server has been killed.
func (c *crowd) dies() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.died[c.life] = time.Now()
}

func (c *crowd) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.nc != nil {
		c.nc.Close()
	}
}

// take works on a message.
func (c *crowd) take(m jetstream.Msg, life int) {
	md, err := m.Metadata()
	if err != nil {
		return
	}
	attempt, _ := strconv.Atoi(m.Headers().Get(wire.HeaderAttempt))
	n, pause, got := c.rnd.IntN(100), time.Duration(c.rnd.IntN(8))*time.Millisecond, time.Now()
	run := &ackRun{seq: md.Sequence.Stream, attempt: attempt, life: life}
	c.mu.Lock()
	id := m.Headers().Get(wire.HeaderID)
	c.runs[id] = append(c.runs[id], run)
	c.delivered++
	if c.ending {
		n = 0
	}
	c.mu.Unlock()
	c.wg.Go(func() {
		time.Sleep(pause)
		if n >= 50 && n < 60 {
			c.send(m.Reply(), "+WPI", got, false)
			time.Sleep(pause)
		}
		switch {
		case n < 60:
			c.answer(run, m.Reply(), "+ACK", got, true)
		case n < 75:
			c.answer(run, m.Reply(), "+ACK", got, false)
		case n < 83:
			c.answer(run, m.Reply(), "-NAK", got, false)
		case n < 90:
			c.answer(run, m.Reply(), `-NAK {"delay": 30000000}`, got, false)
		case n < 97:
			c.answer(run, m.Reply(), "+TERM broken", got, false)
		} // else it never answers
	})
}

func (c *crowd) answer(run *ackRun, reply, word string, got time.Time, double bool) {
	c.mu.Lock()
	run.answer = word
	c.mu.Unlock()
	life := c.send(reply, word, got, double)
	if life == 0 || !double {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	run.confirmed, run.at = life, time.Now()
	c.confirmed++
}

// send publishes a worker's word, again and again until it is through or the
// lease is over. It returns the life of the server that has taken it, 0 for
// none.
func (c *crowd) send(reply, word string, got time.Time, double bool) int {
	for time.Since(got) < ackLease {
		c.mu.Lock()
		nc, life := c.nc, c.life
		c.mu.Unlock()
		var err error
		if double {
			_, err = nc.Request(reply, []byte(word), time.Second)
		} else if err = nc.Publish(reply, []byte(word)); err == nil {
			err = nc.FlushTimeout(time.Second)
		}
		if err == nil {
			return life
		}
		time.Sleep(5 * time.Millisecond)
	}
	return 0
}

// moves waits for so many further deliveries and confirmed acks.
func (c *crowd) moves(n int) {
	c.t.Helper()
	count := func() (int, int) { c.mu.Lock(); defer c.mu.Unlock(); return c.delivered, c.confirmed }
	delivered, confirmed := count()
	eventually(c.t, "work goes on", func() bool {
		d, a := count()
		return d >= delivered+n && a >= confirmed+n/4
	})
}

// end has the crowd ack what is left.
func (c *crowd) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ending = true
}

// heard is what the capturing streams have.
type heard struct {
	acked   map[uint64]bool // as a worker has sent it
	taken   map[uint64]bool // as the server has said
	expired map[uint64]bool
	ended   map[uint64]bool // termed, or removed while it was with a worker
}

// capture reads the capturing streams to their end.
func (r *rig) capture() heard {
	r.t.Helper()
	h := heard{map[uint64]bool{}, map[uint64]bool{}, map[uint64]bool{}, map[uint64]bool{}}
	r.readAll("WORK_DISPATCH_ACKS", func(subject string, data []byte) {
		tokens := strings.Split(subject, ".")
		if tokens[1] != "ACK" {
			return
		}
		seq, err := strconv.ParseUint(tokens[len(tokens)-4], 10, 64)
		if err != nil {
			r.t.Fatalf("captured under %s: %v", subject, err)
		}
		if string(data) == "+ACK" {
			h.acked[seq] = true
		}
	})
	r.readAll("WORK_DISPATCH_ACKS", func(subject string, data []byte) {
		if strings.HasPrefix(subject, "$JS.ACK.") {
			return
		}
		var s struct {
			Seq uint64 `json:"stream_seq"`
		}
		if err := json.Unmarshal(data, &s); err != nil {
			r.t.Fatal(err)
		}
		switch {
		case strings.Contains(subject, ".METRIC.CONSUMER.ACK."):
			h.taken[s.Seq] = true
		case strings.Contains(subject, ".MAX_DELIVERIES."):
			h.expired[s.Seq] = true
		case strings.Contains(subject, ".MSG_TERMINATED."):
			h.ended[s.Seq] = true
		}
	})
	return h
}

func (r *rig) readAll(stream string, fn func(subject string, data []byte)) {
	r.t.Helper()
	cons := must(r.admin().OrderedConsumer(r.ctx, stream, jetstream.OrderedConsumerConfig{}))(r.t)
	for range must(cons.Info(r.ctx))(r.t).NumPending {
		m := must(cons.Next(jetstream.FetchMaxWait(patience)))(r.t)
		fn(m.Subject(), m.Data())
	}
}

// check waits for the items' ends and compares the log with what the crowd has
// done and the server has taken. kills is how often an engine was killed.
func (c *crowd) check(r *rig, ids []string, kills int) {
	c.t.Helper()
	ends := map[string]streamwright.WorkItem{}
	for _, id := range ids {
		ends[id] = must(r.c.Wait(r.ctx, id))(c.t)
	}
	failed, completed := map[string]map[string]int{}, map[string]int{}
	for _, ev := range r.events() {
		switch ev.Kind {
		case events.KindCompleted:
			completed[ev.ID]++
		case events.KindFailed:
			var f struct{ Code string }
			fromJSON(c.t, ev.Data, &f)
			if failed[ev.ID] == nil {
				failed[ev.ID] = map[string]int{}
			}
			failed[ev.ID][f.Code]++
		}
	}
	captured := r.capture()
	c.mu.Lock()
	defer c.mu.Unlock()
	unheard := 0
	for _, id := range ids {
		n, err := c.checkItem(ends[id], c.runs[id], failed[id], completed[id], captured, kills)
		if err != nil {
			c.t.Errorf("item %s: %v: %v; runs %s", id, err, r.kinds(id), runsOf(c.runs[id]))
		}
		unheard += n
	}
	c.t.Logf("%d items, %d deliveries, %d confirmed acks, %d of them not stored", len(ids), c.delivered, c.confirmed, unheard)
}

func runsOf(runs []*ackRun) string {
	var b strings.Builder
	for _, r := range runs {
		fmt.Fprintf(&b, "%+v ", *r)
	}
	return b.String()
}

// checkItem compares one item. unheard counts acks that the server has confirmed
// and was killed before it had stored them: it stores what was acked at most ten times a
// second. It delivers such a message again when it is back, although the engine may know of the ack.
func (c *crowd) checkItem(it streamwright.WorkItem, runs []*ackRun, failed map[string]int, completed int, h heard, kills int) (unheard int, err error) {
	sent := map[string]int{}
	tokens := map[uint64]bool{}
	for _, run := range runs {
		word, _, _ := strings.Cut(run.answer, " ")
		sent[word]++
		tokens[run.seq] = true
	}
	switch it.State {
	case events.StateCompleted:
		if completed != 1 || sent["+ACK"] == 0 {
			return 0, fmt.Errorf("it has %d completed events, and was acked %d times", completed, sent["+ACK"])
		}
	case events.StateDead:
		if completed != 0 || sent["+TERM"] == 0 || it.Reason != "not_retryable" || it.Error.Message != "broken" {
			return 0, fmt.Errorf("it is dead (%s, %+v) and was termed %d times", it.Reason, it.Error, sent["+TERM"])
		}
	default:
		return 0, fmt.Errorf("it is %s", it.State)
	}
	for code, n := range failed {
		switch {
		case code == events.FailError && n <= sent["-NAK"], code == events.FailTerminated && n <= sent["+TERM"], code == events.FailLeaseExpired:
		default:
			return 0, fmt.Errorf("%d attempts failed with %s, the workers sent %v", n, code, sent)
		}
	}
	if it.Attempt > len(tokens)+kills { // a delivery may have died with its server
		return 0, fmt.Errorf("attempt %d, of which the workers have seen %d", it.Attempt, len(tokens))
	}
	for _, run := range runs {
		taken := h.taken[run.seq] || h.acked[run.seq] && !h.expired[run.seq] && !h.ended[run.seq]
		switch {
		case run.confirmed == 0 || (h.expired[run.seq] || h.ended[run.seq]) && !h.taken[run.seq]:
			continue // it came too late, though the server confirms that too
		case !taken:
			unheard++
			continue
		case it.State != events.StateCompleted:
			return 0, fmt.Errorf("attempt %d was acked, and the server took it; it is %s", run.attempt, it.State)
		}
		for _, other := range runs {
			again := other.seq == run.seq && other != run && other.life > run.confirmed
			if died, killed := c.died[run.confirmed]; again && killed && other.life == run.confirmed+1 && died.Sub(run.at) < unstored {
				unheard++
				continue
			}
			if again || other.attempt > run.attempt {
				return 0, fmt.Errorf("attempt %d was acked in the server's life %d, and it ran again: %+v", run.attempt, run.confirmed, *other)
			}
		}
	}
	return unheard, nil
}
