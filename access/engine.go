package access

import (
	"slices"

	"github.com/streamwright/streamwright/wire"
)

// EngineGrant is what an engine needs of a NATS server that is not its own.
type EngineGrant struct {
	Grant // of which Roles and NoDocuments count for nothing
	// Answered are the users with an inbox of their own to whom the engine
	// replies, beside those with the inbox _INBOX.
	Answered []string
	// Subjects are others that the engine asks: that of a dedup hook.
	Subjects []string
}

// Permissions computes what the engine needs, and no more: its own streams,
// buckets and subjects, and the inboxes of those who ask it.
func (g EngineGrant) Permissions() Permissions {
	n := g.Names
	p := &Permissions{Subscribe: []string{
		InboxPrefix(g.User) + ".>", n.API("*"), "$JS.EVENT.ADVISORY.STREAM.DELETED.*", "$JS.EVENT.ADVISORY.CONSUMER.DELETED." + n.DispatchStream() + ".*",
		"$JS.EVENT.ADVISORY.CONSUMER.DELETED." + n.NativeStream() + ".*", n.Control("*"), // that of workers over HTTP
	}}
	p.serve(wire.Service)
	p.publish(n.JetStream("INFO"), "_INBOX.>", n.EventFilter("*", "*", "*"), n.RunAll(), n.Native("*"), n.Control("*"), n.Probe("*"),
		n.JetStream("CONSUMER.PAUSE."+n.NativeStream()+".*"),
		// Of workers over HTTP, on whose behalf it pulls.
		"$JS.ACK."+n.DispatchStream()+".>", "$JS.ACK.*.*."+n.DispatchStream()+".>")
	for _, u := range g.Answered {
		p.publish(InboxPrefix(u) + ".>")
	}
	p.publish(g.Subjects...)
	for _, s := range []string{n.IntakeStream(), n.DispatchStream(), n.LeaseStream(), n.NativeStream(), n.NativeAckStream(), n.NativeSignalStream()} {
		g.administer(p, s, "DELETE")
	}
	g.administer(p, n.LogStream())
	g.administer(p, "OBJ_"+n.Bucket("blobs"))
	for i := range max(g.Partitions, 1) {
		g.administer(p, n.EventStream(i))
	}
	for _, b := range []string{"dedup", "workers", "partitions"} {
		g.administer(p, "KV_"+n.Bucket(b), "DELETE")
		p.publish(n.Entries(b) + ">")
	}
	p.publish("$O." + n.Bucket("blobs") + ".>")
	return p.sorted()
}

// administer is what making a stream, reading it and keeping it in order takes.
func (g Grant) administer(p *Permissions, stream string, more ...string) {
	for _, op := range slices.Concat([]string{"CREATE", "UPDATE", "INFO", "PURGE", "MSG.GET", "MSG.DELETE"}, more) {
		p.publish(g.Names.JetStream("STREAM." + op + "." + stream))
	}
	p.publish(g.Names.JetStream("DIRECT.GET."+stream), g.Names.JetStream("DIRECT.GET."+stream+".>"))
	p.publish(g.consume(stream)...)
}

// PublishPermissions are those of a program that submits by plain publishes
// alone, and asks the engine nothing: a producer in any language, or the relay
// of an outbox.
func (g Grant) PublishPermissions() Permissions {
	p := &Permissions{Publish: []string{g.Names.SubmitAll()}, Subscribe: []string{InboxPrefix(g.User) + ".>"}}
	return p.sorted()
}
