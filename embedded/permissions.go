package embedded

import (
	"slices"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/streamwright/streamwright/blobs"
	"github.com/streamwright/streamwright/wire"
)

// clientPermissions returns the permissions of everyone but the engine: all
// except what the package's comment names.
func clientPermissions(n wire.Names, partitions int) *natsserver.Permissions {
	return &natsserver.Permissions{
		Publish:   &natsserver.SubjectPermission{Deny: deniedPublishes(n, partitions)},
		Subscribe: &natsserver.SubjectPermission{Deny: []string{n.API(">"), n.Forward(">"), n.Nodes(), n.MirrorOrigin() + ".>"}},
	}
}

func deniedPublishes(n wire.Names, partitions int) []string {
	deny := []string{
		n.EventFilter("*", "*", ">"),
		n.FrameAll(),
		n.Prefix + ".intake.>",
		n.RunAll(), n.RunOfAll(),
		n.Native("*"),
		n.Prefix + ".control.>",
		n.Prefix + ".lease.>",
		n.Forward(">"), // what other nodes have authorised
		n.MirrorAll(),  // what mirrors take for the log
		// Forged advisories would end leases.
		"$JS.EVENT.>",
	}
	for _, bucket := range []string{"dedup", "workers", "partitions", "keys"} {
		deny = append(deny, "$KV."+n.Bucket(bucket)+".>")
	}
	for _, stream := range primaryStreams(n, partitions) {
		deny = append(deny, streamAdministration(stream)...)
	}
	// A native worker's consumer is there: made by another it would lack what the
	// engine hears of its acks by.
	return slices.Concat(deny, consumerAdministration(n.DispatchStream()), consumerAdministration(n.NativeStream()))
}

// nativeStreams hold what native workers run, and what they have answered.
func nativeStreams(n wire.Names) []string {
	return []string{n.NativeStream(), n.NativeAckStream(), n.NativeSignalStream()}
}

// primaryStreams hold what exists nowhere else.
func primaryStreams(n wire.Names, partitions int) []string {
	streams := []string{n.IntakeStream(), n.LogStream(), blobs.Stream(n)}
	streams = append(streams, nativeStreams(n)...)
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
