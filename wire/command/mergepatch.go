package command

import (
	"bytes"
	"encoding/json"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// MergePatch applies a JSON merge patch (RFC 7396) to a document: the members
// of an object in the patch replace the document's, null removes one, and any
// other patch replaces the whole document. Values that the patch does not name
// keep their bytes; members come out in the order of their names. Both must be
// valid JSON, without names that occur twice in an object that is patched or patches; an
// empty document counts as null.
func MergePatch(doc, patch []byte) ([]byte, error) {
	if !isObject(patch) {
		return bytes.TrimSpace(patch), nil
	}
	target, changes := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	if isObject(doc) {
		if err := wire.ReadStrict(doc, &target); err != nil {
			return nil, events.Refuse(events.CodeBadParams, "the document can't be patched: %s", wire.JSONFault(err))
		}
	}
	if err := wire.ReadStrict(patch, &changes); err != nil {
		return nil, events.Refuse(events.CodeBadRequest, "the patch can't be read: %s", wire.JSONFault(err))
	}
	for name, change := range changes {
		if bytes.Equal(bytes.TrimSpace(change), []byte("null")) {
			delete(target, name)
			continue
		}
		merged, err := MergePatch(target[name], change)
		if err != nil {
			return nil, err
		}
		target[name] = merged
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(target); err != nil {
		return nil, events.Refuse(events.CodeBadParams, "the patched document can't be written: %v", err)
	}
	return bytes.TrimSpace(out.Bytes()), nil
}

func isObject(doc []byte) bool {
	doc = bytes.TrimLeft(doc, " \t\r\n")
	return len(doc) > 0 && doc[0] == '{'
}
