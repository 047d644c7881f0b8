package markdown

import (
	"bytes"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

const (
	MaxDepth = 16   // elements within each other
	MaxNodes = 2000 // texts and elements
)

var markdown = goldmark.New(
	goldmark.WithExtensions(extension.Linkify, extension.Strikethrough),
	goldmark.WithParserOptions(
		parser.WithParagraphTransformers(util.Prioritized(boundedTables{extension.NewTableParagraphTransformer()}, 200)),
		parser.WithASTTransformers(util.Prioritized(extension.NewTableASTTransformer(), 0)),
	),
)

// boundedTables leaves a paragraph alone that could become a table of more than
// MaxNodes cells.
type boundedTables struct{ parser.ParagraphTransformer }

func (b boundedTables) Transform(p *ast.Paragraph, r text.Reader, pc parser.Context) {
	lines, columns := p.Lines().Len(), 0
	for i := range lines {
		line := p.Lines().At(i)
		columns = max(columns, bytes.Count(line.Value(r.Source()), []byte("|"))+1)
	}
	if lines*columns <= MaxNodes {
		b.ParagraphTransformer.Transform(p, r, pc)
	}
}

// Nodes returns the tree of a Markdown text.
func Nodes(source string) []Node {
	t := tree{source: []byte(strings.ToValidUTF8(source, "\ufffd")), left: MaxNodes}
	return t.children(markdown.Parser().Parse(text.NewReader(t.source)), 0, false)
}

// tree builds the nodes of a source.
type tree struct {
	source []byte
	left   int // nodes that may still be made
}

// children returns the nodes of what is in n. They are depth elements deep; linked
// says that one of those is a link.
func (t *tree) children(n ast.Node, depth int, linked bool) []Node {
	return t.from(n.FirstChild(), depth, linked)
}

// from returns the nodes of c and its later siblings.
func (t *tree) from(c ast.Node, depth int, linked bool) (out []Node) {
	for ; c != nil; c = c.NextSibling() {
		switch c := c.(type) {
		case *ast.Text:
			if !c.HardLineBreak() || t.left <= 0 {
				out = t.addText(out, t.plain(c))
			} else {
				out = t.add(t.addText(out, t.line(c)), Node{Tag: "br"})
			}
		case *ast.RawHTML:
			out = t.addText(out, t.plain(c))
		case *ast.TextBlock: // what an item of a tight list says
			out = append(out, t.children(c, depth, linked)...)
		case *ast.LinkReferenceDefinition:
		default:
			if t.left <= 0 || depth >= MaxDepth {
				out = t.addText(out, t.plain(c))
			} else {
				out = t.addElement(out, c, depth, linked)
			}
		}
	}
	return out
}

// addText appends a text: to the last node, if that is one, too.
func (t *tree) addText(out []Node, s string) []Node {
	switch last := len(out) - 1; {
	case s == "":
		return out
	case last >= 0 && out[last].Tag == "":
		out[last].Text += s
		return out
	}
	return t.add(out, Node{Text: s})
}

func (t *tree) add(out []Node, n Node) []Node {
	t.left--
	return append(out, n)
}

// addElement appends the element of n.
func (t *tree) addElement(out []Node, n ast.Node, depth int, linked bool) []Node {
	el := Node{Tag: tag(n)}
	t.left--
	switch n := n.(type) {
	case *ast.CodeBlock, *ast.FencedCodeBlock:
		el.Children = t.add(nil, Node{Tag: "code", Children: t.addText(nil, strings.TrimSuffix(t.plain(n), "\n"))})
	case *ast.HTMLBlock:
		el.Children = t.addText(nil, strings.TrimSuffix(t.plain(n), "\n"))
	case *ast.AutoLink:
		el.Href, el.Children = autoHref(n, t.source), t.addText(nil, t.plain(n))
	case *ast.Link:
		el.Href, el.Children = href(n.Destination), t.children(n, depth+1, true)
	case *ast.Image:
		if linked {
			return t.addText(out, t.plain(n))
		}
		el.Href, el.Children = href(n.Destination), t.addText(nil, t.plain(n))
	case *extast.Table:
		el.Children = t.table(n, depth+1)
	default:
		el.Children = t.children(n, depth+1, linked)
	}
	return append(out, el)
}

// table returns the parts of a table: its first row is the head.
func (t *tree) table(n *extast.Table, depth int) []Node {
	head := n.FirstChild()
	out := t.add(nil, Node{Tag: "thead", Children: t.add(nil, Node{Tag: "tr", Children: t.children(head, depth+2, false)})})
	if body := t.from(head.NextSibling(), depth+1, false); len(body) > 0 {
		out = t.add(out, Node{Tag: "tbody", Children: body})
	}
	return out
}
