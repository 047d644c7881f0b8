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
		c.imported = req.Headers().Get(wire.HeaderRequestInfo) != ""
		c.respond = func(data []byte, err *wire.Error) { c.publish(req.Reply(), data, err) }
		if !s.admitted(c, req) {
			return
		}
		if !s.begin() {
			c.send(nil, errClosing)
			return
		}
		if err := s.admit(c, req.Headers()); err != nil {
			c.reply(nil, err)
			return
		}
		fn(c)
	}
}

// domain is the JetStream domain where the caller has the engine's streams. Who
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
		m.Header = nats.Header{micro.ErrorHeader: {headerText(e.Message)}, micro.ErrorCodeHeader: {string(e.Code)}}
		if body, err := json.Marshal(wire.ErrorReply{Error: e}); err == nil {
			m.Data = body
		}
	}
	c.undelivered(c.s.Conn.PublishMsg(m))
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
