package embedded

import (
	"slices"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/streamwright/streamwright/blobs"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// clientPermissions returns the permissions of everyone but the engine: all
// except what the package's comment names.
//
// They name the streams and subjects of each namespace: a pattern for those of all would need
// wildcards within a token, which NATS does not have, or would deny what is a client's own.
func clientPermissions(n wire.Names, namespaces []events.Namespace, partitions int) *natsserver.Permissions {
	// Forged advisories would end leases.
	publish, subscribe := []string{"$JS.EVENT.>"}, []string{}
	for _, ns := range slices.Concat([]events.Namespace{events.DefaultNamespace}, namespaces) {
		at := n.Namespace(ns)
		publish = append(publish, deniedPublishes(at, partitions)...)
		subscribe = append(subscribe, at.API(">"), at.Forward(">"), at.Nodes(), at.MirrorAll())
	}
	return &natsserver.Permissions{Publish: &natsserver.SubjectPermission{Deny: publish}, Subscribe: &natsserver.SubjectPermission{Deny: subscribe}}
}

// deniedPublishes lists what nobody but the engine may send to, of one namespace.
func deniedPublishes(n wire.Names, partitions int) []string {
	deny := []string{
		n.EventFilter("*", "*", ">"),
		n.FrameAll(),
		n.Prefix + ".intake.>",
		n.RunAll(),
		n.Prefix + ".control.>",
		n.OutputAll(), // which the engine writes for the run that has the item
		n.Prefix + ".lease.>",
		n.Forward(">"), // what other nodes have authorised
		n.MirrorAll(),  // what mirrors take for the log
	}
	for _, bucket := range []string{"dedup", "workers", "partitions", "keys"} {
		deny = append(deny, "$KV."+n.Bucket(bucket)+".>")
	}
	for _, stream := range primaryStreams(n, partitions) {
		deny = append(deny, streamAdministration(stream)...)
	}
	// The consumers are there: made by another they would lack what the engine hears of
	// their acks by.
	return slices.Concat(deny, consumerAdministration(n.DispatchStream()))
}

// ackStreams hold what the workers of ack types run, and what they have answered.
func ackStreams(n wire.Names) []string { return []string{n.DispatchStream(), n.DispatchAckStream()} }

// primaryStreams hold what exists nowhere else.
func primaryStreams(n wire.Names, partitions int) []string {
	streams := []string{n.IntakeStream(), n.LogStream(), n.OutputStream(), blobs.Stream(n)}
	streams = append(streams, ackStreams(n)...)
	for p := range partitions {
		streams = append(streams, n.EventStream(p))
	}
	return streams
}

func streamAdministration(stream string) []string {
	var s []string
	for _, op := range []string{"CREATE", "UPDATE", "DELETE", "PURGE", "MSG.DELETE", "RESTORE"} {
		s = append(s, "$JS.API.STREAM."+op+"."+stream)
	}
	return s
}

// consumerAdministration of the dispatch stream is the engine's: a work queue
// with a consumer too many gives its messages to the wrong reader.
func consumerAdministration(stream string) []string {
	api := "$JS.API.CONSUMER."
	return slices.Concat(
		[]string{api + "CREATE." + stream, api + "CREATE." + stream + ".>"},
		[]string{api + "DURABLE.CREATE." + stream + ".>"},
		[]string{api + "DELETE." + stream + ".>", api + "PAUSE." + stream + ".>", api + "RESET." + stream + ".>"},
	)
}
