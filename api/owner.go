package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/access/quota"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/repeat"
	"github.com/streamwright/streamwright/internal/sleep"
	"github.com/streamwright/streamwright/wire"
)

// Of several engines on one log (nodes), the owner alone subscribes to the
// endpoints that only it can answer (wire.Endpoint.OwnerOnly), so requests over
// NATS reach it wherever they enter. The others are answered by any node, from its
// own projection. What comes over HTTP to a standby and needs the owner is
// forwarded to it, over NATS.

const (
	// forwardWithin bounds how long a request looks for an owner: as long as an
	// election of JetStream takes, and some.
	forwardWithin = 15 * time.Second
	// recoverWithin bounds how long a request waits for this engine itself, where that
	// can't decide for a moment.
	recoverWithin = 2 * time.Second
	// forwardTry bounds one try.
	forwardTry = 30 * time.Second
	// maxForwardWait is the longest wait between two tries: who is told to come back later
	// than that comes back by itself.
	maxForwardWait = time.Second
	// cutOffAfter is the time without a word of the log's leader after which a
	// standby counts as cut off.
	cutOffAfter = 5 * time.Second
)

// forwardWaits are the waits between two tries of a request.
var forwardWaits = repeat.Backoff{Min: 20 * time.Millisecond, Max: repeat.OwnerWait}

// The headers of a forwarded request: the name of who has made it, quoted, and its roles,
// with commas between them.
const (
	headerUser  = "Work-User"
	headerRoles = "Work-User-Roles"
)

// Serve has the service answer, or no longer answer, what only the log's owner can.
// It takes effect once the service is started.
func (s *Service) Serve(owner bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serves = owner
	if s.micro == nil || s.closed {
		return nil
	}
	return s.serveOwner()
}

// serveOwner brings the owner's endpoints to what s.serves says. REQUIRES: mu.
func (s *Service) serveOwner() error {
	if !s.serves {
		svc, sub := s.owned, s.forwards
		s.owned, s.forwards = nil, nil
		if svc == nil {
			return nil
		}
		_ = sub.Drain() // fails when the connection is closed
		return svc.Stop()
	}
	if s.owned != nil {
		return nil
	}
	svc, err := s.addService(true)
	if err != nil {
		return err
	}
	sub, err := s.Conn.Subscribe(s.Names.Forward("*"), s.forwarded)
	if err == nil {
		err = sub.SetPendingLimits(MaxPendingRequests, MaxPendingBytes)
	}
	if err == nil {
		err = s.Conn.FlushTimeout(controlTimeout) // the server has the subscriptions once it has answered
	}
	if err != nil {
		return errors.Join(fmt.Errorf("start api service: %w", err), svc.Stop())
	}
	s.owned, s.forwards = svc, sub
	return nil
}

// addService subscribes to the endpoints that only the owner answers, or to the
// others.
func (s *Service) addService(owner bool) (micro.Service, error) {
	svc, err := micro.AddService(s.Conn, micro.Config{
		// A node that is cut off, or paused, stays the owner to a NATS server for
		// minutes. In a queue group it would be given its share of the requests, and
		// nobody would answer those; so each owner there is gets all of them.
		QueueGroupDisabled: owner,
		Name:               wire.Service, Version: semver(s.Info.Version), Description: "event-sourced work engine",
		ErrorHandler: func(_ micro.Service, e *micro.NATSError) {
			s.Logger.Warn("a subscription of the api service has failed", "subject", e.Subject, "error", e.Description)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("start api service: %w", err)
	}
	for name, h := range s.direct {
		if s.ownerOnly(name) != owner {
			continue
		}
		err := svc.AddEndpoint(name, s.handler(name, h.serve), micro.WithEndpointSubject(s.Names.API(name)), micro.WithEndpointPendingLimits(MaxPendingRequests, MaxPendingBytes))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("start api service: endpoint %s: %w", name, err), svc.Stop())
		}
	}
	return svc, nil
}

func ownerOnly(endpoint string) bool {
	e, ok := wire.EndpointOf(endpoint)
	return ok && e.OwnerOnly()
}

// ownerOnly reports whether an endpoint is answered by the owner alone.
func (s *Service) ownerOnly(endpoint string) bool {
	return ownerOnly(endpoint) && (s.Mirror == nil || !s.Mirror(endpoint))
}

// forwarded answers a request that another node has forwarded, and authorised. It
// counts against its maker's quota here, where all of that user's submissions come
// together.
func (s *Service) forwarded(m *nats.Msg) {
	name := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
	c := &call{s: s, data: m.Data, endpoint: name, start: time.Now()}
	c.respond = func(data []byte, err *wire.Error) { c.publish(m.Reply, data, err) }
	h, ok := s.direct[name]
	if !ok || !ownerOnly(name) {
		c.send(nil, events.Refuse(events.CodeNotFound, "the owner has no endpoint %q: do all nodes run the same version?", events.Clip(name, 64)))
		return
	}
	if !s.begin() {
		c.send(nil, events.ErrShuttingDown)
		return
	}
	id, ok := maker(m.Header)
	if c.actor, c.roles = id.Name, access.All; m.Header.Get(headerRoles) != "" {
		c.roles = id.Roles // none, if they can't be read
	}
	if ok {
		c.user = s.Quotas.User(quota.HTTP, id.Name, id.Roles)
	}
	h.serve(c)
}

// maker returns who has made a forwarded request; false for one without a quota: of anyone,
// or of an engine itself, which has no name.
func maker(h nats.Header) (access.Identity, bool) {
	name, err := strconv.Unquote(h.Get(headerUser))
	if err != nil {
		return access.Identity{}, false
	}
	roles, err := access.ParseRoles(strings.Split(h.Get(headerRoles), ","))
	return access.Identity{Name: name, Roles: roles}, err == nil
}

// askOwner has the owner of the log answer a request of this process: this engine, or
// the one that it stands by for. While the owner changes it asks again, so that the
// request is answered once, and late. One whose outcome is not known is made again only
// if that does no more than making it once.
func (s *Service) askOwner(ctx context.Context, h handler, e *wire.Endpoint, body []byte) ([]byte, error) {
	begun := time.Now()
	for tries := 0; ; tries++ {
		own := s.standsBy() == nil
		var data []byte
		var err error
		if own {
			data, err = s.answer(ctx, h, e.Name, body)
		} else {
			if e.Key != "" {
				body = s.identify(e.Key, body)
			}
			data, err = s.forward(ctx, e, body, tries)
		}
		why := err
		if err == nil {
			why = undecided(e, data)
		}
		if why == nil {
			return data, nil
		}
		once := e.Once || e.Key != "" && !identified(e.Key, body)
		within := forwardWithin
		if own && events.CodeOf(why) != events.CodeNotOwner {
			within = recoverWithin
		}
		wait := forwardWaits.After(why, tries)
		if !repeat.May(why, once) || wait > maxForwardWait || s.ctx.Err() != nil || time.Since(begun)+wait > within || sleep.For(ctx, wait) != nil {
			return data, repeat.Unknown(err, once)
		}
	}
}

// undecided returns the refusal of an element that no engine could decide, of the answers
// to an array; nil: there is none.
func undecided(e *wire.Endpoint, data []byte) error {
	if e.ReadOnly || !isArray(data) || !bytes.Contains(data, []byte(`"error"`)) {
		return nil
	}
	var answers []struct {
		Error *wire.Error `json:"error"`
	}
	_ = json.Unmarshal(data, &answers) // the engine's own
	for _, a := range answers {
		if a.Error != nil && repeat.NotNow(a.Error.Code) {
			return a.Error.Err()
		}
	}
	return nil
}

// named reports whether a document has the field that tells it from others, or does nothing
// for which it would need one.
func named(key string, doc []byte) bool {
	var fields map[string]json.RawMessage
	if json.Unmarshal(doc, &fields) != nil {
		return true // refused by who decides it
	}
	var id string
	_ = json.Unmarshal(fields[key], &id)
	return id != "" || string(fields["seal"]) == "true"
}

// documents splits a request into its elements; nil: it can't be read.
func documents(body []byte) (docs []json.RawMessage) {
	if !isArray(body) {
		return []json.RawMessage{body}
	}
	_ = json.Unmarshal(body, &docs) // refused by who decides it
	return docs
}

// identified reports whether all that a request asks for has an id, so that it does nothing
// more if it is repeated.
func identified(key string, body []byte) bool {
	return !slices.ContainsFunc(documents(body), func(doc json.RawMessage) bool { return !named(key, doc) })
}

// identify gives an id to what a request asks for without one.
func (s *Service) identify(key string, body []byte) []byte {
	if identified(key, body) {
		return body
	}
	docs := documents(body)
	parts := make([][]byte, len(docs))
	for i, doc := range docs {
		if parts[i] = doc; !named(key, doc) {
			parts[i] = withID(key, doc, s.Core.NewID())
		}
	}
	if !isArray(body) {
		return parts[0]
	}
	return slices.Concat([]byte("["), bytes.Join(parts, []byte(",")), []byte("]"))
}

// withID gives an id to a document that has none, or an empty one.
func withID(key string, doc []byte, id events.ID) []byte {
	var fields map[string]json.RawMessage
	if bytes.Contains(doc, strconv.AppendQuote(nil, key)) {
		if wire.ReadStrict(doc, &fields) != nil {
			return doc // refused by who decides it
		}
		if fields[key] != nil {
			fields[key] = fmt.Appendf(nil, "%q", id)
			if data, err := json.Marshal(fields); err == nil {
				return data
			}
			return doc
		}
	}
	open := bytes.TrimRight(bytes.TrimSuffix(bytes.TrimSpace(doc), []byte("}")), " \t\r\n")
	comma := ","
	if bytes.HasSuffix(open, []byte("{")) {
		comma = ""
	}
	return fmt.Appendf(slices.Clip(open), `%s%q:%q}`, comma, key, id)
}

// forward asks the owner once.
func (s *Service) forward(ctx context.Context, e *wire.Endpoint, body []byte, tries int) ([]byte, error) {
	limit := forwardTry
	if !e.Once {
		limit = repeat.Timeout(tries, limit)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	m := &nats.Msg{Subject: s.Names.Forward(e.Name), Data: body}
	if name := actorOf(ctx); name != "" { // another namespace hands over what is his, and has counted it
		m.Header = nats.Header{headerUser: {strconv.QuoteToASCII(name)}}
	}
	if id, ok := access.IdentityOf(ctx); ok {
		m.Header = nats.Header{headerUser: {strconv.QuoteToASCII(id.Name)}}
		if id != access.Anyone {
			m.Header.Set(headerRoles, id.Roles.String())
		}
	}
	m, err := s.Conn.RequestMsgWithContext(ctx, m)
	switch {
	case err == nil:
		if err := wire.Refusal(m.Data); err != nil {
			return nil, err
		}
		return m.Data, nil
	case errors.Is(err, nats.ErrNoResponders):
		return nil, repeat.Untaken(events.Refuse(events.CodeUnavailable, "no node owns the log just now: ask again"))
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return nil, events.Refuse(events.CodeTimeout, "the owner of the log did not answer in time: what was asked may have been done")
	case errors.Is(err, nats.ErrMaxPayload):
		return nil, events.Refuse(events.CodeTooLarge, "the request has %d bytes: the NATS server takes at most %d", len(body), s.Conn.MaxPayload())
	}
	return nil, known(err)
}

// standing describes a node that stands by.
type standing struct {
	owner  string
	cutOff error // why it knows no more of the log; nil: it follows it
}

// standsBy returns nil if this node is the owner, or no other can be.
func (e *engine) standsBy() *standing {
	st, on := e.Core.StandsBy()
	if !on {
		return nil
	}
	now := &standing{owner: st.Owner, cutOff: st.Fault}
	if silent := time.Since(st.Heard); silent > cutOffAfter && now.cutOff == nil {
		now.cutOff = fmt.Errorf("the leader of the log has not answered for %s", silent.Round(time.Second))
		if st.Heard.IsZero() {
			now.cutOff = errors.New("the leader of the log has not answered yet")
		}
	}
	return now
}

// errStale refuses a query to a node that is cut off.
func errStale(at events.Seq, why error) error {
	return events.Refuse(events.CodeUnavailable, "this node is cut off from the log (%v), and its configuration refuses reads then (stale_reads): ask another node; what it has is as of position %s", why, wire.PositionOf(at))
}
