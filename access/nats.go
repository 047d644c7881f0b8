package access

import (
	"regexp"
	"slices"
	"strings"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// MaxUserLen bounds the name of a NATS user, in characters.
const MaxUserLen = 63

var userPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*$`)

// IsUser reports whether a name can be a NATS user: letters, digits, - and _,
// beginning with a letter or digit, and not the name of [Anyone].
func IsUser(name string) bool {
	return len(name) <= MaxUserLen && userPattern.MatchString(name) && name != Anyone.Name
}

// InboxPrefix returns what the reply subjects of a user may begin with, beside
// _INBOX. Empty for a name that IsUser refuses.
func InboxPrefix(user string) string {
	if !IsUser(user) {
		return ""
	}
	return "_INBOX_" + user
}

// Grant says which rights a user gets on NATS.
type Grant struct {
	// Names has the JetStream domain, if any, by which the engine's account
	// reaches the streams.
	Names wire.Names
	User  string
	Roles Memberships
	// Namespaces exist beside default. Roles in every namespace are rights in these;
	// those in a named one are rights there, whether it exists or not.
	Namespaces []events.Namespace
	// Alone: nobody else is in the engine's account, not even an engine with another
	// prefix. Patterns may then stand for the subjects of all namespaces.
	Alone bool
	// Account is the user's; empty: the one that the names tell.
	Account string
	// PublishOnly leaves of the role submit plain publishes alone, and of the others
	// nothing.
	PublishOnly bool
	// NoDocuments leaves the object store of large params and results out. Its
	// server can't restrict a reader to single objects: whoever may read it may
	// read all of it.
	NoDocuments bool
	// NoPublish leaves plain publishes out of the role submit. The server stores
	// them without a trace of the sender, so that no quota counts them.
	NoPublish bool
	// Limits bound the user's account.
	Limits AccountLimits
	// Site, if set, names the site at the edge that the user is. Its account offers the
	// engine's account what reading the site's stream takes, which is all that the engine
	// asks there.
	Site string
	// Mirror, if set, names the site that the user is, which mirrors the log and does
	// nothing else.
	Mirror string
}

// Flow says how messages cross from one account to another.
type Flow uint8

const (
	// Messages come from the engine's account to whoever subscribes.
	Messages Flow = iota
	// Request goes to the engine's account, and is answered once or never.
	Request
	// Question is a Request whose answer may take up to MaxAnswer.
	Question
	// Long is a Question that is answered with its progress as well, any number
	// of times within MaxProgress.
	Long
	// Pull goes to the engine's account, and is answered many times, within two
	// minutes: nats-server forgets then who has asked.
	Pull
)

// Import is a subject of the engine's account that a user's account imports.
// The user may do with it what its Flow says, and nothing with any other.
type Import struct {
	Flow    Flow
	Subject string // in the engine's account
	Local   string // in the user's
}

// Imports lists what the grant's roles need of the engine's account, and no
// more, sorted by Local. The exports of the engine's account and the user's
// permissions both derive from it.
//
// What may be in it: the server rewrites the reply subject of an imported
// request, unless that begins with $JS.ACK, so an answer that the server itself
// makes and that may be empty acknowledges any message of the engine's account.
// Only workers, who acknowledge as they like anyway, get such subjects. Nobody
// gets one whose body names a subject for the server to send to, such as
// $JS.API.CONSUMER.CREATE.
func (g Grant) Imports() []Import {
	l := &imports{}
	if g.Mirror != "" {
		g.mirror(l)
		return l.sorted()
	}
	every := g.Roles.Every()
	if g.Alone && every != 0 {
		at := g
		at.Names.Prefix = anyPrefix
		at.subjects(l, every)
	}
	patterns := slices.Clone(*l)
	for _, ns := range g.Roles.Among(g.Namespaces) {
		at, more := g, &imports{}
		at.Names = g.Names.Namespace(ns)
		at.subjects(more, g.Roles.In(ns))
		// Two imports of one subject would let each message through twice.
		*l = append(*l, slices.DeleteFunc(*more, patterns.match)...)
		if !g.PublishOnly {
			at.stores(l, g.Roles.In(ns))
		}
	}
	return l.sorted()
}

// anyPrefix is the prefix of patterns for the subjects of all namespaces.
const anyPrefix = "*"

// match reports whether one of the imports is the pattern for i.
func (l imports) match(i Import) bool {
	_, rest, _ := strings.Cut(i.Subject, ".")
	pattern := anyPrefix + "." + rest
	return slices.ContainsFunc(l, func(p Import) bool { return p.Subject == pattern })
}

// subjects adds the subjects that roles in one namespace need, which begin with the prefix of
// the grant's Names.
func (g Grant) subjects(l *imports, roles Roles) {
	if g.PublishOnly {
		g.publish(l, roles)
		return
	}
	for _, e := range wire.Endpoints() {
		if flow := Question; roles.Has(e.Roles) && (!e.Everywhere || g.Roles.Every().Has(e.Roles)) {
			if e.Stream {
				flow = Long
			}
			l.add(flow, g.Names.API(e.Name))
		}
	}
	if !g.NoPublish {
		g.publish(l, roles)
	}
	if roles.Has(Roles(Work)) {
		l.add(Request, g.Names.LogAll())
		l.add(Messages, g.Names.Control(">"), g.Names.Probe(">"), g.Names.RunOfAll()) // a worker's id may have dots
	}
	if roles.Has(Roles(Read)) {
		l.add(Messages, g.Names.EventAll(), g.Names.LogAll(), g.Names.OutputAll())
	}
}

// stores adds what roles in one namespace need of its streams and buckets.
func (g Grant) stores(l *imports, roles Roles) {
	if roles.Has(Roles(Work)) {
		g.pull(l)
	}
	if roles.Has(Roles(Read)) {
		g.read(l)
	}
	if roles.Has(Roles(Operate)) {
		g.backup(l)
	}
	g.documents(l, roles)
}

func (g Grant) publish(l *imports, roles Roles) {
	if roles.Has(Roles(Submit)) {
		l.add(Request, g.Names.SubmitAll())
	}
}

// pull has what a worker of an ack type takes.
func (g Grant) pull(l *imports) {
	stream := g.Names.DispatchStream()
	l.jetStream(g.Names, Pull, "CONSUMER.MSG.NEXT."+stream+".*")
	l.jetStream(g.Names, Request, "CONSUMER.INFO."+stream+".*")
	// The server's two forms: the second has a domain and an account hash. One answer, also
	// to +NXT: what may be answered often is remembered for long.
	l.add(Request, "$JS.ACK."+stream+".>", "$JS.ACK.*.*."+stream+".>")
}

// read has the live changes of the buckets. All that is stored is read by requests of the
// engine's API.
func (g Grant) read(l *imports) {
	for _, bucket := range []string{"dedup", "workers", "partitions"} {
		l.add(Messages, "$KV."+g.Names.Bucket(bucket)+".>")
	}
}

// mirror has what a mirror of the log takes. It asks the hub's engine, which makes the
// consumers: a site that made them itself could have the server send to any subject. What
// it publishes to $JS.FC paces them, and is never answered.
func (g Grant) mirror(l *imports) {
	l.add(Question, g.Names.MirrorAsk(g.Mirror))
	l.add(Messages, g.Names.MirrorFeed(g.Mirror)+".>")
	for _, s := range []string{g.Names.EventStream(0), g.Names.LogStream()} {
		l.add(Request, "$JS.FC."+s+".>")
	}
}

// backup has what `engine backup` reads: the streams that hold what is primary, message by
// message. No answer is empty.
func (g Grant) backup(l *imports) {
	streams := []string{g.Names.EventStream(0), g.Names.IntakeStream(), g.Names.LogStream(), g.Names.OutputStream()}
	if !g.NoDocuments {
		streams = append(streams, "OBJ_"+g.Names.Bucket("blobs"))
	}
	for _, s := range streams {
		l.jetStream(g.Names, Request, "STREAM.INFO."+s)
		l.jetStream(g.Names, Request, "STREAM.MSG.GET."+s)
	}
}

// documents adds the subjects of the object store of large documents. The answer to a
// MSG.GET is never empty.
func (g Grant) documents(l *imports, roles Roles) {
	if g.NoDocuments || !roles.Has(Roles(Submit|Work|Read)) {
		return
	}
	bucket := g.Names.Bucket("blobs")
	l.jetStream(g.Names, Request, "STREAM.MSG.GET.OBJ_"+bucket)
	if roles.Has(Roles(Submit | Work)) {
		l.add(Request, "$O."+bucket+".C.*", "$O."+bucket+".M.*")
	}
}

type imports []Import

func (l *imports) add(f Flow, subjects ...string) {
	for _, s := range subjects {
		*l = append(*l, Import{Flow: f, Subject: s, Local: s})
	}
}

func (l *imports) jetStream(n wire.Names, f Flow, request string) {
	*l = append(*l, Import{Flow: f, Subject: n.JetStream(request), Local: n.Imported().JetStream(request)})
}

func (l *imports) sorted() []Import {
	slices.SortFunc(*l, Import.compare)
	return slices.Compact(*l)
}

// Permissions are the subjects that a user may use, and no others. The lists
// are sorted and name no subject twice.
type Permissions struct {
	Publish   []string
	Subscribe []string
}

// Permissions computes what the user may do in its own account: use what is
// imported, and hear replies. The imports alone would keep it from everything
// else; with these it is also told so.
func (g Grant) Permissions() Permissions {
	p := &Permissions{Subscribe: []string{"_INBOX.>"}}
	if own := InboxPrefix(g.User); own != "" {
		p.subscribe(own + ".>")
	}
	for _, i := range g.Imports() {
		if i.Flow == Messages {
			p.subscribe(i.Local)
		} else {
			p.publish(i.Local)
		}
	}
	return p.sorted()
}

func (p *Permissions) sorted() Permissions {
	slices.Sort(p.Publish)
	slices.Sort(p.Subscribe)
	p.Publish, p.Subscribe = slices.Compact(p.Publish), slices.Compact(p.Subscribe)
	return *p
}

func (p *Permissions) publish(subjects ...string) { p.Publish = append(p.Publish, subjects...) }

func (p *Permissions) subscribe(subjects ...string) { p.Subscribe = append(p.Subscribe, subjects...) }
