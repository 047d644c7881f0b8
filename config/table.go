package config

import (
	"fmt"
	"strings"
)

// Table renders every setting as Markdown tables, one for each part of the
// file. docs/reference/CONFIG.md holds it between two marks, and a test compares.
func Table() string {
	var b strings.Builder
	var c Config
	for _, f := range c.fields() {
		if f.each == "" {
			fields, _ := f.table("")
			section(&b, "["+f.key+"]", f.doc, fields)
		}
	}
	pool, _ := c.poolFields("")
	section(&b, "[pools.NAME]", "slots that the types which name the pool share", pool)
	quotas, _ := c.userQuota("")
	section(&b, "[quotas.ROLE]", "what each user with a role (`submit`, `work`, `read`, `operate`) may ask; 0 sets no limit. `[user_quotas.NAME]` has the same keys for one user (of NATS, a token or a client certificate), and wins (see [LIMITS.md](../guides/LIMITS.md#quotas))", quotas)
	var t Type
	section(&b, "[types.NAME]", "what `[defaults]` has, for one type, and", t.fields()[len(t.Patch.fields()):])
	var e Exec
	section(&b, "[types.NAME.exec]", "the long form of `exec`", e.fields())
	var s Schedule
	section(&b, "[schedules.NAME]", "periodic work, which makes an item at each of its ticks (see [SCHEDULES.md](../guides/SCHEDULES.md))", s.fields())
	return b.String()
}

func section(b *strings.Builder, name, doc string, fields []field) {
	fmt.Fprintf(b, "### `%s`\n\n%s\n\n| key | value | default | meaning |\n|---|---|---|---|\n", name, capital(doc)+":")
	rows(b, "", fields)
	b.WriteByte('\n')
}

func rows(b *strings.Builder, prefix string, fields []field) {
	for _, f := range fields {
		def := f.def
		if def != "" && !strings.Contains(def, " ") {
			def = "`" + def + "`"
		}
		switch {
		case f.key == "":
		case f.table != nil && f.set == nil && f.each == "":
			below, _ := f.table("")
			rows(b, prefix+f.key+".", below)
		case f.each != "":
			n := f.name
			if n == "" {
				n = "N"
			}
			fmt.Fprintf(b, "| `%s` | table | | %s |\n", prefix+f.key+"."+n, f.doc)
		default:
			fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", prefix+f.key, f.kind, def, f.doc)
		}
	}
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
