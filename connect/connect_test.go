package connect

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

func TestMerge(t *testing.T) {
	for _, c := range []struct {
		what string
		all  []Settings
		want Settings
	}{
		{"nothing", []Settings{{}, {}}, Settings{}},
		{"the first counts", []Settings{{URL: "a", Domain: "x"}, {URL: "b", Domain: "y", CA: "ca"}}, Settings{URL: "a", Domain: "x", CA: "ca"}},
		{"a login is taken whole", []Settings{{Nkey: "n"}, {Creds: "c", User: "u", Password: "p"}}, Settings{Nkey: "n"}},
		{"but for the password", []Settings{{User: "u"}, {Password: "p"}}, Settings{User: "u", Password: "p"}},
		{"which is of that user", []Settings{{User: "u"}, {User: "v", Password: "p"}}, Settings{User: "u"}},
		{"or of whoever comes later", []Settings{{PasswordFile: "f"}, {User: "u", Password: "p"}}, Settings{User: "u", PasswordFile: "f"}},
		{"a login in a URL goes with it", []Settings{{Creds: "c"}, {URL: "nats://u:p@h:1"}}, Settings{Creds: "c", URL: "nats://h:1"}},
		{"and counts before others behind it", []Settings{{URL: "nats://u:p@h:1"}, {Creds: "c"}}, Settings{URL: "nats://u:p@h:1"}},
		{"but not without it", []Settings{{URL: "nats://h:1"}, {URL: "nats://u:p@i:1"}, {Creds: "c"}}, Settings{URL: "nats://h:1", Creds: "c"}},
		{"certificate and key are a pair", []Settings{{Cert: "c", Key: "k"}, {Cert: "d", Key: "l"}}, Settings{Cert: "c", Key: "k"}},
		{"TLS is never taken back", []Settings{{}, {TLSFirst: true, TLS: true}}, Settings{TLSFirst: true, TLS: true}},
	} {
		if got := Merge(c.all...); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.what, got, c.want)
		}
	}
}

func TestCheck(t *testing.T) {
	for want, s := range map[string]Settings{
		"creds and nkey":     {Creds: "a", Nkey: "b"},
		"user and token":     {User: "a", Token: "b"},
		"the server's URL":   {URL: "nats://h, nats://u:p@i", User: "a"},
		"a password file":    {User: "a", Password: "b", PasswordFile: "c"},
		"tlskey":             {Cert: "a"},
		"JetStream domain":   {Domain: "a.b"},
		`inbox prefix "a.*"`: {InboxPrefix: "a.*"},
		`inbox prefix "a."`:  {InboxPrefix: "a."},
	} {
		err := s.Check("here")
		if !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "here") {
			t.Errorf("%+v: %v, want %s", s, err, want)
		}
	}
	for _, s := range []Settings{{}, {User: "u"}, {Creds: "c", Cert: "a", Key: "b"}, {Domain: "hub", InboxPrefix: "_INBOX.a"}} {
		if err := s.Check("here"); err != nil {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

// home makes the folder of contexts.
func home(t *testing.T, contexts map[string]string) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	t.Setenv("HOME", "/home/test")
	if err := os.MkdirAll(filepath.Join(dir, "nats", "context"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range contexts {
		if err := os.WriteFile(filepath.Join(dir, "nats", "context", name+".json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestContext(t *testing.T) {
	home(t, map[string]string{
		"full": `{"description":"d","url":"nats://h:1","token":"","user":"u","password":"p","creds":"","nkey":"","cert":"~/c.pem","key":"/k.pem","ca":"/ca.pem","nsc":"",
			"jetstream_domain":"hub","jetstream_api_prefix":"","inbox_prefix":"_INBOX_u","tls_first":true,"color_scheme":"x"}`,
		"creds": `{"url":"nats://h:1","creds":"$DIR/a.creds"}`,
		"nsc":   `{"nsc":"nsc://o/a/u"}`,
		"bad":   `{`,
		"two":   `{"user":"a","password":"b","creds":"c"}`,
	})
	t.Setenv("DIR", "/dir")
	got, err := Settings{Context: "full"}.Resolve()
	want := Settings{Context: "full", URL: "nats://h:1", User: "u", Password: "p", Cert: "/home/test/c.pem", Key: "/k.pem", CA: "/ca.pem", Domain: "hub", InboxPrefix: "_INBOX_u", TLSFirst: true}
	if err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	got, err = Settings{Context: "creds", URL: "nats://i:2"}.Resolve()
	if err != nil || got.Creds != "/dir/a.creds" || got.URL != "nats://i:2" {
		t.Errorf("got %+v, %v", got, err)
	}
	for name, want := range map[string]string{
		"nobody": "there is no file", "nsc": "has nsc", "bad": "bad.json", "two": "the NATS context two has creds and user", "../x": "no name of a context", "a/b": "no name of a context",
	} {
		if _, err := (Settings{Context: name}).Resolve(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A context that a flag names counts before the environment, which counts before
// one that it names itself.
func TestPlaces(t *testing.T) {
	home(t, map[string]string{"c": `{"url":"nats://c:1","user":"c","password":"p","jetstream_domain":"c"}`})
	env := map[string]string{Env.URL: "nats://env:1", Env.Nkey: "env.nk", Env.Password: "secret", Env.TLSFirst: "true"}
	get := func(k string) string { return env[k] }
	got, err := FromPlaces(Settings{Context: "c"}, get)
	if want := (Settings{URL: "nats://c:1", User: "c", Password: "p", Domain: "c", TLSFirst: true}); err != nil || got != want {
		t.Errorf("by flag: %+v, %v", got, err)
	}
	env[Env.Context] = "c"
	got, err = FromPlaces(Settings{InboxPrefix: "i"}, get)
	if want := (Settings{Context: "c", URL: "nats://env:1", Nkey: "env.nk", Password: "secret", Domain: "c", InboxPrefix: "i", TLSFirst: true}); err != nil || got != want {
		t.Errorf("by environment: %+v, %v", got, err)
	}
	got, err = FromPlaces(Settings{User: "flag"}, get)
	if err != nil || got.User != "flag" || got.Password != "secret" || got.Nkey != "" {
		t.Errorf("a user whose password the environment has: %+v, %v", got, err)
	}
	env[Env.Creds] = "also"
	if _, err := FromPlaces(Settings{}, get); !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), "the environment") {
		t.Errorf("two logins: %v", err)
	}
}

func TestOptions(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, []byte("\nsecond line"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, s := range map[string]Settings{
		"has no password":      {User: "a"},
		"first line":           {User: "a", PasswordFile: empty},
		"read the password":    {User: "a", PasswordFile: dir + "/none"},
		"read the credentials": {Creds: dir + "/none"},
		"begins with SU":       {Nkey: empty},
		"read the CA":          {CA: dir + "/none"},
		"certificate":          {Cert: empty, Key: empty},
	} {
		if _, err := s.Options(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", s, err, want)
		}
	}
	for want, s := range map[string]Settings{
		"_INBOX_a": {User: "a", Password: "b"},
		"mine":     {User: "a", Password: "b", InboxPrefix: "mine"},
		"_INBOX_u": {URL: "nats://u:p@h:1"},
		"":         {URL: "nats://token@h:1", TLS: true},
	} {
		opts, err := s.Options()
		if err != nil {
			t.Fatal(err)
		}
		var o nats.Options
		for _, set := range opts {
			if err := set(&o); err != nil {
				t.Fatal(err)
			}
		}
		if o.InboxPrefix != want || o.Secure != s.TLS || !o.IgnoreAuthErrorAbort {
			t.Errorf("%+v: %+v", s, o)
		}
	}
}
