package wire

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"strings"

	"github.com/streamwright/streamwright/events"
)

// TokensPath is the path below which tokens are presented, without a login.
const TokensPath = "/api/v1/tokens/"

// waitTokenSecret is the number of random bytes in a token: nobody guesses 160 bits.
const waitTokenSecret = 20

// NewWaitToken makes a token for an item: ID-SECRET, 59 characters, of which the secret has 32 of
// A to Z and 2 to 7.
func NewWaitToken(id events.ID) string {
	var secret [waitTokenSecret]byte
	_, _ = rand.Read(secret[:]) // never fails
	return id.String() + "-" + base32.StdEncoding.EncodeToString(secret[:])
}

// WaitTokenItem returns the item that a token is for. ok is false for what can't be a token.
func WaitTokenItem(token string) (id events.ID, ok bool) {
	name, secret, _ := strings.Cut(token, "-")
	id, err := events.ParseID(name)
	return id, err == nil && secret != "" && len(token) <= events.MaxNameLen
}

// HashWaitToken returns the SHA-256 of a token's text, in lower-case hex.
func HashWaitToken(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
