package config

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// MaxFileBytes bounds the configuration file.
const MaxFileBytes = 1 << 20

// Error is one fault of a configuration.
type Error struct {
	File string // empty for a Config that came from no file
	Line int    // from 1; 0 if unknown
	Key  string // dotted, such as types.email.lease
	Msg  string

	at string // the key of its place, if below Key: see elementKey
}

func (e *Error) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File + ":")
		if e.Line > 0 {
			fmt.Fprintf(&b, "%d:", e.Line)
		}
		b.WriteByte(' ')
	}
	if e.Key != "" {
		b.WriteString(e.Key + " ")
	}
	return b.String() + e.Msg
}

// Load reads, completes and validates a file. The error joins an [*Error] for
// each fault.
func Load(path string) (Config, error) {
	info, err := os.Stat(path)
	if err == nil && info.Size() > MaxFileBytes {
		err = fmt.Errorf("%s has %d bytes: at most %d are read", path, info.Size(), MaxFileBytes)
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(path)
	}
	if err != nil {
		return Config{}, fmt.Errorf("read configuration: %w", err)
	}
	return Parse(path, data)
}

// Parse is Load for a file's content; errors call it by the name in file.
func Parse(file string, data []byte) (Config, error) {
	var root map[string]any
	if err := toml.Unmarshal(data, &root); err != nil {
		return Config{}, syntaxError(file, err)
	}
	r := reader{file: file, lines: lines(data)}
	// The defaults come first, so that a zero in the file is seen as one.
	c := Default()
	r.table(nil, root, c.fields())
	named, _ := root["workers"].(map[string]any)
	_, beat := named["heartbeat_interval"]
	_, dead := named["dead_after"]
	c.Workers.fit(beat, dead)
	whole := c
	if whole.Cluster.On() && whole.Cluster.Node == "" {
		whole.Cluster.Node = "node" // one file may be for all nodes: --node says which this is
	}
	if err := whole.Validate(); err != nil {
		r.locate(err)
	}
	if len(r.errs) == 0 {
		return c, nil
	}
	// Tables are read in random order: sort errors by line, then by text.
	slices.SortFunc(r.errs, func(a, b *Error) int { return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Error(), b.Error())) })
	return Config{}, join(r.errs)
}

func syntaxError(file string, err error) error {
	e := &Error{File: file, Msg: strings.TrimPrefix(err.Error(), "toml: ")}
	var d *toml.DecodeError
	if errors.As(err, &d) {
		e.Line, _ = d.Position()
		e.Key = strings.Join(d.Key(), ".")
	}
	return e
}

// reader walks the decoded file along the fields and collects faults.
type reader struct {
	file  string
	lines map[string]int // by dotted key
	errs  []*Error
}

func (r *reader) fail(path []string, format string, args ...any) {
	r.add(&Error{Key: strings.Join(path, "."), Msg: fmt.Sprintf(format, args...)})
}

// add collects an error, with its place in the file.
func (r *reader) add(e *Error) {
	e.File, e.Line = r.file, r.line(cmp.Or(e.at, e.Key))
	r.errs = append(r.errs, e)
}

// elementKey returns a key for an element of a list of tables, to find its line.
func elementKey(key string, index int) string { return fmt.Sprintf("%s#%d", key, index) }

// line returns the line of key, or of the nearest element or table above it.
func (r *reader) line(key string) int {
	for {
		if n, ok := r.lines[key]; ok {
			return n
		}
		i := strings.LastIndexAny(key, ".#")
		if i < 0 {
			return 0
		}
		key = key[:i]
	}
}

func (r *reader) table(path []string, t map[string]any, fields []field) {
	known := make(map[string]field, len(fields))
	for _, f := range fields {
		if f.key != "" {
			known[f.key] = f
		}
	}
	for key, v := range t {
		at := append(slices.Clone(path), key)
		if f, ok := known[key]; ok {
			r.field(at, f, v)
			continue
		}
		r.fail(at, "%s", unknown(key, v, fields))
	}
	for _, f := range fields {
		if f.key == "" {
			_ = f.set(nil)
		}
	}
}

func (r *reader) field(at []string, f field, v any) {
	t, isTable := v.(map[string]any)
	switch {
	case f.table == nil || (f.set != nil && !isTable):
		for _, e := range faults(strings.Join(at, "."), f.set(v)) {
			r.add(e)
		}
	case !isTable:
		r.fail(at, "is %s: it must be a table", show(v))
	case f.each == "":
		fields, _ := f.table("")
		r.table(at, t, fields)
	default:
		r.tables(at, f, t)
	}
}

// tables reads the tables below one, such as [types.email] below types.
func (r *reader) tables(at []string, f field, t map[string]any) {
	for key, v := range t {
		below := append(slices.Clone(at), key)
		fields, err := f.table(key)
		if err != nil {
			r.fail(below, "%s", err)
			continue
		}
		sub, ok := v.(map[string]any)
		if !ok {
			r.fail(below, "is %s: it must be a table, [%s]", show(v), strings.Join(below, "."))
			continue
		}
		r.table(below, sub, fields)
	}
}

// unknown says what is wrong with a key that is none of the fields: the unit that the
// API writes into names ("lease_ms"), or a typo.
func unknown(key string, v any, fields []field) string {
	for _, f := range fields {
		unit := unitOf(f.kind)
		if plain := strings.TrimSuffix(f.key, "_size"); unit == "" || key != f.key+unit && key != plain+unit {
			continue
		}
		switch n, _ := v.(int64); {
		case n > 0 && f.kind == "size":
			v = FormatSize(n)
		case n > 0:
			v = ofMillis(n)
		}
		if text, ok := v.(string); ok {
			return fmt.Sprintf("is called %s here: write %[1]s = %q", f.key, text)
		}
		return fmt.Sprintf("is called %s here", f.key)
	}
	return "is no setting: " + suggest(key, fields)
}

// suggest names the key that is nearest to a wrong one, or else all keys.
func suggest(key string, fields []field) string {
	var names []string
	best, near := 3, ""
	for _, f := range fields {
		if f.key == "" {
			continue
		}
		names = append(names, f.key)
		plain := strings.TrimPrefix(f.key, "per_") // who forgets it means this
		if d := min(distance(key, f.key), distance(key, plain)); d < best {
			best, near = d, f.key
		}
	}
	if near != "" {
		return fmt.Sprintf("did you mean %s?", near)
	}
	return "known here are " + strings.Join(names, ", ")
}

// distance returns the number of edits (insert, delete, replace) from a to b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diag := row[0]
		row[0] = i + 1
		for j := range len(b) {
			if a[i] != b[j] {
				diag++
			}
			diag, row[j+1] = row[j+1], min(diag, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// locate collects the errors of Validate, except for keys that reading has already
// complained of.
func (r *reader) locate(err error) {
	said := make(map[string]bool, len(r.errs))
	for _, e := range r.errs {
		said[e.Key] = true
	}
	for _, e := range faults("", err) {
		if !said[e.Key] {
			r.add(e)
		}
	}
}

// lines finds the line of each key of a document that is known to be sound, and of
// each element of its lists of tables.
func lines(data []byte) map[string]int {
	at, elements := map[string]int{}, map[string]int{}
	var p unstable.Parser
	p.Reset(data)
	var table string
	for p.NextExpression() {
		n := p.Expression()
		switch n.Kind {
		case unstable.Table:
			table = keyLines(&p, "", n.Key(), at)
		case unstable.ArrayTable:
			line := lineOf(&p, n.Key())
			list := keyLines(&p, "", n.Key(), at)
			table = elementKey(list, elements[list])
			elements[list]++
			at[table] = line
		case unstable.KeyValue:
			valueLines(&p, table, n, at)
		}
	}
	return at
}

// keyLines notes the line of each part of a dotted key and returns it whole.
func keyLines(p *unstable.Parser, prefix string, it unstable.Iterator, at map[string]int) string {
	for it.Next() {
		n := it.Node()
		if prefix != "" {
			prefix += "."
		}
		prefix += string(n.Data)
		if _, ok := at[prefix]; !ok {
			at[prefix] = p.Shape(n.Raw).Start.Line
		}
	}
	return prefix
}

func valueLines(p *unstable.Parser, prefix string, kv *unstable.Node, at map[string]int) {
	inlineLines(p, keyLines(p, prefix, kv.Key(), at), kv.Value(), at)
}

// inlineLines notes the lines of the keys in an inline table, or in a list of them.
func inlineLines(p *unstable.Parser, key string, v *unstable.Node, at map[string]int) {
	switch v.Kind {
	case unstable.InlineTable:
		for it := v.Children(); it.Next(); {
			valueLines(p, key, it.Node(), at)
		}
	case unstable.Array:
		i := 0
		for it := v.Children(); it.Next(); i++ {
			inlineLines(p, elementKey(key, i), it.Node(), at)
		}
	}
}

// lineOf returns the line of a key.
func lineOf(p *unstable.Parser, it unstable.Iterator) int {
	if !it.Next() {
		return 0
	}
	return p.Shape(it.Node().Raw).Start.Line
}
