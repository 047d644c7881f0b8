package rest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/eventlog/pages"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/leaks"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

func TestMain(m *testing.M) { leaks.Check(m) }

// fakeEngine answers what a test says.
type fakeEngine func(ctx context.Context, endpoint string, body []byte) ([]byte, error)

func (f fakeEngine) Call(ctx context.Context, endpoint string, body []byte) ([]byte, error) {
	return f(ctx, endpoint, body)
}

func (fakeEngine) Document(context.Context, string, bool) ([]byte, error) {
	return nil, errors.New("a fake has no items")
}

// tokens are the roles of those who show a token.
type tokens map[string]access.Roles

func (k tokens) Changed() context.Context { return context.Background() }

func (k tokens) Authenticate(r *http.Request) (access.Identity, error) {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	roles, known := k[token]
	if !known {
		return access.Identity{}, events.Refuse(events.CodeUnauthenticated, "no token that is known: send Authorization: Bearer TOKEN")
	}
	return access.Identity{Name: token, Roles: roles, Memberships: access.Everywhere(roles)}, nil
}

// flood gives events without end, and counts them.
type flood struct{ given atomic.Uint64 }

func (f *flood) Kept(context.Context) (pages.Kept, error) {
	return pages.Kept{First: 1, Last: 1 << 40}, nil
}

func (*flood) Of(string, string) (pages.Filter, error) {
	return nil, nil
}

func (f *flood) Tail(ctx context.Context, _ pages.TailConfig, fn func(events.Event) error) error {
	for ctx.Err() == nil {
		if err := fn(events.Event{Seq: events.Seq(f.given.Add(1)), Body: &events.Cancelled{Reason: strings.Repeat("x", 4000)}}); err != nil {
			return err
		}
	}
	return nil
}

// silence gives nothing.
type silence struct{ flood }

func (*silence) Tail(ctx context.Context, _ pages.TailConfig, _ func(events.Event) error) error {
	<-ctx.Done()
	return nil
}

// readTime is the read time of servers whose requests outlast it: many times what
// reading one takes, on a slow machine too.
const readTime = 2 * time.Second

func listening(t *testing.T, c Config, set func(*Server)) *Server {
	t.Helper()
	if c.Engine == nil {
		c.Engine = fakeEngine(func(context.Context, string, []byte) ([]byte, error) { return []byte(`{}`), nil })
	}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if set != nil {
		set(s)
	}
	if err := s.Listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return s
}

func get(t *testing.T, s *Server, path string) *http.Response {
	t.Helper()
	res, err := http.Get("http://" + s.Addr() + path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

func codeOf(t *testing.T, body io.Reader) events.Code {
	t.Helper()
	var p Problem
	if err := json.NewDecoder(body).Decode(&p); err != nil {
		t.Fatal(err)
	}
	return p.Code
}

// Every operation asks for its roles before anything else, and says so.
func TestEveryOperationAsksForItsRole(t *testing.T) {
	called := 0
	k := tokens{"none": 0}
	for _, role := range []access.Role{access.Submit, access.Work, access.Read, access.Operate} {
		k[role.String()] = access.RolesOf(role)
	}
	s, err := New(Config{Auth: k, Engine: fakeEngine(func(context.Context, string, []byte) ([]byte, error) {
		called++
		return nil, errors.New("enough")
	})})
	if err != nil {
		t.Fatal(err)
	}
	fill := strings.NewReplacer("{id}", "01JD3V6YB2M4C9W8ZK5T7QXRNE", "{type}", "t", "{name}", "n", "{seq}", "1")
	try := func(method, path, token string) (int, *httptest.ResponseRecorder) {
		r := httptest.NewRequest(method, fill.Replace(path), strings.NewReader(`{}`))
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		return w.Code, w
	}
	seen := 0
	for path, item := range s.api.OpenAPI().Paths {
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
			op := s.doc.find(method, path)
			if op == nil || item == nil {
				continue
			}
			seen++
			needed := map[string]bool{}
			for _, role := range op.Extensions["x-role"].([]string) {
				needed[role] = true
			}
			if needed["none"] { // by design: see TestRequestsWithoutALogin
				continue
			}
			code, w := try(method, path, "")
			if code != 401 || w.Header().Get("WWW-Authenticate") == "" || codeOf(t, w.Body) != events.CodeUnauthenticated {
				t.Errorf("%s %s without a token: %d", method, path, code)
			}
			before := called
			for token := range k {
				code, w := try(method, path, token)
				if needed[token] == (code == 403) {
					t.Errorf("%s %s needs %v; with %s: %d %s", method, path, needed, token, code, w.Body)
				}
				if code == 403 && codeOf(t, w.Body) != events.CodeForbidden {
					t.Errorf("%s %s with %s: %s", method, path, token, w.Body)
				}
				if !needed[token] && called != before {
					t.Errorf("%s %s asked the engine for %s", method, path, token)
				}
				before = called
			}
		}
	}
	if seen < 40 {
		t.Errorf("only %d operations were tried", seen)
	}
}

func TestMountedHandlersAskForTheirRole(t *testing.T) {
	s, err := New(Config{Auth: tokens{"r": access.RolesOf(access.Read)}, Engine: fakeEngine(nil)})
	if err != nil {
		t.Fatal(err)
	}
	who := ""
	s.Mount("GET /api/v1/extra", access.RolesOf(access.Read), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { who = IdentityOf(r.Context()).Name }))
	s.Mount("GET /", 0, http.NotFoundHandler()) // a page
	for token, status := range map[string]int{"": 401, "r": 200} {
		r := httptest.NewRequest("GET", "/api/v1/extra", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		if s.Handler().ServeHTTP(w, r); w.Code != status {
			t.Errorf("with the token %q: %d", token, w.Code)
		}
	}
	if who != "r" {
		t.Errorf("the handler was told of %q", who)
	}
	w := httptest.NewRecorder()
	if s.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/api/v1/none", nil)); w.Code != 404 || w.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("beside the page, a path of the API that is not there: %d %s", w.Code, w.Body)
	}
	if !strings.Contains(string(s.OpenAPI()), "/api/v1/extra") {
		t.Error("a mounted route is not in the document")
	}
}

// A feed whose client does not read it is ended, and has read no further ahead
// than its buffers.
func TestStalledClientIsDropped(t *testing.T) {
	f := &flood{}
	ended := make(chan struct{}, 1)
	log := slog.New(slog.NewTextHandler(writer(func(p []byte) {
		if strings.Contains(string(p), "a feed has ended") {
			ended <- struct{}{}
		}
	}), nil))
	s := listening(t, Config{Events: f, Logger: log}, func(s *Server) { s.writeTime = 200 * time.Millisecond })
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprintf(conn, "GET /api/v1/events?from_seq=1 HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Fatal("it goes on")
	}
	if n := f.given.Load(); n > 20_000 {
		t.Errorf("%d events of 4 KB were read for a client that reads nothing", n)
	}
}

type writer func([]byte)

func (w writer) Write(p []byte) (int, error) { w(p); return len(p), nil }

func TestFeedsAreBounded(t *testing.T) {
	s := listening(t, Config{Events: &silence{}}, func(s *Server) { s.streams = make(chan struct{}, 2) })
	one, two := get(t, s, "/api/v1/events"), get(t, s, "/api/v1/events")
	third := get(t, s, "/api/v1/events")
	if third.StatusCode != 503 || third.Header.Get("Retry-After") == "" || codeOf(t, third.Body) != events.CodeUnavailable {
		t.Errorf("a third feed of two: %d", third.StatusCode)
	}
	_ = one.Body.Close()
	for end := time.Now().Add(30 * time.Second); len(s.streams) > 1; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a feed that its client has left keeps its place")
		}
	}
	if again := get(t, s, "/api/v1/events"); again.StatusCode != 200 {
		t.Errorf("a feed in the place of one that was left: %d", again.StatusCode)
	}
	_ = two
}

func TestIdleFeedsHaveHeartbeats(t *testing.T) {
	need.Seconds(t)
	t.Parallel()
	s := listening(t, Config{Events: &silence{}}, func(s *Server) { s.heartbeat, s.readTime = 300*time.Millisecond, readTime })
	in := bufio.NewScanner(get(t, s, "/api/v1/events").Body)
	beats := 0
	for beats < 10 && in.Scan() { // longer than a request may be read
		if strings.HasPrefix(in.Text(), ":") {
			beats++
		}
	}
	if beats < 10 {
		t.Errorf("the feed has ended after %d heartbeats: %v", beats, in.Err())
	}
}

// A wait may take longer than the time in which a request must be read; it ends
// when its client leaves.
func TestWaitsOutliveTheReadTimeAndEndWithTheirClient(t *testing.T) {
	need.Seconds(t)
	t.Parallel()
	release, there, gone := make(chan struct{}), make(chan struct{}), make(chan struct{})
	engine := fakeEngine(func(ctx context.Context, endpoint string, body []byte) ([]byte, error) {
		if strings.Contains(string(body), `"timeout_ms":1000`) {
			close(there)
			<-ctx.Done()
			close(gone)
			return nil, ctx.Err()
		}
		select {
		case <-release:
			return []byte(`{"ended":[{"id":"x"}]}`), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	s := listening(t, Config{Engine: engine}, func(s *Server) { s.readTime = readTime })
	time.AfterFunc(readTime*3/2, func() { close(release) })
	if res := get(t, s, "/api/v1/work/x/wait"); res.StatusCode != 200 {
		t.Errorf("a wait that is longer than the read time: %d", res.StatusCode)
	}
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	go func() {
		<-there
		leave()
	}()
	req, err := http.NewRequestWithContext(ctx, "GET", "http://"+s.Addr()+"/api/v1/work/x/wait?timeout=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := http.DefaultClient.Do(req); err == nil {
		t.Fatal("the client has not left")
	}
	select {
	case <-gone:
	case <-time.After(30 * time.Second):
		t.Fatal("the wait goes on without its client")
	}
}

// Stop lets an ordinary request end, and takes none after it.
func TestStopLetsOrdinaryRequestsEnd(t *testing.T) {
	inside, release := make(chan struct{}), make(chan struct{})
	s, err := New(Config{Engine: fakeEngine(func(ctx context.Context, endpoint string, _ []byte) ([]byte, error) {
		close(inside)
		select {
		case <-release:
			return []byte(`{}`), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	status := 0
	wg.Go(func() {
		res, err := http.Get("http://" + s.Addr() + "/api/v1/stats")
		if err == nil {
			status = res.StatusCode
			_ = res.Body.Close()
		}
	})
	<-inside
	stopped := make(chan error, 1)
	go func() { stopped <- s.Stop(context.Background()) }()
	<-s.stopping.Done()
	close(release)
	wg.Wait()
	if err := <-stopped; err != nil || status != 200 {
		t.Errorf("stop: %v, and the request under way got %d", err, status)
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestProblemsOfEveryCode(t *testing.T) {
	for code, status := range map[events.Code]int{
		events.CodeBadRequest: 400, events.CodeUnauthenticated: 401, events.CodeForbidden: 403, events.CodeNotFound: 404, events.CodeIDConflict: 409,
		events.CodeTooLarge: 413, events.CodeQueueFull: 429, events.CodeInternal: 500, events.CodeUnavailable: 503, events.CodeTimeout: 503,
	} {
		s, err := New(Config{Engine: fakeEngine(func(context.Context, string, []byte) ([]byte, error) {
			return nil, &events.Error{Code: code, Message: "so it is", RetryAfter: 1500 * time.Millisecond}
		})})
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/api/v1/stats", nil))
		var p Problem
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
			t.Fatal(err)
		}
		if w.Code != status || p.Status != status || p.Code != code || p.Detail != "so it is" || p.RetryAfterMS != 1500 || w.Header().Get("Retry-After") != "2" || w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %v %s", code, w.Code, w.Header(), w.Body)
		}
	}
	if wire.FromError(events.ErrShuttingDown).RetryAfter.IsZero() {
		t.Error("one who is sent away at a stop is not told when to come again")
	}
}
