package api

import (
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/access/quota"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Why a request is not executed: the reasons of requests_refused_total.
const (
	refusedSubject = "subject"
	refusedHeader  = "header"
	refusedNoReply = "no_reply"
	refusedReply   = "reply_subject"
)

// refusals lists the reasons.
var refusals = []string{refusedSubject, refusedHeader, refusedNoReply, refusedReply}

// guard keeps out what reaches a request's subject without being a request.
//
// A NATS server sends its own answers (a pulled message, a stored message that
// was got, an empty 404, the ack of a publish) to whatever reply subject the
// client named, and does not ask whether the client may publish there. So a
// client without the role could have the server deliver a body of its choice to
// work.api.configure. None of those answers looks like a request: it has no
// reply subject or one that begins with $JS.ACK, or a status, or headers that
// only the server writes, or was stored under another subject.
type guard struct {
	names wire.Names
	own   string // what replies to the engine's own requests begin with; may be empty

	mu     sync.Mutex
	logged map[string]time.Time // by reason; guarded by mu
	silent map[string]int       // not logged since; guarded by mu
}

// refusalLogEvery is the least time between two lines of a reason; what comes between is
// counted, and the next line says how many there were.
const refusalLogEvery = 10 * time.Second

func newGuard(nc *nats.Conn, names wire.Names) *guard {
	g := &guard{names: names, logged: map[string]time.Time{}, silent: map[string]int{}}
	// Its replies arrive below one subject. No more than that is known to be the
	// engine's alone: other programs may share its login, and so its prefix.
	if in := nc.NewRespInbox(); strings.Contains(in, ".") {
		g.own = in[:strings.LastIndexByte(in, '.')+1]
	}
	return g
}

// check says why what came on the subject of an endpoint is not to be executed;
// reason is empty for a request. told is for the caller, detail for the log.
func (g *guard) check(subject string, req micro.Request) (reason, detail, told string) {
	if is := req.Subject(); is != subject {
		return refusedSubject, is, "the message was sent to another subject: send requests to " + subject
	}
	if name := wire.ServerHeader(req.Headers()); name != "" {
		return refusedHeader, name, "the request has the header " + events.Clip(name, 64) + ", which only messages of the NATS server have: send it without"
	}
	reply := req.Reply()
	if reply == "" {
		return refusedNoReply, "", ""
	}
	if !g.mayAnswer(reply) {
		return refusedReply, reply, ""
	}
	return "", "", ""
}

// mayAnswer refuses reply subjects that mean something to the engine or the
// server. Who asks names the subject, and a server does not check whether he
// may publish there; the engine may, and would do it for him.
func (g *guard) mayAnswer(to string) bool {
	return !strings.HasPrefix(to, "$") && !g.names.OwnsSubject(to) && (g.own == "" || !strings.HasPrefix(to, g.own))
}

// due reports whether a refusal is to be logged, and how many of its reason
// were not since the last that was.
func (g *guard) due(reason string, now time.Time) (silent int, log bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if last, ok := g.logged[reason]; ok && now.Sub(last) < refusalLogEvery {
		g.silent[reason]++
		return 0, false
	}
	silent = g.silent[reason]
	g.logged[reason], g.silent[reason] = now, 0
	return silent, true
}

// admitted reports whether a message is a request. One that is not is counted
// and logged, and answered where its reply subject is one that a caller has.
func (s *Service) admitted(c *call, req micro.Request) bool {
	reason, detail, told := s.guard.check(s.Names.API(c.endpoint), req)
	if reason == "" {
		return true
	}
	s.Metrics.requestRefused(reason)
	if silent, log := s.guard.due(reason, time.Now()); log {
		s.Logger.Warn("a request was not executed: no client sends one like that", "endpoint", c.endpoint, "reason", reason,
			"detail", events.Clip(detail, 200), "reply_subject", events.Clip(req.Reply(), 200), "more_since_last", silent)
	}
	if told != "" && req.Reply() != "" && s.guard.mayAnswer(req.Reply()) {
		c.send(nil, events.Refuse(events.CodeBadRequest, "%s", told))
	}
	return false
}

var errNobody = events.Refuse(events.CodeBadHeader, "the headers of the request can't be read, and so not who makes it: send well-formed ones")

// admit counts a request over NATS against its user's quota, and against the rate of all
// users together, unless it is a worker's: to refuse its word about its runs would cost a lease.
func (s *Service) admit(c *call, header micro.Headers) error {
	err := s.admitUser(c, header)
	if err == nil && access.Needs(c.endpoint) != access.RolesOf(access.Work) {
		err = s.Quotas.Request()
	}
	return err
}

// admitUser finds the request's actor, and counts it against the user's quota. One that
// waits, for an item or for events, is open until it is answered.
func (s *Service) admitUser(c *call, header micro.Headers) error {
	if c.roles = access.All; s.Accounts == nil || !s.Accounts() {
		c.actor = access.Anyone.Name
		return nil
	}
	if len(header) == 0 {
		// The server has said who asks, but the header as a whole can't be read, or
		// there would be one.
		return errNobody
	}
	name, err := s.Names.User(header)
	if err != nil {
		return err
	}
	if known := name != ""; s.KnownUser != nil {
		if name, known = s.KnownUser(name); !known {
			return errNobody // the header is the client's own: the server's could not be read
		}
	} else if !known {
		return nil
	}
	if c.actor = name; s.UserRoles != nil {
		c.roles = s.UserRoles(name)
	}
	if s.Quotas == nil {
		return nil
	}
	c.user = s.Quotas.User(quota.NATS, name, c.roles)
	if access.Needs(c.endpoint) == access.RolesOf(access.Work) {
		return nil
	}
	if err := c.user.Request(); err != nil {
		return err
	}
	if c.endpoint != wire.APIWait && c.endpoint != wire.APIEvents {
		return nil
	}
	c.replied, err = c.user.Wait()
	return err
}
