package wire

import (
	"encoding/base64"

	"github.com/streamwright/streamwright/events"
)

// Held asks which live item holds a dedup key.
type Held struct {
	Type        string   `json:"type"`
	Key         string   `json:"key"` // the dedup key
	MinPosition Position `json:"min_position,omitempty"`
}

// Holder is the live item that holds a dedup key. The KV bucket of taken dedup
// keys has it in the same form.
type Holder struct {
	ID    string           `json:"id"`
	State events.ItemState `json:"state"`
}

// DedupBucket is the KV bucket of taken dedup keys; see [Names.Bucket].
const DedupBucket = "dedup"

// DedupPosition is the bucket's entry with the position of the log that it shows.
// No type has this name.
const DedupPosition = "_.position"

// DedupEntry is a dedup key's form in the bucket: the type, a dot, and the key
// in unpadded base64url (RFC 4648 §5), since a dedup key may hold any byte and
// a KV key may not. The shell's
//
//	printf %s KEY | base64 -w0 | tr '+/' '-_' | tr -d =
//
// gives the second part.
func DedupEntry(t events.Type, key string) string {
	return string(t) + "." + base64.RawURLEncoding.EncodeToString([]byte(key))
}
