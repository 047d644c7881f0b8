package rest

import (
	"embed"
	"io/fs"
	"net/http"

	"github.com/streamwright/streamwright/internal/docs/site"
)

//go:embed docs
var docsFiles embed.FS

// docsPolicy lets the page of the API load nothing but what this server serves.
const docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// registerDocs serves the OpenAPI document, a page that shows it, and the
// documentation. None of them says anything of what the engine holds: they are
// for everyone.
func (s *Server) registerDocs() {
	s.Mount("GET /openapi.json", 0, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/openapi+json")
		w.Header().Set("Cache-Control", "no-cache")
		_, _ = w.Write(s.OpenAPI()) // the caller has gone: nobody to tell
	}))
	files, err := fs.Sub(docsFiles, "docs")
	if err != nil {
		panic(err) // the name of an embedded folder
	}
	page := http.FileServerFS(files)
	show := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", docsPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-cache")
		page.ServeHTTP(w, r)
	})
	s.Mount("GET /docs/api/", 0, http.StripPrefix("/docs/api", show))
	s.Mount("GET /docs/", 0, site.Handler("/docs/"))
	s.Mount("GET /docs", 0, http.RedirectHandler("/docs/", http.StatusMovedPermanently))
}
