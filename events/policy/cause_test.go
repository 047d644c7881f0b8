package policy

import (
	"strings"
	"testing"
)

func TestCauseText(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"connection refused", "connection refused"},
		{"  two \n\t lines  ", "two lines"},
		{"dial tcp 10.0.0.7:5432: connect: connection refused", "dial tcp <n>: connect: connection refused"},
		{"took 1.5s, limit 300 ms", "took <n>s, limit <n> ms"},
		{"HTTP 503.", "HTTP <n>."},
		{"worker-17 is gone", "worker-<n> is gone"},
		{"user 018f2f2e-7c3b-7d7a-9c5e-0a1b2c3d4e5f not found", "user <id> not found"},
		{"item 01JD3V6YB2M4C9W8ZK5T7QXRNE is gone", "item <id> is gone"},
		{"order=018f2f2e-7c3b-7d7a-9c5e-0a1b2c3d4e5f;", "order=<id>;"},
		{"nil pointer at 0xc000123abc", "nil pointer at <hex>"},
		{"commit 9fceb02d0ae598e95dc970b74767f19372d61af8", "commit <hex>"},
		{"deadbeef is a word of hex", "deadbeef is a word of hex"},
		{`no mailbox "kelly@example.com" here`, `no mailbox "…" here`},
		{`it said "a \"quoted\" word" twice`, `it said "…" twice`},
		{"can't open 'my file'", `can't open "…"`},
		{"an open \" quote", "an open \" quote"},
		{"open /var/lib/x/17.db: no such file", "open <path>: no such file"},
		{`open C:\temp\17.db: denied`, "open <path>: denied"},
		{"Get https://api.example.com/users/17?page=2: EOF", "Get https://api.example.com/<path>: EOF"},
		{"and/or", "and/or"},
		{"at 2026-01-02T03:04:05Z", "at <n>-<n>-<n>T<n>Z"},
		{"h264 has failed", "h<n> has failed"},
		{"größe 7 zu groß", "größe <n> zu groß"},
		{"", ""},
	} {
		if got := CauseText(c.in); got != c.want {
			t.Errorf("%q\n gives %q\n wants %q", c.in, got, c.want)
		}
	}
}

// The fingerprint is kept in events: it must not change.
func TestCauseOfIsStable(t *testing.T) {
	if got := CauseOf("email", "exhausted", "smtp", "mailbox 17 is full"); got != "4398e0e112ef00f4" {
		t.Errorf("the fingerprint has become %s", got)
	}
}

func TestCauseOfTellsApart(t *testing.T) {
	same := CauseOf("email", "exhausted", "smtp", "mailbox 17 is full")
	if other := CauseOf("email", "exhausted", "smtp", "mailbox 18 is full"); other != same {
		t.Errorf("a number makes another cause")
	}
	tail := strings.Repeat("x ", maxCauseText)
	if CauseOf("email", "a", "b", tail+"1") != CauseOf("email", "a", "b", tail+"y") {
		t.Error("what is past the bound counts")
	}
	for _, other := range []string{
		CauseOf("call", "exhausted", "smtp", "mailbox 17 is full"), CauseOf("email", "poisoned", "smtp", "mailbox 17 is full"),
		CauseOf("email", "exhausted", "dns", "mailbox 17 is full"), CauseOf("email", "exhausted", "smtp", "mailbox 17 is empty"),
		CauseOf("email", "exhausteds", "mtp", "mailbox 17 is full"),
	} {
		if other == same {
			t.Errorf("two causes have the fingerprint %s", other)
		}
	}
}
