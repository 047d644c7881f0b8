package schemas

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Files renders everything, by path from the repository's root, whose folder
// is root.
func Files(root string) (map[string][]byte, error) {
	texts, err := readComments(root, "wire", "events")
	if err != nil {
		return nil, err
	}
	types, err := wireBook(texts)
	if err != nil {
		return nil, err
	}
	evs, err := eventBook(texts)
	if err != nil {
		return nil, err
	}
	docs := map[string]any{
		"types.json":     types.document("types.json", "The messages of the protocol", nil),
		"events.json":    evs.document("events.json", "An event of the log, as the event stream holds it", envelope()),
		"headers.json":   headerDocument(),
		"endpoints.json": endpointIndex(),
	}
	out := map[string][]byte{"clients/node/src/wire.gen.ts": typeScript(types)}
	for name, doc := range docs {
		text, err := encode(doc)
		if err != nil {
			return nil, fmt.Errorf("write %s: %w", name, err)
		}
		out["schemas/"+Version+"/"+name] = text
	}
	return out, nil
}

func encode(doc any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(doc)
	return buf.Bytes(), err
}

// wireBook has all requests and replies.
func wireBook(texts comments) (*book, error) {
	b := newBook(texts)
	requests, others := map[string]bool{}, map[string]bool{}
	add := func(t reflect.Type, side map[string]bool) error {
		if t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		name, err := b.add(t)
		if err == nil {
			b.reach(name, side)
		}
		return err
	}
	for _, e := range Endpoints() {
		if err := add(e.Request, requests); err != nil {
			return nil, err
		}
		if err := add(e.Reply, others); err != nil {
			return nil, err
		}
	}
	for _, t := range messages {
		if err := add(t, others); err != nil {
			return nil, err
		}
	}
	b.close(requests, others)
	return b, nil
}

// eventBook has the payloads of events. Their schemas are named after the Go types.
func eventBook(texts comments) (*book, error) {
	b := newBook(texts)
	for _, t := range payloads {
		if _, err := b.add(t); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// document is a file with all of a book's schemas, and what root says itself.
func (b *book) document(file, title string, root schema) schema {
	doc := schema{"$schema": dialect, "$id": "urn:streamwright:" + Version + ":" + file, "title": title, "$defs": b.defs}
	for k, v := range root {
		doc[k] = v
	}
	return doc
}

// envelope is the schema of an event around its payload.
func envelope() schema {
	var kinds []any
	for k := events.Kind(1); int(k) < events.NumKinds; k++ {
		if t := payloads[k]; t != nil {
			kinds = append(kinds, schema{
				"if":   schema{"properties": schema{"kind": schema{"const": k.String()}}},
				"then": schema{"properties": schema{"data": schema{"$ref": refPrefix + t.Name()}}},
			})
		}
	}
	positive := schema{"type": "integer", "minimum": 1}
	return schema{
		"type":     "object",
		"required": []string{"v", "kind", "at"},
		"properties": schema{
			"v":       schema{"const": events.Version, "description": "The version of the envelope. A reader must refuse a higher one."},
			"kind":    schema{"type": "string", "description": "What has happened. Further kinds may come: a reader must pass over those that it does not know."},
			"id":      fixed[reflect.TypeFor[events.ID]()],
			"type":    schema{"type": "string", "description": "The work type; absent for events of the partition."},
			"at":      schema{"type": "string", "format": "date-time"},
			"attempt": positive,
			"worker":  schema{"type": "string"},
			"data":    schema{"type": "object", "description": "The payload of the kind."},
		},
		"allOf": kinds,
	}
}

// notOurs matches the names of headers that do not begin with Work-.
const notOurs = "^([^Ww]|[Ww]([^Oo]|$)|[Ww][Oo]([^Rr]|$)|[Ww][Oo][Rr]([^Kk]|$)|[Ww][Oo][Rr][Kk]([^-]|$))"

// headerDocument describes the headers of submissions and of dispatched
// messages. A header that may come several times is given once, joined by
// commas.
func headerDocument() schema {
	text := func(say string) schema { return schema{"type": "string", "description": say} }
	duration := func(say string) schema {
		return schema{"type": "string", "pattern": `^([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h)(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h))*$|^0$`, "description": say + " A Go duration, such as 90s or 1h30m."}
	}
	moment := func(say string) schema {
		return schema{"type": "string", "format": "date-time", "description": say + " RFC 3339."}
	}
	number := func(say string) schema {
		return schema{"type": "string", "pattern": "^[0-9]+$", "description": say}
	}
	id := schema{"type": "string", "pattern": fixed[reflect.TypeFor[events.ID]()]["pattern"], "description": "The item: a ULID."}
	token := schema{"type": "string", "pattern": "^[0-9a-z]+$", "description": "The fencing token of this dispatch."}
	return schema{
		"$schema": dialect, "$id": "urn:streamwright:" + Version + ":headers.json", "title": "The headers of messages",
		"$defs": schema{
			"Submission": schema{"type": "object", "description": "Of a plain publish to work.submit.<type>. All are optional; a Work- header that is not listed makes the submission a rejected event.",
				"properties": schema{
					wire.HeaderID: id, wire.HeaderPriority: text("0 to 9, higher first; or low, medium, high."),
					wire.HeaderDedupKey: text("At most 512 bytes."), wire.HeaderIdempotencyKey: text("At most 512 bytes."),
					wire.HeaderAvailableAt: moment("Not before."), wire.HeaderDelay: duration("Not before so long from now."),
					wire.HeaderMaxAttempts: number("1 to 1,000."), wire.HeaderTimeout: duration("For one attempt."),
					wire.HeaderCapabilities: text("What a worker must have: names with commas between them."),
					wire.HeaderSource:       text("Why the item exists: who made it."), wire.HeaderTrigger: text("Why the item exists: what made it do so."),
					wire.HeaderTenant: text("On whose behalf."), wire.HeaderLabels: text("key=value, with commas between them."),
					wire.HeaderTrace: text("W3C trace context."),
					wire.HeaderBatch: text("The batch that it belongs to: an id."),
					wire.HeaderAfter: text("The items that must have ended before: ids with commas between them."), wire.HeaderAfterPolicy: fixed[reflect.TypeFor[events.AfterPolicy]()],
					wire.HeaderDedupPolicy: fixed[reflect.TypeFor[events.DedupPolicy]()], wire.HeaderDedupWindow: duration("How long the dedup key stays taken after completion."),
					wire.HeaderExpiresAt: moment("Cancelled if it has not started by then."), wire.HeaderEstimatedDuration: duration("How long a run is likely to take: what the waits of those behind it go by."),
					"Nats-Msg-Id": text("A message of the same type that is published with it again within two minutes makes no second item."),
				},
				"patternProperties":    schema{notOurs: true},
				"additionalProperties": false,
			},
			"Dispatched": schema{"type": "object", "description": "Of a message that a worker of an ack type gets from the stream of dispatched messages.",
				"required": []string{wire.HeaderID, wire.HeaderType, wire.HeaderAttempt, wire.HeaderToken, wire.HeaderLease, wire.HeaderDeadline},
				"properties": schema{
					wire.HeaderID: id, wire.HeaderType: text("The work type."), wire.HeaderAttempt: number("The number of the attempt, from 1."),
					wire.HeaderToken: token, wire.HeaderLease: duration("The lease: what the message may go without +WPI."),
					wire.HeaderDeadline: duration("How long the attempt may take from its start."),
					wire.HeaderLabels:   text("key=value, with commas between them; absent: none."), wire.HeaderTrace: text("W3C trace context of the submission; absent: none."),
				},
			},
		},
	}
}

// endpointIndex maps each endpoint to the schemas of its request and reply.
func endpointIndex() schema {
	ref := func(t reflect.Type) schema {
		if t.Kind() == reflect.Slice {
			return schema{"type": "array", "maxItems": events.MaxSubmitBatch, "items": schema{"$ref": "types.json" + refPrefix + t.Elem().Name()}}
		}
		return schema{"$ref": "types.json" + refPrefix + t.Name()}
	}
	either := func(e wire.Endpoint, t reflect.Type) schema {
		if !e.Array {
			return ref(t)
		}
		return schema{"oneOf": []schema{ref(t), ref(reflect.SliceOf(t))}}
	}
	list := schema{}
	for _, e := range Endpoints() {
		entry := schema{"subject": wire.Default.API(e.Name), "request": either(e, e.Request),
			"reply": schema{"anyOf": []schema{either(e, e.Reply), {"$ref": "types.json" + refPrefix + "ErrorReply"}}}}
		if e.Stream {
			entry["stream"] = true
		}
		list[e.Name] = entry
	}
	return schema{"version": Version, "endpoints": list}
}
