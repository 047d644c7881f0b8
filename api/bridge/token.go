package bridge

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// MaxTokenBytes bounds a session's token. It carries the worker's types and
// capabilities.
const MaxTokenBytes = 8 << 10

// newToken makes the token of a new session of a worker.
func newToken(reg wire.WorkerRegistration) (string, error) {
	doc, err := json.Marshal(reg)
	if err != nil {
		return "", events.Refuse(events.CodeBadRequest, "%v", err)
	}
	token := base64.RawURLEncoding.EncodeToString(doc) + "." + rand.Text()
	if len(token) > MaxTokenBytes {
		return "", events.Refuse(events.CodeTooLarge, "the worker's types, capabilities, host and version are too much: their session has %d bytes, at most %d; register fewer types", len(token), MaxTokenBytes)
	}
	return token, nil
}

// readToken returns the registration that a worker's token carries.
func readToken(worker, token string) (wire.WorkerRegistration, error) {
	var reg wire.WorkerRegistration
	text, secret, ok := strings.Cut(token, ".")
	if !ok || secret == "" || len(token) > MaxTokenBytes {
		return reg, errNoSession(worker)
	}
	doc, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(doc, &reg) != nil {
		return reg, errNoSession(worker)
	}
	if reg.Worker != worker {
		return reg, errNotYours(worker)
	}
	return reg, nil
}

// engineSession is what the engine knows a session by. Those who may read the
// list of workers see it, so it must not give the token away.
func engineSession(token string) string {
	sum := sha256.Sum256([]byte(token))
	return "http-" + base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16])
}

func errNoSession(worker string) error {
	return events.Refuse(events.CodeUnknownWorker, "worker %s has no such session: register, and send the session of the reply with each request", worker)
}

func errNotYours(worker string) error {
	return events.Refuse(events.CodeWorkerIDInUse, "the session is not that of worker %s: use the session that its registration returned", worker)
}
