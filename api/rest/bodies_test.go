package rest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
)

func post(t *testing.T, s *Server, path, body string) *http.Response {
	t.Helper()
	res, err := http.Post("http://"+s.Addr()+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

// A body is bounded by the server alone, not by the defaults of a library.
func TestBodiesHaveTheirBound(t *testing.T) {
	seen := 0
	s := listening(t, Config{Engine: fakeEngine(func(_ context.Context, endpoint string, body []byte) ([]byte, error) {
		seen = len(body)
		return []byte(`{}`), nil
	})}, nil)
	blank := strings.Repeat(" ", MaxBodyBytes-2)
	if res := post(t, s, "/api/v1/types/t/pause", `{}`+blank); res.StatusCode != 200 || seen == 0 {
		t.Errorf("a body of the bound: %d", res.StatusCode)
	}
	seen = 0
	for name, body := range map[string]io.Reader{
		"of a length that is said": strings.NewReader(`{}` + blank + " "),
		"of one that is not":       io.MultiReader(strings.NewReader(`{}`), strings.NewReader(blank+" ")),
	} {
		res, err := http.Post("http://"+s.Addr()+"/api/v1/types/t/pause", "application/json", body)
		if err != nil {
			t.Fatal(err)
		}
		if code := codeOf(t, res.Body); res.StatusCode != 413 || code != events.CodeTooLarge || !res.Close || seen != 0 {
			t.Errorf("a longer body, %s: %d %s, closed: %v", name, res.StatusCode, code, res.Close)
		}
		_ = res.Body.Close()
	}
}

// Few large bodies are in memory at once; small ones don't mind.
func TestLargeBodiesAreBounded(t *testing.T) {
	inside, release := make(chan struct{}, 2), make(chan struct{})
	s := listening(t, Config{Engine: fakeEngine(func(_ context.Context, _ string, body []byte) ([]byte, error) {
		if strings.Contains(string(body), "hold") {
			inside <- struct{}{}
			<-release
		}
		return []byte(`{}`), nil
	})}, func(s *Server) { s.bodies = make(chan struct{}, 2) })
	large := strings.Repeat(" ", 4*LargeBody)
	held := make(chan int, 2)
	for range 2 {
		go func() {
			res, err := http.Post("http://"+s.Addr()+"/api/v1/types/t/pause", "application/json", strings.NewReader(`{"reason":"hold"}`+large))
			if err != nil {
				held <- 0
				return
			}
			_ = res.Body.Close()
			held <- res.StatusCode
		}()
		<-inside
	}
	for name, body := range map[string]io.Reader{
		"of a length that is said": strings.NewReader(`{}` + large),
		"of one that is not":       io.MultiReader(strings.NewReader(`{}`), strings.NewReader(large)),
	} {
		res, err := http.Post("http://"+s.Addr()+"/api/v1/types/t/pause", "application/json", body)
		if err != nil {
			t.Fatal(err)
		}
		if code := codeOf(t, res.Body); res.StatusCode != 503 || code != events.CodeUnavailable || res.Header.Get("Retry-After") != "1" {
			t.Errorf("a third large body of two, %s: %d %s %v", name, res.StatusCode, code, res.Header)
		}
		_ = res.Body.Close()
	}
	if res := post(t, s, "/api/v1/types/t/pause", `{}`); res.StatusCode != 200 {
		t.Errorf("a small one beside them: %d", res.StatusCode)
	}
	close(release)
	for range 2 {
		if status := <-held; status != 200 {
			t.Errorf("a large one that had its place: %d", status)
		}
	}
	for end := time.Now().Add(30 * time.Second); len(s.bodies) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a request that was answered keeps its place")
		}
	}
	if res := post(t, s, "/api/v1/types/t/pause", `{}`+large); res.StatusCode != 200 {
		t.Errorf("a large one once there is room: %d", res.StatusCode)
	}
}

// The time in which a request must be read is not that in which it must be
// answered.
func TestRequestsMayTakeLongerThanTheirBodies(t *testing.T) {
	need.Seconds(t)
	t.Parallel()
	s := listening(t, Config{Engine: fakeEngine(func(ctx context.Context, _ string, _ []byte) ([]byte, error) {
		select {
		case <-time.After(readTime * 3 / 2):
			return []byte(`{"types":[]}`), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})}, func(s *Server) { s.readTime = readTime })
	if res := post(t, s, "/api/v1/types/t/pause", `{}`); res.StatusCode != 200 {
		t.Errorf("with a body: %d", res.StatusCode)
	}
	if res := get(t, s, "/api/v1/stats"); res.StatusCode != 200 {
		t.Errorf("without one: %d", res.StatusCode)
	}
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprintf(conn, "POST /api/v1/types/t/pause HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\n{"); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 408") {
		t.Errorf("a body that does not come: %q %v", answer, err)
	}
}

// At the bound of connections another one waits until one is closed.
func TestConnectionsAreBounded(t *testing.T) {
	s := listening(t, Config{}, func(s *Server) { s.maxConns = 2 })
	ask := func(conn net.Conn) {
		t.Helper()
		if _, err := fmt.Fprint(conn, "GET /api/v1/stats HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	answered := func(conn net.Conn) error {
		_, err := conn.Read(make([]byte, 4096))
		return err
	}
	var conns []net.Conn
	for range 3 {
		conn, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		conns = append(conns, conn)
		ask(conn)
		if len(conns) < 3 {
			if err := answered(conn); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := conns[2].SetReadDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if err := answered(conns[2]); err == nil {
		t.Error("a third connection of two is answered")
	}
	_ = conns[0].Close()
	if err := conns[2].SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if err := answered(conns[2]); err != nil {
		t.Errorf("once there is room: %v", err)
	}
}
