package rest

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Without a login one may present tokens, and no more. Only POST does it; who guesses is soon
// refused, and nobody else is.
func TestRequestsWithoutALogin(t *testing.T) {
	asked := 0
	s, err := New(Config{Auth: tokens{"all": access.All}, Engine: fakeEngine(func(_ context.Context, endpoint string, body []byte) ([]byte, error) {
		asked++
		if endpoint != wire.APIToken && endpoint != wire.APILink || !bytes.Contains(body, []byte(`"GOOD"`)) {
			return nil, events.Refuse(events.CodeNotFound, "there is no such token")
		}
		return []byte(`{"id":"x"}`), nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	h := s.Handler()
	do := func(method, from, path, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.RemoteAddr = from + ":4000"
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	const me = "192.0.2.1"
	if w := do(http.MethodPost, me, "/api/v1/tokens/GOOD", `{"result":1}`); w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := do(http.MethodGet, me, "/api/v1/tokens/GOOD", ""); w.Code != http.StatusOK {
		t.Errorf("the question of a link: %d %s", w.Code, w.Body)
	}
	for _, method := range []string{http.MethodPatch, http.MethodPut, http.MethodDelete} {
		before := asked
		if w := do(method, me, "/api/v1/tokens/GOOD", ""); w.Code != http.StatusMethodNotAllowed || asked != before {
			t.Errorf("%s: %d %s", method, w.Code, w.Body)
		}
	}
	if w := do(http.MethodPost, me, "/api/v1/tokens/GOOD", `{"result":"`+strings.Repeat("x", LargeBody)+`"}`); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("a large body: %d %s", w.Code, w.Body)
	}
	if w := do(http.MethodPost, me, "/api/v1/tokens/GOOD?x=1", `{}`); w.Code != http.StatusBadRequest {
		t.Errorf("an unknown parameter: %d %s", w.Code, w.Body)
	}
	var codes []int
	for i := range 2 * MissesAtOnce {
		codes = append(codes, do(http.MethodPost, me, fmt.Sprint("/api/v1/tokens/BAD", i), `{}`).Code)
	}
	if codes[0] != http.StatusNotFound || !slices.Contains(codes, http.StatusTooManyRequests) {
		t.Errorf("guesses are answered with %v", codes)
	}
	if n := len(slices.DeleteFunc(codes, func(c int) bool { return c != http.StatusNotFound })); n > MissesAtOnce+MissesPerSecond {
		t.Errorf("%d guesses are looked at", n)
	}
	w := do(http.MethodPost, me, "/api/v1/tokens/GOOD", `{}`)
	if code := codeOf(t, w.Body); w.Code != http.StatusTooManyRequests || code != events.CodeQuotaExceeded || w.Header().Get("Retry-After") == "" {
		t.Errorf("behind the guesses: %d %s %v", w.Code, code, w.Header())
	}
	served := 0
	for i := range 8 { // of which one may share the group of an address that guesses
		if do(http.MethodPost, fmt.Sprintf("198.51.100.%d", i), "/api/v1/tokens/GOOD", `{}`).Code == http.StatusOK {
			served++
		}
	}
	if served < 4 {
		t.Errorf("%d of 8 others are served", served)
	}
}

func TestAddressesAreCountedByNetwork(t *testing.T) {
	m := newMisses()
	if m.of("[2001:db8::1]:1") != m.of("[2001:db8::2]:2") || m.of("192.0.2.1:1") != m.of("[::ffff:192.0.2.1]:2") {
		t.Error("one network is counted as two")
	}
	groups := map[any]bool{}
	for i := range 64 {
		groups[m.of(fmt.Sprintf("192.0.2.%d:1", i))] = true
	}
	if len(groups) < 32 {
		t.Errorf("64 addresses are in %d groups", len(groups))
	}
}
