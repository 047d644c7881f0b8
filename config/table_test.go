package config

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/streamwright/streamwright/access/quota"
)

// settingsTable renders every setting as Markdown tables, one for each part of the
// file. docs/reference/CONFIG.md holds it between two marks, and a test compares.
func settingsTable() string {
	var b strings.Builder
	var c Config
	for _, f := range c.fields() {
		if f.each == "" {
			section(&b, "["+f.key+"]", f.doc, f.below())
		}
	}
	section(&b, "[pools.NAME]", "slots that the types which name the pool share", new(Pool).fields())
	section(&b, "[quotas.ROLE]", "what each user with a role (`submit`, `work`, `read`, `operate`) may ask; 0 sets no limit. `[user_quotas.NAME]` has the same keys for one user (of NATS, a token or a client certificate), and wins (see [LIMITS.md](../guides/LIMITS.md#quotas))", quotaFields(new(quota.Limits)))
	section(&b, "[types.NAME]", "the keys of `[defaults]`, for one type, and", new(Type).ownFields())
	section(&b, "[types.NAME.exec]", "the long form of `exec`", new(Exec).fields())
	section(&b, "[schedules.NAME]", "periodic work, which makes an item at each of its ticks (see [SCHEDULES.md](../guides/SCHEDULES.md))", new(Schedule).fields())
	section(&b, "[namespaces.NAME]", "a log of its own in this engine (see [NAMESPACES.md](../guides/NAMESPACES.md)). One that the file no longer has stays, with what it holds: `engine namespace remove` removes it", new(Namespace).fields())
	return b.String()
}

func section(b *strings.Builder, name, doc string, fields []field) {
	fmt.Fprintf(b, "### `%s`\n\n%s\n\n| key | value | default | meaning |\n|---|---|---|---|\n", name, strings.ToUpper(doc[:1])+doc[1:]+":")
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
		case f.below() != nil:
			rows(b, prefix+f.key+".", f.below())
		case f.each != "":
			fmt.Fprintf(b, "| `%s` | table | | %s |\n", prefix+f.key+"."+cmp.Or(f.name, "N"), f.doc)
		default:
			fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", prefix+f.key, f.kind, def, f.doc)
		}
	}
}
