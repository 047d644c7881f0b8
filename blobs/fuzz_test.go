package blobs

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/events"
)

// FuzzRef reads any document as a reference. What is one is bounded, names an
// item, and is written and read again as the same; what is none is refused with
// a code, or left alone.
func FuzzRef(f *testing.F) {
	f.Add([]byte(`{"$blob":{"name":"01JD3V6YB2M4C9W8ZK5T7QXRNE.params","size":12,"digest":"SHA-256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU="}}`))
	f.Add([]byte(` {"$blob" : {"name":"01jd3v6yb2m4c9w8zk5t7qxrne.>","size":-1,"digest":""}}`))
	f.Add([]byte(`{"$blob":{"name":"x","size":1e3,"digest":"d"},"$blob":1}`))
	f.Add([]byte(`{"$blob":null}`))
	f.Add([]byte(`{"a":1}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		ref, found, err := Find(doc)
		if parsed, perr := Parse(doc); found && (perr != nil || parsed != ref) || !found && perr == nil {
			t.Fatalf("%q: found is %v, %v; parsed is %v, %v", doc, found, ref, parsed, perr)
		}
		if err != nil {
			var refused *events.Error
			if !errors.As(err, &refused) || refused.Code != events.CodeBadParams || len(refused.Message) > 4096 {
				t.Fatalf("%q: %v", doc, err)
			}
		}
		if !found {
			return
		}
		if len(doc) > MaxRefBytes+64 || len(ref.Name) > MaxNameBytes || ref.Size < 0 || strings.ContainsAny(ref.Name, "*> /\\\x00") || ref.Item().IsZero() {
			t.Fatalf("%q gives %+v of item %s", doc, ref, ref.Item())
		}
		if !json.Valid(bytes.TrimSpace(doc)) {
			t.Fatalf("%q is a reference and no JSON", doc)
		}
		if again, err := Parse(ref.Document()); err != nil || again != ref {
			t.Fatalf("%+v is written as %s and read as %+v, %v", ref, ref.Document(), again, err)
		}
	})
}
