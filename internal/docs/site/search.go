package site

import (
	"bytes"
	"cmp"
	"html/template"
	"math"
	"net/http"
	"slices"
	"strings"
	"unicode"

	"github.com/yuin/goldmark/ast"
)

// Bounds of a search.
const (
	maxQuery   = 200 // bytes that count
	maxResults = 15
	excerptLen = 220 // bytes, or a few more, to the end of a word
)

// part is the text below one heading.
type part struct {
	page          *Page
	heading, id   string // empty above the first heading behind the title
	text          string
	words         map[string]int
	heads, titles map[string]bool // words of the heading, and of the page's title
}

// Result is a place that a search has found.
type Result struct {
	Path, Title, Heading string // Path has the fragment
	Excerpt              string
}

// parts divides a page at its headings, as far as the table of contents goes.
func (p *Page) parts() []*part {
	all := []*part{{page: p}}
	var b strings.Builder
	end := func() {
		at := all[len(all)-1]
		at.text = strings.Join(strings.Fields(b.String()), " ")
		at.words, at.heads, at.titles = map[string]int{}, set(at.heading), set(p.Title)
		for _, w := range stems(at.text) {
			at.words[w]++
		}
		b.Reset()
	}
	_ = ast.Walk(p.root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			if n.Type() == ast.TypeBlock {
				b.WriteByte(' ')
			}
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			if id, ok := n.AttributeString("id"); ok && n.Level > 1 && n.Level <= 3 {
				end()
				all = append(all, &part{page: p, heading: plain(n, p.source), id: string(id.([]byte))})
			}
			return ast.WalkSkipChildren, nil
		case *ast.Text:
			b.Write(n.Segment.Value(p.source))
			if n.SoftLineBreak() || n.HardLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.FencedCodeBlock:
			for i := range n.Lines().Len() {
				at := n.Lines().At(i)
				b.Write(at.Value(p.source))
			}
		}
		return ast.WalkContinue, nil
	})
	end()
	return all
}

// stems returns the words of a text, as they are compared: small, and without the endings by which
// forms of one word differ.
func stems(text string) []string {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	for i, w := range words {
		for _, ending := range []string{"ing", "ed", "es", "s", "e"} {
			if short, found := strings.CutSuffix(w, ending); found && len(short) > 3 {
				words[i] = short
				break
			}
		}
	}
	return words
}

func set(text string) map[string]bool {
	m := map[string]bool{}
	for _, w := range stems(text) {
		m[w] = true
	}
	return m
}

// Search returns the places that fit a query best. A word counts the more the fewer places have it
// (idf: Spärck Jones, 1972), and in a heading or a title more than in the text. The caller
// bounds the query.
func (s *Site) Search(query string) []Result {
	words := stems(query)
	slices.Sort(words)
	words = slices.Compact(words)
	type hit struct {
		*part
		score float64
	}
	var hits []hit
	idf := make([]float64, len(words))
	for i, w := range words {
		n := 1
		for _, at := range s.search {
			if at.words[w] > 0 || at.heads[w] {
				n++
			}
		}
		idf[i] = math.Log(float64(len(s.search)+1) / float64(n))
	}
	for _, at := range s.search {
		h := hit{part: at}
		for i, w := range words {
			n := at.words[w]
			weight := float64(n) / float64(n+2)
			if at.heads[w] {
				weight += 1.5
			}
			if at.titles[w] {
				weight++
			}
			h.score += weight * idf[i]
		}
		if h.score > 0 {
			hits = append(hits, h)
		}
	}
	slices.SortStableFunc(hits, func(a, b hit) int { return cmp.Compare(b.score, a.score) })
	var results []Result
	for _, h := range hits[:min(len(hits), maxResults)] {
		r := Result{Path: h.page.Path, Title: h.page.Title, Heading: h.heading, Excerpt: h.excerpt(words)}
		if h.id != "" {
			r.Path += "#" + h.id
		}
		results = append(results, r)
	}
	return results
}

// excerpt returns the text from a little before the first of some words on.
func (p *part) excerpt(words []string) string {
	from, fields := 0, strings.Fields(p.text)
	for i, f := range fields {
		if slices.ContainsFunc(stems(f), func(w string) bool { return slices.Contains(words, w) }) {
			from = max(0, i-8)
			break
		}
	}
	var b strings.Builder
	for i, f := range fields[from:] {
		if b.Len() > excerptLen {
			b.WriteString(" …")
			break
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(f)
	}
	if from > 0 {
		return "… " + b.String()
	}
	return b.String()
}

var found = template.Must(template.New("found").Parse(`<h1>Search</h1>
{{- if not .Query}}
<p>Enter what you look for above.</p>
{{- else if not .Results}}
<p>Nothing here has “{{.Query}}”. The pages are listed beside this text.</p>
{{- else}}
<p>For “{{.Query}}”:</p>
<ol class="found">{{range .Results}}
<li><a href="{{$.Base}}{{.Path}}">{{.Title}}{{with .Heading}}: {{.}}{{end}}</a><br>{{.Excerpt}}</li>{{end}}
</ol>
{{- end}}`))

// serveSearch answers a search, the query in q.
func (s *Site) serveSearch(w http.ResponseWriter, r *http.Request) {
	query := strings.TrimSpace(r.URL.Query().Get("q"))
	query = strings.ToValidUTF8(query[:min(len(query), maxQuery)], "")
	var body, out bytes.Buffer
	err := found.Execute(&body, struct {
		Base, Query string
		Results     []Result
	}{s.base, query, s.Search(query)})
	if err == nil {
		v := view{Page: &Page{Path: "search", Title: "Search"}, Base: s.base, Sections: s.sections, Body: template.HTML(body.String()), Query: query}
		err = layout.Execute(&out, v)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(out.Bytes()) // the caller has gone: nobody to tell
}
