package pagetest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
)

// host serves two engines as the namespaces default and acme of one.
func host(t *testing.T, def, acme *world) (at string) {
	to := func(w *world) http.Handler {
		u, err := url.Parse(w.url)
		if err != nil {
			t.Fatal(err)
		}
		return &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u) }}
	}
	mux := http.NewServeMux()
	mux.Handle("/", to(def))
	mux.Handle("/ns/acme/", http.StripPrefix("/ns/acme", to(acme)))
	mux.HandleFunc("GET /api/v1/namespaces", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"namespaces":[{"name":"default"},{"name":"acme"},{"name":"beta"}]}`)
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	return srv.URL + "/"
}

// Each namespace has its page, which shows its own items live, and leads to the others.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	def, acme := start(t), start(t)
	def.submit(itemOf("of-default"))
	acme.submit(itemOf("of-acme"))
	at := host(t, def, acme)
	p := open(t, desktop, at+"#/types")
	p.see("main", "of-default")
	p.until(`[...document.querySelectorAll('.namespaces option')].map((o) => o.value).join() === 'default,acme,beta'`)
	p.until(`document.querySelector('.namespace-last').hidden`)
	p.eval(`(() => { const s = document.querySelector('.namespaces select'); s.value = 'acme'; s.dispatchEvent(new Event('change')); })()`, nil)
	p.until(`location.pathname === '/ns/acme/' && document.title.includes('acme')`)
	p.see(".connection", "live")
	p.see("main", "of-acme")
	acme.submit(itemOf("later"))
	p.see("main", "later")
	p.until(`document.querySelector('.namespaces select').value === 'acme'`)
	p.until(`new URL(document.querySelector('footer a').href).pathname === '/docs/'`)
	p.eval(`(() => { const s = document.querySelector('.namespaces select'); s.value = 'default'; s.dispatchEvent(new Event('change')); })()`, nil)
	p.until(`location.pathname === '/'`)
	p.see(".namespace-last", "open acme")
	p.until(`new URL(document.querySelector('.namespace-last').href).pathname === '/ns/acme/'`)
}

// An engine without namespaces shows no list.
func TestNoNamespaces(t *testing.T) {
	t.Parallel()
	w := start(t)
	p := open(t, desktop, w.url)
	p.see(".connection", "live")
	p.until(`document.querySelector('.namespaces').hidden`)
}
