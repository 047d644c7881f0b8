package httpauth

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/events"
)

// FuzzTokens reads any text as a tokens file. No error quotes a token; each
// token that is read is found again, with its own roles.
func FuzzTokens(f *testing.F) {
	f.Add("ops 0123456789abcdefghij operate,read # why\n\nci sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 submit")
	f.Add("a b c\nops 0123456789abcdefghij operate\nops 0123456789abcdefghij read")
	f.Add("x \xff0123456789abcdefghij submit")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := ParseTokens("tokens", []byte(text))
		if err != nil {
			for line := range strings.Lines(text) {
				for i, word := range strings.Fields(line) {
					if _, herr := hashOf(word); herr == nil && strings.Contains(err.Error(), word) && !(i == 0 && access.IsUser(word)) {
						t.Fatalf("the error quotes the token %q: %v", word, err)
					}
				}
			}
			return
		}
		names := map[string]bool{}
		for _, tok := range list {
			if names[tok.Name] || !access.IsUser(tok.Name) || !tok.Roles.Any() {
				t.Fatalf("a token %+v", tok)
			}
			names[tok.Name] = true
		}
		for line := range strings.Lines(text) {
			w := strings.Fields(line)
			if len(w) < 3 || strings.HasPrefix(w[0], "#") || strings.HasPrefix(w[1], hashed) || strings.HasPrefix(w[1], "#") || strings.HasPrefix(w[2], "#") {
				continue
			}
			if id, ok := list.find(w[1]); !ok || id.Name != w[0] {
				t.Fatalf("the token of %s is that of %+v, %v", w[0], id, ok)
			}
		}
	})
}

// FuzzAuthenticate makes requests of an engine with one token, and of one that
// is open: only the token itself lets anyone in, and a host only by its address
// or its own name.
func FuzzAuthenticate(f *testing.F) {
	const token = "0123456789abcdefghij"
	closed, err := New(Config{Tokens: "ops " + token + " operate"})
	if err != nil {
		f.Fatal(err)
	}
	open, err := New(Config{Hosts: []string{"work.example.org"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add("GET", "127.0.0.1:8484", "Bearer "+token, "", "same-origin")
	f.Add("POST", "evil.example.org", "bearer  "+token+" ", "https://evil.example.org", "cross-site")
	f.Add("POST", "[::1]:80", "Basic "+token, "null", "none")
	f.Add("DELETE", "WORK.example.org.:1", "", "http://work.example.org", "")
	f.Fuzz(func(t *testing.T, method, host, authorization, origin, site string) {
		r := &http.Request{Method: method, Host: host, URL: &url.URL{Path: "/api/v1/work"}, Header: http.Header{}}
		for name, v := range map[string]string{"Authorization": authorization, "Origin": origin, "Sec-Fetch-Site": site} {
			if v != "" {
				r.Header.Set(name, v)
			}
		}
		id, err := closed.Authenticate(r)
		switch {
		case err == nil && (id.Name != "ops" || id.Roles != access.RolesOf(access.Operate) || !strings.Contains(authorization, token)):
			t.Fatalf("%q is %+v", authorization, id)
		case err != nil && events.CodeOf(err) != events.CodeUnauthenticated && events.CodeOf(err) != events.CodeForbidden:
			t.Fatal(err)
		}
		if _, err := open.Authenticate(r); err == nil {
			name := strings.ToLower(strings.Trim(host, "[]"))
			if strings.Contains(name, "evil") {
				t.Fatalf("an open engine answers as %q", host)
			}
		} else if len(err.Error()) > 1024 {
			t.Fatalf("an error text of %d bytes", len(err.Error()))
		}
	})
}
