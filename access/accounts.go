package access

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/streamwright/streamwright/wire"
)

const (
	// MaxAnswer bounds the time that the answer to a Question takes: longer than the
	// longest wait of the API.
	MaxAnswer = 10 * time.Minute
	// MaxProgress bounds the time that the answers to a Long take. The server
	// remembers for all of that time who has asked.
	MaxProgress = 30 * time.Minute
)

func (i Import) compare(other Import) int {
	return cmp.Or(cmp.Compare(i.Local, other.Local), cmp.Compare(i.Subject, other.Subject), cmp.Compare(i.Flow, other.Flow))
}

// account is the user's NATS account.
func (g Grant) account() string { return cmp.Or(g.Account, g.Names.UserAccount(g.User)) }

// Export is a subject that the engine's account lets some users' accounts
// import, and no others.
type Export struct {
	Flow     Flow
	Subject  string
	Accounts []string // sorted
}

// Exports lists what the engine's account must export for all of the grants,
// sorted by subject.
func Exports(grants []Grant) []Export {
	type key struct {
		subject string
		flow    Flow
	}
	all := map[key]*Export{}
	var list []*Export
	for _, g := range grants {
		account := g.account()
		for _, i := range g.Imports() {
			k := key{g.exported(i.Subject), i.Flow}
			e := all[k]
			if e == nil {
				e = &Export{Flow: i.Flow, Subject: k.subject}
				all[k], list = e, append(list, e)
			}
			if len(e.Accounts) == 0 || e.Accounts[len(e.Accounts)-1] != account {
				e.Accounts = append(e.Accounts, account)
			}
		}
	}
	slices.SortFunc(list, func(a, b *Export) int {
		return cmp.Or(cmp.Compare(a.Subject, b.Subject), cmp.Compare(a.Flow, b.Flow))
	})
	out := make([]Export, len(list))
	for n, e := range list {
		slices.Sort(e.Accounts)
		out[n] = *e
	}
	return out
}

// exported is the subject under which the engine's account exports one. Where the engine is
// alone, and has many namespaces, it is the same for all of them: a user is kept to its own
// by its imports, which are the engine's work as well, and a NATS server takes a time for
// exports that grows with the square of their number.
func (g Grant) exported(subject string) string {
	if !g.Alone || g.Mirror != "" || len(g.Namespaces) == 0 {
		return subject
	}
	tokens := strings.Split(subject, ".")
	for i, t := range tokens {
		if i == 0 && g.Names.OwnsSubject(subject) || g.Names.Owns(t) || g.Names.Owns("KV_"+t) {
			tokens[i] = "*"
		}
	}
	return strings.Join(tokens, ".")
}

// Accounts are the NATS accounts of an engine and its users.
type Accounts struct {
	Names  wire.Names
	Grants []Grant // each user's; the engine's account has the streams alone if there are none
	// Login, if set, gives what identifies the user of a name in a nats-server
	// configuration, such as `user: "a", password: "…"`. Without it the accounts
	// have no users.
	Login func(user string) string
	// Engine is the engine's user, with its permissions; for Login alone.
	Engine EngineGrant
}

// Config renders the accounts as a block of a nats-server configuration. The
// embedded server is configured by it, and `engine permissions` prints it.
func (a Accounts) Config() string {
	b := &strings.Builder{}
	b.WriteString("accounts {\n")
	fmt.Fprintf(b, "  %q {\n    jetstream: enabled\n", a.Names.Account())
	if a.Login != nil {
		a.user(b, a.Engine.User, a.Engine.Permissions())
	}
	if len(a.Grants) > 0 {
		exports(b, Exports(a.Grants))
	}
	if sites := a.siteImports(); len(sites) > 0 {
		fmt.Fprintf(b, "    imports = [\n      %s\n    ]\n", strings.Join(sites, "\n      "))
	}
	b.WriteString("  }\n")
	for _, g := range a.Grants {
		fmt.Fprintf(b, "  %q {\n", g.account())
		if l := g.Limits.config(); l != "" {
			b.WriteString("    " + l + "\n")
		}
		if a.Login != nil {
			a.user(b, g.User, g.Permissions())
		}
		if g.Site != "" {
			exports(b, g.siteExports(a.Names.Account()))
		}
		b.WriteString("    imports = [\n")
		for _, i := range g.Imports() {
			fmt.Fprintf(b, "      %s\n", i.config(a.Names.Account()))
		}
		b.WriteString("    ]\n  }\n")
	}
	b.WriteString("}\n")
	return b.String()
}

func exports(b *strings.Builder, list []Export) {
	b.WriteString("    exports = [\n")
	for _, e := range list {
		fmt.Fprintf(b, "      { %s, accounts: [%s] }\n", e.config(), strings.Join(quoted(e.Accounts), ", "))
	}
	b.WriteString("    ]\n")
}

// siteExports lists what a site's account lets the engine's account use of the site's
// JetStream: to look at its stream, to read it, and to drop what has been decided.
func (g Grant) siteExports(engine string) (list []Export) {
	n := g.Names.Site(g.Site)
	stream := n.SiteStream(g.Site)
	for _, r := range []struct {
		flow    Flow
		request string
	}{
		{Request, "STREAM.INFO." + stream}, {Request, "STREAM.PURGE." + stream}, {Request, "CONSUMER.CREATE." + stream + ".>"},
		{Request, "CONSUMER.DELETE." + stream + ".*"}, {Pull, "CONSUMER.MSG.NEXT." + stream + ".*"},
	} {
		list = append(list, Export{Flow: r.flow, Subject: n.JetStream(r.request), Accounts: []string{engine}})
	}
	return list
}

func (a Accounts) siteImports() (list []string) {
	for _, g := range a.Grants {
		if g.Site == "" {
			continue
		}
		for _, e := range g.siteExports(a.Names.Account()) {
			list = append(list, Import{Flow: e.Flow, Subject: e.Subject, Local: e.Subject}.config(g.account()))
		}
	}
	return list
}

func quoted(list []string) []string {
	out := make([]string, len(list))
	for n, s := range list {
		out[n] = fmt.Sprintf("%q", s)
	}
	return out
}

func (a Accounts) user(b *strings.Builder, name string, p Permissions) {
	fmt.Fprintf(b, "    users = [ {\n      %s\n      permissions {\n", a.Login(name))
	for _, l := range []struct {
		what     string
		subjects []string
	}{{"publish", p.Publish}, {"subscribe", p.Subscribe}} {
		fmt.Fprintf(b, "        %s { allow: [\n", l.what)
		for _, s := range l.subjects {
			fmt.Fprintf(b, "          %q\n", s)
		}
		b.WriteString("        ] }\n")
	}
	b.WriteString("      }\n    } ]\n")
}

// config is the export but for who may import it. Messages are not traced
// across accounts: the server's default, stated because a client chooses where
// a trace goes to.
func (e Export) config() string {
	switch e.Flow {
	case Messages:
		return fmt.Sprintf("stream: %q", e.Subject)
	case Pull:
		return fmt.Sprintf("service: %q, response: stream, allow_trace: false", e.Subject)
	case Long:
		return fmt.Sprintf("service: %q, response: stream, threshold: %q, allow_trace: false", e.Subject, MaxProgress)
	case Question:
		return fmt.Sprintf("service: %q, threshold: %q, allow_trace: false", e.Subject, MaxAnswer)
	}
	return fmt.Sprintf("service: %q, allow_trace: false", e.Subject)
}

func (i Import) config(account string) string {
	to := ""
	if i.Flow == Messages {
		return fmt.Sprintf("{ stream: { account: %q, subject: %q }, allow_trace: false }", account, i.Subject)
	}
	if i.Local != i.Subject {
		to = fmt.Sprintf(", to: %q", i.Local)
	}
	return fmt.Sprintf("{ service: { account: %q, subject: %q }%s }", account, i.Subject, to)
}

// AccountLimits bound what a user's account may use. The NATS server enforces them.
// 0 sets no limit.
type AccountLimits struct {
	Connections   int
	Subscriptions int
	PayloadBytes  int64 // of a message
}

// config is the limits block of an account in a server's configuration; empty
// without a limit.
func (l AccountLimits) config() string {
	var parts []string
	for _, p := range []struct {
		key string
		n   int64
	}{{"max_connections", int64(l.Connections)}, {"max_subscriptions", int64(l.Subscriptions)}, {"max_payload", l.PayloadBytes}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%s: %d", p.key, p.n))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "limits: { " + strings.Join(parts, ", ") + " }"
}
