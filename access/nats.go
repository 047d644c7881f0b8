package access

import (
	"regexp"
	"slices"
	"strings"

	"github.com/streamwright/streamwright/wire"
)

// MaxUserLen bounds the name of a NATS user, in characters.
const MaxUserLen = 63

var userPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*$`)

// IsUser reports whether a name can be a NATS user with an inbox of its own:
// letters, digits, - and _, beginning with a letter or digit.
func IsUser(name string) bool { return len(name) <= MaxUserLen && userPattern.MatchString(name) }

// InboxPrefix is what the reply subjects of a user begin with. Nobody else may
// subscribe there. Empty for a name that IsUser refuses.
func InboxPrefix(user string) string {
	if !IsUser(user) {
		return ""
	}
	return "_INBOX_" + user
}

// Grant is who gets which rights on NATS.
type Grant struct {
	Names      wire.Names
	Partitions int    // at least 1
	User       string // its inbox prefix is InboxPrefix(User)
	Roles      Roles
	// NoDocuments leaves the object store of large params and results out. Its
	// server tells readers of one object from those of another by nothing, so
	// whoever may read it may read all.
	NoDocuments bool
}

// Permissions are the subjects that a user may use, and no others. The lists
// are sorted and name no subject twice.
type Permissions struct {
	Publish   []string
	Subscribe []string
	// Responses lets the user answer, once, what it was asked with a reply
	// subject: a worker the engine's probes. Nobody but the engine can ask.
	Responses bool
}

// Permissions computes what the grant's roles need, and no more.
func (g Grant) Permissions() Permissions {
	p := &Permissions{Subscribe: []string{InboxPrefix(g.User) + ".>"}}
	for _, e := range Endpoints() {
		if g.Roles.Has(Needs(e)) {
			p.publish(g.Names.API(e))
		}
	}
	if g.Roles.Has(Roles(Submit)) {
		g.submit(p)
	}
	if g.Roles.Has(Roles(Work)) {
		g.work(p)
	}
	if g.Roles.Has(Roles(Read)) {
		g.read(p)
	}
	return p.sorted()
}

func (p *Permissions) sorted() Permissions {
	slices.Sort(p.Publish)
	slices.Sort(p.Subscribe)
	p.Publish, p.Subscribe = slices.Compact(p.Publish), slices.Compact(p.Subscribe)
	return *p
}

// serve is what being a NATS micro service takes.
func (p *Permissions) serve(name string) {
	for _, verb := range []string{"PING", "INFO", "STATS"} {
		p.subscribe("$SRV."+verb, "$SRV."+verb+"."+name, "$SRV."+verb+"."+name+".*")
	}
}

func (p *Permissions) publish(subjects ...string) { p.Publish = append(p.Publish, subjects...) }

func (p *Permissions) subscribe(subjects ...string) { p.Subscribe = append(p.Subscribe, subjects...) }

func (g Grant) submit(p *Permissions) {
	p.publish(g.Names.SubmitAll())
	g.documents(p, true)
}

func (g Grant) work(p *Permissions) {
	for _, stream := range []string{g.Names.DispatchStream(), g.Names.NativeStream()} {
		p.publish(g.Names.JetStream("CONSUMER.MSG.NEXT."+stream+".*"), g.Names.JetStream("CONSUMER.INFO."+stream+".*"),
			// The server's two forms: the second has a domain and an account hash.
			"$JS.ACK."+stream+".>", "$JS.ACK.*.*."+stream+".>")
	}
	p.publish(g.Names.LogAll())
	p.subscribe(g.Names.Control("*"), g.Names.Probe("*"))
	p.serve(wire.WorkerService) // with a probe
	p.Responses = true
	g.documents(p, true)
}

// read has consumers on the logs of events alone. A consumer may be made to
// deliver what is in its stream to any subject, and a get answered there. An
// event that is put anywhere is refused or known by its headers, and so is what
// was got; what else consumers would deliver is not.
func (g Grant) read(p *Permissions) {
	for n := range max(g.Partitions, 1) {
		p.publish(g.getMessages(g.Names.EventStream(n))...)
		p.publish(g.consume(g.Names.EventStream(n))...)
	}
	for _, bucket := range []string{"dedup", "workers", "partitions"} {
		p.publish(g.getMessages("KV_" + g.Names.Bucket(bucket))...)
	}
	p.publish(g.getMessages(g.Names.LogStream())...)
	p.subscribe(g.Names.LogAll())
	g.documents(p, false)
}

// getMessages is what reading single messages of a stream takes.
func (g Grant) getMessages(stream string) []string {
	api := g.Names.JetStream("")
	return []string{api + "STREAM.INFO." + stream, api + "STREAM.MSG.GET." + stream, api + "DIRECT.GET." + stream, api + "DIRECT.GET." + stream + ".>"}
}

// consume is what following a stream by consumers takes. They have random
// names that can't be listed, so nobody can take another's away.
func (g Grant) consume(stream string) []string {
	api := g.Names.JetStream("CONSUMER.")
	return []string{
		api + "CREATE." + stream, api + "CREATE." + stream + ".>", api + "INFO." + stream + ".*", api + "MSG.NEXT." + stream + ".*", api + "DELETE." + stream + ".*",
		"$JS.FC." + stream + ".>",
	}
}

// documents is what the object store of large documents takes.
func (g Grant) documents(p *Permissions, write bool) {
	if g.NoDocuments {
		return
	}
	bucket := g.Names.Bucket("blobs")
	p.publish(g.Names.JetStream("STREAM.INFO.OBJ_"+bucket), g.Names.JetStream("STREAM.MSG.GET.OBJ_"+bucket))
	if write {
		p.publish("$O."+bucket+".C.*", "$O."+bucket+".M.*")
	}
}

// Config renders the permissions as the users block of a nats-server
// configuration. credentials is what identifies the user there, such as
// `user: "a", password: "…"`.
func (p Permissions) Config(credentials string) string {
	var b strings.Builder
	b.WriteString("users = [\n  {\n    " + credentials + "\n    permissions: {\n")
	block := func(what string, subjects []string) {
		b.WriteString("      " + what + ": { allow: [\n")
		for _, s := range subjects {
			b.WriteString("        \"" + s + "\"\n")
		}
		b.WriteString("      ] }\n")
	}
	block("publish", p.Publish)
	block("subscribe", p.Subscribe)
	if p.Responses {
		b.WriteString("      allow_responses: true\n")
	}
	b.WriteString("    }\n  }\n]\n")
	return b.String()
}
