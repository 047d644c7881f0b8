package rest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/api/rest"
	"github.com/streamwright/streamwright/embedded"
)

// FuzzHTTP makes any request of an engine. Whatever is refused below /api/ is
// refused with a problem document that says the status, a code and a text; and
// nothing fails within.
func FuzzHTTP(f *testing.F) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	e, err := embedded.Start(ctx, embedded.Options{Memory: true, HTTP: "127.0.0.1:0"})
	if err != nil {
		f.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	f.Cleanup(func() {
		client.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := e.Stop(ctx); err != nil {
			f.Error(err)
		}
	})
	base := "http://" + e.HTTP()
	addOperations(f, client, base)
	f.Add("POST", "/api/v1/work", "Content-Type", "text/plain", []byte(`{"type":"email","params":{"a":1}}`))
	f.Add("POST", "/api/v1/work/batch", "Content-Encoding", "gzip", []byte(`[{"type":"email"},{"type":"E"}]`))
	f.Add("GET", "/api/v1/work?limit=-1&cursor=AAAA&label=k%3Dv&state=queued", "Range", "bytes=0-1", []byte(``))
	f.Add("GET", "/api/v1/events?since=10m&kind=created", "Last-Event-ID", "0-99999999999", []byte(``))
	f.Add("HEAD", "/api//v1/../v1/work", "Host", "evil.example.org", []byte(``))
	f.Add("OPTIONS", "/api/v1/work", "Sec-Fetch-Site", "cross-site", []byte(``))
	f.Add("GET", "/api/v1/work/%00%2e%2e/wait?timeout=1e9&min_position=0-1", "If-None-Match", "*", []byte(``))
	f.Fuzz(func(t *testing.T, method, target, name, value string, body []byte) {
		for _, long := range []string{"verify", "rebuild", "/cut", "/state"} { // they read a log that grows here
			if strings.Contains(target, long) {
				return
			}
		}
		if !strings.HasPrefix(target, "/") {
			target = "/" + target
		}
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, method, base+target, bytes.NewReader(body))
		if err != nil || req.URL.Host != e.HTTP() {
			return
		}
		if name != "" {
			req.Header.Set(name, value)
		}
		if http.CanonicalHeaderKey(name) == "Host" {
			req.Host = value
		}
		res, err := client.Do(req)
		if err != nil {
			return // it is not sent, or takes its time
		}
		defer func() { _ = res.Body.Close() }()
		data, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%s %s: %v", method, target, err)
		}
		checkAnswer(t, method+" "+target, req, res, data)
	})
}

// checkAnswer fails for what no client should see.
func checkAnswer(t *testing.T, what string, req *http.Request, res *http.Response, data []byte) {
	t.Helper()
	if res.StatusCode >= 500 && res.StatusCode != http.StatusServiceUnavailable {
		t.Fatalf("%s: status %d: %s", what, res.StatusCode, data)
	}
	if res.StatusCode < 400 || !strings.HasPrefix(req.URL.Path, "/api/") || req.Method == http.MethodHead {
		return
	}
	if text := string(data); res.StatusCode == http.StatusBadRequest && strings.HasPrefix(text, "400 Bad Request") {
		return // net/http's own, which no handler has seen
	}
	var p rest.Problem
	if err := json.Unmarshal(data, &p); err != nil || res.Header.Get("Content-Type") != "application/problem+json" {
		t.Fatalf("%s: status %d with no problem document, %s: %.300s", what, res.StatusCode, res.Header.Get("Content-Type"), data)
	}
	if p.Status != res.StatusCode || p.Code == "" || p.Code == "internal" || p.Detail == "" || len(p.Detail) > 8192 {
		t.Fatalf("%s: status %d, and the problem document %.500s", what, res.StatusCode, data)
	}
	if (res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusServiceUnavailable) && res.Header.Get("Retry-After") == "" {
		t.Fatalf("%s: status %d without Retry-After", what, res.StatusCode)
	}
}

// addOperations adds a request of each operation in the OpenAPI document.
func addOperations(f *testing.F, client *http.Client, base string) {
	f.Helper()
	res, err := client.Get(base + "/openapi.json")
	if err != nil {
		f.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var doc struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.NewDecoder(res.Body).Decode(&doc); err != nil || len(doc.Paths) == 0 {
		f.Fatalf("no operations: %v", err)
	}
	fill := strings.NewReplacer("{id}", "01JD3V6YB2M4C9W8ZK5T7QXRNE", "{type}", "email", "{name}", "x", "{key}", "k", "{position}", "0-1")
	var all []string
	for path, methods := range doc.Paths {
		for method := range methods {
			all = append(all, strings.ToUpper(method)+" "+fill.Replace(path))
		}
	}
	slices.Sort(all)
	for _, op := range all {
		method, path, _ := strings.Cut(op, " ")
		f.Add(method, path, "Accept", "application/json", []byte(`{}`))
	}
}
