package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
)

//go:embed assets/index.html assets/icon.svg assets/css/*.css assets/js/*.js assets/js/screens/*.js
var embedded embed.FS

// policy is the page's Content-Security-Policy.
const policy = "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// compressFrom is the size in bytes from which a file is worth compressing.
const compressFrom = 512

// types are the media types of the page's files, by extension; the machine's own
// tables are not asked, since they differ.
var types = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// file is one file as it is served.
type file struct {
	media  string
	body   []byte
	zipped []byte // nil: not worth it
	etag   string
	cached bool // under a path that holds its hash
}

// site holds all files by path.
type site map[string]*file

// build makes the site, once: what is embedded does not change.
var build = sync.OnceValue(func() site {
	root, err := fs.Sub(embedded, "assets")
	if err != nil {
		panic(fmt.Sprintf("page: %v", err)) // the folder is embedded above
	}
	s, err := newSite(root)
	if err != nil {
		panic(fmt.Sprintf("page: %v", err))
	}
	return s
})

// Handler serves the page at "/" and its files under "/assets/". It is safe for
// concurrent use.
func Handler() http.Handler { return build() }

// newSite reads the files, and makes the page that names them.
func newSite(root fs.FS) (site, error) {
	all := map[string][]byte{}
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		all[name], err = fs.ReadFile(root, name)
		return err
	})
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	sum := sha256.New()
	for _, name := range names {
		fmt.Fprintf(sum, "%s %d\n", name, len(all[name]))
		sum.Write(all[name])
	}
	base := "assets/" + hex.EncodeToString(sum.Sum(nil))[:16] + "/"

	s := site{}
	for _, name := range names {
		if name == "index.html" {
			continue
		}
		if s["/"+base+name], err = newFile(name, all[name]); err != nil {
			return nil, err
		}
		s["/"+base+name].cached = true
	}
	s["/"], err = newFile("index.html", index(all["index.html"], base, names))
	return s, err
}

// index returns the page with the path of its files in it, and a hint to load all
// modules at once: else each would be known only once its importer is there.
func index(page []byte, base string, names []string) []byte {
	var hints strings.Builder
	for _, name := range names {
		if strings.HasSuffix(name, ".js") && name != "js/theme.js" {
			fmt.Fprintf(&hints, "<link rel=\"modulepreload\" href=\"%s%s\">\n", base, name)
		}
	}
	page = bytes.ReplaceAll(page, []byte("{{base}}"), []byte(base))
	return bytes.ReplaceAll(page, []byte("{{modules}}\n"), []byte(hints.String()))
}

func newFile(name string, body []byte) (*file, error) {
	media, ok := types[path.Ext(name)]
	if !ok {
		media = mime.TypeByExtension(path.Ext(name))
	}
	sum := sha256.Sum256(body)
	f := &file{media: media, body: body, etag: hex.EncodeToString(sum[:])[:24]}
	if len(body) < compressFrom {
		return f, nil
	}
	var buf bytes.Buffer
	w, err := gzip.NewWriterLevel(&buf, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(body)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("compress %s: %w", name, err)
	}
	f.zipped = buf.Bytes()
	return f, nil
}

// ServeHTTP implements http.Handler.
func (s site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f, ok := s[r.URL.Path]
	if !ok {
		http.Error(w, "there is no such page: the page is at /, the API at /api/v1, its description at /docs", http.StatusNotFound)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "this can only be read", http.StatusMethodNotAllowed)
		return
	}
	f.serve(w, r)
}

func (f *file) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", f.media)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", policy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Vary", "Accept-Encoding")
	if f.cached {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	} else {
		h.Set("Cache-Control", "no-cache") // ask each time whether it is still this one
	}
	body, etag := f.body, `"`+f.etag+`"`
	if f.zipped != nil && acceptsGzip(r.Header.Get("Accept-Encoding")) {
		h.Set("Content-Encoding", "gzip")
		body, etag = f.zipped, `"`+f.etag+`-gz"`
	}
	h.Set("ETag", etag)
	if matches(r.Header.Get("If-None-Match"), etag) {
		h.Del("Content-Encoding")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Length", fmt.Sprint(len(body)))
	if r.Method == http.MethodHead {
		return
	}
	_, _ = w.Write(body) // who asked has gone: nobody to tell
}

// acceptsGzip reads an Accept-Encoding header.
func acceptsGzip(header string) bool {
	for part := range strings.SplitSeq(header, ",") {
		name, params, _ := strings.Cut(strings.TrimSpace(part), ";")
		if !strings.EqualFold(strings.TrimSpace(name), "gzip") && strings.TrimSpace(name) != "*" {
			continue
		}
		q := strings.TrimPrefix(strings.ReplaceAll(params, " ", ""), "q=")
		return strings.Trim(q, "0.") != "" || params == ""
	}
	return false
}

// matches reads an If-None-Match header.
func matches(header, etag string) bool {
	for part := range strings.SplitSeq(header, ",") {
		if p := strings.TrimSpace(part); p == "*" || strings.TrimPrefix(p, "W/") == etag {
			return true
		}
	}
	return false
}
