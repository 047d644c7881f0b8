package access

import (
	"slices"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// EngineGrant says what an engine needs of a NATS server that is not its own, in
// the account that has its streams.
type EngineGrant struct {
	Names      wire.Names
	Namespaces []events.Namespace // beside default
	Partitions int                // at least 1
	User       string             // its inbox prefix is _INBOX or InboxPrefix(User)
	// Subjects lists further subjects that the engine sends requests to: a dedup
	// hook's.
	Subjects []string
	// Sites names the sites at the edge whose streams it reads.
	Sites []string
}

// Permissions computes what the engine needs, and no more: its own streams,
// buckets and subjects, in each namespace, and the replies to requests. Replies to other
// accounts are under _R_.
func (g EngineGrant) Permissions() Permissions {
	p := &Permissions{Subscribe: []string{"_INBOX.>", "$JS.EVENT.ADVISORY.STREAM.DELETED.*"}}
	p.publish(g.Names.JetStream("INFO"), "_R_.>", "_INBOX.>")
	if own := InboxPrefix(g.User); own != "" {
		p.subscribe(own + ".>")
		p.publish(own + ".>") // to the types' commands, if they have no login of their own
	}
	for _, verb := range []string{"PING", "INFO", "STATS"} {
		p.subscribe("$SRV."+verb, "$SRV."+verb+"."+wire.Service, "$SRV."+verb+"."+wire.Service+".*")
	}
	p.publish(g.Subjects...)
	for _, site := range g.Sites {
		at := EngineGrant{Names: g.Names.Site(site)}
		stream := at.Names.SiteStream(site)
		p.publish(at.Names.JetStream("STREAM.INFO."+stream), at.Names.JetStream("STREAM.PURGE."+stream))
		p.publish(at.consume(stream)...)
	}
	for _, ns := range slices.Concat([]events.Namespace{events.DefaultNamespace}, g.Namespaces) {
		at := g
		at.Names = g.Names.Namespace(ns)
		at.namespace(p)
		if ns != events.DefaultNamespace {
			at.remove(p)
		}
	}
	return p.sorted()
}

// namespace adds what one namespace takes, which has the grant's Names.
func (g EngineGrant) namespace(p *Permissions) {
	n := g.Names
	p.subscribe(n.API("*"), n.OutputAll(), n.Forward("*"), n.Lease(0), n.Pulse(0, "*"), n.Nodes(), n.Held(), "$JS.EVENT.ADVISORY.CONSUMER.DELETED."+n.DispatchStream()+".*",
		n.Control(">"), n.Probe(">"), n.RunOfAll()) // for workers over HTTP
	p.publish(n.Forward("*"), n.OutputAll(), n.Lease(0), n.Pulse(0, "*"), n.Nodes(), n.Held(), n.EventFilter("*", "*", "*"), n.RunAll(), n.Control(">"), n.Probe(">"),
		n.JetStream("CONSUMER.PAUSE."+n.DispatchStream()+".*"))
	for _, s := range []string{n.IntakeStream(), n.DispatchStream(), n.DispatchAckStream()} {
		g.administer(p, s, "DELETE")
	}
	g.administer(p, n.LogStream())
	g.administer(p, n.OutputStream())
	g.administer(p, "OBJ_"+n.Bucket("blobs"))
	for _, s := range []string{n.IntakeStream(), n.LogStream(), n.OutputStream(), "OBJ_" + n.Bucket("blobs"), n.EventStream(0)} {
		g.restore(p, s)
	}
	for i := range max(g.Partitions, 1) {
		g.administer(p, n.EventStream(i))
		p.publish(n.Frame(i))
		p.publish(n.JetStream("STREAM.LEADER.STEPDOWN." + n.EventStream(i))) // the owner goes where the stream's leader is, or takes it along
	}
	for _, b := range []string{"dedup", "workers", "partitions", "keys"} {
		g.administer(p, "KV_"+n.Bucket(b), "DELETE")
		p.publish(n.Entries(b) + ">")
	}
	p.publish("$O." + n.Bucket("blobs") + ".>")
}

// remove grants what it takes to delete all that a namespace has.
func (g EngineGrant) remove(p *Permissions) {
	streams := []string{g.Names.LogStream(), g.Names.OutputStream(), "OBJ_" + g.Names.Bucket("blobs")}
	for i := range max(g.Partitions, 1) {
		streams = append(streams, g.Names.EventStream(i))
	}
	for _, s := range streams {
		p.publish(g.Names.JetStream("STREAM.DELETE." + s))
	}
}

// administer grants what it takes to make, read and maintain a stream.
func (g EngineGrant) administer(p *Permissions, stream string, more ...string) {
	for _, op := range slices.Concat([]string{"CREATE", "UPDATE", "INFO", "PURGE", "MSG.GET", "MSG.DELETE"}, more) {
		p.publish(g.Names.JetStream("STREAM." + op + "." + stream))
	}
	p.publish(g.Names.JetStream("DIRECT.GET."+stream), g.Names.JetStream("DIRECT.GET."+stream+".>"))
	p.publish(g.consume(stream)...)
}

// restore grants what it takes to restore a stream that does not exist.
func (g EngineGrant) restore(p *Permissions, stream string) {
	p.publish(g.Names.JetStream("STREAM.RESTORE."+stream), "$JS.SNAPSHOT.RESTORE."+stream+".*")
}

// consume returns the subjects that following a stream by consumers takes.
func (g EngineGrant) consume(stream string) []string {
	api := g.Names.JetStream("CONSUMER.")
	return []string{
		api + "CREATE." + stream, api + "CREATE." + stream + ".>", api + "INFO." + stream + ".*", api + "MSG.NEXT." + stream + ".*", api + "DELETE." + stream + ".*",
		"$JS.FC." + stream + ".>",
	}
}
