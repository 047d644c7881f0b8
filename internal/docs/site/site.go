package site

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io/fs"
	"path"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

const (
	index = "README.md"
	// repository shows the files that pages link to and that are no pages.
	repository = "https://github.com/streamwright/streamwright/blob/main/"
)

var (
	//go:embed page.html
	layoutText string
	//go:embed site.css
	css    []byte
	layout = template.Must(template.New("page").Parse(layoutText))

	markdown = goldmark.New(
		goldmark.WithExtensions(extension.Linkify, extension.Strikethrough,
			extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute))),
		goldmark.WithParserOptions(parser.WithAutoHeadingID()),
	)
)

// Page is one page of the site.
type Page struct {
	File  string // below docs: guides/FLOW.md
	Path  string // below the site's root: guides/flow; empty for the index
	Title string
	HTML  []byte
	// Playground is set if the page has one: see playground.go.
	Playground bool

	root     ast.Node
	source   []byte
	headings []Heading
}

// Heading is an entry of a page's table of contents.
type Heading struct {
	ID, Text string
	Deep     bool // below another one
}

// Section is a part of the list of pages.
type Section struct {
	Title string
	Pages []*Page
}

// Site is the documentation as HTML, by path.
type Site struct {
	base     string
	files    fs.FS
	play     fs.FS // the files of the playground
	wasm     bool  // all of which are there
	byURL    map[string]*Page
	all      []*Page // in reading order, the index first
	sections []Section
	search   []*part
}

// Build renders the Markdown pages of files. Base is the URL path of the site,
// with a slash at both ends.
func Build(files fs.FS, base string) (*Site, error) { return buildWith(files, embedded, base) }

// buildWith is Build with other files of the playground.
func buildWith(files, play fs.FS, base string) (*Site, error) {
	s := &Site{base: base, files: files, play: play, wasm: true, byURL: map[string]*Page{}}
	for name := range playgroundFiles {
		_, _, there := s.file("playground/" + name)
		s.wasm = s.wasm && there
	}
	first, err := s.add(index)
	if err != nil {
		return nil, err
	}
	if err := s.readIndex(first); err != nil {
		return nil, err
	}
	for _, p := range s.all {
		s.relink(p)
		s.playground(p)
	}
	for i, p := range s.all {
		if p.File != index { // which only lists the others
			s.search = append(s.search, p.parts()...)
		}
		if err := s.render(i); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// urlOf is the path of a Markdown file within the site.
func urlOf(file string) string {
	if file == index {
		return ""
	}
	return strings.ToLower(strings.TrimSuffix(file, ".md"))
}

func (s *Site) add(file string) (*Page, error) {
	source, err := fs.ReadFile(s.files, file)
	if err != nil {
		return nil, fmt.Errorf("read page: %w", err)
	}
	p := &Page{File: file, Path: urlOf(file), source: source, root: markdown.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(anchors{}))))}
	for n := p.root.FirstChild(); n != nil; n = n.NextSibling() {
		h, ok := n.(*ast.Heading)
		if !ok {
			continue
		}
		if h.Level == 1 && p.Title == "" {
			p.Title = plain(h, source)
		} else if id, ok := h.AttributeString("id"); ok && h.Level <= 3 {
			p.headings = append(p.headings, Heading{ID: string(id.([]byte)), Text: plain(h, source), Deep: h.Level == 3})
		}
	}
	s.all = append(s.all, p)
	s.byURL[p.Path] = p
	return p, nil
}

// readIndex adds the pages that the index lists, in its order.
func (s *Site) readIndex(first *Page) error {
	return ast.Walk(first.root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			if n.Level == 2 {
				s.sections = append(s.sections, Section{Title: plain(n, first.source)})
			}
		case *ast.Link:
			file := path.Clean(string(n.Destination))
			if len(s.sections) == 0 || !fs.ValidPath(file) || path.Ext(file) != ".md" || s.byURL[urlOf(file)] != nil {
				return ast.WalkContinue, nil
			}
			p, err := s.add(file)
			if err != nil {
				return ast.WalkStop, err
			}
			part := &s.sections[len(s.sections)-1]
			part.Pages = append(part.Pages, p)
		}
		return ast.WalkContinue, nil
	})
}

// relink points a page's links to the site's pages, or to the repository.
// Screenshots, which are not embedded, become links.
func (s *Site) relink(p *Page) {
	var images []*ast.Image
	_ = ast.Walk(p.root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Link:
			n.Destination = []byte(s.target(p, string(n.Destination)))
		case *ast.Image:
			images = append(images, n)
		}
		return ast.WalkContinue, nil
	})
	for _, image := range images {
		link := ast.NewLink()
		link.Destination = []byte(s.target(p, string(image.Destination)))
		link.AppendChild(link, ast.NewString([]byte("Picture: "+plain(image, p.source))))
		image.Parent().ReplaceChild(image.Parent(), image, link)
	}
}

// target is the URL of a page's link.
func (s *Site) target(p *Page, link string) string {
	if strings.HasPrefix(link, "#") || strings.Contains(link, "://") {
		return link
	}
	file, fragment, _ := strings.Cut(link, "#")
	if fragment != "" {
		fragment = "#" + fragment
	}
	file = path.Join("docs", path.Dir(p.File), file)
	if below, ok := strings.CutPrefix(file, "docs/"); ok {
		if to := s.byURL[urlOf(below)]; to != nil {
			return s.base + to.Path + fragment
		}
	}
	return repository + file + fragment
}

// view holds the data of the layout.
type view struct {
	*Page
	Base       string
	Sections   []Section
	Contents   []Heading
	Body       template.HTML
	Prev, Next *Page
	Query      string // of a search
}

func (s *Site) render(i int) error {
	p := s.all[i]
	var body, out bytes.Buffer
	if err := markdown.Renderer().Render(&body, p.source, p.root); err != nil {
		return fmt.Errorf("render %s: %w", p.File, err)
	}
	v := view{Page: p, Base: s.base, Sections: s.sections, Contents: p.headings, Body: template.HTML(body.String())}
	if i > 0 {
		v.Prev = s.all[i-1]
	}
	if i+1 < len(s.all) {
		v.Next = s.all[i+1]
	}
	if err := layout.Execute(&out, v); err != nil {
		return fmt.Errorf("lay out %s: %w", p.File, err)
	}
	p.HTML = out.Bytes()
	return nil
}

// anchors names headings as GitHub does, so that a link to one works in both
// places. It counts the names given so far.
type anchors map[string]int

func (a anchors) Generate(value []byte, _ ast.NodeKind) []byte {
	id := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(string(value)))
	n := a[id]
	a[id]++
	if n > 0 {
		id = fmt.Sprintf("%s-%d", id, n)
	}
	return []byte(id)
}

func (a anchors) Put(value []byte) { a[string(value)]++ }

// plain is the text of a node, without its marks.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if t, ok := n.(*ast.Text); ok && entering {
			b.Write(t.Segment.Value(source))
			if t.SoftLineBreak() {
				b.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}
