package site

import (
	"net/http"
	"strings"
	"sync"

	"github.com/streamwright/streamwright/docs"
)

// policy lets a page load its style sheet, and search, and nothing else. A page with a playground has
// playgroundPolicy.
const policy = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// Handler serves the embedded documentation below base, such as /docs/.
func Handler(base string) http.Handler {
	built := sync.OnceValues(func() (*Site, error) { return Build(docs.Pages, base) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s, err := built()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		s.serve(w, r)
	})
}

func (s *Site) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-cache")
	at := strings.TrimPrefix(r.URL.Path, s.base)
	if at == "site.css" {
		h.Set("Content-Type", "text/css; charset=utf-8")
		_, _ = w.Write(css) // the caller has gone: nobody to tell
		return
	}
	if at == "search" {
		s.serveSearch(w, r)
		return
	}
	if data, kind, ok := s.file(at); ok {
		h.Set("Content-Type", kind)
		_, _ = w.Write(data)
		return
	}
	if p := s.byURL[at]; p != nil {
		if p.Playground {
			h.Set("Content-Security-Policy", playgroundPolicy)
		}
		h.Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(p.HTML)
		return
	}
	// The name of the file, as texts of the engine give it, finds its page.
	if p := s.byURL[urlOf(strings.TrimSuffix(at, "/"))]; p != nil {
		http.Redirect(w, r, s.base+p.Path, http.StatusMovedPermanently)
		return
	}
	http.Error(w, "no such page: the index is at "+s.base, http.StatusNotFound)
}
