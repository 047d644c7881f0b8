package layout

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/streamwright/streamwright/events"
)

// DescribeKey says what a key of the store stands for.
func DescribeKey(key []byte) string {
	if len(key) == 0 {
		return "an empty key"
	}
	r := KeyReader{B: key[1:]}
	s := describeRest(key[0], &r)
	if s == "" || r.Err != nil || len(r.B) > 0 {
		return fmt.Sprintf("a key of no known kind (%q)", key)
	}
	return s
}

func describeRest(prefix byte, r *KeyReader) string {
	switch prefix {
	case PrefixMeta:
		return describeMeta(r.Byte())
	case PrefixType:
		return "type " + r.rest()
	case PrefixItem:
		return "item " + r.ID().String()
	case PrefixParams:
		return "params of item " + r.ID().String()
	case PrefixResult:
		return "result of item " + r.ID().String()
	case prefixCheckpoint:
		return "checkpoint of item " + r.ID().String()
	case prefixOutcomes:
		return "how the children of item " + r.ID().String() + " ended"
	case prefixChildren:
		return "children of item " + r.ID().String() + " that are still to be made"
	case prefixQuestion:
		return "question of item " + r.ID().String()
	case prefixMailbox:
		return "signals of item " + r.ID().String()
	case PrefixRecord:
		return fmt.Sprintf("record of kind %c: %s", r.Byte(), r.rest())
	case PrefixHistory:
		id := r.ID()
		return fmt.Sprintf("event %d in the history of item %s", r.Seq(), id)
	case PrefixMerged:
		id := r.ID()
		return fmt.Sprintf("submission merged into item %s by event %d", id, r.Seq())
	case PrefixKey:
		return describeRef(r.Ref())
	case PrefixExpiry:
		r.Byte() // the clock follows from the kind
		at := FromNanos(r.Nanos())
		return fmt.Sprintf("expiry at %s of %s", showTime(at), describeRef(r.Ref()))
	}
	return describeIndex(prefix, r)
}

func describeMeta(name byte) string {
	switch name {
	case MetaState:
		return "the partition's record"
	case MetaChecksum:
		return "the last event's checksum"
	case MetaIdentity:
		return "the log's identity"
	case MetaKeeps:
		return "that it keeps what is pruned"
	case MetaRejected:
		return "the book of rejected submissions"
	}
	return ""
}

func describeIndex(prefix byte, r *KeyReader) string {
	switch prefix {
	case PrefixList:
		state, t := events.ItemState(r.Byte()), r.Text()
		p := r.Place()
		return fmt.Sprintf("list entry of item %s: %s, type %s, event %d", p.ID, state, t, p.Seq)
	case PrefixReady:
		t, lane, prio, group := r.Text(), r.Text(), r.Byte(), r.Text()
		order := FromNanos(r.Nanos())
		return fmt.Sprintf("ready entry of item %s: type %s, lane %q, priority %d, group %q, order %s", r.ID(), t, lane, prio, group, showTime(order))
	case PrefixTimer:
		at := FromNanos(r.Nanos())
		return fmt.Sprintf("timer of item %s at %s", r.ID(), showTime(at))
	case prefixWorker:
		w := r.Text()
		return fmt.Sprintf("item %s among those that worker %s holds", r.ID(), w)
	case prefixIntake:
		return fmt.Sprintf("intake message %d", r.Uint())
	case PrefixWaiter:
		of := r.ID()
		return fmt.Sprintf("item %s among those that wait for item %s", r.ID(), of)
	case PrefixChild:
		of := r.ID()
		return fmt.Sprintf("item %s among the children of item %s", r.ID(), of)
	case PrefixDead:
		cause := r.Text()
		p := r.Place()
		return fmt.Sprintf("item %s among those that are dead of cause %q", p.ID, cause)
	case PrefixTerm:
		return describeTerm(r.Byte(), r)
	case PrefixRejected:
		return fmt.Sprintf("rejected submission of event %d", r.Seq())
	case PrefixAnswer:
		return fmt.Sprintf("what intake message %d became", r.Uint())
	case PrefixFollowUp:
		return "item " + r.ID().String() + " among those that need a follow-up"
	}
	return ""
}

func describeTerm(kind byte, r *KeyReader) string {
	what := map[byte]string{TermTenant: "tenant", TermDedup: "dedup key", TermWord: "the word", TermSchedule: "schedule"}[kind]
	value := r.Text()
	text := fmt.Sprintf("%q", value)
	switch kind {
	case TermLabel:
		what, text = "label", fmt.Sprintf("%s=%s", r.Text(), text)
	case TermParent:
		var id events.ID
		copy(id[:], value)
		what, text = "parent", id.String()
	}
	p := r.Place()
	return fmt.Sprintf("item %s among those with %s %s, event %d", p.ID, what, text, p.Seq)
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

// DescribeDifference says how two values of one key differ, in the store
// named a and the one named b.
func DescribeDifference(key, a, b []byte) string {
	what := DescribeKey(key)
	if len(key) == 17 && key[0] == PrefixItem {
		ia, aerr := DecodeItem(events.ID(key[1:]), a)
		ib, berr := DecodeItem(events.ID(key[1:]), b)
		if aerr == nil && berr == nil {
			return what + " differs: " + itemDifference(ia, ib)
		}
	}
	if len(key) == 25 && key[0] == PrefixHistory {
		of := events.ID(key[1:17])
		if ja, err := events.UnpackJSON(nil, of, a); err == nil {
			a = ja
		}
		if jb, err := events.UnpackJSON(nil, of, b); err == nil {
			b = jb
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
