package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/blobs"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// FormatVersion is the format of the backups that this program writes, and the newest
// that it reads.
const FormatVersion = 1

const (
	manifestFile = "manifest.json"
	// partialFile lists what an unfinished run has copied.
	partialFile = "unfinished.json"
	// maxManifest bounds a manifest: some 300 bytes a segment.
	maxManifest = 64 << 20
)

// The streams of a backup, by what they hold.
const (
	Events    = "events"
	Intake    = "intake"
	Logs      = "logs"
	Output    = "output"
	Documents = "documents"
)

var kinds = []string{Events, Intake, Logs, Output, Documents}

// streamOf returns the name of the stream that holds something.
func streamOf(kind string, n wire.Names) string {
	switch kind {
	case Events:
		return n.EventStream(0)
	case Intake:
		return n.IntakeStream()
	case Logs:
		return n.LogStream()
	case Output:
		return n.OutputStream()
	}
	return blobs.Stream(n)
}

// Manifest says what a backup holds.
type Manifest struct {
	Format   int       `json:"format"`
	ID       string    `json:"id"`                 // of this backup; each run makes another
	Previous string    `json:"previous,omitempty"` // the backup that this one continues
	Prefix   string    `json:"prefix"`             // of the engine's subjects
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished"`

	First events.Seq `json:"first"` // the log's first position in it
	Last  events.Seq `json:"last"`  // and its last: the backup is the state as of that

	Durability string   `json:"durability,omitempty"` // of the engine that was backed up
	Program    string   `json:"program,omitempty"`    // version of what made the backup
	Streams    []Stream `json:"streams"`
}

// Stream is the part of a backup that comes from one stream.
type Stream struct {
	Kind    string                 `json:"kind"` // what it holds: events, intake, logs, output, documents
	Name    string                 `json:"name"`
	Created time.Time              `json:"created"` // its identity
	Config  jetstream.StreamConfig `json:"config"`

	// First and Last are the range that the stream had: the positions between them
	// that no segment holds did not exist any more. First is Last+1 if it was empty.
	First    uint64    `json:"first"`
	Last     uint64    `json:"last"`
	Segments []Segment `json:"segments,omitempty"`
}

// Segment is one file.
type Segment struct {
	File    string `json:"file"`
	First   uint64 `json:"first"` // sequence of its first message
	Last    uint64 `json:"last"`
	Records int    `json:"records"`
	Raw     int64  `json:"raw"`  // bytes before compression
	Size    int64  `json:"size"` // bytes of the file
	SHA256  string `json:"sha256"`
	LastSum string `json:"last_sum"` // of its last message
}

// Stream returns what the backup has of a kind, nil for nothing.
func (m *Manifest) Stream(kind string) *Stream {
	for i := range m.Streams {
		if m.Streams[i].Kind == kind {
			return &m.Streams[i]
		}
	}
	return nil
}

// put replaces what the manifest has of a kind.
func (m *Manifest) put(s Stream) {
	if have := m.Stream(s.Kind); have != nil {
		*have = s
		return
	}
	m.Streams = append(m.Streams, s)
}

// Records counts the messages of a stream's segments.
func (s *Stream) Records() (n int64) {
	if s == nil {
		return 0
	}
	for _, seg := range s.Segments {
		n += int64(seg.Records)
	}
	return n
}

// Size returns the bytes of a stream's segments.
func (s *Stream) Size() (n int64) {
	if s == nil {
		return 0
	}
	for _, seg := range s.Segments {
		n += seg.Size
	}
	return n
}

// envelope is a manifest as it is stored, with the checksum of its bytes.
type envelope struct {
	SHA256   string          `json:"sha256"`
	Manifest json.RawMessage `json:"manifest"`
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

func (m *Manifest) encode() ([]byte, error) {
	inner, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	out, err := json.Marshal(envelope{SHA256: sum(inner), Manifest: inner})
	return append(out, '\n'), err
}

// ErrDamaged is wrapped by the errors of a backup that is not what was written. They
// name the file.
var ErrDamaged = errors.New("the backup is damaged")

func damaged(file, format string, args ...any) error {
	return fmt.Errorf("%w: %s %s: restore from another backup, or from an undamaged copy of this one", ErrDamaged, file, fmt.Sprintf(format, args...))
}

func decodeManifest(file string, r io.Reader) (*Manifest, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxManifest+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	if len(data) > maxManifest {
		return nil, damaged(file, "is larger than %d bytes", maxManifest)
	}
	var e envelope
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&e); err != nil {
		return nil, damaged(file, "can't be read (%v)", err)
	}
	if sum(e.Manifest) != e.SHA256 {
		return nil, damaged(file, "does not have the checksum that it names")
	}
	var m Manifest
	if err := json.Unmarshal(e.Manifest, &m); err != nil {
		return nil, damaged(file, "can't be read (%v)", err)
	}
	if m.Format > FormatVersion {
		return nil, events.WithCode(events.CodeNewerFormat, fmt.Errorf("%s: the backup has format %d, this program knows up to %d: use a newer program", file, m.Format, FormatVersion))
	}
	return &m, m.check(file)
}

// check refuses what no run writes, so that names and sizes can be relied on.
func (m *Manifest) check(file string) error {
	for _, s := range m.Streams {
		last := uint64(0)
		for _, seg := range s.Segments {
			if !isSegment(seg.File) || seg.First <= last || seg.Last < seg.First || seg.Size < 0 || seg.Size > maxSegmentFile {
				return damaged(file, "names a segment %q that can't be one", seg.File)
			}
			last = seg.Last
		}
	}
	return nil
}
