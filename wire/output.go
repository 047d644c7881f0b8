package wire

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"time"
	"unicode/utf8"
)

// Bounds of an item's output.
const (
	// MaxOutputChunk bounds the bytes of one chunk.
	MaxOutputChunk = 64 << 10
	// MaxOutputChunks bounds the chunks of one run.
	MaxOutputChunks = 1 << 16
)

// OutputBytes are bytes of an item's output in JSON: as text if they are valid UTF-8, else
// in base64.
type OutputBytes struct {
	Text   string `json:"text,omitempty"`
	Base64 string `json:"base64,omitempty"` // in place of text
}

// OutputBytesOf returns the form in JSON of some bytes.
func OutputBytesOf(b []byte) OutputBytes {
	if utf8.Valid(b) {
		return OutputBytes{Text: string(b)}
	}
	return OutputBytes{Base64: base64.StdEncoding.EncodeToString(b)}
}

// Bytes returns the bytes. It fails if base64 can't be read, or text is there as well.
func (o *OutputBytes) Bytes() ([]byte, error) {
	switch {
	case o.Base64 == "":
		return []byte(o.Text), nil
	case o.Text != "":
		return nil, errTextAndBase64
	}
	return base64.StdEncoding.DecodeString(o.Base64)
}

var errTextAndBase64 = errors.New("both text and base64 are given: give one of them")

// OutputWrite adds a chunk to the output of an item, by the run that has it. The first chunk
// of a run takes the place of what an earlier run has written; it may be empty.
type OutputWrite struct {
	ID    string `json:"id"`
	Token string `json:"token"`
	// Offset is the number of bytes that the run has written before this chunk: what is stored
	// already of a chunk that is sent again is not stored twice. Left out, the chunk is
	// stored behind what is there.
	Offset *int `json:"offset,omitempty"`
	OutputBytes
}

// Output asks for an item's output, from its beginning or behind a chunk.
type Output struct {
	ID    string `json:"id"`
	After uint64 `json:"after,omitempty"` // the seq of the last chunk that the reader has
}

// OutputReply is a part of an item's output. With More there are chunks behind these.
type OutputReply struct {
	Chunks []OutputChunk `json:"chunks"`
	More   bool          `json:"more,omitempty"`
}

// OutputChunk is a part of what one run of an item has written.
type OutputChunk struct {
	Seq uint64 `json:"seq"` // its position, which grows with each chunk
	// Reset says that it is the first chunk of a run: a reader drops what an earlier run
	// has written.
	Reset   bool      `json:"reset,omitempty"`
	Attempt int       `json:"attempt"`
	At      time.Time `json:"at"`
	// Offset is the number of bytes that the run has written before. If it is more than the
	// reader has of this run, the bytes between are no longer kept.
	Offset int  `json:"offset"`
	Cut    bool `json:"cut,omitempty"` // the output has reached its bound here
	OutputBytes
}

// OutputSummary says how much of a run's output is stored. It answers an OutputWrite.
type OutputSummary struct {
	Bytes int `json:"bytes"` // the offset of the run's next chunk
	// Cut says that the output has reached its bound. What is beyond is not stored, of a
	// chunk and of all that follow.
	Cut bool `json:"cut,omitempty"`
}

// OutputResult returns the result that refers to an item's output.
func OutputResult(s OutputSummary) json.RawMessage {
	doc, _ := json.Marshal(map[string]OutputSummary{"output": s}) // it can't fail
	return doc
}
