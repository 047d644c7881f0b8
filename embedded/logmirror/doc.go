// Package logmirror is the link between a hub, which has a log, and the mirrors that copy it
// over a leaf connection. [Hub] is the hub's side of one mirror, [Link] the mirror's.
//
// The mirror's NATS server asks for a consumer of the hub's stream, as of any origin. The Link
// answers in the origin's place: it names the copy's last event to the Hub, which
// compares it with its own log, and makes the consumer that sends what follows. Every
// consumer has a subject of its own, and does not outlive the hub's server. So after each
// break the two are compared again before anything is copied, and the copy never holds
// parts of two histories. The log wins; the store follows the copy.
//
// JetStream's own mirror would copy on after a break whatever the origin has then, and a
// consumer made beforehand would go on where it is, whatever the mirror has lost
// (TestPlainMirror in package eventlog). A site that made its consumer itself could have the
// hub's server send to any subject. So the consumer is made here, and the rest is JetStream's.
//
// What the hub has cut off at the head of its log the mirror drops as well. Where it had not
// copied that, the copy has a hole: it is trimmed to where the hub's log begins, and the store
// made anew. A mirror that keeps what the hub cuts (no Cut) reads over the hole.
package logmirror
