package blobs

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/streamwright/streamwright/events"
)

// Bounds of a reference.
const (
	MaxRefBytes  = 1024 // a longer document is no reference
	MaxNameBytes = 128
)

// Key is the only key of a reference document.
const Key = "$blob"

const (
	digestPrefix = "SHA-256="
	idLen        = 26 // of an item's id as text
)

// Ref refers to an object. Its JSON is the reference document.
type Ref struct {
	Name   string // begins with the item's id and a dot
	Size   int64  // bytes
	Digest string // SHA-256= and the hash in URL-safe base64, as the object store has it
}

type refBody struct {
	Name   *string `json:"name"`
	Size   *int64  `json:"size"`
	Digest *string `json:"digest"`
}

// MarshalJSON is the reference document.
func (r Ref) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]refBody{Key: {&r.Name, &r.Size, &r.Digest}})
}

// Document is the reference document. REQUIRES: r is valid, as Put and Parse
// return it.
func (r Ref) Document() json.RawMessage {
	doc, err := r.MarshalJSON()
	if err != nil { // a struct of strings and a number
		panic(err)
	}
	return doc
}

// Item is the item that the object belongs to. REQUIRES: r is valid.
func (r Ref) Item() events.ID {
	id, _, _ := splitName(r.Name)
	return id
}

// IsRef reports whether a document is a reference: an object with [Key] for its
// only key. It may still be malformed, which [Parse] tells. For nearly all other
// documents it looks at the first few bytes only.
func IsRef(doc []byte) bool {
	if len(doc) > MaxRefBytes+64 || !hasKeyFirst(doc) {
		return false
	}
	doc = bytes.TrimSpace(doc)
	var only map[string]json.RawMessage
	return len(doc) <= MaxRefBytes && json.Unmarshal(doc, &only) == nil && len(only) == 1
}

func hasKeyFirst(doc []byte) bool {
	const blanks = " \t\r\n"
	doc, ok := bytes.CutPrefix(bytes.TrimLeft(doc, blanks), []byte("{"))
	return ok && bytes.HasPrefix(bytes.TrimLeft(doc, blanks), []byte(`"`+Key+`"`))
}

// Parse reads a reference document, strictly. The error is an *events.Error
// with events.CodeBadParams.
func Parse(doc []byte) (Ref, error) {
	if !IsRef(doc) {
		return Ref{}, badRef(fmt.Errorf("it is no object with the only key %q", Key))
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(doc, &all); err != nil {
		return Ref{}, badRef(err)
	}
	var body refBody
	dec := json.NewDecoder(bytes.NewReader(all[Key]))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&body); err != nil {
		return Ref{}, badRef(err)
	}
	if body.Name == nil || body.Size == nil || body.Digest == nil {
		return Ref{}, badRef(errors.New("it needs name, size and digest"))
	}
	r := Ref{Name: *body.Name, Size: *body.Size, Digest: *body.Digest}
	if err := r.check(); err != nil {
		return Ref{}, badRef(err)
	}
	return r, nil
}

// Find is Parse for a document that may be an ordinary one: then ok is false
// and there is no error.
func Find(doc []byte) (r Ref, ok bool, err error) {
	if !IsRef(doc) {
		return Ref{}, false, nil
	}
	r, err = Parse(doc)
	return r, err == nil, err
}

func badRef(err error) error {
	return events.Refuse(events.CodeBadParams, `the reference to the object store can't be read: %v; write it as {"%s":{"name":"<item id>.params","size":N,"digest":"SHA-256=…"}}`, err, Key)
}

func (r Ref) check() error {
	if _, _, err := splitName(r.Name); err != nil {
		return err
	}
	if r.Size < 0 {
		return fmt.Errorf("the size is %d: it is that of the object, in bytes", r.Size)
	}
	hash, ok := strings.CutPrefix(r.Digest, digestPrefix)
	if raw, err := base64.URLEncoding.DecodeString(hash); !ok || err != nil || len(raw) != sha256.Size {
		return fmt.Errorf("the digest %q is not %s and a SHA-256 hash in URL-safe base64 with padding", r.Digest, digestPrefix)
	}
	return nil
}

// splitName cuts an object's name into the item's id and the rest.
func splitName(name string) (events.ID, string, error) {
	if len(name) > MaxNameBytes || len(name) < idLen+2 || name[idLen] != '.' {
		return events.ID{}, "", fmt.Errorf("the name %q is not an item's id, a dot and a word, at most %d bytes", name, MaxNameBytes)
	}
	id, err := events.ParseID(name[:idLen])
	if err != nil {
		return events.ID{}, "", fmt.Errorf("the name %q does not begin with an item's id: %w", name, err)
	}
	rest := name[idLen+1:]
	for _, c := range []byte(rest) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '-', c == '_':
		default:
			return events.ID{}, "", fmt.Errorf("the name %q has other characters than letters, digits, dot, dash and underscore", name)
		}
	}
	return id, rest, nil
}

// Kind says what a document is to its item, and is part of its object's name.
type Kind string

// The kinds.
const (
	Params Kind = "params"
	Result Kind = "result"
	// Children is the list of what an item spawns: an array of submissions.
	Children Kind = "children"
)

// RefOf is the reference under which a document of an item is put: the same
// for the same bytes. It reads the document to its end, at most max bytes (more
// are refused with events.CodeTooLarge).
func RefOf(id events.ID, kind Kind, doc io.Reader, max int64) (Ref, error) {
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(doc, max+1))
	if err != nil {
		return Ref{}, fmt.Errorf("read the %s of item %s: %w", kind, id, err)
	}
	if n > max {
		return Ref{}, tooLarge(id, kind, max)
	}
	return refTo(id, kind, n, h.Sum(nil)), nil
}

func tooLarge(id events.ID, kind Kind, max int64) error {
	return events.Refuse(events.CodeTooLarge, "the %s of item %s has more than %d bytes, the bound of an object: keep it elsewhere and pass a reference to it", kind, id, max)
}

// refTo is the reference of a document of n bytes with a SHA-256 hash.
func refTo(id events.ID, kind Kind, n int64, sum []byte) Ref {
	return Ref{Name: fmt.Sprintf("%s.%s.%x", id, kind, sum[:8]), Size: n, Digest: digestOf(sum)}
}

func digestOf(sum []byte) string { return digestPrefix + base64.URLEncoding.EncodeToString(sum) }
