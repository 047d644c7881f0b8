package streamwright

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/repeat"
	"github.com/streamwright/streamwright/internal/sleep"
	"github.com/streamwright/streamwright/wire"
)

// forever is the patience of a request that is tried until its context ends.
const forever = time.Duration(1<<63 - 1)

// ask sends a request that may be repeated, and reads the reply into a T. It
// tries again for the client's patience while no engine can answer.
func ask[T any](ctx context.Context, c *Client, op string, req any) (T, error) {
	return askFor[T](ctx, c, op, req, 0, c.set.patience)
}

// askFor is ask for a request that the engine may hold for a time before it answers.
func askFor[T any](ctx context.Context, c *Client, op string, req any, hold, patience time.Duration) (reply T, err error) {
	body, err := encode(op, req)
	if err != nil {
		return reply, err
	}
	tries, single := 0, patience == 0 || onlyOnce(op)
	err = c.retry(ctx, op, patience, func(ctx context.Context) error {
		limit := c.set.tryTimeout
		if !single {
			limit = repeat.Timeout(tries, limit)
		}
		tries++
		data, err := c.once(ctx, op, body, hold+limit)
		if err != nil {
			return err
		}
		reply, err = decode[T](op, data)
		return err
	})
	return reply, err
}

// onlyOnce reports whether a request is not to be repeated unless nobody has taken it.
func onlyOnce(op string) bool {
	e, _ := wire.EndpointOf(op)
	return e.Once
}

// streamSilence bounds how long askStream waits for the next reply.
const streamSilence = time.Minute

// askStream sends a request that is answered by a stream of replies, and returns the
// one for which done is true. It passes the others to progress, if not nil. The request
// is not repeated: the work is long, and the caller sees that it failed.
func askStream[T any](ctx context.Context, c *Client, op string, req any, done func(T) bool, progress func(T)) (T, error) {
	var none T
	body, err := encode(op, req)
	if err != nil {
		return none, err
	}
	sub, err := c.sendAsync(op, body)
	if err != nil {
		return none, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	for {
		quiet, cancel := context.WithTimeout(ctx, streamSilence)
		msg, err := sub.NextMsgWithContext(quiet)
		cancel()
		switch {
		case ctx.Err() != nil && err != nil:
			return none, endOf(op, ctx.Err(), nil)
		case err != nil:
			return none, c.failed(op, err)
		}
		data, err := content(op, msg)
		if err != nil {
			return none, err
		}
		reply, err := decode[T](op, data)
		switch {
		case err != nil:
			return none, err
		case done(reply):
			return reply, nil
		case progress != nil:
			progress(reply)
		}
	}
}

func encode(op string, req any) ([]byte, error) {
	var body []byte
	var err error
	if s, ok := req.(wire.Submit); ok {
		body, err = wire.AppendSubmit(nil, &s)
	} else {
		body, err = json.Marshal(req)
	}
	if err != nil {
		return nil, events.Refuse(events.CodeBadRequest, "write the %s request: %v", op, err)
	}
	return body, nil
}

func decode[T any](op string, data []byte) (reply T, err error) {
	if err := json.Unmarshal(data, &reply); err != nil {
		var none T
		return none, events.Refuse(events.CodeInternal, "the engine's reply to %s can't be read (%v): is it another version?", op, err)
	}
	return reply, nil
}

// content returns the body of a reply, or the refusal that it carries.
func content(op string, msg *nats.Msg) ([]byte, error) {
	if err := wire.Refusal(msg.Data); err != nil {
		return nil, err
	}
	if text := msg.Header.Get(micro.ErrorHeader); text != "" {
		return nil, events.Refuse(events.CodeInternal, "the engine answered: %s", text)
	}
	if len(msg.Data) == 0 {
		return nil, events.Refuse(events.CodeInternal, "the engine's reply to %s is empty", op)
	}
	return msg.Data, nil
}

// link carries a client's requests over its connection.
type link struct {
	nc      *nats.Conn
	set     settings
	denials *denials // nil: the connection is the caller's

	status chan nats.Status // of nc
	done   chan struct{}    // closed when watch has ended
	lost   atomic.Pointer[lostConn]

	answered atomic.Bool // an engine has done what it was asked
}

// lostConn signals the loss of one life of the connection.
type lostConn struct{ ch chan struct{} } // closed when it is lost

// watch notes each loss of the connection, so that no request waits for a
// reply that was lost with it.
func (l *link) watch() {
	defer close(l.done)
	for s := range l.status {
		old := l.lost.Swap(&lostConn{make(chan struct{})})
		close(old.ch)
		if s == nats.CLOSED {
			return
		}
	}
}

// retry calls try until it succeeds, is refused for good, ctx ends, or no
// engine could be reached for longer than patience.
func (l *link) retry(ctx context.Context, op string, patience time.Duration, try func(context.Context) error) error {
	start, once := time.Now(), onlyOnce(op)
	var last error
	for tries := 0; ; tries++ {
		if err := ctx.Err(); err != nil {
			return endOf(op, err, l.explained(op, last))
		}
		err := try(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return endOf(op, ctx.Err(), l.explained(op, telling(last, err)))
		}
		wait := waits.After(err, tries)
		if !repeat.May(err, once) || time.Since(start)+wait > l.patienceWith(err, patience) {
			return repeat.Unknown(l.explained(op, err), once)
		}
		if l.set.onRetry != nil {
			l.set.onRetry(op, err)
		}
		last = err
		if err := sleep.For(ctx, wait); err != nil {
			return endOf(op, err, l.explained(op, last))
		}
	}
}

// noEngine is the error of a request that nobody has subscribed to.
type noEngine struct{ error }

func (e noEngine) Unwrap() error { return e.error }

const (
	// explainWithin bounds the question why nobody has answered.
	explainWithin = time.Second
	// maxExplained bounds its answer in an error, in bytes.
	maxExplained = 1000
)

// explained returns the error of a request that is given up. If nobody has taken it or answered,
// and a node is there that could not, the error says what that one knows.
func (l *link) explained(op string, err error) error {
	var none noEngine
	unheard := errors.As(err, &none)
	if !unheard && events.CodeOf(err) != events.CodeTimeout || op == wire.APINodes || err == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), explainWithin)
	defer cancel()
	msg, asked := l.nc.RequestWithContext(ctx, l.set.names.API(wire.APINodes), nil)
	if asked != nil {
		return err
	}
	var r wire.NodesReply
	body, asked := content(wire.APINodes, msg)
	if asked != nil || json.Unmarshal(body, &r) != nil {
		return err
	}
	warnings := events.Clip(strings.Join(r.Warnings, "; "), maxExplained)
	if !unheard {
		if !slices.ContainsFunc(r.Streams, func(s wire.StreamReplicas) bool { return s.Spare < 0 }) {
			return err
		}
		return events.Refuse(events.CodeTimeout, "%v; %s says: %s", message(err), r.Answered, warnings)
	}
	return repeat.Untaken(events.Refuse(events.CodeUnavailable, "no node owns the log at %s, so nothing is decided: `engine cluster` shows all nodes; %s says: %s", l.where(), r.Answered, warnings))
}

// patienceWith returns the patience after a try that has failed with err. A client that
// has been answered before waits until another engine has taken over. Without any reply,
// it is at least the time for one: the tries until then were cut short.
func (l *link) patienceWith(err error, patience time.Duration) time.Duration {
	if l.answered.Load() {
		patience = max(patience, l.set.failover)
	}
	if patience > 0 && events.CodeOf(err) == events.CodeTimeout {
		return max(patience, l.set.tryTimeout)
	}
	return patience
}

// telling prefers what was learnt from an earlier try over an error that may
// only be the context's.
func telling(earlier, now error) error {
	mute := errors.Is(now, context.Canceled) || events.CodeOf(now) == events.CodeTimeout
	if mute && (earlier != nil || errors.Is(now, context.Canceled)) {
		return earlier
	}
	return now
}

// once sends one request and waits for its reply, at most timeout. What comes
// back is the body of a reply that is no refusal.
func (l *link) once(ctx context.Context, op string, body []byte, timeout time.Duration) ([]byte, error) {
	if most := l.nc.MaxPayload(); most > 0 && int64(len(body)) > most {
		return nil, events.Refuse(events.CodeTooLarge, "the %s request has %d bytes: the NATS server takes at most %d", op, len(body), most)
	}
	ctx, cancel := l.trying(ctx, l.set.names.API(op), timeout)
	defer cancel()
	msg, err := l.nc.RequestWithContext(ctx, l.set.names.API(op), body)
	if err != nil {
		return nil, l.failed(op, lostOr(ctx, err))
	}
	if !l.answered.Load() && wire.Refusal(msg.Data) == nil {
		l.answered.Store(true)
	}
	return content(op, msg)
}

// sendAsync sends a request whose reply is awaited on the subscription.
func (l *link) sendAsync(op string, body []byte) (*nats.Subscription, error) {
	inbox := l.nc.NewInbox()
	sub, err := l.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, l.failed(op, err)
	}
	if err := l.nc.PublishRequest(l.set.names.API(op), inbox, body); err != nil {
		_ = sub.Unsubscribe()
		return nil, l.failed(op, err)
	}
	return sub, nil
}

// failed turns what the NATS client says of one try into an *events.Error.
func (l *link) failed(op string, err error) error {
	var refused *events.Error
	switch {
	case errors.As(err, &refused):
		return err
	case errors.Is(err, nats.ErrNoResponders):
		return noEngine{repeat.Untaken(events.Refuse(events.CodeUnavailable, "no engine answers on %s at %s: %s", l.set.names.API("*"), l.where(), l.whyNone()))}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return events.Refuse(events.CodeTimeout, "no reply to %s from the engine at %s in time", op, l.where())
	case errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrConnectionDraining):
		return events.Refuse(events.CodeInternal, "the client is closed")
	case errors.Is(err, nats.ErrMaxPayload):
		return events.Refuse(events.CodeTooLarge, "the %s request is larger than the NATS server takes (%d bytes)", op, l.nc.MaxPayload())
	case errors.Is(err, context.Canceled):
		return err
	}
	return events.Refuse(events.CodeUnavailable, "%s at %s: %v", op, l.where(), err)
}

// whyNone returns what to look at when no engine answers.
func (l *link) whyNone() string {
	if ns := l.set.names.InNamespace(); ns != events.DefaultNamespace {
		return fmt.Sprintf("is there a namespace %s (`engine namespace list`), and is `engine serve` running there?", ns)
	}
	return "is `engine serve` running there?"
}

// where names the servers for an error text.
func (l *link) where() string {
	if u := l.nc.ConnectedUrlRedacted(); u != "" {
		return u
	}
	if s := l.nc.Servers(); len(s) > 0 {
		return Redact(s[0]) + " (connection lost)"
	}
	return "the NATS server"
}

// ended is an *events.Error for a request whose context ended first. It
// matches the context's error as well.
type ended struct {
	refused, cause error
	tried          bool // refused says what the last try had met
}

func (e *ended) Error() string   { return e.refused.Error() }
func (e *ended) Unwrap() []error { return []error{e.refused, e.cause} }

// endOf says that a context ended, and what the last try had met.
func endOf(op string, cause, last error) error {
	text := op + ": the time given for it is over"
	if errors.Is(cause, context.Canceled) {
		text = op + " was interrupted: what was asked may have been done"
	}
	if last != nil {
		text = fmt.Sprintf("%s; the last try: %v", text, message(last))
	}
	return &ended{refused: &events.Error{Code: events.CodeTimeout, Message: text}, cause: cause, tried: last != nil}
}

// notEnded is the error of a wait for so many items whose context ended before they did.
// pending has those that have not ended, with the state that is known last.
func notEnded(pending []wire.PendingItem, of int, cause error) error {
	what, goesOn := fmt.Sprintf("%d of %d items", len(pending), of), "; they go on, and can be waited for again"
	text := what + " have not ended in the time given for them"
	if of == 1 {
		what, goesOn = "item "+pending[0].ID, "; it goes on, and can be waited for again"
		text = what + " has not ended in the time given for it"
		if was := pending[0].State; was != events.StateNone {
			goesOn = ": it is " + was.String() + goesOn
		}
	}
	if errors.Is(cause, context.Canceled) {
		text = "stopped waiting for " + what
	}
	return &ended{refused: &events.Error{Code: events.CodeTimeout, Message: text + goesOn}, cause: cause}
}

func message(err error) string {
	var e *events.Error
	if errors.As(err, &e) {
		return e.Message
	}
	return err.Error()
}

// errLost ends a try whose request or reply may have gone with the connection.
var errLost = errors.New("the connection was lost")

// lostOr returns the reason if a try was ended before its time, else its error.
func lostOr(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	var refused *events.Error
	if errors.Is(cause, errLost) || errors.As(cause, &refused) {
		return cause
	}
	return err
}

// trying is the context of one try: it ends after timeout, when the connection
// is lost, and when the server refuses what the try needs: the subject of its
// request (empty: one of JetStream's), or an inbox.
func (l *link) trying(ctx context.Context, subject string, timeout time.Duration) (context.Context, context.CancelFunc) {
	return l.tryingSince(ctx, l.denials.next(), subject, timeout)
}

// tryingSince is trying for a request that went out when refused was the
// denial to come next.
func (l *link) tryingSince(ctx context.Context, refused *denial, subject string, timeout time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	ctx, stop := context.WithTimeout(ctx, timeout)
	lost := l.lost.Load().ch
	go func() {
		for {
			select {
			case <-refused.told:
				if refused.concerns(subject) {
					cancel(refused.err)
					return
				}
				refused = refused.after
			case <-lost:
				cancel(errLost)
				return
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, func() { stop(); cancel(nil) }
}

// denials tells the tries under way what the server has refused for want of a
// permission. It does so beside the request, which it leaves without a reply:
// else a try would learn nothing and wait until its time is over.
type denials struct {
	then nats.ErrHandler // whoever else wants to know

	mu   sync.Mutex
	last *denial // that is still to come; guarded by mu
}

// denial is one that has come, once told is closed; until then its other
// fields are not to be read.
type denial struct {
	told    chan struct{}
	after   *denial // the next one
	publish bool    // else a subscription
	subject string
	err     error
}

// watchDenials takes over the error handler that is among the options.
func watchDenials(opts []nats.Option) *denials {
	r := &denials{last: &denial{told: make(chan struct{})}, then: printError}
	var o nats.Options
	for _, set := range opts {
		if set == nil || set(&o) != nil {
			return r // connecting will tell
		}
	}
	if o.AsyncErrorCB != nil {
		r.then = o.AsyncErrorCB
	}
	return r
}

// printError does what the NATS client does without a handler.
func printError(_ *nats.Conn, sub *nats.Subscription, err error) {
	if sub != nil {
		fmt.Fprintf(os.Stderr, "NATS: %v (subscription to %s)\n", err, sub.Subject)
		return
	}
	fmt.Fprintf(os.Stderr, "NATS: %v\n", err)
}

var violation = regexp.MustCompile(`(?i)permissions violation for (publish|subscription) to "([^"]+)"`)

// handle is the connection's error handler.
func (r *denials) handle(nc *nats.Conn, sub *nats.Subscription, err error) {
	if m := violation.FindStringSubmatch(err.Error()); m != nil && errors.Is(err, nats.ErrPermissionViolation) {
		publish := strings.EqualFold(m[1], "publish")
		if publish || isInbox(nc, m[2]) { // only the subscription hears of a denied feed
			r.tell(publish, m[2])
		}
	}
	r.then(nc, sub, err)
}

// isInbox reports whether a subject is one on which the connection hears replies.
func isInbox(nc *nats.Conn, subject string) bool {
	prefix := nats.InboxPrefix
	if nc != nil && nc.Opts.InboxPrefix != "" {
		prefix = nc.Opts.InboxPrefix + "."
	}
	return strings.HasPrefix(subject, prefix)
}

func (r *denials) tell(publish bool, subject string) {
	err := events.Refuse(events.CodeForbidden, "the NATS server does not let this user subscribe to %q: give it an inbox that it may have (--inbox-prefix, WithInboxPrefix), or the permissions of its role (engine permissions)", subject)
	if publish {
		err = events.Refuse(events.CodeForbidden, "the NATS server does not let this user publish to %q: give it the permissions of a role that may (engine permissions)", subject)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	come := r.last
	r.last = &denial{told: make(chan struct{})}
	come.publish, come.subject, come.err, come.after = publish, subject, err, r.last
	close(come.told)
}

// next returns the next denial. A nil receiver never has one.
func (r *denials) next() *denial {
	if r == nil {
		return &denial{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// concerns reports whether a request on subject needs the permission that was denied;
// the empty subject stands for requests to JetStream.
func (f *denial) concerns(subject string) bool {
	switch {
	case !f.publish:
		return true // an inbox
	case subject == "":
		return strings.HasPrefix(f.subject, "$")
	}
	return f.subject == subject
}
