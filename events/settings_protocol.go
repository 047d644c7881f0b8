package events

import (
	"fmt"
	"strings"
)

// Protocol is how the items of a type reach those who run them.
type Protocol string

// The protocols.
const (
	// ProtocolClaim, which a type's settings spell as the empty string, has
	// workers register, claim what they pull, and report how it ended.
	ProtocolClaim Protocol = "claim"
	// ProtocolAck lets any JetStream consumer be a worker: how it answers the
	// message says how the run ended. See docs/guides/NATIVE.md.
	ProtocolAck Protocol = "ack"
)

// UnmarshalText implements encoding.TextUnmarshaler. The default has one
// spelling only, so that settings that say the same are the same.
func (p *Protocol) UnmarshalText(b []byte) error {
	*p = Protocol(b).plain()
	return nil
}

// plain is p as settings hold it.
func (p Protocol) plain() Protocol {
	if p == ProtocolClaim {
		return ""
	}
	return p
}

// Native reports whether the type's items go to consumers that answer with
// nothing but JetStream's acks.
func (s TypeSettings) Native() bool { return s.Protocol == ProtocolAck }

func (s TypeSettings) validateProtocol() []error {
	switch s.Protocol {
	case "", ProtocolClaim, ProtocolAck:
		return nil
	}
	return []error{fmt.Errorf("protocol is %q: it must be %s or %s", clip(string(s.Protocol), 64), ProtocolClaim, ProtocolAck)}
}

// nativePrefix begins the name that stands for all native workers of a type.
// No worker that registers can have it: its id has no colon.
const nativePrefix = "native:"

// NativeWorker is the name under which the events of a type's native runs are
// recorded: which of the processes that share the consumer had the message, the
// server does not say.
func NativeWorker(t Type) WorkerID { return WorkerID(nativePrefix + string(t)) }

// Native reports whether the name is that of native workers.
func (w WorkerID) Native() bool { return strings.HasPrefix(string(w), nativePrefix) }
