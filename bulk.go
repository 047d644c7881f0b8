package streamwright

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"slices"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// BulkOption changes how many items are submitted together.
type BulkOption func(*bulkSettings)

type bulkSettings struct{ items, inFlight int }

// defaultPerRequest is how many items go in one request: so few that the engine
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
// order too, as long as no request has to be repeated. The error is that of a
// context that ended, or of a connection that was closed; items without an
// answer by then have it as their Error, and the id under which to submit them
// again. Large params are put into the object store as for Submit, one after the
// other.
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
// and tells done what became of each, in order, from the calling goroutine.
// An error of done ends it. Memory is bounded by the requests in flight. All go on
// in one trace, that of ctx or a new one, unless they name another.
func (c *Client) SubmitSeq(ctx context.Context, items iter.Seq[Item], done func(Submitted) error, opts ...BulkOption) (err error) {
	ctx, span := startSubmit(ctx, "submit", "many")
	defer func() { endSubmit(span, "", err) }()
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
func (c *Client) bulkBytes() int {
	const unknown = 1 << 20
	if n := c.nc.MaxPayload(); n > 0 {
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
	next   parcel    // being filled
	flying []*parcel // sent, oldest first; at most set.inFlight
}

// parcel is the items of one request.
type parcel struct {
	docs    [][]byte    // the items' JSON; nil for one that is not sent
	out     []Submitted // what became of each
	size    int         // bytes of docs, with commas
	refused *denial     // of the connection, to come next when it was sent
	ready   chan struct{}
	err     error // set before ready: no answer, and out is not complete
}

// add puts an item into the parcel, sending the parcel first when it is full.
func (b *bulk) add(it *Item) error {
	id, doc, err := b.encode(it)
	if len(b.next.out) >= b.set.items || len(b.next.docs) > 0 && b.next.size+len(doc)+2 > b.bytes {
		if err := b.send(); err != nil {
			return err
		}
	}
	b.next.docs = append(b.next.docs, doc)
	b.next.out = append(b.next.out, Submitted{ID: id, Error: wire.FromError(err)})
	b.next.size += len(doc) + 1
	return nil
}

// encode writes an item; one that can't be sent has no document.
func (b *bulk) encode(it *Item) (id string, doc []byte, err error) {
	s, err := b.c.prepare(b.ctx, it)
	if err != nil {
		return it.ID, nil, err
	}
	if s, err = b.c.offload(b.ctx, s); err != nil {
		return s.ID, nil, err
	}
	if doc, err = json.Marshal(s); err != nil {
		return s.ID, nil, events.Refuse(events.CodeBadParams, "the item can't be written as JSON: %v", err)
	}
	if most := 2*b.bytes - len("[]"); len(doc) > most {
		return s.ID, nil, events.Refuse(events.CodeTooLarge, "the item has %d bytes: the NATS server takes at most %d", len(doc), most)
	}
	return s.ID, doc, nil
}

// send sends the parcel, once there is room among those in flight. The first
// try is sent from here, so that parcels arrive in order.
func (b *bulk) send() error {
	if len(b.next.out) == 0 {
		return nil
	}
	p := b.next
	b.next = parcel{docs: make([][]byte, 0, len(p.docs)), out: make([]Submitted, 0, len(p.out))}
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
		p.err = b.c.deliver(b.ctx, &p, sub, err)
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
		b.c.Saw(s.Position)
		if err := b.done(s); err != nil {
			return err
		}
	}
	return nil
}

// pending are the items of the parcel that are to be sent.
func (p *parcel) pending() []int {
	idx := make([]int, 0, len(p.docs))
	for i, d := range p.docs {
		if d != nil {
			idx = append(idx, i)
		}
	}
	return idx
}

// body is the request for some of the items.
func (p *parcel) body(idx []int) []byte {
	var b bytes.Buffer
	b.Grow(p.size + 2)
	b.WriteByte('[')
	for n, i := range idx {
		if n > 0 {
			b.WriteByte(',')
		}
		b.Write(p.docs[i])
	}
	b.WriteByte(']')
	return b.Bytes()
}

// sendAsync sends a request whose reply is awaited on the subscription.
func (c *Client) sendAsync(op string, body []byte) (*nats.Subscription, error) {
	inbox := c.nc.NewInbox()
	sub, err := c.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, c.failed(op, err)
	}
	if err := c.nc.PublishRequest(c.set.names.API(op), inbox, body); err != nil {
		_ = sub.Unsubscribe()
		return nil, c.failed(op, err)
	}
	return sub, nil
}

// deliver gets an answer for each item of a parcel, whose first try is already
// under way (or has failed with sent). What is refused as unavailable is sent
// again, alone.
func (c *Client) deliver(ctx context.Context, p *parcel, sub *nats.Subscription, sent error) error {
	if sub != nil {
		defer func() { _ = sub.Unsubscribe() }()
	}
	todo, first := p.pending(), true
	if len(todo) == 0 {
		return nil
	}
	return c.retry(ctx, wire.APISubmit, forever, func(ctx context.Context) error {
		data, err := c.tryParcel(ctx, p, todo, first, sub, sent)
		if first = false; err != nil {
			return err
		}
		var answers []Submitted
		if err := json.Unmarshal(data, &answers); err != nil {
			return unreadable(wire.APISubmit, err)
		}
		if len(answers) != len(todo) {
			return events.Refuse(events.CodeInternal, "the engine answered %d of %d submissions: is it another version?", len(answers), len(todo))
		}
		todo, err = p.settle(todo, answers)
		return err
	})
}

// tryParcel awaits the first try, or makes another.
func (c *Client) tryParcel(ctx context.Context, p *parcel, todo []int, first bool, sub *nats.Subscription, sent error) ([]byte, error) {
	if !first {
		return c.once(ctx, wire.APISubmit, p.body(todo), c.set.tryTimeout)
	}
	if sent != nil {
		return nil, sent
	}
	msg, err := c.await(ctx, p, sub)
	if err != nil {
		return nil, c.failed(wire.APISubmit, err)
	}
	return content(wire.APISubmit, msg)
}

// await waits for a reply to what was just sent, for one try.
func (c *Client) await(ctx context.Context, p *parcel, sub *nats.Subscription) (*nats.Msg, error) {
	ctx, cancel := c.tryingSince(ctx, p.refused, c.set.names.API(wire.APISubmit), c.set.tryTimeout)
	defer cancel()
	msg, err := sub.NextMsgWithContext(ctx)
	if err != nil {
		return nil, lostOr(ctx, err)
	}
	return msg, nil
}

// settle takes the answers in. It returns the items to send again, and why.
func (p *parcel) settle(todo []int, answers []Submitted) (again []int, err error) {
	for n, i := range todo {
		a := answers[n]
		if a.Error != nil && a.Error.Code == events.CodeUnavailable {
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
