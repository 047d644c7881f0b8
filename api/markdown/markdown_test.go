package markdown

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestNodes(t *testing.T) {
	for _, c := range []struct{ name, source, want string }{
		{"nothing", "", `null`},
		{"paragraphs", "one\ntwo\n\nthree", `[{"tag":"p","children":["one\ntwo"]},{"tag":"p","children":["three"]}]`},
		{"headings", "# a\n## b\n##### c\nd\n===", `[{"tag":"h3","children":["a"]},{"tag":"h4","children":["b"]},{"tag":"h5","children":["c"]},{"tag":"h3","children":["d"]}]`},
		{"emphasis", "*a* **b** ~~c~~ `d  e`", `[{"tag":"p","children":[{"tag":"em","children":["a"]}," ",{"tag":"strong","children":["b"]}," ",{"tag":"del","children":["c"]}," ",{"tag":"code","children":["d  e"]}]}]`},
		{"tight list", "- a\n- b\n  1. c", `[{"tag":"ul","children":[{"tag":"li","children":["a"]},{"tag":"li","children":["b",{"tag":"ol","children":[{"tag":"li","children":["c"]}]}]}]}]`},
		{"loose list", "3. a\n\n4. b", `[{"tag":"ol","children":[{"tag":"li","children":[{"tag":"p","children":["a"]}]},{"tag":"li","children":[{"tag":"p","children":["b"]}]}]}]`},
		{"quote, rule, break", "> a  \n> b\n\n---", `[{"tag":"blockquote","children":[{"tag":"p","children":["a",{"tag":"br"},"b"]}]},{"tag":"hr"}]`},
		{"code", "```go\nx := 1 < 2\n\n```\n\n    y", `[{"tag":"pre","children":[{"tag":"code","children":["x := 1 < 2\n"]}]},{"tag":"pre","children":[{"tag":"code","children":["y"]}]}]`},
		{"code over lines", "`a\nb`", `[{"tag":"p","children":[{"tag":"code","children":["a b"]}]}]`},
		{"escapes", `\*a\* &amp; &#65; \&amp; &lt; &nope; C:\dir 1 < 2`, `[{"tag":"p","children":["*a* & A &amp; < &nope; C:\\dir 1 < 2"]}]`},
		{"invalid text", "a\xff\x00b", `[{"tag":"p","children":["a��b"]}]`},

		{"link", "[*a* b](https://example.com/?q=1&r=2 \"title\")", `[{"tag":"p","children":[{"tag":"a","href":"https://example.com/?q=1&r=2","children":[{"tag":"em","children":["a"]}," b"]}]}]`},
		{"reference", "[a][b]\n\n[b]: http://example.com", `[{"tag":"p","children":[{"tag":"a","href":"http://example.com","children":["a"]}]}]`},
		{"bare links", "see https://example.com/a, www.example.com or ada@example.com", `[{"tag":"p","children":["see ",{"tag":"a","href":"https://example.com/a","children":["https://example.com/a"]},", ",{"tag":"a","href":"http://www.example.com","children":["www.example.com"]}," or ",{"tag":"a","href":"mailto:ada@example.com","children":["ada@example.com"]}]}]`},
		{"mail", "<mailto:ada@example.com>", `[{"tag":"p","children":[{"tag":"a","href":"mailto:ada@example.com","children":["mailto:ada@example.com"]}]}]`},
		{"schemes", "[a](javascript:alert(1)) [b](JaVaScRiPt:x) [c](data:text/html,x) [d](//example.com) [e](#/work) [f](https:x) [g](&#106;avascript:x) [h](HTTPS://example.com) <vbscript:x>",
			`[{"tag":"p","children":[{"tag":"a","children":["a"]}," ",{"tag":"a","children":["b"]}," ",{"tag":"a","children":["c"]}," ",{"tag":"a","children":["d"]}," ",{"tag":"a","children":["e"]}," ",{"tag":"a","children":["f"]}," ",{"tag":"a","children":["g"]}," ",{"tag":"a","href":"HTTPS://example.com","children":["h"]}," ",{"tag":"a","children":["vbscript:x"]}]}]`},
		{"image", "![a *b*](https://example.com/x.png)", `[{"tag":"p","children":[{"tag":"a","href":"https://example.com/x.png","children":["a b"]}]}]`},
		{"image in a link", "[![alt](https://a.example/x.png) b](https://b.example)", `[{"tag":"p","children":[{"tag":"a","href":"https://b.example","children":["alt b"]}]}]`},

		{"inline html", "a <b onclick=\"x()\">c</b>", `[{"tag":"p","children":["a <b onclick=\"x()\">c</b>"]}]`},
		{"html block", "<script>\nalert(1)\n</script>\n\nb", `[{"tag":"p","children":["<script>\nalert(1)\n</script>"]},{"tag":"p","children":["b"]}]`},

		{"table", "|a|*b*|\n|:-|-|\n|1|\n|2|3|4|", `[{"tag":"table","children":[{"tag":"thead","children":[{"tag":"tr","children":[{"tag":"th","children":["a"]},{"tag":"th","children":[{"tag":"em","children":["b"]}]}]}]},{"tag":"tbody","children":[{"tag":"tr","children":[{"tag":"td","children":["1"]},{"tag":"td"}]},{"tag":"tr","children":[{"tag":"td","children":["2"]},{"tag":"td","children":["3"]}]}]}]}]`},
		{"table without rows", "a|b\n-|-", `[{"tag":"table","children":[{"tag":"thead","children":[{"tag":"tr","children":[{"tag":"th","children":["a"]},{"tag":"th","children":["b"]}]}]}]}]`},
	} {
		var want bytes.Buffer
		json.HTMLEscape(&want, []byte(c.want))
		if got := marshal(t, Nodes(c.source)); got != want.String() {
			t.Errorf("%s: %q is\n%s, want\n%s", c.name, c.source, got, want.String())
		}
	}
}

func marshal(t testing.TB, v any) string {
	t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// What is too deep, or too much, is there as text.
func TestBounds(t *testing.T) {
	for _, c := range []struct{ name, source string }{
		{"deep quotes", strings.Repeat(">", 100) + " end"},
		{"deep lists", strings.Repeat("- ", 100) + "end"},
		{"many paragraphs", strings.Repeat("a\n\n", 5000) + "end"},
		{"many words", strings.Repeat("*a* ", 4000) + "end"},
		{"many breaks", strings.Repeat("a\\\n", 5000) + "end"},
		{"many rows", "|a|b|\n|-|-|\n" + strings.Repeat("|1|2|\n", 2000) + "|end|x|"},
		{"rows that lack cells", strings.Repeat("|a", 2000) + "|\n" + strings.Repeat("|-", 2000) + "|\n" + strings.Repeat("1\n", 4000) + "end"},
		{"a table that is deep", strings.Repeat("> ", MaxDepth-1) + "|a|\n" + strings.Repeat("> ", MaxDepth-1) + "|-|\n" + strings.Repeat("> ", MaxDepth-1) + "|*end*|"},
	} {
		nodes := Nodes(c.source)
		checkBounds(t, c.name, nodes)
		if !strings.Contains(marshal(t, nodes), "end") {
			t.Errorf("%s: the end of the text is lost", c.name)
		}
	}
}

func checkBounds(t testing.TB, name string, nodes []Node) {
	t.Helper()
	if n, d := measure(nodes); n > MaxNodes+2*MaxDepth || d > MaxDepth+3 {
		t.Errorf("%s: %d nodes, %d deep", name, n, d)
	}
}

// measure counts nodes, and how many elements are within each other.
func measure(nodes []Node) (count, depth int) {
	for _, n := range nodes {
		c, d := measure(n.Children)
		count += c + 1
		if n.Tag != "" {
			depth = max(depth, d+1)
		}
	}
	return count, depth
}

// Texts that are known to make parsers take for ever come to an end: each takes up to 0.2 s, and ten
// times that under the race detector on a busy machine.
func TestSlowTexts(t *testing.T) {
	const size = 16 << 10
	of := func(s string) string { return strings.Repeat(s, size/len(s)) }
	for _, s := range []string{
		of("["), of("]"), of("[]("), of("![[]()"), of("[a]("), of("<"), of("<!--"), of("<a "), of("`a``"), of("*a **a "), of("*_"), of("a**b_c* "), of("_a __a "), of("~~a~"),
		of(">"), of("- "), of("> a\n"), of("1. "), of("&"), of("\\"), of("www."), of("http://"), of("a@"), of("|"), of("[a]: b\n"), of("[a]:"), of("```\n"), of("<https:"), of("\t"), of("-\n"), of("- a\n\n "), of("*\t"), of("(((("),
		"[a](<" + of("b"), of("a") + "](", of("https://a.b/(") + of(")"), strings.Repeat("a|", 1000) + "\n" + strings.Repeat("-|", 1000) + "\n" + of("a\n"),
	} {
		start := time.Now()
		Nodes(s)
		if took := time.Since(start); took > time.Minute {
			t.Errorf("%q takes %v", s[:20], took)
		} else if testing.Verbose() {
			t.Logf("%q: %v", s[:10], took)
		}
	}
}

// FuzzNodes checks that any text makes a tree within its bounds, of known tags, with no
// link that leads elsewhere than it may, and no link in another.
func FuzzNodes(f *testing.F) {
	for _, s := range []string{"# a\n\n- b *c*\n  1. d\n\n> e\n\n|a|b|\n|-|-|\n|1|`2`|", "[a](https://b) ![c](d) <e@f.g> [h](javascript:i)", "<b>a</b>\n\n<!-- c\n-->", "```\na\n```\n\\* &amp; \x00\xff  \nb", "[![a](b)](c)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		nodes := Nodes(s)
		checkBounds(t, "fuzz", nodes)
		checkNodes(t, nodes, false)
		marshal(t, nodes)
	})
}

func checkNodes(t *testing.T, nodes []Node, linked bool) {
	for _, n := range nodes {
		link := n.Tag == "a"
		switch {
		case n.Tag == "" && (n.Text == "" || n.Children != nil || n.Href != ""):
			t.Errorf("text %+v", n)
		case n.Tag != "" && (n.Text != "" || !strings.Contains(" p h3 h4 h5 ul ol li em strong del code pre blockquote a br hr table thead tbody tr th td ", " "+n.Tag+" ")):
			t.Errorf("element %+v", n)
		case n.Href != "" && !(link && allowed(n.Href)):
			t.Errorf("%s leads to %s", n.Tag, n.Href)
		case link && linked:
			t.Errorf("a link in a link: %+v", n)
		}
		checkNodes(t, n.Children, linked || link)
	}
}

func allowed(href string) bool {
	scheme, _, _ := strings.Cut(strings.ToLower(href), ":")
	return scheme == "http" || scheme == "https" || scheme == "mailto"
}
