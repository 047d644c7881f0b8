package markdown

import (
	"bufio"
	"bytes"
	stdhtml "html"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
)

// plain returns the text of n and all that is in it. The text of a block ends with a
// line break.
func (t *tree) plain(n ast.Node) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch {
		case entering:
			b.WriteString(t.own(n))
		case n.Type() == ast.TypeBlock && !strings.HasSuffix(b.String(), "\n"):
			b.WriteByte('\n')
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

// own returns the text that n itself has.
func (t *tree) own(n ast.Node) string {
	switch n := n.(type) {
	case *ast.Text:
		if n.HardLineBreak() {
			return t.line(n) + "\n"
		}
		return t.line(n)
	case *ast.RawHTML:
		return t.lines(n.Segments)
	case *ast.AutoLink:
		return string(n.Label(t.source))
	case *ast.HTMLBlock:
		s := t.lines(n.Lines())
		if n.HasClosure() {
			s += string(n.ClosureLine.Value(t.source))
		}
		return s
	case *ast.CodeBlock, *ast.FencedCodeBlock:
		return t.lines(n.Lines())
	}
	return ""
}

func (t *tree) lines(of *text.Segments) string { return string(of.Value(t.source)) }

// line returns the text of a node, with the soft line break after it.
func (t *tree) line(n *ast.Text) string {
	value := n.Segment.Value(t.source)
	if n.IsRaw() { // of code
		return strings.ReplaceAll(string(value), "\n", " ")
	}
	if n.SoftLineBreak() {
		return unescape(value) + "\n"
	}
	return unescape(value)
}

// unescape resolves the backslashes and entities of a text. goldmark does so as it
// writes HTML, whose escapes are undone.
func unescape(value []byte) string {
	if !bytes.ContainsAny(value, "\\&\x00") {
		return string(value)
	}
	var b strings.Builder
	w := bufio.NewWriterSize(&b, len(value))
	html.DefaultWriter.Write(w, value)
	_ = w.Flush() // a Builder takes all
	return stdhtml.UnescapeString(b.String())
}
