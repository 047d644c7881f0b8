package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/access/quota"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// call is one request and its reply, by whichever way it came.
type call struct {
	s        *Service
	ctx      context.Context // nil, or ends when the caller has gone
	data     []byte
	respond  func(data []byte, err *wire.Error) // for progress, and once for the reply; err excludes progress
	replied  func()                             // nil, or called behind the reply
	actor    string                             // who asks; see withActor
	roles    access.Roles                       // the actor's; of nobody that is known: all
	user     *quota.User                        // whose quota counts; nil: nobody's
	direct   bool                               // it comes from this process, and not by NATS
	imported bool                               // it comes from another account than the engine's
	endpoint string
	start    time.Time
	replyTo  string // the subject of its replies; empty: it has none
}

// reply answers, and counts the call out.
func (c *call) reply(v any, err error) {
	defer c.s.pending.Done()
	c.send(v, err)
	if c.replied != nil {
		c.replied()
	}
}

func (c *call) send(v any, err error) {
	if err != nil && c.s.ctx.Err() != nil {
		switch events.CodeOf(err) {
		case events.CodeInternal, events.CodeTimeout, events.CodeUnavailable: // what a request that was interrupted says
			err = events.ErrShuttingDown
		}
	}
	var data []byte
	if err == nil {
		data, err = encodeReply(v)
	}
	if err == nil && len(data) > smallReply && int64(len(data)) > c.limit() {
		err = events.Refuse(events.CodeTooLarge, "the reply has %d bytes, at most %d can be sent: ask for less at once", len(data), c.limit())
	}
	code := events.Code("ok")
	if err == nil {
		c.respond(data, nil)
	} else {
		code = c.refuse(err)
	}
	c.s.Metrics.request(c.endpoint, code, time.Since(c.start))
}

// smallReply, in bytes, is less than any server takes that an engine works with. Up to it the
// connection is not asked for the limit: its lock is held while it writes.
const smallReply = 1 << 20

// limit returns the most bytes that a reply may have.
func (c *call) limit() int64 {
	if c.direct {
		return maxDirectReply
	}
	return c.s.Conn.MaxPayload()
}

// encoded is a reply that is JSON already.
type encoded []byte

func encodeReply(v any) ([]byte, error) {
	switch v := v.(type) {
	case []wire.Reported:
		return wire.EncodeReported(make([]byte, 0, 160*len(v)+2), v)
	case []wire.Submitted:
		return wire.EncodeSubmitted(make([]byte, 0, 80*len(v)+2), v)
	case encoded:
		return v, nil
	}
	return json.Marshal(v)
}

func (c *call) refuse(err error) events.Code {
	e := wire.FromError(known(err))
	if e.Code == events.CodeInternal {
		c.s.Logger.Error("a request failed", "endpoint", c.endpoint, "error", err)
	}
	c.respond(nil, e)
	return e.Code
}

// progress tells the caller how far its request is.
func (c *call) progress(v any) {
	data, err := json.Marshal(v)
	if err != nil {
		c.undelivered(err)
		return
	}
	c.respond(data, nil)
}

// undelivered notes a reply that could not be sent. The caller will ask again.
func (c *call) undelivered(err error) {
	if err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		c.s.Logger.Warn("a reply could not be sent", "endpoint", c.endpoint, "error", err)
	}
}

// gone reports whether the caller has left: nobody hears the answer.
func (c *call) gone() bool { return c.ctx != nil && c.ctx.Err() != nil }

// errLeft answers a caller who has left before.
var errLeft = events.Refuse(events.CodeTimeout, "the request was ended by its caller before the engine had answered it")

// known gives errors of contexts their code.
func known(err error) error {
	if errors.Is(err, context.Canceled) && events.CodeOf(err) == events.CodeInternal {
		return errLeft
	}
	if errors.Is(err, context.DeadlineExceeded) && events.CodeOf(err) == events.CodeInternal {
		return events.Refuse(events.CodeTimeout, "the engine did not get to it in time (%v): ask again", err)
	}
	return err
}

// decode reads a request strictly into a T. An empty body is an empty T.
func decode[T any](data []byte) (T, error) {
	var v T
	if len(bytes.TrimSpace(data)) == 0 {
		return v, nil
	}
	if err := wire.ReadStrict(data, &v); err != nil {
		return v, malformed(err)
	}
	return v, nil
}

// malformed says what is wrong with a request. An *events.Error in the chain
// (of a field's own type) says it best itself.
func malformed(err error) error {
	var refused *events.Error
	if errors.As(err, &refused) {
		return refused
	}
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		return events.Refuse(events.CodeBadRequest, "the request's %s is a JSON %s: it must be %s", fieldName(kind.Field), wire.JSONValue(kind), wire.JSONKind(kind))
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		if n, uerr := strconv.Unquote(name); uerr == nil {
			name = n
		}
		return events.Refuse(events.CodeBadRequest, "the request has the field %q, which the engine does not know: check its spelling", events.Clip(name, 64))
	}
	return events.Refuse(events.CodeBadRequest, "the request can't be read as JSON: %s", wire.JSONFault(err))
}

func fieldName(f string) string {
	if f == "" {
		return "body"
	}
	return "field " + f
}

// decodeMany reads one T, or an array of at most most. errs has the errors of elements
// that can't be read; it is nil if all can.
func decodeMany[T any](data []byte, most int) (list []T, array bool, errs []error, err error) {
	if !isArray(data) {
		v, err := decode[T](data)
		return []T{v}, false, nil, err
	}
	list, err = decode[[]T](data)
	if err != nil {
		list, errs, err = decodeEach[T](data)
	}
	if err == nil && len(list) > most {
		err = events.Refuse(events.CodeTooLarge, "the request has %d elements: send at most %d at once", len(list), most)
	}
	return list, true, errs, err
}

// decodeEach reads an array that has wrong elements.
func decodeEach[T any](data []byte) ([]T, []error, error) {
	raws, err := decode[[]json.RawMessage](data)
	if err != nil {
		return nil, nil, err
	}
	list, errs := make([]T, len(raws)), make([]error, len(raws))
	for i, raw := range raws {
		list[i], errs[i] = decode[T](raw)
	}
	return list, errs, nil
}

func isArray(data []byte) bool {
	body := bytes.TrimLeft(data, " \t\r\n")
	return len(body) > 0 && body[0] == '['
}

// freshWithin bounds how long a query waits for what was durable when it
// came. The projection puts a commit off for 10 ms if nobody waits, and is
// further behind only under a flood or on a slow disk.
const freshWithin = time.Second

// await returns once the projection shows what min says, which is refused if
// that takes longer than awaitTimeout, and all that is durable now: whoever asks
// may have heard of it from the log, or from another client. For the latter it
// waits for freshWithin at most; then a query shows what there is.
func (e *engine) await(ctx context.Context, min wire.Position) error {
	seq, err := positionOf(min)
	if err != nil {
		return err
	}
	if err := e.awaitNamed(ctx, seq); err != nil {
		return err
	}
	st := e.standsBy()
	if st != nil && st.cutOff != nil {
		if e.RefuseStale {
			return errStale(e.Queries.Applied(), st.cutOff)
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, freshWithin)
	defer cancel()
	now, err := e.Core.End(ctx)
	if err != nil && e.RefuseStale { // only a standby's fails
		return errStale(e.Queries.Applied(), err)
	}
	if now > e.Queries.Applied() {
		_ = e.Core.Await(ctx, now) // what it was not in time for is seen by the next query
	}
	return nil
}

// positionOf returns 0 for none.
func positionOf(p wire.Position) (events.Seq, error) {
	if p == "" {
		return 0, nil
	}
	return p.Seq()
}

// Bounds of what waits for positions beyond the log's end.
const (
	// MaxAhead bounds the requests that wait at once for a position that the engine
	// does not know yet, and maxLead how many frames ahead of the log's end it may be:
	// another engine of the same log may have told it an instant ago.
	MaxAhead = 32
	maxLead  = 1000
	// aheadWithin bounds how long such a request waits.
	aheadWithin = 2 * time.Second
)

// awaitNamed waits for a position that the caller has named. This engine has never
// returned a position beyond the log's end: such a position is refused at once, unless
// it is so near that the engine may be about to hear of it.
func (e *engine) awaitNamed(ctx context.Context, seq events.Seq) error {
	if seq <= e.Queries.Applied() {
		return nil
	}
	end := e.Core.Position()
	if seq <= end {
		return e.awaitSeq(ctx, seq, awaitTimeout)
	}
	if seq.Frame() > end.Frame()+maxLead {
		return errAhead(seq, end)
	}
	select {
	case e.ahead <- struct{}{}:
		defer func() { <-e.ahead }()
	default:
		return errBusy
	}
	err := e.awaitSeq(ctx, seq, e.aheadWithin)
	if end := e.Core.Position(); events.CodeOf(err) == events.CodeTimeout && seq > end {
		return errAhead(seq, end)
	}
	return err
}

func errAhead(seq, end events.Seq) error {
	return events.Refuse(events.CodePositionAhead, "min_position is %s, and the log ends at %s: the position is another engine's, or of a log that is no more; ask without min_position", wire.PositionOf(seq), wire.PositionOf(end))
}

func (e *engine) awaitSeq(ctx context.Context, seq events.Seq, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	err := e.Core.Await(ctx, seq)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return events.Refuse(events.CodeTimeout, "the projection has not reached position %s within %s, it is at %s: ask again, or without min_position", wire.PositionOf(seq), within, wire.PositionOf(e.Queries.Applied()))
	case err != nil:
		return fmt.Errorf("await position %s: %w", wire.PositionOf(seq), err)
	}
	return nil
}

// decodeInto is decode over a value that has its fields already.
func decodeInto(data []byte, v any) error {
	if err := wire.ReadStrict(data, v); err != nil {
		return malformed(err)
	}
	return nil
}

// maxDirectReply bounds the reply to a Call, in bytes.
const maxDirectReply = 64 << 20

// Call makes a request of an endpoint (wire.APISubmit and the like) from within
// the process, with the JSON that a NATS request has, and returns the reply's
// JSON, or what the request was refused for. The progress of long requests is
// not told. When ctx ends first, that is the error; what was submitted is
// decided all the same. It works from New on until Stop, and may be used by any
// number of goroutines.
func (s *Service) Call(ctx context.Context, endpoint string, body []byte) ([]byte, error) {
	h, ok := s.direct[endpoint]
	if !ok {
		return nil, events.Refuse(events.CodeNotFound, "the engine has no endpoint %q", endpoint)
	}
	if e, _ := wire.EndpointOf(endpoint); s.ownerOnly(endpoint) {
		return s.askOwner(ctx, h, &e, body)
	}
	return s.answer(ctx, h, endpoint, body)
}

// answer has this engine answer a request of this process.
func (s *Service) answer(ctx context.Context, h handler, endpoint string, body []byte) ([]byte, error) {
	type answer struct {
		data []byte
		err  *wire.Error
	}
	replies := make(chan answer, 1)
	var last answer // all but the last are progress
	c := &call{s: s, ctx: ctx, data: body, direct: true, endpoint: endpoint, start: time.Now()}
	c.respond = func(data []byte, err *wire.Error) { last = answer{data, err} }
	id, ok := access.IdentityOf(ctx)
	// What another namespace hands over says for whom.
	if c.actor, c.roles = cmp.Or(id.Name, actorOf(ctx)), access.All; ok && id != access.Anyone {
		c.roles = id.Roles
		c.user = s.Quotas.User(quota.HTTP, id.Name, id.Roles) // whose requests and waits the HTTP server counts
	}
	c.replied = func() { replies <- last }
	if !s.begin() {
		c.send(nil, events.ErrShuttingDown)
		return nil, events.ErrShuttingDown
	}
	h.serve(c)
	select {
	case a := <-replies:
		return a.data, a.err.Err()
	case <-ctx.Done():
		return nil, known(ctx.Err())
	}
}

// handler makes a micro handler of fn, which must see to it that the call is
// answered exactly once.
func (s *Service) handler(name string, fn func(*call)) micro.HandlerFunc {
	return func(req micro.Request) {
		c := &call{s: s, data: req.Data(), endpoint: name, start: time.Now()}
		c.replyTo = req.Reply()
		c.imported = req.Headers().Get(wire.HeaderRequestInfo) != ""
		c.respond = func(data []byte, err *wire.Error) { c.publish(req.Reply(), data, err) }
		if !s.admitted(c, req) {
			return
		}
		if !s.begin() {
			c.send(nil, events.ErrShuttingDown)
			return
		}
		if err := s.admit(c, req.Headers()); err != nil {
			c.reply(nil, err)
			return
		}
		fn(c)
	}
}

// domain returns the JetStream domain where the caller has the engine's streams. Who
// forges the header that tells learns a domain that he has no use for.
func (c *call) domain() string {
	if !c.imported {
		return ""
	}
	return c.s.Names.ImportDomain()
}

// publish sends a reply. It goes past micro.Request, whose methods are for the
// time before its handler returns.
func (c *call) publish(to string, data []byte, e *wire.Error) {
	m := &nats.Msg{Subject: to, Data: data}
	if e != nil {
		m = refusal(to, e)
	}
	c.undelivered(c.s.Conn.PublishMsg(m))
}

// refusal makes the message that refuses a request.
func refusal(to string, e *wire.Error) *nats.Msg {
	m := &nats.Msg{Subject: to, Header: nats.Header{micro.ErrorHeader: {headerText(e.Message)}, micro.ErrorCodeHeader: {string(e.Code)}}}
	m.Data, _ = json.Marshal(wire.ErrorReply{Error: e}) // strings and numbers have JSON
	return m
}

// headerText makes a text fit for a header: one line.
func headerText(s string) string {
	if s == "" {
		return "error"
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, s)
}
