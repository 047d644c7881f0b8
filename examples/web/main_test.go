package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/examples/internal/engine"
)

func TestWeb(t *testing.T) {
	ctx := engine.Context(t)
	c := engine.Client(t, ctx)
	w, err := startWorker(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Stop(context.Background()) })

	mux := routes(c)
	ask := func(method, path, body string) *httptest.ResponseRecorder {
		rec := httptest.NewRecorder()
		mux.ServeHTTP(rec, httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body)))
		return rec
	}
	rec := ask("POST", "/counts", `{"text":"to be or not to be"}`)
	var accepted struct{ ID string }
	if err := json.Unmarshal(rec.Body.Bytes(), &accepted); err != nil || rec.Code != http.StatusAccepted {
		t.Fatalf("got %d %s", rec.Code, rec.Body)
	}
	if _, err := c.Wait(ctx, accepted.ID); err != nil {
		t.Fatal(err)
	}
	rec = ask("GET", rec.Header().Get("Location"), "")
	if got := bytes.TrimSpace(rec.Body.Bytes()); string(got) != `{"words":6}` {
		t.Errorf("got %d %s", rec.Code, got)
	}
	if rec := ask("GET", "/counts/01JD3V6YB2M4C9W8ZK5T7QXRNE", ""); rec.Code != http.StatusNotFound {
		t.Errorf("of an unknown item: got %d %s", rec.Code, rec.Body)
	}
	if rec := ask("POST", "/counts", "no JSON"); rec.Code != http.StatusBadRequest {
		t.Errorf("of what is not JSON: got %d %s", rec.Code, rec.Body)
	}
}
