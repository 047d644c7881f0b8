package rest_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

// secret is what no refusal and no line of the log may have, nor its beginning.
const secret = "s3cr3t-0123456789-abcdef"

var secretBegins = []byte(secret[:6])

// quotable are the fields whose value a refusal may quote: names, words and times that the
// engine knows. What has another JSON type than theirs is quoted nowhere.
var quotable = map[string]bool{
	"id": true, "type": true, "worker": true, "name": true, "state": true, "event": true, "priority": true, "at": true, "after": true, "parent": true, "batch": true, "ids": true,
	"dedup_policy": true, "after_policy": true, "child_policy": true, "capabilities": true, "types": true, "action": true, "node": true, "cursor": true, "sort": true, "states": true,
	"min_position": true, "from": true, "to": true, "kinds": true, "kind": true, "available_at": true, "expires_at": true, "until": true, "created_after": true, "created_before": true,
	"cron": true, "zone": true, "policy": true, "overlap": true, "catch_up": true, "position": true, "since": true, "group": true, "cause": true, "step": true, "range": true, "by": true,
	"at_position": true, "missed": true, "host": true,
}

// planter makes requests with the secret in every field.
type planter struct {
	depth int
	terse bool // without the fields that are quotable, but for ids and types: these are good
}

// bodiesOf returns what texts makes of a request that is refused for its words, and of one
// whose words are good.
func bodiesOf(t reflect.Type) []string {
	return append(texts(planter{}.good("", t)), texts(planter{terse: true}.good("", t))...)
}

// goodWords are the words of a terse request.
var goodWords = map[string]string{
	"id": nobody, "ids": nobody, "after": nobody, "parent": nobody, "batch": nobody, "type": "word", "types": "word", "name": "word", "worker": "word",
	"event": "fail", "action": "cancel",
	"reason": "word", // of what is then done, which the log tells
}

var times = reflect.TypeFor[time.Time]()

// good returns a value of a type, with the secret wherever there is a text that no refusal
// quotes.
func (p planter) good(name string, t reflect.Type) any {
	switch {
	case t == times:
		return "2030-01-31T08:00:00Z"
	case t == reflect.TypeFor[json.RawMessage]():
		return map[string]any{"password": secret}
	case p.depth > 4:
		return nil
	}
	p.depth++
	switch t.Kind() {
	case reflect.Pointer:
		return p.good(name, t.Elem())
	case reflect.Slice, reflect.Array:
		return []any{p.good(name, t.Elem())}
	case reflect.Map:
		return map[string]any{"k": p.good(name, t.Elem())}
	case reflect.Struct:
		return p.fields(t)
	case reflect.Bool:
		return false
	case reflect.String:
		if word := goodWords[name]; p.terse && word != "" {
			return word
		}
		if quotable[name] {
			return "word"
		}
		return secret
	case reflect.Interface:
		return secret
	}
	return 1
}

func (p planter) fields(t reflect.Type) map[string]any {
	m := map[string]any{}
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); !f.Anonymous && f.IsExported() && name != "" && name != "-" && !(p.terse && quotable[name] && goodWords[name] == "") {
			m[name] = p.good(name, f.Type)
		}
	}
	return m
}

// spoiled returns documents in which one thing is wrong: a field that is not known, beside
// secrets or with one, here or further down; a value of each wrong type.
func spoiled(name string, doc any) (all []any) {
	text := func(all []any) []any {
		if quotable[name] {
			return all
		}
		return append(all, secret)
	}
	switch doc := doc.(type) {
	case map[string]any:
		with := func(name string, v any) {
			m := maps.Clone(doc)
			m[name] = v
			all = append(all, m)
		}
		with("nosuchfield", secret)
		with("nosuchfield", map[string]any{"token": secret})
		for name, v := range doc {
			for _, bad := range spoiled(name, v) {
				with(name, bad)
			}
		}
	case []any:
		for _, v := range doc {
			for _, bad := range spoiled(name, v) {
				all = append(all, []any{bad})
			}
		}
		all = text(append(all, map[string]any{"token": secret}))
	case string:
		all = append(all, map[string]any{"token": secret}, []any{secret}, 12345, true)
	case bool:
		all = text(append(all, map[string]any{"token": secret}, []any{secret}))
	default:
		all = text(append(all, map[string]any{"token": secret}, []any{secret}, true))
	}
	return all
}

// texts returns the documents as JSON, and as text that is none.
func texts(doc any) (all []string) {
	for _, d := range append(spoiled("", doc), doc) {
		data, err := json.Marshal(d)
		if err != nil {
			panic(err)
		}
		all = append(all, string(data))
	}
	whole := all[len(all)-1]
	return append(all, whole[:len(whole)-1], whole[:len(whole)/2], whole+secret, secret, `"`+secret+`"`, "["+whole+",", `{"`+secret, strings.Replace(whole, `"`+secret+`"`, secret, 1))
}

// leak finds the secret in a text, and returns what is around it.
func leak(text []byte) (string, bool) {
	i := bytes.Index(text, secretBegins)
	if i < 0 {
		return "", false
	}
	return string(text[max(0, i-200):min(len(text), i+60)]), true
}

// No refusal and no line of the log quotes what may be a secret, whatever is wrong with a
// request, and whichever way it comes.
func TestRefusalsQuoteNoSecrets(t *testing.T) {
	log := &need.Log{}
	r := startLogged(t, "", slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	nc, err := r.e.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	told := map[string]bool{}
	check := func(way string, answer []byte, body string) {
		if where, leaks := leak(answer); leaks && !told[way] {
			told[way] = true
			t.Errorf("%s: the refusal of %.300s quotes the secret: …%s…", way, body, where)
		}
	}
	requests := 0
	for _, e := range wire.Endpoints() {
		for _, body := range bodiesOf(e.Request) {
			answer, err := nc.RequestMsg(&nats.Msg{Subject: wire.Default.API(e.Name), Data: []byte(body)}, patience)
			if err != nil {
				t.Fatalf("%s %.200s: %v", e.Name, body, err)
			}
			requests++
			if bytes.Contains(answer.Data, []byte(`"error"`)) {
				check("NATS "+e.Name, answer.Data, body)
			}
		}
	}
	requests += r.plantHTTP(check)
	if requests < 2000 {
		t.Errorf("only %d requests", requests)
	}
	r.stop()
	if where, leaks := leak([]byte(log.String())); leaks {
		t.Errorf("the log has the secret: …%s…", where)
	}
}

// plantHTTP sends what texts makes to every operation with a body, and secrets in the
// header and the parameters of all.
func (r *rig) plantHTTP(check func(way string, answer []byte, body string)) (requests int) {
	d, _ := readDocument(r.t, r)
	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		at := inPath.ReplaceAllStringFunc(path, func(p string) string { return unknown[strings.Trim(p, "{}")] })
		for method, op := range d.Paths[path] {
			method = strings.ToUpper(method)
			way := method + " " + path
			if strings.Contains(path, "/blobs") {
				continue // a blob is any bytes
			}
			_, stream := op.Responses["200"].Content["text/event-stream"]
			send := func(at, body string, headers ...string) {
				res := r.send(method, at, body, headers...)
				requests++
				if res.status >= http.StatusBadRequest {
					check(way, res.body, body)
				}
			}
			if stream { // it has no end unless it is refused
				if slices.ContainsFunc(op.Parameters, func(p parameter) bool { return p.Name == "Last-Event-ID" }) {
					send(at+map[bool]string{true: "?follow=true"}[strings.HasSuffix(path, "/logs") || strings.HasSuffix(path, "/output")], "", "Last-Event-ID", secret)
				}
				continue
			}
			send(at, "", "Work-Session", secret, "Authorization", "Bearer "+secret, "Last-Event-ID", secret)
			for _, p := range op.Parameters {
				if kind := string(p.Schema); p.In == "query" && strings.Contains(kind, `"string"`) && !quotable[p.Name] {
					send(at+"?"+p.Name+"="+secret, "")
				}
			}
			send(at, `{"token":"`+secret+`"}`, "Work-Session", strings.Repeat(secret, 20))
			if op.RequestBody == nil {
				continue
			}
			typ := httpBody(way)
			if typ == nil {
				r.t.Errorf("what is the body of %s? add it to this test", way)
				continue
			}
			for _, body := range bodiesOf(typ) {
				send(at, body)
			}
		}
	}
	return requests
}

// httpBody returns the type of an operation's body; nil if it is not known.
func httpBody(way string) reflect.Type {
	for _, e := range wire.Endpoints() {
		for _, route := range e.Routes {
			if route.Method+" "+route.Path == way {
				return e.Request
			}
		}
	}
	switch way {
	case "PATCH /api/v1/types/{type}":
		return reflect.TypeFor[map[string]json.RawMessage]()
	case "POST /api/v1/workers":
		return reflect.TypeFor[wire.WorkerRegistration]()
	case "POST /api/v1/workers/{id}/poll":
		return reflect.TypeFor[wire.Poll]()
	case "POST /api/v1/workers/{id}/heartbeat":
		return reflect.TypeFor[wire.WorkerHeartbeat]()
	case "POST /api/v1/workers/{id}/probe":
		return reflect.TypeFor[wire.ProbeWait]()
	case "POST /api/v1/workers/{id}/log":
		return reflect.TypeFor[wire.WorkerLogs]()
	case "POST /api/v1/workers/{id}/output":
		return reflect.TypeFor[wire.WorkerOutput]()
	case "POST /api/v1/workers/{id}/report":
		return reflect.TypeFor[struct {
			Session string        `json:"session"`
			Reports []wire.Report `json:"reports"`
		}]()
	case "POST /api/v1/work":
		return reflect.TypeFor[wire.Submit]()
	}
	return nil
}

// What became of a plain publish with a secret in a header is told without it.
func TestRejectionsQuoteNoHeaders(t *testing.T) {
	r := start(t, "")
	nc, err := r.e.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	publish := func(name, value string) {
		t.Helper()
		if _, err := nc.RequestMsg(&nats.Msg{Subject: wire.Default.Submit("word"), Header: nats.Header{name: {value}}, Data: []byte("{}")}, patience); err != nil {
			t.Fatal(err)
		}
	}
	last := func(name string) (page wire.RejectedListed) {
		t.Helper()
		publish(name, secret)
		r.eventually("it is rejected", func() bool {
			page = want[wire.RejectedListed](r, http.StatusOK, "GET", "/api/v1/rejected?limit=1000", "")
			return len(page.Rejected) > 0 && strings.Contains(page.Rejected[0].Message, name)
		})
		return page
	}
	first := last("Work-Nosuch").Rejected[0].Message
	known := regexp.MustCompile(`Work-[A-Z][A-Za-z-]+`).FindAllString(first, -1)
	if len(known) < 15 || strings.Contains(first, secret[:6]) {
		t.Fatalf("the headers are %q: %s", known, first)
	}
	for _, name := range known {
		if !slices.Contains([]string{wire.HeaderID, wire.HeaderAfter, wire.HeaderBatch, wire.HeaderAfterPolicy, wire.HeaderDedupPolicy, wire.HeaderCapabilities}, name) { // ids and words, as in JSON
			publish(name, secret)
		}
	}
	page := last("Work-Last")
	if len(page.Rejected) < 8 {
		t.Errorf("only %d are rejected", len(page.Rejected))
	}
	for _, one := range page.Rejected {
		if where, leaks := leak([]byte(one.Message)); leaks {
			t.Errorf("the rejection quotes the secret: %s", where)
		}
	}
	answer, err := nc.Request(wire.Default.API(wire.APIEvents), []byte(`{"from_seq":1,"kinds":["rejected"]}`), patience)
	var log wire.EventsReply
	if err == nil {
		err = json.Unmarshal(answer.Data, &log)
	}
	if err != nil || len(log.Events) != len(page.Rejected) {
		t.Fatalf("the log has %d rejections, %v: %s", len(log.Events), err, answer.Data)
	}
	for _, ev := range log.Events {
		var data struct{ Message string }
		if err := json.Unmarshal(ev.Data, &data); err != nil || data.Message == "" {
			t.Fatalf("the event is %s: %v", ev.Data, err)
		}
		if where, leaks := leak([]byte(data.Message)); leaks {
			t.Errorf("the event quotes the secret: %s", where)
		}
	}
}
