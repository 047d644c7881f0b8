package site

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// What a newcomer asks is found among the first three places.
func TestSearchFindsWhatNewcomersAsk(t *testing.T) {
	s := build(t)
	for query, page := range map[string]string{
		"exactly once":                         "start/guarantees",
		"in what order do items run":           "guides/routing",
		"kubernetes":                           "start/install",
		"how do I upgrade three nodes":         "operate/upgrade",
		"prometheus alerts":                    "reference/metrics",
		"how long is the log kept, disk":       "operate/retention",
		"TLS certificates for users":           "operate/access",
		"sidekiq":                              "start/coming_from",
		"remove personal data":                 "operate/personaldata",
		"approval by a person":                 "guides/approvals",
		"restore a backup under another name?": "operate/backup",
	} {
		found := s.Search(query)
		var seen []string
		ok := false
		for _, r := range found[:min(3, len(found))] {
			seen = append(seen, r.Path)
			ok = ok || strings.HasPrefix(r.Path, page) || strings.HasPrefix(r.Path, "start/questions")
		}
		if !ok {
			t.Errorf("%q finds %q, and not %s", query, seen, page)
		}
	}
}

// Each place that is found is there, and what is asked is text.
func TestSearchPage(t *testing.T) {
	s := build(t)
	ask := func(query string) string {
		t.Helper()
		w := httptest.NewRecorder()
		s.serve(w, httptest.NewRequest(http.MethodGet, "/docs/search?q="+url.QueryEscape(query), nil))
		if w.Code != http.StatusOK || w.Header().Get("Content-Security-Policy") != policy {
			t.Errorf("%q: %d, %q", query, w.Code, w.Header())
		}
		return w.Body.String()
	}
	if page := ask("circuit breaker"); !strings.Contains(page, `<a href="/docs/guides/protection#`) || !strings.Contains(page, `value="circuit breaker"`) {
		t.Error(page)
	}
	for query, want := range map[string]string{
		`<script>alert("x")</script> retries`: "&lt;script&gt;",
		"zzqxj":                               "Nothing here has",
		"":                                    "Enter what you look for",
		"   ":                                 "Enter what you look for",
		strings.Repeat("retry ", 10_000):      "/docs/guides/protection",
		strings.Repeat("é", 150):              "Nothing here has",
	} {
		page := ask(query)
		if !strings.Contains(page, want) || strings.Contains(page, "<script>alert") {
			t.Errorf("%.40q does not give %q", query, want)
		}
	}
	for _, r := range s.Search("durability power cut") {
		at, id, _ := strings.Cut(r.Path, "#")
		if p := s.byURL[at]; p == nil || id != "" && !strings.Contains(string(p.HTML), `id="`+id+`"`) {
			t.Errorf("%s is not there", r.Path)
		}
	}
}
