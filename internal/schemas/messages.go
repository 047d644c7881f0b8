package schemas

import (
	"reflect"
	"slices"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Version is the protocol's version, and the folder of its schemas. It changes when
// a message that was valid becomes invalid.
const Version = "v1"

// Endpoints lists the requests that are part of the protocol.
func Endpoints() []wire.Endpoint {
	return slices.DeleteFunc(slices.Clone(wire.Endpoints()), func(e wire.Endpoint) bool { return e.Private })
}

// messages lists the types of messages other than requests and replies.
var messages = []reflect.Type{
	reflect.TypeFor[wire.ErrorReply](), reflect.TypeFor[wire.Control](), reflect.TypeFor[wire.Probe](),
	reflect.TypeFor[wire.Assigned](), reflect.TypeFor[wire.LogRecord](), reflect.TypeFor[events.Outcome](),
}

// payloads are the payloads of all kinds of events but the inner ones.
var payloads = func() map[events.Kind]reflect.Type {
	types := map[events.Kind]reflect.Type{}
	for k := events.KindNone + 1; k < events.NumKinds; k++ {
		if body, err := events.DecodeBody(k, nil); err == nil && body != nil && !slices.Contains(inner, k) {
			types[k] = reflect.TypeOf(body).Elem()
		}
	}
	return types
}()

// inner are the kinds whose payload is the log's own book-keeping: it may
// change with the engine, so no schema describes it.
var inner = []events.Kind{events.KindSnapshot, events.KindCarried}
