package site

import (
	"embed"
	"fmt"
	"html"
	"io/fs"
	"path"
	"strings"

	"github.com/yuin/goldmark/ast"
)

// playgroundPolicy is the policy of a page with a playground: it may also run this site's
// scripts, which load the core as WebAssembly from this site.
const playgroundPolicy = policy + "; script-src 'self' 'wasm-unsafe-eval'; connect-src 'self'"

//go:embed playground
var embedded embed.FS

// playgroundFiles are the files of the playground by name, and their content types. The
// last two are there only if they were built: see playground/README.md.
var playgroundFiles = map[string]string{
	"playground.js":      "text/javascript; charset=utf-8",
	"wasm_exec.js":       "text/javascript; charset=utf-8",
	"playground.wasm.gz": "application/gzip",
}

// playground replaces each comment of a page that begins with the word playground by one,
// whose first commands are the comment's lines. A reader of the Markdown sees none of it.
func (s *Site) playground(p *Page) {
	for n := p.root.FirstChild(); n != nil; n = n.NextSibling() {
		block, ok := n.(*ast.HTMLBlock)
		if !ok {
			continue
		}
		script, ok := strings.CutPrefix(string(block.Lines().Value(p.source)), "<!-- playground\n")
		if !ok {
			continue
		}
		lines := strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(script), "-->"))
		out := "<p class=\"playground\">Here is a playground, in an engine that was built with it: <code>make playground</code>, then build the engine.</p>\n"
		if s.wasm {
			p.Playground = true
			out = fmt.Sprintf("<section class=\"playground\" aria-label=\"Playground\" data-files=\"%splayground/\" data-script=\"%s\">\n<noscript><p>The playground needs JavaScript.</p></noscript>\n</section>\n",
				s.base, html.EscapeString(lines))
		}
		text := ast.NewString([]byte(out))
		text.SetCode(true) // written as it is
		n.Parent().ReplaceChild(n.Parent(), n, text)
		n = text
	}
}

// file returns a file of the playground and its content type; false if it is not there.
func (s *Site) file(at string) ([]byte, string, bool) {
	name, ok := strings.CutPrefix(at, "playground/")
	kind := playgroundFiles[name]
	if !ok || kind == "" {
		return nil, "", false
	}
	data, err := fs.ReadFile(s.play, path.Join("playground", name))
	return data, kind, err == nil
}
