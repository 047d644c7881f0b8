package eventlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/directget"
	"github.com/streamwright/streamwright/internal/sleep"
	"github.com/streamwright/streamwright/wire"
)

// Bounds of one page.
const (
	MaxPageEvents = 1000
	MaxPageBytes  = 1 << 20 // of stored events, and one event beyond

	// pageGets bounds the batches that one page reads where a filter leaves
	// little of them; then the page ends early.
	pageGets = 8
	// nearEnd is the length of the log's end that is read whole, whatever the
	// filter: a replica that lags behind must not make a filtered get look
	// complete. A replica further behind than this answers no gets.
	nearEnd = 2048
	// lookEvery is the least time between two looks for a query's first event:
	// the log may grow by nothing that it wants, thousands of times a second.
	lookEvery = 10 * time.Millisecond
	// unreachedFor bounds the time for which a position past the end is looked
	// for.
	unreachedFor = time.Second
)

// PageQuery says what a page is to hold.
type PageQuery struct {
	// From is the first position. 0 begins at Since, or behind the end if that
	// is zero.
	From  events.Seq
	Since time.Time // with the first event stored then or later

	Types []events.Type // none: all; the empty type: the partition's own events
	Kinds []events.Kind // none: all
	ID    events.ID     // zero: all

	Limit    int           // events; 0 or too many: MaxPageEvents
	MaxBytes int           // of stored events; 0 or too many: MaxPageBytes. One event is always allowed
	Wait     time.Duration // for the first event, where the log has none yet
}

// Page is a part of the log.
type Page struct {
	Events []events.Event // the decided ones, in order
	Next   events.Seq     // where the next page begins
	More   bool           // the page is at a bound: the log goes on
	// First is the first position that is kept, if From is before it; else 0.
	First events.Seq
}

// Pages reads the log of partition 0 page by page, by direct gets: it makes no
// consumers. Any number of goroutines may use it.
type Pages struct {
	nc       *nats.Conn
	names    wire.Names
	position func() events.Seq
	get      string // subject of direct gets
	seen     atomic.Uint64
	replicas atomic.Int32 // of the stream; 0: not known yet

	mu    sync.Mutex
	grown chan struct{} // closed by Grown; nil: nobody waits; guarded by mu
}

// NewPages makes a reader on a connection of the engine. position tells a
// position that is durable; Grown must be called when it has advanced.
func NewPages(nc *nats.Conn, names wire.Names, position func() events.Seq) *Pages {
	return &Pages{nc: nc, names: names, position: position, get: names.JetStream("DIRECT.GET." + names.EventStream(0))}
}

// Grown wakes the readers that wait for the log to grow. It never blocks.
func (p *Pages) Grown() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.grown != nil {
		close(p.grown)
		p.grown = nil
	}
}

func (p *Pages) waiting() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.grown == nil {
		p.grown = make(chan struct{})
	}
	return p.grown
}

// Read reads one page, waiting for its first event for as long as the query
// says. reading, if set, is called around each use of the server, so that the
// caller can bound these. A position that the log has not reached is a
// *BehindError.
func (p *Pages) Read(ctx context.Context, q PageQuery, reading func(context.Context) (done func(), err error)) (Page, error) {
	if q.Limit <= 0 || q.Limit > MaxPageEvents {
		q.Limit = MaxPageEvents
	}
	if q.MaxBytes <= 0 || q.MaxBytes > MaxPageBytes {
		q.MaxBytes = MaxPageBytes
	}
	if reading == nil {
		reading = func(context.Context) (func(), error) { return func() {}, nil }
	}
	until := time.NewTimer(q.Wait)
	defer until.Stop()
	from, begun := q.From, false
	for lag := retryMin; ; {
		looked := time.Now()
		grown, tip := p.waiting(), p.position()
		page, err := p.once(ctx, &q, from, tip, begun, reading)
		if err != nil || len(page.Events) > 0 || page.First > 0 || page.More || q.Wait <= 0 {
			return page, err
		}
		if page.Next > from {
			lag = retryMin
		}
		from, begun = page.Next, true
		var again <-chan time.Time
		if from <= tip { // this replica has not got that far
			again = time.After(lag)
			lag = min(2*lag, retryMax)
		}
		select {
		case <-grown:
			_ = sleep.For(ctx, time.Until(looked.Add(lookEvery))) // its error shows in the next look
		case <-again:
		case <-until.C:
			return page, nil
		case <-ctx.Done():
			return page, ctx.Err()
		}
	}
}

// once reads what there is.
func (p *Pages) once(ctx context.Context, q *PageQuery, from, tip events.Seq, begun bool, reading func(context.Context) (func(), error)) (Page, error) {
	done, err := reading(ctx)
	if err != nil {
		return Page{Next: from}, err
	}
	defer done()
	if !begun {
		if from, err = p.begin(ctx, q); err != nil {
			return Page{}, err
		}
	}
	s := scan{p: p, q: q, dec: newDecoder(p.names, 0), tip: tip, page: Page{Next: from}}
	err = s.run(ctx)
	if s.page.Next > 0 {
		p.saw(s.page.Next - 1)
	}
	return s.page, err
}

// saw notes a written position, which may be ahead of the last one that the
// engine knows.
func (p *Pages) saw(seq events.Seq) {
	for {
		old := p.seen.Load()
		if uint64(seq) <= old || p.seen.CompareAndSwap(old, uint64(seq)) {
			return
		}
	}
}

// begin finds out where a query begins.
func (p *Pages) begin(ctx context.Context, q *PageQuery) (events.Seq, error) {
	switch {
	case q.From > 0:
		return q.From, p.reached(ctx, q.From)
	case !q.Since.IsZero():
		return p.since(ctx, q.Since)
	}
	k, err := p.Kept(ctx)
	return max(k.Last, p.position()) + 1, err
}

// reached errs if the log ends before the position in front of from.
func (p *Pages) reached(ctx context.Context, from events.Seq) error {
	for begun, wait := time.Now(), retryMin; ; {
		if end := max(p.position(), events.Seq(p.seen.Load())); from <= end+1 {
			return nil
		}
		k, err := p.Kept(ctx)
		switch {
		case err != nil:
			return err
		case from <= k.Last+1:
			p.saw(k.Last)
			return nil
		case time.Since(begun) > unreachedFor:
			return &BehindError{Known: from - 1, Last: k.Last}
		}
		if err := pause(ctx, &wait); err != nil {
			return err
		}
	}
}

// since is the first position stored at a time or later, or the next one.
func (p *Pages) since(ctx context.Context, at time.Time) (events.Seq, error) {
	for wait := retryMin; ; {
		tip := p.position()
		msgs, _, err := p.fetch(ctx, directget.Request{StartTime: &at, Batch: 1})
		if err != nil {
			return 0, err
		}
		if len(msgs) > 0 {
			return events.Seq(msgs[0].Seq), nil
		}
		// None, if what answered has all that is durable.
		if tip == 0 {
			return 1, nil
		}
		msgs, _, err = p.fetch(ctx, directget.Request{Seq: uint64(tip), Batch: 1})
		if err != nil {
			return 0, err
		}
		if len(msgs) > 0 && msgs[0].Time.Before(at) {
			return events.Seq(msgs[0].Seq) + 1, nil
		}
		k, err := p.Kept(ctx)
		if err != nil {
			return 0, err
		}
		if k.First > k.Last { // nothing is kept
			return k.Last + 1, nil
		}
		if err := pause(ctx, &wait); err != nil {
			return 0, err
		}
	}
}

func (p *Pages) fetch(ctx context.Context, r directget.Request) ([]directget.Message, uint64, error) {
	msgs, pending, err := directget.Get(ctx, p.nc, p.get, r)
	if err != nil {
		err = fmt.Errorf("read the event log: %w", unreachable(err))
	}
	return msgs, pending, err
}

// subject returns the subject that the server filters by, or none if the query
// needs several or all.
func (q *PageQuery) subject(n wire.Names) string {
	t, k := "*", "*"
	if len(q.Types) == 1 {
		if t = string(q.Types[0]); t == "" {
			t = string(events.NoType)
		}
	}
	if len(q.Kinds) == 1 {
		k = q.Kinds[0].String()
	}
	if t == "*" && k == "*" {
		return ""
	}
	return n.EventFilter(strconv.Itoa(0), t, k)
}

// mayWant reports whether an event with this subject can be wanted, which saves
// decoding most unwanted ones.
func (q *PageQuery) mayWant(subject string) bool {
	if len(q.Types) == 0 && len(q.Kinds) == 0 {
		return true
	}
	rest, kind := cutLast(subject)
	_, typ := cutLast(rest)
	if typ == string(events.NoType) {
		typ = ""
	}
	return (len(q.Types) == 0 || slices.Contains(q.Types, events.Type(typ))) &&
		(len(q.Kinds) == 0 || slices.ContainsFunc(q.Kinds, func(k events.Kind) bool { return k.String() == kind }))
}

// cutLast cuts off the last token of a subject.
func cutLast(subject string) (rest, token string) {
	i := strings.LastIndexByte(subject, '.')
	return subject[:max(i, 0)], subject[i+1:]
}

func (q *PageQuery) wants(ev *events.Event) bool {
	return (len(q.Types) == 0 || slices.Contains(q.Types, ev.Type)) && (len(q.Kinds) == 0 || slices.Contains(q.Kinds, ev.Kind)) &&
		(q.ID.IsZero() || ev.ID == q.ID)
}

// scan is the reading of one page.
type scan struct {
	p    *Pages
	q    *PageQuery
	dec  *decoder
	tip  events.Seq
	page Page

	size    int
	end     events.Seq // the last position that was looked at for the end of a decision
	decided bool       // what that showed
	stopped bool       // the page is complete, or the next decision is not
}

// run reads until the page is full, the log ends or enough was looked at.
func (s *scan) run(ctx context.Context) error {
	subject := s.q.subject(s.p.names)
	for range pageGets {
		var ended bool
		var err error
		if subject != "" && s.tip > s.page.Next+nearEnd {
			err = s.far(ctx, subject, s.tip-nearEnd)
		} else if ended, err = s.skip(ctx, subject); err == nil && !ended && !s.stopped {
			ended, err = s.near(ctx)
		}
		if err != nil || ended || s.stopped {
			return s.unless(err)
		}
	}
	s.page.More = true
	return nil
}

// unless returns an error, but not while there are events to be shown first.
func (s *scan) unless(err error) error {
	if err != nil && len(s.page.Events) > 0 {
		s.page.More = true
		return nil
	}
	return err
}

// skip moves on to the next message of a subject. Only the single server of a
// stream without replicas can tell where that is. ended reports that there is
// none up to the end.
func (s *scan) skip(ctx context.Context, subject string) (ended bool, err error) {
	if subject == "" || s.page.Next == 0 || s.page.Next > s.tip {
		return false, nil
	}
	if alone, err := s.p.alone(ctx); err != nil || !alone {
		return false, err
	}
	if ok, err := s.kept(ctx); err != nil || !ok {
		return false, err
	}
	m, err := directget.FromLeader(ctx, s.p.nc, s.p.names.JetStream("STREAM.MSG.GET."+s.p.names.EventStream(0)), directget.Request{Seq: uint64(s.page.Next), NextFor: subject})
	if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && events.Seq(m.Seq) > s.tip {
		s.page.Next = s.tip + 1
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the event log: %w", unreachable(err))
	}
	s.page.Next = events.Seq(m.Seq)
	return false, nil
}

// alone reports whether the stream has no replicas.
func (p *Pages) alone(ctx context.Context) (bool, error) {
	if p.replicas.Load() == 0 {
		if _, err := p.Kept(ctx); err != nil {
			return false, err
		}
	}
	return p.replicas.Load() == 1, nil
}

// near takes the next messages, whatever they are. ended: there are no more.
func (s *scan) near(ctx context.Context) (ended bool, err error) {
	from := s.page.Next
	msgs, pending, err := s.p.fetch(ctx, directget.Request{Seq: uint64(max(from, 1)), Batch: MaxPageEvents, MaxBytes: MaxPageBytes})
	if err != nil || len(msgs) == 0 {
		return true, err
	}
	for i := range msgs {
		if events.Seq(msgs[i].Seq) > s.page.Next && !s.cut(events.Seq(msgs[i].Seq)) {
			return false, nil
		}
		if err := s.take(ctx, msgs, i, true); err != nil || s.stopped {
			return false, err
		}
	}
	return pending == 0, nil
}

// cut notes that the log lacks the positions before first. false: the page ends
// there, since it has something to show from before.
func (s *scan) cut(first events.Seq) bool {
	if len(s.page.Events) > 0 || s.page.First > 0 {
		s.stopped, s.page.More = true, true
		return false
	}
	s.page.First, s.page.Next = first, first
	return true
}

// kept looks, without a filter, whether the log still keeps the next position;
// false: the page ends there.
func (s *scan) kept(ctx context.Context) (bool, error) {
	one, _, err := s.p.fetch(ctx, directget.Request{Seq: uint64(max(s.page.Next, 1)), Batch: 1})
	if err != nil || len(one) == 0 || events.Seq(one[0].Seq) <= s.page.Next {
		return err == nil, err
	}
	return s.cut(events.Seq(one[0].Seq)), nil
}

// far takes the next messages of a subject, up to a position that is well
// before the end.
func (s *scan) far(ctx context.Context, subject string, through events.Seq) error {
	if ok, err := s.kept(ctx); err != nil || !ok {
		return err
	}
	msgs, pending, err := s.p.fetch(ctx, directget.Request{Seq: uint64(max(s.page.Next, 1)), NextFor: subject, Batch: MaxPageEvents, MaxBytes: MaxPageBytes})
	if err != nil {
		return err
	}
	for i := range msgs {
		if events.Seq(msgs[i].Seq) > through {
			pending = 0
			break
		}
		if err := s.take(ctx, msgs, i, false); err != nil || s.stopped {
			return err
		}
	}
	if pending == 0 {
		s.page.Next = max(s.page.Next, through+1)
	}
	return nil
}

// take judges one message and, if it is an event that was decided and is wanted,
// puts it on the page. whole: msgs has all messages.
func (s *scan) take(ctx context.Context, msgs []directget.Message, i int, whole bool) error {
	if !s.q.mayWant(msgs[i].Subject) {
		s.page.Next = events.Seq(msgs[i].Seq) + 1
		return nil
	}
	d := s.dec.decode(stored(&msgs[i]))
	switch {
	case d.err != nil:
		return d.err
	case d.foreign != "" || !s.q.wants(&d.ev):
		s.page.Next = d.seq + 1
		return nil
	}
	if len(s.page.Events) == s.q.Limit || len(s.page.Events) > 0 && s.size+len(msgs[i].Data) > s.q.MaxBytes {
		s.stopped, s.page.More = true, true
		return nil
	}
	decided, known, err := s.complete(ctx, &d.ev, msgs, i, whole)
	if err != nil {
		return err
	}
	if !known { // the very next messages tell
		s.stopped = true
		return nil
	}
	if decided {
		s.page.Events = append(s.page.Events, d.ev)
		s.size += len(msgs[i].Data)
	}
	s.page.Next = d.seq + 1
	return nil
}

// complete reports whether an event's decision was completed: then the event at
// the position where it would end is the last of as many. One that began later
// would end later. known is false while that position is not written.
func (s *scan) complete(ctx context.Context, ev *events.Event, msgs []directget.Message, i int, whole bool) (decided, known bool, err error) {
	tx := ev.Tx
	if tx.Of == 0 || tx.Last() {
		return true, true, nil
	}
	n := tx.Of - tx.N
	end := ev.Seq + events.Seq(n)
	if end == s.end {
		return s.decided, true, nil
	}
	var last message
	if whole && i+n < len(msgs) && events.Seq(msgs[i+n].Seq) == end {
		last = stored(&msgs[i+n])
	} else {
		found, _, err := s.p.fetch(ctx, directget.Request{Seq: uint64(end), Batch: 1})
		if err != nil || len(found) == 0 {
			return false, false, err
		}
		if events.Seq(found[0].Seq) != end {
			return false, true, nil // cut, or deleted
		}
		last = stored(&found[0])
	}
	d := s.dec.decode(last)
	if d.err != nil {
		return false, false, d.err
	}
	s.end, s.decided = end, d.foreign == "" && d.ev.Tx == events.Tx{N: tx.Of, Of: tx.Of}
	return s.decided, true, nil
}

func stored(m *directget.Message) message {
	h := m.Header
	if v := h["Nats-Stream"]; len(v) > 0 {
		h = nats.Header{"Nats-Stream": v[:len(v)-1], nats.MsgIdHdr: h[nats.MsgIdHdr]}
	}
	return message{seq: events.Seq(m.Seq), subject: m.Subject, id: headerID(h), data: m.Data}
}
