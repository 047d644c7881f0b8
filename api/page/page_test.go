package page

import (
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

func get(t *testing.T, h http.Handler, path string, headers ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	data, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestThePageNamesFilesThatAreThere(t *testing.T) {
	res := get(t, Handler(), "/")
	page := body(t, res)
	if res.StatusCode != http.StatusOK || res.Header.Get("Cache-Control") != "no-cache" {
		t.Fatalf("the page: %d, cached %q", res.StatusCode, res.Header.Get("Cache-Control"))
	}
	found := regexp.MustCompile(`(?:href|src)="(assets/[^"]+)"`).FindAllStringSubmatch(page, -1)
	if len(found) < 10 {
		t.Fatalf("the page names %d files: %s", len(found), page)
	}
	for _, m := range found {
		f := get(t, Handler(), "/"+m[1])
		if f.StatusCode != http.StatusOK || !strings.Contains(f.Header.Get("Cache-Control"), "immutable") {
			t.Errorf("%s: %d, cached %q", m[1], f.StatusCode, f.Header.Get("Cache-Control"))
		}
	}
	if strings.Contains(page, "{{") {
		t.Errorf("the page has a placeholder left: %s", page)
	}
}

func TestEveryAnswerCarriesThePolicy(t *testing.T) {
	for _, path := range pathsOf() {
		h := get(t, Handler(), path).Header
		if !strings.HasPrefix(h.Get("Content-Security-Policy"), "default-src 'self'") || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", path, h)
		}
		if h.Get("Content-Type") == "" || h.Get("ETag") == "" {
			t.Errorf("%s has no type or no ETag: %v", path, h)
		}
	}
}

func pathsOf() (paths []string) {
	for path := range build() {
		paths = append(paths, path)
	}
	return paths
}

func TestNothingInlineAndNoOutsideHost(t *testing.T) {
	outside := regexp.MustCompile(`(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}`)
	inline := regexp.MustCompile(`<style|<script>|<script type="module">|\sstyle=|\son[a-z]+="`)
	err := fs.WalkDir(embedded, "assets", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(embedded, path)
		text := strings.ReplaceAll(string(data), "http://www.w3.org/", "")
		if m := outside.FindString(text); m != "" {
			t.Errorf("%s names another host: %s", path, m)
		}
		if m := inline.FindString(text); strings.HasSuffix(path, ".html") && m != "" {
			t.Errorf("%s has something inline, which the policy forbids: %s", path, m)
		}
		if strings.HasSuffix(path, ".js") && regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write`).MatchString(text) {
			t.Errorf("%s makes markup of text, which the policy forbids", path)
		}
		if n := bytes.Count(data, []byte("\n")); n > 400 {
			t.Errorf("%s has %d lines: at most 400", path, n)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestCompressedAndRevalidated(t *testing.T) {
	plain := get(t, Handler(), "/", "Accept-Encoding", "gzip;q=0, br")
	want := body(t, plain)
	if plain.Header.Get("Content-Encoding") != "" {
		t.Fatal("compressed for one who does not take it")
	}
	zipped := get(t, Handler(), "/", "Accept-Encoding", "br, gzip;q=0.8")
	r, err := gzip.NewReader(zipped.Body)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if err != nil || string(got) != want {
		t.Fatalf("unpacked it is not the page: %v", err)
	}
	etag := zipped.Header.Get("ETag")
	if etag == "" || etag == plain.Header.Get("ETag") {
		t.Fatalf("the compressed page has the ETag %s, the plain one %s", etag, plain.Header.Get("ETag"))
	}
	again := get(t, Handler(), "/", "Accept-Encoding", "gzip", "If-None-Match", `"other", W/`+etag)
	if again.StatusCode != http.StatusNotModified || body(t, again) != "" {
		t.Errorf("with its own ETag: %d", again.StatusCode)
	}
	if other := get(t, Handler(), "/", "If-None-Match", `"other"`); other.StatusCode != http.StatusOK {
		t.Errorf("with another ETag: %d", other.StatusCode)
	}
}

func TestWhatIsNotThere(t *testing.T) {
	for _, path := range []string{"/work", "/assets/", "/assets/js/main.js", "/assets/../page.go"} {
		if res := get(t, Handler(), path); res.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d", path, res.StatusCode)
		}
	}
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
	w = httptest.NewRecorder()
	Handler().ServeHTTP(w, httptest.NewRequest(http.MethodHead, "/", nil))
	if w.Code != http.StatusOK || w.Body.Len() != 0 {
		t.Errorf("HEAD: %d, %d bytes", w.Code, w.Body.Len())
	}
}

func TestAChangedFileChangesThePaths(t *testing.T) {
	at := func(css string) string {
		s, err := newSite(fstest.MapFS{"index.html": {Data: []byte(`{{base}}a.css`)}, "a.css": {Data: []byte(css)}})
		if err != nil {
			t.Fatal(err)
		}
		return string(s["/"].body)
	}
	if first, again := at("a{}"), at("a{}"); first != again || first == at("b{}") {
		t.Error("the path must follow the content")
	}
}
