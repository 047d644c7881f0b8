package core

import (
	"github.com/streamwright/streamwright/events"
)

// msgID is the key of the message that the item came with.
func msgID(it *events.Item) events.KeyRef {
	return events.KeyRef{Kind: events.KeyMsgID, Type: it.Type, Key: it.MsgID}
}

// allKeys are the keys that can lead to the item.
func allKeys(it *events.Item) []events.KeyRef {
	refs := keyRefs(it)
	if it.MsgID != "" {
		refs = append(refs, msgID(it))
	}
	return refs
}

// keyRefs are those of them that the submitter chose for the item.
func keyRefs(it *events.Item) (refs []events.KeyRef) {
	if it.DedupKey != "" {
		refs = append(refs, events.KeyRef{Kind: events.KeyDedup, Type: it.Type, Key: it.DedupKey})
	}
	if it.IdempotencyKey != "" {
		refs = append(refs, events.KeyRef{Kind: events.KeyIdempotency, Type: it.Type, Key: it.IdempotencyKey})
	}
	return refs
}

// relations returns a copy of the item's relations, the zero value for none.
func relationsOf(it *events.Item) events.Relations {
	if it.Relations == nil {
		return events.Relations{}
	}
	return *it.Relations
}
