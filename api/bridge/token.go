package bridge

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// MaxTokenBytes bounds a session's token. It carries the worker's types and
// capabilities.
const MaxTokenBytes = 8 << 10

// KeyBytes is the length of a key that signs sessions.
const KeyBytes = 32

// signingKey makes and reads the tokens of sessions. It has KeyBytes.
type signingKey []byte

// newToken makes the token of a new session of a worker, for whoever makes the
// request: the registration, a secret, and a signature over both and the requester's name.
func (k signingKey) newToken(ctx context.Context, reg wire.WorkerRegistration) (string, error) {
	doc, err := json.Marshal(reg)
	if err != nil {
		return "", events.Refuse(events.CodeBadRequest, "%v", err)
	}
	signed := base64.RawURLEncoding.EncodeToString(doc) + "." + rand.Text()
	token := signed + "." + k.sign(ctx, signed)
	if len(token) > MaxTokenBytes {
		return "", events.Refuse(events.CodeTooLarge, "the worker's types, capabilities, host and version are too much: their session has %d bytes, at most %d; register fewer types", len(token), MaxTokenBytes)
	}
	return token, nil
}

// sign makes the signature of a session. Who has registered is signed along, so
// that it is of no use to another login.
func (k signingKey) sign(ctx context.Context, signed string) string {
	h := hmac.New(sha256.New, k)
	_, _ = fmt.Fprintf(h, "streamwright http worker session\n%q\n%s", access.NameOf(ctx), signed) // a hash takes everything
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// readToken returns the registration that a worker's token carries, if the
// token was made by this engine for whoever makes the request.
func (k signingKey) readToken(ctx context.Context, worker, token string) (wire.WorkerRegistration, error) {
	var reg wire.WorkerRegistration
	end := strings.LastIndexByte(token, '.')
	if end < 0 || len(token) > MaxTokenBytes || !sameToken(token[end+1:], k.sign(ctx, token[:end])) {
		return reg, errNoSession(worker)
	}
	text, _, _ := strings.Cut(token, ".")
	doc, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(doc, &reg) != nil {
		return reg, errNoSession(worker)
	}
	if reg.Worker != worker {
		return reg, errNotYours(worker)
	}
	return reg, nil
}

// engineSession returns the name by which the engine knows a session. Those who may read the
// list of workers see it, so it must not give the token away.
func engineSession(token string) string {
	sum := sha256.Sum256([]byte(token))
	return "http-" + base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16])
}

func errNoSession(worker string) error {
	return events.Refuse(events.CodeUnknownWorker, "worker %s has no such session: register, and send the session of the reply with each request", worker)
}

func errNotYours(worker string) error {
	return events.Refuse(events.CodeWorkerIDInUse, "the session is not that of worker %s: use the session that its registration returned; if another worker has registered under this id, stop what you run", worker)
}
