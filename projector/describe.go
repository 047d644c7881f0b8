package projector

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/streamwright/streamwright/events"
)

// describeKey says what a key of the store stands for.
func describeKey(key []byte) string {
	if len(key) == 0 {
		return "an empty key"
	}
	r := keyReader{b: key[1:]}
	s := describeRest(key[0], &r)
	if s == "" || r.err != nil || len(r.b) > 0 {
		return fmt.Sprintf("a key of no known kind (%q)", key)
	}
	return s
}

func describeRest(prefix byte, r *keyReader) string {
	switch prefix {
	case prefixMeta:
		return describeMeta(r.byte())
	case prefixType:
		return "type " + r.rest()
	case prefixItem:
		return "item " + r.id().String()
	case prefixParams:
		return "params of item " + r.id().String()
	case prefixResult:
		return "result of item " + r.id().String()
	case prefixCheckpoint:
		return "checkpoint of item " + r.id().String()
	case prefixOutcomes:
		return "how the children of item " + r.id().String() + " ended"
	case prefixRecord:
		return fmt.Sprintf("record of kind %c: %s", r.byte(), r.rest())
	case prefixHistory:
		id := r.id()
		return fmt.Sprintf("event %d in the history of item %s", r.seq(), id)
	case prefixMerged:
		id := r.id()
		return fmt.Sprintf("submission merged into item %s by event %d", id, r.seq())
	case prefixKey:
		return describeRef(r.ref())
	case prefixExpiry:
		r.byte() // the clock follows from the kind
		at := fromNanos(r.nanos())
		return fmt.Sprintf("expiry at %s of %s", showTime(at), describeRef(r.ref()))
	}
	return describeIndex(prefix, r)
}

func describeMeta(name byte) string {
	switch name {
	case metaState:
		return "the partition's record"
	case metaChecksum:
		return "the last event's checksum"
	case metaIdentity:
		return "the log's identity"
	case metaRejected:
		return "the book of rejected submissions"
	}
	return ""
}

func describeIndex(prefix byte, r *keyReader) string {
	switch prefix {
	case prefixList:
		state, t := events.ItemState(r.byte()), r.text()
		p := r.place()
		return fmt.Sprintf("list entry of item %s: %s, type %s, event %d", p.id, state, t, p.seq)
	case prefixReady:
		t, lane, prio, group := r.text(), r.text(), r.byte(), r.text()
		order := fromNanos(r.nanos())
		return fmt.Sprintf("ready entry of item %s: type %s, lane %q, priority %d, group %q, order %s", r.id(), t, lane, prio, group, showTime(order))
	case prefixTimer:
		at := fromNanos(r.nanos())
		return fmt.Sprintf("timer of item %s at %s", r.id(), showTime(at))
	case prefixWorker:
		w := r.text()
		return fmt.Sprintf("item %s among those that worker %s holds", r.id(), w)
	case prefixIntake:
		return fmt.Sprintf("intake message %d", r.uint())
	case prefixWaiter:
		of := r.id()
		return fmt.Sprintf("item %s among those that wait for item %s", r.id(), of)
	case prefixChild:
		of := r.id()
		return fmt.Sprintf("item %s among the children of item %s", r.id(), of)
	case prefixDead:
		cause := r.text()
		p := r.place()
		return fmt.Sprintf("item %s among those that are dead of cause %q", p.id, cause)
	case prefixTerm:
		return describeTerm(r.byte(), r)
	case prefixRejected:
		return fmt.Sprintf("rejected submission of event %d", r.seq())
	case prefixAnswer:
		return fmt.Sprintf("what intake message %d became", r.uint())
	case prefixFollowUp:
		return "item " + r.id().String() + " among those that need a follow-up"
	}
	return ""
}

func describeTerm(kind byte, r *keyReader) string {
	what := map[byte]string{termTenant: "tenant", termDedup: "dedup key", termWord: "the word", termSchedule: "schedule"}[kind]
	value := r.text()
	text := fmt.Sprintf("%q", value)
	switch kind {
	case termLabel:
		what, text = "label", fmt.Sprintf("%s=%s", r.text(), text)
	case termParent:
		var id events.ID
		copy(id[:], value)
		what, text = "parent", id.String()
	}
	p := r.place()
	return fmt.Sprintf("item %s among those with %s %s, event %d", p.id, what, text, p.seq)
}

func describeRef(ref events.KeyRef) string {
	switch ref.Kind {
	case events.KeyDedup:
		return fmt.Sprintf("dedup key %q of type %s", ref.Key, ref.Type)
	case events.KeyIdempotency:
		return fmt.Sprintf("idempotency key %q of type %s", ref.Key, ref.Type)
	case events.KeyRate:
		return fmt.Sprintf("rate limit %q of type %s", ref.Key, ref.Type)
	case events.KeyGroup:
		return fmt.Sprintf("runs of group %q of type %s", ref.Key, ref.Type)
	case events.KeyMsgID:
		return fmt.Sprintf("message id %q", ref.Key)
	}
	return fmt.Sprintf("key %q of kind %q and type %q", ref.Key, byte(ref.Kind), ref.Type)
}

func showTime(t time.Time) string {
	if t.IsZero() {
		return "no time"
	}
	return t.Format(time.RFC3339Nano)
}

// describeDifference says how two values of one key differ, in the store
// named a and the one named b.
func describeDifference(key, a, b []byte) string {
	what := describeKey(key)
	if len(key) == 17 && key[0] == prefixItem {
		ia, aerr := decodeItem(events.ID(key[1:]), a)
		ib, berr := decodeItem(events.ID(key[1:]), b)
		if aerr == nil && berr == nil {
			return what + " differs: " + itemDifference(ia, ib)
		}
	}
	return fmt.Sprintf("%s differs: %s, against %s", what, showValue(a), showValue(b))
}

// itemDifference lists the fields in which two items differ.
func itemDifference(a, b *events.Item) string {
	va, vb := reflect.ValueOf(*a), reflect.ValueOf(*b)
	var parts []string
	for i := range va.NumField() {
		if x, y := va.Field(i).Interface(), vb.Field(i).Interface(); !reflect.DeepEqual(x, y) {
			parts = append(parts, fmt.Sprintf("%s is %v, against %v", va.Type().Field(i).Name, x, y))
		}
	}
	if parts == nil {
		return "in its encoding only"
	}
	return strings.Join(parts, "; ")
}

// showValue is a value for people: at most showBytes of it.
func showValue(v []byte) string {
	const showBytes = 120
	if len(v) > showBytes {
		return fmt.Sprintf("%q… (%d bytes)", v[:showBytes], len(v))
	}
	return fmt.Sprintf("%q", v)
}
