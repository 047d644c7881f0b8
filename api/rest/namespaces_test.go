package rest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/access"
)

// A server with one namespace has it below its path, and says so elsewhere.
func TestOnlyOneNamespace(t *testing.T) {
	s, err := New(Config{Only: "acme", Auth: tokens{"reader": access.RolesOf(access.Read)}, Engine: fakeEngine(func(context.Context, string, []byte) ([]byte, error) { return []byte(`{"items":[]}`), nil })})
	if err != nil {
		t.Fatal(err)
	}
	s.Mount("GET /healthz", 0, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {}))
	h := s.Handler()
	for _, try := range []struct {
		path, token, text string
		status            int
	}{
		{"/", "", `href="/ns/acme/"`, http.StatusFound},
		{"/healthz", "", "", http.StatusOK},
		{"/docs/", "", "<html", http.StatusOK},
		{"/ns/acme/healthz", "", "", http.StatusOK},
		{"/ns/acme/api/v1/work", "reader", `"items"`, http.StatusOK},
		{"/ns/acme/api/v1/work", "", "", http.StatusUnauthorized},
		{"/ns/beta/api/v1/work", "reader", "no namespace", http.StatusNotFound},
		{"/ns/default/api/v1/work", "reader", "no namespace", http.StatusNotFound},
		{"/ns/beta/api/v1/work", "", "", http.StatusUnauthorized},
		{"/ns/acme/ns/acme/api/v1/work", "reader", "there is nothing", http.StatusNotFound},
		{"/api/v1/work", "reader", "only the namespace acme", http.StatusNotFound},
		{"/metrics", "reader", "only the namespace acme", http.StatusNotFound},
	} {
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+try.path, nil)
		if try.token != "" {
			r.Header.Set("Authorization", "Bearer "+try.token)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != try.status || !strings.Contains(w.Body.String(), try.text) {
			t.Errorf("%s as %q: %d %.200s", try.path, try.token, w.Code, w.Body)
		}
	}
}
