package site

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/streamwright/streamwright/docs"
)

// The files of a playground, or of one that was not built.
var (
	built   = fstest.MapFS{"playground/playground.js": {Data: []byte("js")}, "playground/wasm_exec.js": {Data: []byte("loader")}, "playground/playground.wasm.gz": {Data: []byte("gz")}}
	unbuilt = fstest.MapFS{"playground/playground.js": {Data: []byte("js")}, "playground/README.md": {Data: []byte("# How")}}
)

var withPlayground = fstest.MapFS{
	"README.md": {Data: []byte("# Home\n\n## One\n\n- [a](A.md)\n")},
	"A.md":      {Data: []byte("# A\n\n<!-- playground\ntype email {\"capacity\":1}\nsubmit email\n-->\n\n<!-- begin: other -->\n\nText.\n")},
}

func serve(t *testing.T, s *Site, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	s.serve(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

func TestPlayground(t *testing.T) {
	s, err := buildWith(withPlayground, built, "/d/")
	if err != nil {
		t.Fatal(err)
	}
	page := serve(t, s, "/d/a")
	for _, want := range []string{"data-files=\"/d/playground/\"", "data-script=\"type email {&#34;capacity&#34;:1}\nsubmit email\"", "<script src=\"/d/playground/playground.js\" type=\"module\">"} {
		if !strings.Contains(page.Body.String(), want) {
			t.Errorf("the page lacks %s:\n%s", want, page.Body)
		}
	}
	for path, want := range map[string]string{"/d/a": playgroundPolicy, "/d/": policy, "/d/playground/playground.js": policy} {
		if got := serve(t, s, path).Header().Get("Content-Security-Policy"); got != want {
			t.Errorf("%s has the policy %q", path, got)
		}
	}
	for path, want := range map[string]string{"playground.js": "text/javascript; charset=utf-8", "wasm_exec.js": "text/javascript; charset=utf-8", "playground.wasm.gz": "application/gzip"} {
		if w := serve(t, s, "/d/playground/"+path); w.Code != http.StatusOK || w.Header().Get("Content-Type") != want {
			t.Errorf("%s: status %d, %s", path, w.Code, w.Header().Get("Content-Type"))
		}
	}
}

// Without the compiled core a page says how to get it, and runs no script.
func TestPlaygroundThatWasNotBuilt(t *testing.T) {
	s, err := buildWith(withPlayground, unbuilt, "/d/")
	if err != nil {
		t.Fatal(err)
	}
	page := serve(t, s, "/d/a")
	if body := page.Body.String(); !strings.Contains(body, "make playground") || strings.Contains(body, "<script") || strings.Contains(body, "submit email") {
		t.Errorf("the page is\n%s", body)
	}
	if got := page.Header().Get("Content-Security-Policy"); got != policy {
		t.Errorf("it has the policy %q", got)
	}
	for _, name := range []string{"playground.wasm.gz", "README.md", "", "none"} {
		if w := serve(t, s, "/d/playground/"+name); w.Code != http.StatusNotFound {
			t.Errorf("%q: status %d", name, w.Code)
		}
	}
}

// The pages on retries, limits and the next item have one each.
func TestPagesWithPlaygrounds(t *testing.T) {
	s, err := buildWith(docs.Pages, built, "/docs/")
	if err != nil {
		t.Fatal(err)
	}
	var with []string
	for _, p := range s.all {
		if n := strings.Count(string(p.HTML), "<section class=\"playground\""); n > 0 {
			with = append(with, p.Path)
			if n > 1 {
				t.Errorf("%s has %d playgrounds", p.File, n)
			}
		}
	}
	if got := strings.Join(with, " "); got != "guides/protection guides/limits guides/routing" {
		t.Errorf("those with playgrounds are: %s", got)
	}
}
