package bridge_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// maxScript bounds the requests of one input.
const maxScript = 40

// FuzzSessions plays two workers over HTTP, and somebody who forges sessions
// and tokens. Nobody gets or ends what is another's; nothing fails within.
func FuzzSessions(f *testing.F) {
	e := startEngine(f, embedded.Options{})
	f.Add([]byte{0, 0, 1, 4, 0, 8, 0, 12, 0, 20}, "forged")
	f.Add([]byte{0, 1, 24, 25, 4, 5, 36, 8, 44, 12, 13, 16, 17, 28, 20, 21}, "eyJ3b3JrZXIiOiJ3In0.x")
	f.Add([]byte{24, 0, 4, 72, 136, 200, 8, 76, 140, 204, 12, 80, 144, 16, 84, 20, 0}, "000000100000001")
	var run atomic.Int64
	f.Fuzz(func(t *testing.T, script []byte, forged string) {
		p := &play{t: t, e: e, n: run.Add(1), forged: forged, held: map[string]int{}, submitted: map[string]bool{}}
		defer p.end()
		for _, b := range script[:min(len(script), maxScript)] {
			p.step(b)
		}
	})
}

// play is one run of a script.
type play struct {
	t       *testing.T
	e       *engine
	n       int64
	forged  string
	session [2]string // of each worker; empty: not registered

	held      map[string]int // the worker that was handed a token and has not ended its run
	refs      []wire.RunRef  // what was handed out, in order
	submitted map[string]bool
}

func (p *play) name(w int) string { return fmt.Sprintf("fuzz-%d-%d", p.n, w) }
func (p *play) typ() string       { return fmt.Sprintf("fuzz-%d", p.n%50) }

// step makes one request: the lowest bit says of whom, the next which forgery
// if any, then the operation, then what it is about.
func (p *play) step(b byte) {
	w, forge, op, what := int(b&1), b&2 != 0, int(b>>2&7), int(b>>5)
	session := p.session[w]
	switch {
	case forge && what&1 == 1:
		session = p.session[1-w]
	case forge:
		session = p.forged
	}
	mine := session == p.session[w] && session != ""
	switch op {
	case 0:
		var s wire.WorkerSession
		status := p.ask(http.MethodPost, "/api/v1/workers", wire.WorkerRegistration{Worker: p.name(w), Types: []string{p.typ()}, Slots: 2}, &s)
		if status == http.StatusCreated {
			if p.session[w] != "" {
				p.t.Fatalf("worker %s has registered twice", p.name(w))
			}
			p.session[w] = s.Session
		}
	case 1:
		wait := events.Millis(int64(what * 3))
		var got wire.Polled
		if p.ask(http.MethodPost, p.path(w, "poll"), wire.Poll{Session: session, Wait: &wait, PollID: p.forged}, &got) == http.StatusOK {
			p.take(w, mine, got)
		}
	case 2, 3:
		p.report(w, session, mine, op == 3, what)
	case 4:
		var orders wire.WorkerOrders
		beat := wire.WorkerHeartbeat{Session: session, InFlight: p.refs}
		if p.ask(http.MethodPost, p.path(w, "heartbeat"), beat, &orders) == http.StatusOK && p.session[w] != "" && !mine {
			p.t.Fatalf("the session %q is taken for that of %s", session, p.name(w))
		}
	case 5:
		if p.ask(http.MethodDelete, p.path(w, "")+"?session="+escape(session), nil, nil) == http.StatusOK && p.session[w] != "" {
			if !mine {
				p.t.Fatalf("the session %q has unregistered %s", session, p.name(w))
			}
			p.session[w] = ""
		}
	case 6:
		p.submitted[p.e.submit(p.t, p.typ(), `{"a":1}`)] = true
	case 7:
		p.ask(http.MethodPost, p.path(w, "report"), json.RawMessage(p.forged), nil)
	}
}

func escape(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		fmt.Fprintf(&b, "%%%02x", c)
	}
	return b.String()
}

// take notes what a poll has handed out.
func (p *play) take(w int, mine bool, got wire.Polled) {
	if len(got.Items) > 0 && p.session[w] != "" && !mine {
		p.t.Fatalf("a session that is not that of %s got %+v", p.name(w), got)
	}
	for _, it := range got.Items {
		if by, held := p.held[it.Token]; held && by != w {
			p.t.Fatalf("the run %s of worker %d was handed to worker %d", it.Token, by, w)
		}
		p.held[it.Token] = w
		p.refs = append(p.refs, wire.RunRef{ID: it.ID, Token: it.Token})
	}
}

// report ends a run, or one that is not there.
func (p *play) report(w int, session string, mine, known bool, what int) {
	ref := wire.RunRef{ID: "01JD3V6YB2M4C9W8ZK5T7QXRNE", Token: "1-1"}
	if known && len(p.refs) > 0 {
		ref = p.refs[what%len(p.refs)]
	} else if what&2 != 0 {
		ref.Token = p.forged
	}
	event := []string{wire.ReportComplete, wire.ReportStart, wire.ReportRelease, wire.ReportFail}[what%4]
	body := map[string]any{"session": session, "reports": []map[string]any{{"id": ref.ID, "token": ref.Token, "event": event}}}
	var out struct {
		Reports []wire.Reported `json:"reports"`
	}
	if p.ask(http.MethodPost, p.path(w, "report"), body, &out) != http.StatusOK || len(out.Reports) != 1 || !out.Reports[0].OK {
		return
	}
	by, held := p.held[ref.Token]
	if !held || by != w || !mine {
		p.t.Fatalf("worker %d, session its own: %v, has done %s on the run %s of worker %d (handed out: %v)", w, mine, event, ref.Token, by, held)
	}
}

func (p *play) path(w int, op string) string {
	return strings.TrimSuffix("/api/v1/workers/"+p.name(w)+"/"+op, "/")
}

// ask makes a request and returns its status. A refusal must be a problem
// document.
func (p *play) ask(method, path string, body, reply any) int {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var data []byte
	if raw, is := body.(json.RawMessage); is {
		data = raw
	} else if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			p.t.Fatal(err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+p.e.HTTP()+path, bytes.NewReader(data))
	if err != nil {
		p.t.Fatal(err)
	}
	res, err := p.e.http.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode < 300 {
		if reply != nil {
			if err := json.NewDecoder(res.Body).Decode(reply); err != nil {
				p.t.Fatalf("%s %s: %v", method, path, err)
			}
		}
		return res.StatusCode
	}
	var problem struct{ Code, Detail string }
	if err := json.NewDecoder(res.Body).Decode(&problem); err != nil || problem.Code == "" || problem.Code == "internal" || problem.Detail == "" {
		p.t.Fatalf("%s %s: status %d, %+v, %v", method, path, res.StatusCode, problem, err)
	}
	return res.StatusCode
}

// end leaves the engine as it was.
func (p *play) end() {
	for w, session := range p.session {
		if session != "" {
			p.ask(http.MethodDelete, p.path(w, "")+"?session="+escape(session), nil, nil)
		}
	}
	for id := range p.submitted {
		p.ask(http.MethodPost, "/api/v1/work/"+id+"/cancel", nil, nil)
	}
}
