package api

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/streamwright/streamwright/wire"
)

// handler makes a micro handler of fn, which must see to it that the call is
// answered exactly once.
func (s *Service) handler(name string, fn func(*call)) micro.HandlerFunc {
	return func(req micro.Request) {
		c := &call{s: s, data: req.Data(), limit: s.Conn.MaxPayload(), endpoint: name, start: time.Now()}
		c.respond = func(data []byte, err *wire.Error) { c.publish(req.Reply(), data, err) }
		if !s.begin() {
			c.send(nil, errClosing)
			return
		}
		fn(c)
	}
}

// publish sends a reply, if one is wanted. It goes past micro.Request, whose
// methods are for the time before its handler returns.
func (c *call) publish(to string, data []byte, e *wire.Error) {
	if to == "" || !c.s.mayAnswer(to) {
		return
	}
	m := &nats.Msg{Subject: to, Data: data}
	if e != nil {
		m.Header = nats.Header{micro.ErrorHeader: {headerText(e.Message)}, micro.ErrorCodeHeader: {string(e.Code)}}
		if body, err := json.Marshal(wire.ErrorReply{Error: e}); err == nil {
			m.Data = body
		}
	}
	c.undelivered(c.s.Conn.PublishMsg(m))
}

// mayAnswer refuses reply subjects that mean something to the engine or the
// server. Who asks names the subject, and a server does not check whether he
// may publish there; the engine may, and would do it for him.
func (s *Service) mayAnswer(to string) bool {
	if !strings.HasPrefix(to, "$") && !strings.HasPrefix(to, s.Names.Prefix+".") {
		return true
	}
	s.Logger.Warn("a request is not answered: its reply subject is the engine's or the server's own", "subject", to)
	return false
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
