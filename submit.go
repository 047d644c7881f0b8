package streamwright

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/oklog/ulid/v2"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/repeat"
	"github.com/streamwright/streamwright/tracing"
	"github.com/streamwright/streamwright/wire"
)

// Submitted is the outcome of a submission. In the answers of SubmitMany, Error
// is set for an item that was refused.
type Submitted = wire.Submitted

// Submit asks the engine for a new item and returns once that is durable (as
// the engine's durability setting has it), or refused. A repeat, a merge into
// an item with the same dedup key, and a new item can be told apart by the reply.
//
// The id is chosen before the first try, so it tries until ctx ends, through
// timeouts and restarts of the engine, and still makes one item. When ctx ends
// first, the item may or may not have been accepted: submit it again with the
// id that the returned Submitted holds even then.
//
// Params larger than events.MaxParamsBytes (see [WithInlineParams]) are put into
// the object store first, and submitted by reference; a repeat finds them there.
//
// The item continues the trace of ctx (OpenTelemetry), unless it names one.
func (c *Client) Submit(ctx context.Context, item Item) (out Submitted, err error) {
	ctx, span := c.startSubmit(ctx, "submit", item.Type)
	defer func() { c.endSubmit(span, out.ID, err) }()
	s, err := c.prepare(ctx, &item)
	if err != nil {
		return Submitted{}, err
	}
	out, err = c.submit(ctx, s)
	return c.accepted(s.ID, out, err)
}

// prepare makes an item ready to be sent, with an id.
func (c *Client) prepare(ctx context.Context, item *Item) (wire.Submit, error) {
	s, err := item.Submission()
	if s.Trace == "" {
		s.Trace = tracing.From(ctx)
	}
	if err == nil && s.ID == "" {
		s.ID, err = c.ids.next()
	}
	if err == nil {
		err = c.sign(&s)
	}
	return s, err
}

// sign gives a submission's signal a message id, unless it has one.
func (c *Client) sign(s *wire.Submit) (err error) {
	if s.Signal != nil && s.Signal.MsgID == "" {
		s.Signal.MsgID, err = c.ids.next()
	}
	return err
}

// Published says what became of a plain publish.
type Published struct {
	ID        string // of the item that it has become, or will become
	IntakeSeq uint64 // the handle of the publish; see GetByIntake
	Duplicate bool   // it repeats an earlier one; one that is stored in the intake first may not say so
}

// Publish submits by a plain JetStream publish to work.submit.<type>: it
// returns once the submission is decided, or stored in the intake, from where the
// engine takes it, also if none runs now. What can't become an item is not refused
// here but becomes a rejected event; Submit tells at once. It tries until ctx
// ends, under one message id.
func (c *Client) Publish(ctx context.Context, item Item) (out Published, err error) {
	ctx, span := c.startSubmit(ctx, "publish", item.Type)
	defer func() { c.endSubmit(span, out.ID, err) }()
	s, err := c.prepare(ctx, &item)
	if err != nil {
		return Published{}, err
	}
	typ, err := events.ParseType(s.Type) // it becomes part of the subject
	if err != nil {
		return Published{}, events.Refuse(events.CodeBadType, "%v", err)
	}
	if s, err = c.offload(ctx, s); err != nil {
		return Published{ID: s.ID}, err
	}
	header, err := s.Headers()
	if err != nil {
		return Published{}, err
	}
	header[jetstream.MsgIDHeader] = []string{s.ID}
	if len(s.Params) == 0 {
		s.Params = []byte("null")
	}
	msg := &nats.Msg{Subject: c.set.names.Submit(typ), Header: header, Data: s.Params}
	var ack *jetstream.PubAck
	err = c.retry(ctx, "publish", forever, func(ctx context.Context) (err error) {
		ctx, cancel := c.trying(ctx, msg.Subject, c.set.tryTimeout)
		defer cancel()
		ack, err = c.js.PublishMsg(ctx, msg, jetstream.WithRetryAttempts(0))
		return c.publishFailed(msg.Subject, lostOr(ctx, err))
	})
	if err != nil {
		return Published{ID: s.ID}, err
	}
	return Published{ID: s.ID, IntakeSeq: ack.Sequence, Duplicate: ack.Duplicate}, nil
}

// publishFailed turns the failure of one publish into an *events.Error.
func (l *link) publishFailed(subject string, err error) error {
	var api *jetstream.APIError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders):
		return noEngine{events.Refuse(events.CodeUnavailable, "no stream takes %s at %s: has `engine serve` run there?", subject, l.where())}
	case errors.As(err, &api):
		return intakeRefused(subject, api)
	}
	return l.failed("publish", err)
}

// The server's codes for what is too large, for a stream or a server that is at its
// limits, and for a message whose first publish is not stored yet.
const (
	natsMsgTooLarge     = 10054
	natsNoResources     = 10023
	natsNoMemory        = 10028
	natsNoStorage       = 10047
	natsStoreFailed     = 10077 // also: maximum bytes reached
	natsTooManyRequests = 10167
	natsInProcess       = 10158
)

func intakeRefused(subject string, api *jetstream.APIError) error {
	switch int(api.ErrorCode) {
	case natsMsgTooLarge:
		return events.Refuse(events.CodeTooLarge, "publish to %s: the submission is larger than the intake takes (%s)", subject, api.Description)
	case natsNoResources, natsNoMemory, natsNoStorage, natsStoreFailed, natsTooManyRequests:
		return events.Refuse(events.CodeUnavailable, "publish to %s: the intake does not accept now (%s): the engine has to catch up first", subject, api.Description)
	case natsInProcess:
		return events.Refuse(events.CodeUnavailable, "publish to %s: an earlier publish of this submission is being stored: publish it again, under the same id", subject)
	}
	return events.Refuse(events.CodeInternal, "publish to %s: %s (NATS error %d)", subject, api.Description, api.ErrorCode)
}

// BulkOption changes how many items are submitted together.
type BulkOption func(*bulkSettings)

type bulkSettings struct{ items, inFlight int }

// defaultPerRequest is the number of items in one request: so few that the engine
// answers soon.
const defaultPerRequest = 1000

// PerRequest bounds the items of one request, 1 to 10,000; default 1,000.
func PerRequest(n int) BulkOption {
	return func(s *bulkSettings) { s.items = min(max(n, 1), events.MaxSubmitBatch) }
}

// InFlight bounds the requests that await their reply, 1 to 64; default 4.
func InFlight(n int) BulkOption {
	return func(s *bulkSettings) { s.inFlight = min(max(n, 1), MaxInFlight) }
}

// SubmitMany submits items, each on its own, and returns what became of each,
// in the same order: one that was refused has Error. They are decided in that
// order too, as long as no request has to be repeated. The error says that the
// context ended or the connection was closed; items without an answer by then have
// it as their Error, and the id under which to submit them again. Large params are
// put into the object store as for Submit, one after the other.
func (c *Client) SubmitMany(ctx context.Context, items []Item, opts ...BulkOption) ([]Submitted, error) {
	out := make([]Submitted, 0, len(items))
	err := c.SubmitSeq(ctx, slices.Values(items), func(s Submitted) error {
		out = append(out, s)
		return nil
	}, opts...)
	if err != nil {
		for i := len(out); i < len(items); i++ {
			out = append(out, Submitted{ID: items[i].ID, Error: wire.FromError(err)})
		}
	}
	return out, err
}

// SubmitSeq is SubmitMany for any number of items: it takes them as it goes,
// and passes what became of each to done, in order, from the calling goroutine.
// An error of done ends it. Memory is bounded by the requests in flight. All items
// continue one trace, the one in ctx or a new one, unless they name another.
func (c *Client) SubmitSeq(ctx context.Context, items iter.Seq[Item], done func(Submitted) error, opts ...BulkOption) (err error) {
	ctx, span := c.startSubmit(ctx, "submit", "many")
	defer func() { c.endSubmit(span, "", err) }()
	set := bulkSettings{items: defaultPerRequest, inFlight: DefaultInFlight}
	for _, o := range opts {
		o(&set)
	}
	ctx, cancel := context.WithCancel(ctx)
	b := &bulk{c: c, ctx: ctx, set: set, done: done, bytes: c.bulkBytes()}
	defer func() {
		cancel()
		for _, p := range b.flying {
			<-p.ready
		}
	}()
	for it := range items {
		if err := b.add(&it); err != nil {
			return err
		}
	}
	if err := b.send(); err != nil {
		return err
	}
	for len(b.flying) > 0 {
		if err := b.land(); err != nil {
			return err
		}
	}
	return nil
}

// bulkBytes is the size of a bulk request: half of what the server takes.
func (l *link) bulkBytes() int {
	const unknown = 1 << 20
	if n := l.nc.MaxPayload(); n > 0 {
		return int(n / 2)
	}
	return unknown
}

// bulk is one SubmitSeq under way. It belongs to the calling goroutine; each
// parcel in flight has a goroutine of its own, which ends with its ready.
type bulk struct {
	c      *Client
	ctx    context.Context
	set    bulkSettings
	done   func(Submitted) error
	bytes  int
	doc    []byte    // the item that was encoded last
	next   parcel    // being filled
	flying []*parcel // sent, oldest first; at most set.inFlight
}

// parcel is the items of one request.
type parcel struct {
	array   []byte      // of the items' JSON, without its end
	ends    []int       // where each item ends in it; where it begins, for one that is not sent
	out     []Submitted // what became of each
	refused *denial     // of the connection, to come next when it was sent
	ready   chan struct{}
	err     error // set before ready: no answer, and out is not complete
}

// add puts an item into the parcel, sending the parcel first when it is full.
func (b *bulk) add(it *Item) error {
	id, err := b.encode(it)
	if len(b.next.out) >= b.set.items || len(b.next.array) > 0 && len(b.next.array)+len(b.doc)+len(",]") > b.bytes {
		if err := b.send(); err != nil {
			return err
		}
	}
	b.next.add(b.doc)
	b.next.out = append(b.next.out, Submitted{ID: id, Error: wire.FromError(err)})
	return nil
}

// add puts an item's document, if there is one, behind the others.
func (p *parcel) add(doc []byte) {
	if len(doc) > 0 {
		sep := byte(',')
		if len(p.array) == 0 {
			sep = '['
		}
		p.array = append(append(p.array, sep), doc...)
	}
	p.ends = append(p.ends, len(p.array))
}

// encode writes an item to b.doc; one that can't be sent has no document.
func (b *bulk) encode(it *Item) (id string, err error) {
	b.doc = b.doc[:0]
	s, err := b.c.prepare(b.ctx, it)
	if err != nil {
		return it.ID, err
	}
	if s, err = b.c.offload(b.ctx, s); err != nil {
		return s.ID, err
	}
	doc, err := wire.AppendSubmit(b.doc, &s)
	if err != nil {
		return s.ID, events.Refuse(events.CodeBadParams, "the item can't be written as JSON: %v", err)
	}
	if most := 2*b.bytes - len("[]"); len(doc) > most {
		return s.ID, events.Refuse(events.CodeTooLarge, "the item has %d bytes: the NATS server takes at most %d", len(doc), most)
	}
	b.doc = doc
	return s.ID, nil
}

// send sends the parcel, once there is room among those in flight. The first
// try is sent from here, so that parcels arrive in order.
func (b *bulk) send() error {
	if len(b.next.out) == 0 {
		return nil
	}
	p := b.next
	b.next = parcel{array: make([]byte, 0, len(p.array)+len(p.array)/64), ends: make([]int, 0, len(p.ends)), out: make([]Submitted, 0, len(p.out))}
	for len(b.flying) >= b.set.inFlight {
		if err := b.land(); err != nil {
			return err
		}
	}
	p.ready = make(chan struct{})
	b.flying = append(b.flying, &p)
	p.refused = b.c.denials.next()
	sub, err := b.c.sendAsync(wire.APISubmit, p.body(p.pending()))
	go func() {
		defer close(p.ready)
		p.err = b.deliver(&p, sub, err)
	}()
	return nil
}

// land awaits the oldest parcel in flight and tells what became of its items.
func (b *bulk) land() error {
	p := b.flying[0]
	<-p.ready
	b.flying = b.flying[1:]
	if p.err != nil {
		return p.err
	}
	for _, s := range p.out {
		b.c.ObservePosition(s.Position)
		if err := b.done(s); err != nil {
			return err
		}
	}
	return nil
}

// pending are the items of the parcel that are to be sent.
func (p *parcel) pending() []int {
	idx := make([]int, 0, len(p.ends))
	begin := 0
	for i, end := range p.ends {
		if end > begin {
			idx = append(idx, i)
		}
		begin = end
	}
	return idx
}

// body is the request for some of the items.
func (p *parcel) body(idx []int) []byte {
	if len(idx) == len(p.pending()) {
		return append(p.array, ']')
	}
	some := parcel{array: make([]byte, 0, len(p.array)+1)}
	for _, i := range idx {
		begin := len("[")
		if i > 0 {
			begin += p.ends[i-1]
		}
		some.add(p.array[begin:p.ends[i]])
	}
	return append(some.array, ']')
}

// deliver gets an answer for each item of a parcel, whose first try is already
// under way (or has failed with sent). What no engine could decide is sent again,
// alone.
func (b *bulk) deliver(p *parcel, sub *nats.Subscription, sent error) error {
	if sub != nil {
		defer func() { _ = sub.Unsubscribe() }()
	}
	todo, first := p.pending(), true
	if len(todo) == 0 {
		return nil
	}
	return b.c.retry(b.ctx, wire.APISubmit, forever, func(ctx context.Context) error {
		data, err := b.try(ctx, p, todo, first, sub, sent)
		if first = false; err != nil {
			return err
		}
		answers, ok := wire.DecodeSubmitted(data, len(todo))
		if !ok {
			if answers, err = decode[[]Submitted](wire.APISubmit, data); err != nil {
				return err
			}
		}
		if len(answers) != len(todo) {
			return events.Refuse(events.CodeInternal, "the engine answered %d of %d submissions: is it another version?", len(answers), len(todo))
		}
		todo, err = p.settle(todo, answers)
		return err
	})
}

// try awaits the reply to the first try, or makes another.
func (b *bulk) try(ctx context.Context, p *parcel, todo []int, first bool, sub *nats.Subscription, sent error) ([]byte, error) {
	if !first {
		return b.c.once(ctx, wire.APISubmit, p.body(todo), b.c.set.tryTimeout)
	}
	if sent != nil {
		return nil, sent
	}
	ctx, cancel := b.c.tryingSince(ctx, p.refused, b.c.set.names.API(wire.APISubmit), b.c.set.tryTimeout)
	defer cancel()
	msg, err := sub.NextMsgWithContext(ctx)
	if err != nil {
		return nil, b.c.failed(wire.APISubmit, lostOr(ctx, err))
	}
	return content(wire.APISubmit, msg)
}

// settle takes the answers in. It returns the items to send again, and why.
func (p *parcel) settle(todo []int, answers []Submitted) (again []int, err error) {
	for n, i := range todo {
		a := answers[n]
		if a.Error != nil && repeat.NotNow(a.Error.Code) {
			again, err = append(again, i), a.Error.Err()
			continue
		}
		if a.ID == "" {
			a.ID = p.out[i].ID
		}
		p.out[i] = a
	}
	return again, err
}

// idSource makes ULIDs that rise within a client, so that items submitted one
// after the other sort that way. The zero idSource is ready.
type idSource struct {
	mu      sync.Mutex
	entropy *ulid.MonotonicEntropy
	last    uint64 // milliseconds; never goes back, whatever the clock does
}

func (s *idSource) next() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entropy == nil {
		// Monotonic entropy reads random bytes once a millisecond; buffered, so
		// that it does not ask the kernel each time.
		s.entropy = ulid.Monotonic(bufio.NewReaderSize(rand.Reader, 1024), 0)
	}
	s.last = max(s.last, ulid.Timestamp(time.Now()))
	id, err := ulid.New(s.last, s.entropy)
	if err != nil { // the millisecond's 80 bits ran over: begin the next
		s.last++
		if id, err = ulid.New(s.last, s.entropy); err != nil {
			return "", events.Refuse(events.CodeInternal, "make an id: %v", err)
		}
	}
	return id.String(), nil
}

// startSubmit begins the span of a submission; end it with endSubmit. Without a
// tracer provider it only passes on the trace in ctx.
func (c *Client) startSubmit(ctx context.Context, verb, what string) (context.Context, trace.Span) {
	return tracing.Start(ctx, verb, what, trace.SpanKindProducer)
}

func (c *Client) endSubmit(span trace.Span, id string, err error) {
	if span.IsRecording() {
		if id != "" {
			span.SetAttributes(attribute.String("work.id", id))
		}
		if ns := c.Namespace(); ns != DefaultNamespace {
			span.SetAttributes(attribute.String("work.namespace", string(ns)))
		}
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
	}
	span.End()
}
