package backup

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/blobs"
	"github.com/streamwright/streamwright/wire"
)

// rename gives what a namespace holds the names of another one. Events name items by their
// ids, and documents by name and digest: only subjects, and the descriptions of documents,
// have the prefix in them.
type rename struct{ from, to wire.Names }

// isNone reports whether nothing is to be renamed.
func (n rename) isNone() bool { return n.from.Prefix == n.to.Prefix }

// subject returns a subject under the new names.
func (n rename) subject(s string) (string, error) {
	for _, root := range [][2]string{
		{n.from.Prefix + ".", n.to.Prefix + "."},
		{objects(n.from), objects(n.to)},
	} {
		if rest, ok := strings.CutPrefix(s, root[0]); ok {
			return root[1] + rest, nil
		}
	}
	return "", fmt.Errorf("the subject %s is none of %s: restore under the prefix of the backup", s, n.from.Prefix)
}

// objects begins the subjects of the object store.
func objects(n wire.Names) string { return "$O." + blobs.Bucket(n) + "." }

// record renames a message.
func (n rename) record(r *Record) (err error) {
	if n.isNone() {
		return nil
	}
	was := r.Subject
	if r.Subject, err = n.subject(was); err != nil {
		return fmt.Errorf("message %d: %w", r.Seq, err)
	}
	if strings.HasPrefix(was, objects(n.from)+"M.") {
		r.Data = n.description(r.Data)
	}
	return nil
}

// description renames the bucket in the description of a document. What is no such
// description stays as it is: readers pass over it.
func (n rename) description(data []byte) []byte {
	var d map[string]json.RawMessage
	var bucket string
	if json.Unmarshal(data, &d) != nil || json.Unmarshal(d["bucket"], &bucket) != nil || bucket != blobs.Bucket(n.from) {
		return data
	}
	var err error
	if d["bucket"], err = json.Marshal(blobs.Bucket(n.to)); err != nil {
		return data
	}
	out, err := json.Marshal(d)
	if err != nil {
		return data
	}
	return out
}

// config renames the subjects of a stream.
func (n rename) config(c *jetstream.StreamConfig) (err error) {
	if n.isNone() {
		return nil
	}
	subjects := make([]string, len(c.Subjects))
	for i, s := range c.Subjects {
		if subjects[i], err = n.subject(s); err != nil {
			return err
		}
	}
	c.Subjects = subjects
	if c.SubjectTransform != nil {
		t := *c.SubjectTransform
		for _, s := range []*string{&t.Source, &t.Destination} {
			if *s, err = n.subject(*s); err != nil {
				return err
			}
		}
		c.SubjectTransform = &t
	}
	c.RePublish = nil // an engine sets none, and another's names the old subjects
	return nil
}
