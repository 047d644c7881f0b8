package markdown

import (
	"net/url"
	"strings"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/util"
)

// tags are those of nodes that always have the same one.
var tags = map[ast.NodeKind]string{
	ast.KindParagraph: "p", ast.KindHTMLBlock: "p", ast.KindListItem: "li", ast.KindBlockquote: "blockquote",
	ast.KindThematicBreak: "hr", ast.KindCodeSpan: "code", ast.KindCodeBlock: "pre", ast.KindFencedCodeBlock: "pre",
	ast.KindLink: "a", ast.KindAutoLink: "a", ast.KindImage: "a", extast.KindStrikethrough: "del",
	extast.KindTable: "table", extast.KindTableRow: "tr",
}

// tag returns the tag of an element.
func tag(n ast.Node) string {
	switch n := n.(type) {
	case *ast.Heading:
		return [...]string{"h3", "h4", "h5"}[min(n.Level, 3)-1]
	case *ast.List:
		if n.IsOrdered() {
			return "ol"
		}
		return "ul"
	case *ast.Emphasis:
		if n.Level == 2 {
			return "strong"
		}
		return "em"
	case *extast.TableCell:
		if n.Parent().Kind() == extast.KindTableHeader {
			return "th"
		}
		return "td"
	}
	return tags[n.Kind()]
}

// href returns the address of a link, empty if a page should not lead there.
func href(destination []byte) string {
	s := string(util.URLEscape(destination, true))
	u, err := url.Parse(s)
	if err != nil {
		return ""
	}
	if u.Scheme == "mailto" || (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" {
		return s
	}
	return ""
}

// autoHref returns the address of a link that is its own text.
func autoHref(n *ast.AutoLink, source []byte) string {
	s := string(n.URL(source))
	if n.AutoLinkType == ast.AutoLinkEmail && !strings.HasPrefix(strings.ToLower(s), "mailto:") {
		s = "mailto:" + s
	}
	return href([]byte(s))
}
