package rest_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/api/rest"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

// patience bounds every wait; what it bounds takes a moment.
const patience = 2 * time.Minute

// rig is an engine with its HTTP server, and what a test asks of it.
type rig struct {
	t    *testing.T
	ctx  context.Context
	e    *embedded.Engine
	base string

	declared *document // once the first answer was held against it
}

func start(t *testing.T, toml string) *rig {
	t.Helper()
	var log *slog.Logger
	if os.Getenv(need.Verbose) != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	return startLogged(t, toml, log)
}

func startLogged(t *testing.T, toml string, log *slog.Logger) *rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	t.Cleanup(cancel)
	cfg, err := config.Parse("engine.toml", []byte(toml))
	if err != nil {
		t.Fatal(err)
	}
	o := embedded.Options{Config: cfg, Memory: true, HTTP: "127.0.0.1:0", Logger: log}
	e, err := embedded.Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, ctx: ctx, e: e, base: "http://" + e.HTTP()}
	t.Cleanup(func() { r.stop() })
	return r
}

func (r *rig) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := r.e.Stop(ctx); err != nil {
		r.t.Errorf("stop: %v", err)
	}
}

// response is what came back.
type response struct {
	status int
	header http.Header
	body   []byte
}

// send makes a request with what it is given.
func (r *rig) send(method, path, body string, headers ...string) response {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.ctx, method, r.base+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	r.checkDeclared(method, path, res.StatusCode, data)
	return response{res.StatusCode, res.Header, data}
}

// checkDeclared holds an answer against the document.
func (r *rig) checkDeclared(method, path string, status int, body []byte) {
	r.t.Helper()
	path, _, _ = strings.Cut(path, "?")
	if path == "/openapi.json" {
		return
	}
	if r.declared == nil {
		d, _ := readDocument(r.t, r)
		r.declared = &d
	}
	for pattern, operations := range r.declared.Paths {
		o, ok := operations[strings.ToLower(method)]
		if !ok || !fits(pattern, path) {
			continue
		}
		if _, ok := o.Responses[strconv.Itoa(status)]; !ok {
			r.t.Errorf("%s %s answers %d, which the document does not declare: %.300s", method, path, status, body)
		}
	}
}

// fits reports whether a path is one of a pattern.
func fits(pattern, path string) bool {
	p, s := strings.Split(pattern, "/"), strings.Split(path, "/")
	return len(p) == len(s) && !slices.ContainsFunc(p, func(part string) bool {
		i := slices.Index(p, part)
		return part != s[i] && (!strings.HasPrefix(part, "{") || s[i] == "")
	})
}

// want makes a request that must have a status, and reads its reply.
func want[T any](r *rig, status int, method, path, body string) T {
	r.t.Helper()
	res := r.send(method, path, body)
	if res.status != status {
		r.t.Fatalf("%s %s %s: status %d, not %d: %s", method, path, body, res.status, status, res.body)
	}
	var v T
	if err := json.Unmarshal(res.body, &v); err != nil {
		r.t.Fatalf("%s %s: %v: %s", method, path, err, res.body)
	}
	return v
}

// refused makes a request that must be refused with a problem document.
func (r *rig) refused(status int, code, says, method, path, body string, headers ...string) response {
	r.t.Helper()
	res := r.send(method, path, body, headers...)
	checkProblem(r.t, res, status, code, says, method+" "+path+" "+body)
	return res
}

func checkProblem(t *testing.T, res response, status int, code, says, what string) {
	t.Helper()
	var p rest.Problem
	if err := json.Unmarshal(res.body, &p); err != nil {
		t.Fatalf("%s: status %d, no problem document: %s", what, res.status, res.body)
	}
	if ct := res.header.Get("Content-Type"); ct != "application/problem+json" {
		t.Errorf("%s: the problem document is said to be %s", what, ct)
	}
	if res.status != status || p.Status != status || string(p.Code) != code || p.Title != http.StatusText(status) || !strings.Contains(p.Detail, says) || p.Type != "about:blank" {
		t.Errorf("%s: status %d and %s\nwant status %d, code %s, and %q in the detail", what, res.status, res.body, status, code, says)
	}
}

// submit submits an item and returns its id.
func (r *rig) submit(body string) string {
	r.t.Helper()
	return want[wire.Submitted](r, http.StatusCreated, "POST", "/api/v1/work", body).ID
}

// ended waits for an item over HTTP.
func (r *rig) ended(id string) wire.Item {
	r.t.Helper()
	return want[wire.Item](r, http.StatusOK, "GET", "/api/v1/work/"+id+"/wait?timeout=30", "")
}

// work runs a worker of a type until the test ends. Its items' params are of
// any JSON.
func (r *rig) work(typ string, slots int, fn func(context.Context, *workers.Item[any]) (any, error)) *workers.Worker {
	r.t.Helper()
	nc, err := r.e.Connect()
	if err != nil {
		r.t.Fatal(err)
	}
	w, err := workers.New(nc, workers.Config{Concurrency: slots})
	if err != nil {
		r.t.Fatal(err)
	}
	workers.Handle(w, typ, fn)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	r.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Errorf("the worker: %v", err)
		}
		nc.Close()
	})
	return w
}

func (r *rig) client() *streamwright.Client {
	r.t.Helper()
	c, err := r.e.Client(r.ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(c.Close)
	return c
}

// eventually polls until ok; what says for what.
func (r *rig) eventually(what string, ok func() bool) {
	r.t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("it never came to this: %s", what)
		}
	}
}

type item = workers.Item[any]

func itemOf(typ string) streamwright.Item { return streamwright.Item{Type: typ} }

func tailFrom(seq events.Seq) streamwright.TailOptions { return streamwright.TailOptions{FromSeq: seq} }
