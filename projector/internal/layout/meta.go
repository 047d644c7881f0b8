package layout

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/streamwright/streamwright/events"
)

// StoredMeta returns the JSON value that a store keeps of the partition's record: the
// record itself at format level 1, an array of the level and the record above. Programs
// from before there were levels can't read the array. So they don't go on from a store
// that has passed the event which raised the level; they turn to the log, which refuses
// them.
func StoredMeta(m events.Meta) any {
	if m.Level <= 1 {
		return m
	}
	return [2]any{m.Level, m}
}

// DecodeMeta reads the partition's record. The level is the caller's to judge.
func DecodeMeta(data []byte) (m events.Meta, err error) {
	const what = "the partition's record"
	if !bytes.HasPrefix(data, []byte{'['}) {
		return DecodeJSON[events.Meta](what, data)
	}
	parts, err := DecodeJSON[[2]json.RawMessage](what, data)
	if err != nil {
		return m, err
	}
	if m, err = DecodeJSON[events.Meta](what, parts[1]); err == nil && m.Level <= 1 {
		err = fmt.Errorf("%s: %w", what, ErrRecord)
	}
	return m, err
}
