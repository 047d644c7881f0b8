package site

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/streamwright/streamwright/docs"
)

func build(t *testing.T) *Site {
	t.Helper()
	s, err := Build(docs.Pages, "/docs/")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var (
	hrefs = regexp.MustCompile(`href="([^"]*)"`)
	ids   = regexp.MustCompile(`<h\d id="([^"]*)"`)
)

// Every link within the site leads to a page, and to a heading of it.
func TestLinksWithinTheSite(t *testing.T) {
	s := build(t)
	anchors := map[string][]string{}
	for _, p := range s.all {
		for _, m := range ids.FindAllStringSubmatch(string(p.HTML), -1) {
			anchors[p.Path] = append(anchors[p.Path], m[1])
		}
	}
	for _, p := range s.all {
		for _, m := range hrefs.FindAllStringSubmatch(string(p.HTML), -1) {
			to, fragment, _ := strings.Cut(m[1], "#")
			if strings.HasSuffix(to, ".md") && strings.HasPrefix(to, "/docs/") {
				t.Errorf("%s: the link %s was not rewritten", p.File, m[1])
			}
			at, within := strings.CutPrefix(to, "/docs/")
			switch {
			case to == "":
				at = p.Path
			case !within || at == "api/" || at == "site.css":
				continue
			}
			if s.byURL[at] == nil {
				t.Errorf("%s: %s leads nowhere", p.File, m[1])
			} else if fragment != "" && fragment != "main" && fragment != "pages" && !slices.Contains(anchors[at], fragment) {
				t.Errorf("%s: %s names no heading of %s, which has %q", p.File, m[1], at, anchors[at])
			}
		}
	}
}

// The index lists every page, so that each one is served and has its place.
func TestIndexListsEveryPage(t *testing.T) {
	s := build(t)
	err := fs.WalkDir(docs.Pages, ".", func(file string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && s.byURL[urlOf(file)] == nil {
			t.Errorf("docs/README.md does not list %s", file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range s.all {
		if p.Title == "" {
			t.Errorf("%s has no title", p.File)
		}
	}
}

// Pages need no script, style attribute or other host, as their policy demands; those with a
// playground one script.
func TestPagesAreStatic(t *testing.T) {
	for _, p := range build(t).all {
		html := string(p.HTML)
		if p.Playground {
			html = strings.Replace(html, `<script src="/docs/playground/playground.js" type="module"></script>`, "", 1)
		}
		for _, bad := range []string{"<script", "<img", " style="} {
			if strings.Contains(html, bad) {
				t.Errorf("%s has %q", p.File, bad)
			}
		}
		if strings.Count(html, "<h1") != 1 {
			t.Errorf("%s has %d titles", p.File, strings.Count(html, "<h1"))
		}
	}
}

func TestHandler(t *testing.T) {
	h := Handler("/docs/")
	get := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w
	}
	for path, want := range map[string]int{
		"/docs/": http.StatusOK, "/docs/site.css": http.StatusOK, "/docs/guides/flow": http.StatusOK, "/docs/glossary": http.StatusOK,
		"/docs/guides/FLOW.md": http.StatusMovedPermanently, "/docs/guides/flow/": http.StatusMovedPermanently, "/docs/none": http.StatusNotFound,
	} {
		w := get(path)
		if w.Code != want {
			t.Errorf("%s: status %d, want %d", path, w.Code, want)
		}
		if w.Header().Get("Content-Security-Policy") != policy {
			t.Errorf("%s has no policy", path)
		}
	}
	if to := get("/docs/guides/FLOW.md").Header().Get("Location"); to != "/docs/guides/flow" {
		t.Errorf("FLOW.md leads to %s", to)
	}
}

func TestBuild(t *testing.T) {
	s, err := Build(fstest.MapFS{
		"README.md": {Data: []byte("# Home\n\n[code](../main.go)\n\n## One\n\n- [a](one/A.md)\n- [b](B.md)\n")},
		"one/A.md":  {Data: []byte("# A\n\n[b](../B.md#part) ![view](../screens/a.png)\n")},
		"B.md":      {Data: []byte("# B\n\n## Part\n\n<b>raw</b>\n")},
	}, "/d/")
	if err != nil {
		t.Fatal(err)
	}
	a := string(s.byURL["one/a"].HTML)
	for _, want := range []string{`href="/d/b#part"`, `href="` + repository + `docs/screens/a.png">Picture: view`, `rel="prev" href="/d/"`, `rel="next" href="/d/b"`} {
		if !strings.Contains(a, want) {
			t.Errorf("one/a lacks %s:\n%s", want, a)
		}
	}
	if strings.Contains(string(s.byURL["b"].HTML), "<b>raw") {
		t.Error("raw HTML passes")
	}
	if _, err := Build(fstest.MapFS{"README.md": {Data: []byte("# Home\n\n## One\n\n[a](A.md)\n")}}, "/d/"); err == nil {
		t.Error("a listed page that does not exist is no error")
	}
}
