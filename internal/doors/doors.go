// Package doors tries, in tests, to reach past a role on NATS. As a client with
// exactly that role it sends to each subject that the role may send to, with
// replies, bodies and headers that would do harm if the engine's account took
// them, and listens there for the effects.
package doors

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Server is a server under test.
type Server struct {
	Names wire.Names
	// Namespace is where the users have their roles; empty: default. Others are further
	// ones that the server has.
	Namespace events.Namespace
	Others    []events.Namespace
	// Dial connects as a user of one role, named like it.
	Dial func(*testing.T, access.Role) *nats.Conn
	// Spy is in the engine's account and may hear and ask everything.
	Spy *nats.Conn
}

const patience = 20 * time.Second

// own returns the names of the users' namespace.
func (s Server) own() wire.Names {
	return s.Names.Namespace(cmp.Or(s.Namespace, events.DefaultNamespace))
}

// targets returns subjects of the engine's account where a message, mostly even an
// empty one, would do harm, in any namespace.
func (s Server) targets() []string {
	t := []string{"_INBOX.victim", "_INBOX_victim.x", "$SRV.PING", "$SRV.STATS.streamwright", "$SYS.REQ.SERVER.PING", "$SYS.REQ.ACCOUNT.WORK.CONNZ", "victim"}
	t = append(t, targetsOf(s.own())...)
	for _, ns := range s.Others {
		t = append(t, targetsOf(s.Names.Namespace(ns))...)
	}
	slices.Sort(t)
	return slices.Compact(t)
}

func targetsOf(n wire.Names) []string {
	t := []string{
		n.Event(0, "harmed", events.KindCompleted), n.Intake(0, "harmed"), n.RunOf("harmed", "s"), n.AckRun("harmed"), n.Control("victim"), n.Probe("victim"), "$KV." + n.Bucket("workers") + ".victim",
		"$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES." + n.DispatchStream() + ".victim", "$JS.FC." + n.EventStream(0) + ".victim", n.Forward("harmed"),
		n.Submit("stranger"), n.Log("harmed", events.ID{}), "$O." + n.Bucket("blobs") + ".C.victim",
	}
	for _, stream := range []string{n.EventStream(0), n.IntakeStream(), n.LogStream(), n.DispatchStream(), "OBJ_" + n.Bucket("blobs"), "KV_" + n.Bucket("workers")} {
		for _, op := range []string{"DELETE", "PURGE", "UPDATE"} {
			if op == "PURGE" && stream == n.IntakeStream() {
				continue // the engine itself does it
			}
			t = append(t, n.JetStream("STREAM."+op+"."+stream), "$JS.API.STREAM."+op+"."+stream, n.Imported().JetStream("STREAM."+op+"."+stream))
		}
	}
	for _, e := range wire.Endpoints() {
		t = append(t, n.API(e.Name))
	}
	return t
}

var bodies = []string{"", "{}", `{"batch":1,"no_wait":true}`, `{"batch":1,"expires":1000000}`, `{"seq":99999999}`, `{"last_by_subj":"nothing"}`, "+NXT", "+TERM"}

// obeyed returns headers that make the server do something else with a message
// than store it or pass it on, with target where they name a subject.
func obeyed(target string) []nats.Header {
	h := func(kv ...string) nats.Header {
		out := nats.Header{}
		for i := 0; i < len(kv); i += 2 {
			out[kv[i]] = []string{kv[i+1]} // as it is spelled, and not canonical
		}
		return out
	}
	return []nats.Header{
		h("Nats-Trace-Dest", target), h("Nats-Trace-Dest", target, "Nats-Trace-Only", "true"), h("Nats-Trace-Dest", target, "Nats-Trace-Hop", "1"),
		h("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "Nats-Trace-Dest", target),
		h("Nats-Schedule", "@every 1s", "Nats-Schedule-Target", target), h("Nats-Schedule", "@at 2000-01-01T00:00:00Z", "Nats-Schedule-Target", target),
		h("Nats-Rollup", "all"), h("Nats-Rollup", "sub"), h("Nats-TTL", "1s"), h("Nats-Expected-Last-Sequence", "0"), h("Nats-Expected-Last-Subject-Sequence", "0"),
		h("Nats-Batch-Id", "victim", "Nats-Batch-Sequence", "1", "Nats-Batch-Commit", "1"), h("Nats-Batch-Id", "victim2", "Nats-Batch-Sequence", "1"),
		h("Nats-Request-Info", `{"acc":"WORK","svc":"x","reply":"`+target+`","user":"engine"}`), h("Nats-Required-Api-Level", "0"),
		h("Nats-Response-Type", "io.nats.jetstream.api.v1.stream_create_response"), h("Status", "404"), h("Nats-Msg-Id", "victim"),
	}
}

// fill replaces the wildcards of a subject.
func fill(subject string) string {
	return strings.ReplaceAll(strings.ReplaceAll(subject, "*", "victim"), ">", "victim.1.1.1.1.0")
}

// Try tries everything as each of the roles, each on a server of its own: a late
// answer to one role may come as a request, and nothing then tells whose it was.
func Try(t *testing.T, server func(*testing.T) Server) {
	for _, r := range []access.Role{access.Submit, access.Work, access.Read, access.Operate, access.Approve} {
		t.Run(r.String(), func(t *testing.T) { server(t).try(t, r) })
	}
}

func (s Server) try(t *testing.T, r access.Role) {
	targets := s.targets()
	heard := s.listen(t, append(slices.Clone(targets), "$JS.ACK.>"))
	before := s.streams(t)
	nc := s.Dial(t, r)
	own, sent := s.knock(t, nc, r, targets)
	for _, target := range targets {
		if !slices.Contains(own, target) {
			send(t, nc, &nats.Msg{Subject: target}) // in the user's own account
			sent++
		}
	}
	if _, err := nc.Request(s.own().API(wire.APIInfo), []byte("{}"), patience); err != nil {
		t.Errorf("the engine does not answer any more: %v", err)
	}
	if err := s.Spy.FlushTimeout(patience); err != nil {
		t.Fatal(err)
	}
	s.check(t, r, own, heard)
	now := s.streams(t)
	for name, messages := range before {
		left, ok := now[name]
		if !ok || strings.HasSuffix(name, "_EVENTS_0") && left < messages {
			t.Errorf("the stream %s had %d messages and has %d (there: %v)", name, messages, left, ok)
		}
	}
	t.Logf("%s: %d messages sent", r, sent)
}

// listen subscribes the spy to the subjects, until the test ends. Each has a
// subscription of its own: what a consumer delivers has the subject that it was
// stored under, whatever it is delivered to.
func (s Server) listen(t *testing.T, subjects []string) <-chan *nats.Msg {
	heard := make(chan *nats.Msg, 1<<18)
	for _, subject := range subjects {
		sub, err := s.Spy.ChanSubscribe(subject, heard)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if dropped, _ := sub.Dropped(); dropped > 0 {
				t.Errorf("the spy has lost %d messages on %s", dropped, subject)
			}
			_ = sub.Unsubscribe()
		})
	}
	if err := s.Spy.FlushTimeout(patience); err != nil {
		t.Fatal(err)
	}
	return heard
}

// knock sends to each subject that the role may send to, with each target as the
// reply. It returns these subjects, where a message is no wonder, and the number
// of messages.
func (s Server) knock(t *testing.T, nc *nats.Conn, r access.Role, targets []string) (own []string, sent int) {
	bodies := bodies
	if r == access.Operate {
		bodies = []string{"not JSON"} // else it does what it may
	}
	n := s.own()
	acks := []string{"$JS.ACK." + n.DispatchStream() + ".victim.1.1.1.1.0", "$JS.ACK." + n.EventStream(0) + ".victim.1.1.1.1.0", "$JS.ACK.victim"}
	worst := append([]string{n.JetStream("STREAM.DELETE." + n.EventStream(0)), n.API(wire.APICut), n.Event(0, "harmed", events.KindCompleted)}, acks...)
	for _, ns := range s.Others {
		acks = append(acks, "$JS.ACK."+s.Names.Namespace(ns).DispatchStream()+".victim.1.1.1.1.0")
	}
	roles := access.Memberships{}.With(cmp.Or(s.Namespace, events.DefaultNamespace), access.RolesOf(r))
	grant := access.Grant{Names: s.Names, User: r.String(), Roles: roles}
	for _, i := range grant.Imports() {
		if i.Flow == access.Messages {
			continue
		}
		own = append(own, i.Subject)
		subject := fill(i.Local)
		try := func(reply, body string, h nats.Header) {
			send(t, nc, &nats.Msg{Subject: subject, Reply: reply, Header: h, Data: []byte(body)})
			sent++
		}
		for n, target := range slices.Concat(targets, acks) {
			try(target, bodies[n%len(bodies)], nil)
			if !slices.Contains(worst, target) {
				continue
			}
			for _, body := range bodies {
				try(target, body, nil)
			}
			for _, h := range obeyed(target) {
				try("", bodies[0], h)
			}
		}
		// The last one is answered behind all the others, if at all.
		if _, err := nc.Request(subject, []byte(bodies[0]), time.Second); err != nil && !errors.Is(err, nats.ErrTimeout) && !errors.Is(err, nats.ErrNoResponders) {
			t.Fatalf("%s: %v", subject, err)
		}
	}
	return own, sent
}

func send(t *testing.T, nc *nats.Conn, m *nats.Msg) {
	t.Helper()
	if err := nc.PublishMsg(m); err != nil {
		t.Fatal(err)
	}
}

// check examines what the engine's account has heard.
func (s Server) check(t *testing.T, r access.Role, own []string, heard <-chan *nats.Msg) {
	told := map[string]bool{}
	tell := func(format string, args ...any) {
		if text := fmt.Sprintf(format, args...); !told[text] && len(told) < 20 {
			told[text] = true
			t.Error(text)
		}
	}
	for len(heard) > 0 {
		m := <-heard
		at := m.Sub.Subject
		mine := slices.ContainsFunc(own, func(pattern string) bool { return Match(pattern, m.Subject) })
		switch {
		case at == "$JS.ACK.>":
			// The server's answers came here too, if it let a client name such a reply: it
			// does not rewrite that. No empty one may come, but what a worker sends.
			if !mine && (len(m.Data) == 0 || m.Data[0] == '+' || m.Data[0] == '-') {
				tell("%s was acknowledged with %q by a %s", m.Subject, m.Data, r)
			}
		case !mine:
			tell("a %s has made %q reach %s (headers %v)", r, m.Data, at, m.Header)
		case m.Reply != "":
			// A message without a reply may be an answer that the user had sent to a
			// subject of its own.
			var info struct {
				Account string `json:"acc"`
			}
			list := m.Header["Nats-Request-Info"]
			if len(list) != 1 || json.Unmarshal([]byte(list[0]), &info) != nil || !strings.HasPrefix(info.Account, s.Names.UserAccount(r.String())) {
				tell("a request to %s says %q of who makes it", at, list)
			}
			if !strings.HasPrefix(m.Reply, "_R_.") && !strings.HasPrefix(m.Reply, "$JS.ACK.") {
				tell("%s has the reply %s", at, m.Reply)
			}
		}
	}
}

// streams returns the number of messages of each stream in the engine's account.
func (s Server) streams(t *testing.T) map[string]uint64 {
	t.Helper()
	js, err := s.Spy.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	if s.Names.Domain != "" {
		if js, err = s.Spy.JetStream(nats.Domain(s.Names.Domain)); err != nil {
			t.Fatal(err)
		}
	}
	all := map[string]uint64{}
	for i := range js.Streams() {
		all[i.Config.Name] = i.State.Msgs
	}
	if len(all) == 0 {
		t.Fatal("there are no streams")
	}
	return all
}

// Match reports whether a literal subject matches a pattern.
func Match(pattern, subject string) bool {
	p, s := strings.Split(pattern, "."), strings.Split(subject, ".")
	for i, w := range p {
		if w == ">" {
			return len(s) > i
		}
		if i >= len(s) || w != "*" && w != s[i] {
			return false
		}
	}
	return len(p) == len(s)
}
