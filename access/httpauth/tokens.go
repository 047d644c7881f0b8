package httpauth

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/streamwright/streamwright/access"
)

// Bounds of tokens.
const (
	MaxTokens      = 1000
	MinTokenLen    = 20 // characters
	MaxTokenLen    = 512
	MinTokenKinds  = 8 // different characters
	MaxNameLen     = 63
	MaxTokensBytes = 1 << 20 // of the file

	hashed = "sha256:" // what a token that is given by its hash begins with
)

// Token is one token, known by its hash alone.
type Token struct {
	Name  string
	Roles access.Memberships
	hash  [sha256.Size]byte
	line  int
}

// Tokens are the tokens that an engine knows.
type Tokens []Token

// find returns whose token it is. It takes as long for one that is unknown, or
// nearly right, as for any other: what is compared are hashes, and all of them.
func (t Tokens) find(presented string) (found access.Identity, ok bool) {
	hash := sha256.Sum256([]byte(presented))
	match := -1
	for i := range t {
		match = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(t[i].hash[:], hash[:]), i, match)
	}
	if match < 0 {
		return access.Identity{}, false
	}
	return identity(t[match].Name, t[match].Roles), true
}

// ParseTokens reads lines of the form `name token role[,role…]`. What is behind
// a # at the beginning of a line or after a space is a comment. In place of the
// token its SHA-256 may stand, as sha256: and 64 hexadecimal digits. Errors call
// the text by from. The error joins all that is wrong, each with its line; no error
// quotes a token.
func ParseTokens(from string, text []byte) (Tokens, error) {
	var list Tokens
	var errs []error
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; len(list) <= MaxTokens && lines.Scan(); n++ {
		t, err := parseToken(lines.Text())
		if err == nil && t != nil {
			t.line = n
			err = list.clash(t)
		}
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s:%d: %w", from, n, err))
		case t != nil:
			list = append(list, *t)
		}
	}
	if err := lines.Err(); err != nil {
		errs = append(errs, fmt.Errorf("%s: %w", from, err))
	}
	if len(list) > MaxTokens {
		errs = append(errs, fmt.Errorf("%s: there are more than %d tokens: use fewer, or a proxy that knows its users", from, MaxTokens))
	}
	return list, errors.Join(errs...)
}

// clash says what a token has in common with an earlier one that it must not.
func (t Tokens) clash(more *Token) error {
	for _, old := range t {
		if old.Name == more.Name {
			return fmt.Errorf("the name %s is that of line %d as well: each token has a name of its own", more.Name, old.line)
		}
		if old.hash == more.hash {
			return fmt.Errorf("the token is that of line %d (%s) as well: make another", old.line, old.Name)
		}
	}
	return nil
}

// parseToken reads one line; nil for one that says nothing.
func parseToken(line string) (*Token, error) {
	fields := strings.Fields(line)
	for i, f := range fields {
		if strings.HasPrefix(f, "#") {
			fields = fields[:i]
			break
		}
	}
	switch len(fields) {
	case 0:
		return nil, nil
	case 3:
	default:
		return nil, fmt.Errorf("there are %d words: write it as: name token role[,role…]", len(fields))
	}
	t := &Token{Name: fields[0]}
	if !access.IsUser(t.Name) {
		return nil, fmt.Errorf("%s is no name: use letters, digits, - and _, at most %d, and not anyone", quote(t.Name), MaxNameLen)
	}
	var err error
	if t.hash, err = hashOf(fields[1]); err != nil {
		return nil, err
	}
	t.Roles, err = access.ParseMemberships(strings.Split(fields[2], ","))
	if err != nil && len(fields[2]) >= MinTokenLen {
		err = fmt.Errorf("%s is no list of roles: use some of submit, work, read, operate and approve, with a namespace before a / (acme/submit) or without, and commas between them", quote(fields[2]))
	}
	return t, err
}

func hashOf(token string) (sum [sha256.Size]byte, err error) {
	if digits, ok := strings.CutPrefix(token, hashed); ok {
		b, err := hex.DecodeString(digits)
		if err != nil || len(b) != len(sum) {
			return sum, fmt.Errorf("behind %s there must be 64 hexadecimal digits: make them with printf %%s TOKEN | sha256sum", hashed)
		}
		return [sha256.Size]byte(b), nil
	}
	kinds := map[rune]bool{}
	for _, r := range token {
		if r <= ' ' || r > '~' {
			return sum, errors.New("the token has characters beyond ASCII's printable ones: make one with openssl rand -hex 32")
		}
		kinds[r] = true
	}
	if len(token) < MinTokenLen || len(token) > MaxTokenLen || len(kinds) < MinTokenKinds {
		return sum, fmt.Errorf("the token is weak, or too long: it must have %d to %d characters, %d of them different; make one with openssl rand -hex 32", MinTokenLen, MaxTokenLen, MinTokenKinds)
	}
	return sha256.Sum256([]byte(token)), nil
}

// quote quotes a word for an error text, unless it may be a token that stands in
// the wrong place.
func quote(word string) string {
	if len(word) >= MinTokenLen {
		return "a word that may be a token, and is not shown,"
	}
	return strconv.Quote(word)
}

// readTokens reads a tokens file. open: others than its owner and group may
// read it.
func readTokens(path string) (list Tokens, open bool, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, false, fmt.Errorf("read the tokens: %w", err)
	}
	if info.Size() > MaxTokensBytes {
		return nil, false, fmt.Errorf("read the tokens: %s has %d bytes: at most %d are read", path, info.Size(), MaxTokensBytes)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, false, fmt.Errorf("read the tokens: %w", err)
	}
	list, err = ParseTokens(path, text)
	return list, access.OthersMayRead(info.Mode()), err
}
