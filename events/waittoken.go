package events

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"
)

// WaitToken is a secret by which somebody outside sends an item one signal, without a login: who
// has it need only present it. The log has its hash alone.
type WaitToken struct {
	Name string `json:"name"` // of the signal
	Hash string `json:"hash"` // SHA-256 of its text, in lower-case hex
	// For makes it a link: it answers the question whose answer has the name, as the one whom it
	// was given to.
	For string `json:"for,omitempty"`

	Signal int    `json:"signal,omitempty"` // the number of the signal that it has become; 0: nobody has presented it
	Answer string `json:"answer,omitempty"` // [DigestAnswer] of that
	// Question is the number of the question that the link was for, once that is over: the link's
	// answer, another's, or none.
	Question int       `json:"question,omitempty"`
	At       time.Time `json:"at,omitzero"` // of that
}

// Open reports whether the token may still be presented.
func (t *WaitToken) Open() bool { return t.Signal == 0 && t.Question == 0 }

// SignalError is what somebody who presents a token says instead of a result.
type SignalError struct {
	Code    string `json:"code,omitempty"`    // at most 256 bytes
	Message string `json:"message,omitempty"` // cut to 4 KiB
}

// Error returns the message, with its code.
func (e *SignalError) Error() string {
	switch {
	case e.Code == "":
		return e.Message
	case e.Message == "":
		return e.Code
	}
	return e.Code + ": " + e.Message
}

// TokenGiven is the payload of token_given: a run has a token for its item.
type TokenGiven struct {
	Name string `json:"name"`
	Hash string `json:"hash"`
	For  string `json:"for,omitempty"`
}

func (*TokenGiven) Kind() Kind { return KindTokenGiven }

// IsWaitTokenHash reports whether a text has the form of a token's hash.
func IsWaitTokenHash(text string) bool {
	sum, err := hex.DecodeString(text)
	return err == nil && len(sum) == sha256.Size && text == strings.ToLower(text)
}

// DigestAnswer tells one answer to a token from another: a payload, as the log has it, or an error.
func DigestAnswer(payload []byte, failed *SignalError) string {
	h := sha256.New()
	if failed != nil {
		h.Write([]byte("error\x00" + failed.Code + "\x00" + failed.Message))
	} else {
		h.Write([]byte("result\x00"))
		h.Write(payload)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
