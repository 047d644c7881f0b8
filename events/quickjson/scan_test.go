package quickjson

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// checkScan compares Scan with encoding/json on the whole of a document.
func checkScan(t interface{ Fatalf(string, ...any) }, doc []byte) {
	n := Scan(doc)
	if n > len(doc) {
		t.Fatalf("%q: %d of %d bytes", doc, n, len(doc))
	}
	if n == len(doc) && n > 0 {
		if !json.Valid(doc) || !utf8.Valid(doc) {
			t.Fatalf("%q is taken for JSON", doc)
		}
		return
	}
	blank := len(doc) > 0 && strings.IndexByte(" \t\r\n", doc[0]) >= 0 || len(bytes.TrimSpace(doc)) != len(doc)
	if json.Valid(doc) && utf8.Valid(doc) && !blank && bytes.Count(doc, []byte("["))+bytes.Count(doc, []byte("{")) <= scanDepth {
		t.Fatalf("%q is JSON, and not taken for it: %d", doc, n)
	}
}

var scanSeeds = []string{
	`null`, `true`, `false`, `0`, `-0`, `01`, `-`, `1.`, `.5`, `1e5`, `1E+5`, `1e`, `-12.25e-3`, `"a"`, `"a`, `"\u00e9\n"`, `"\u00g0"`, `"\x"`, "\"\x01\"",
	`{}`, `[]`, `[1,2]`, `[1,]`, `{"a":1}`, `{"a":1,}`, `{"a" : [ 1 , {"b":null} ] }`, `{a:1}`, `{"a"}`, `{"a":}`, `[`, `{`, `]`, `[}`, `{]`, `"<b>&"`, "\"\u2028\"", "\"ü€😀\"", "\"\xff\"", "\"\xe2\x28\"",
	`"` + strings.Repeat("x", 300) + `"`, `nul`, `nulll`, `tru`, `{"a":1}x`, ` 1`, `1 `, ``, `[[[[]]]]`, `{"":""}`, `"\"`, `"\\"`, `"\`,
}

func TestScan(t *testing.T) {
	for _, s := range scanSeeds {
		checkScan(t, []byte(s))
		for i := range s { // cut off anywhere, and with one byte changed
			checkScan(t, []byte(s[:i]))
			for _, c := range []byte("\"\\{}[],:0-e. \x00\xff<") {
				b := []byte(s)
				b[i] = c
				checkScan(t, b)
			}
		}
	}
	if n := Scan([]byte(`{"a":[1]},{"b":2}`)); n != len(`{"a":[1]}`) {
		t.Fatalf("the first of two values has %d bytes", n)
	}
	deep := func(n int) []byte { return []byte(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	if n := Scan(deep(scanDepth)); n != 2*scanDepth {
		t.Fatalf("nesting of %d is not read: %d", scanDepth, n)
	}
	if n := Scan(deep(scanDepth + 2)); n != 0 {
		t.Fatalf("nesting of %d is read", scanDepth+2)
	}
}

func TestScanOfAny(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := []byte(strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{
			"{", "}", "[", "]", ",", ":", `"`, `\`, "a", "0", "1", "-", ".", "e", " ", "\n", "null", "true", "ü", "\u2028", "<", "\xff", "\x1f", `\u12aF`, `"k":`, `"v"`,
		}), 0, 20).Draw(t, "parts"), ""))
		checkScan(t, doc)
		var v any
		if json.Unmarshal(doc, &v) == nil {
			nice, err := json.MarshalIndent(v, "", " ")
			if err != nil {
				t.Fatal(err)
			}
			checkScan(t, nice)
		}
	})
}

func FuzzScan(f *testing.F) {
	for _, s := range scanSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, doc []byte) { checkScan(t, doc) })
}

func BenchmarkScan(b *testing.B) {
	doc := []byte(`{"to":"somebody@example.com","subject":"Hello","body":"` + strings.Repeat("All work and no play. ", 8) + `","n":[1,2,3.5e7],"ok":true}`)
	b.SetBytes(int64(len(doc)))
	b.Run("scan", func(b *testing.B) {
		for b.Loop() {
			Scan(doc)
		}
	})
	b.Run("json", func(b *testing.B) {
		for b.Loop() {
			json.Valid(doc)
		}
	})
}
