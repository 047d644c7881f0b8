package config

import "github.com/streamwright/streamwright/events"

// protocol is the field of a type's protocol.
func protocol(key string, dst *events.Protocol, def, doc string) field {
	f := choice(key, dst, def, doc, events.ProtocolClaim, events.ProtocolAck)
	set := f.set
	f.set = func(v any) error {
		if err := set(v); err != nil {
			return err
		}
		return dst.UnmarshalText([]byte(v.(string))) // settings have one spelling of the default
	}
	return f
}
