package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
)

func ptr[T any](v T) *T { return &v }

func mustParse(t *testing.T, text string) Config {
	t.Helper()
	c, err := Parse("engine.toml", []byte(text))
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	return c
}

func TestEmptyFileIsDefault(t *testing.T) {
	c := mustParse(t, "")
	if !reflect.DeepEqual(c, Default()) {
		t.Fatalf("got %+v, want %+v", c, Default())
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	if got := c.Settings("email"); !reflect.DeepEqual(got, events.ProtectedTypeSettings()) {
		t.Fatalf("settings %+v", got)
	}
}

// The example file spells the defaults out; it must be current.
func TestExampleFile(t *testing.T) {
	c, err := Load("../engine.example.toml")
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(c.Server, Default().Server) || !reflect.DeepEqual(c.Limits, Default().Limits) {
		t.Errorf("the example's values are not the defaults: %+v %+v", c.Server, c.Limits)
	}
	if got := c.TypeDefaults(); !reflect.DeepEqual(got, events.ProtectedTypeSettings()) || got.MaxAttemptsSet || got.TimeoutSet {
		t.Errorf("[defaults] gives %+v", got)
	}
	if got := c.TypeNames(); !slices.Equal(got, []events.Type{"checksum", "email", "resize-image", "summarise"}) {
		t.Errorf("types %v", got)
	}
	email := c.Settings("email")
	timeout, attempts, b := email.For(9)
	if timeout != 20*time.Second || attempts != 2 || b.Initial != events.Millis(2000) || b.Max != events.Millis(600_000) || b.Factor != 2 {
		t.Errorf("email at 9: %s, %d, %+v", timeout, attempts, b)
	}
	if e := c.Types["checksum"].Exec; e == nil || !slices.Equal(e.Command, []string{"sha256sum"}) || e.Grace != DefaultGrace {
		t.Errorf("checksum exec %+v", e)
	}
	want := &Exec{Command: []string{"resize", "--quality", "80"}, Concurrency: 2, Capabilities: []string{"gpu"}, Grace: 5 * time.Second}
	if got := c.Types["resize-image"].Exec; !reflect.DeepEqual(got, want) {
		t.Errorf("resize-image exec %+v", got)
	}
}

// Each bad input is told with file, line and key, and what to do.
func TestBadInput(t *testing.T) {
	tests := []struct{ name, file, want string }{
		{"syntax", "[server]\ndir = \n", "engine.toml:2: "},
		{"duplicate key", "[server]\nhttp = \"off\"\nhttp = \"off\"", "engine.toml:3: "},
		{"unknown table", "[servers]\n", "engine.toml:1: servers is no setting: did you mean server?"},
		{"unknown key", "[server]\n\nport = 1", "engine.toml:3: server.port is no setting: known here are dir, nats_listen"},
		{"near key", "[types.email]\ncapcity = 1", "engine.toml:2: types.email.capcity is no setting: did you mean capacity?"},
		{"unknown in inline table", "[types.email]\nlease = \"5s\"\nbackoff = { initial = \"1s\",\n  maximum = \"2s\" }", "engine.toml:4: types.email.backoff.maximum is no setting"},
		{"unknown by dotted key", "types.email.leas = \"5s\"", "engine.toml:1: types.email.leas is no setting: did you mean lease?"},
		{"string for integer", "[limits]\nmax_running = \"many\"", `engine.toml:2: limits.max_running is "many": it must be a whole number`},
		{"float for integer", "[limits]\nmax_running = 1.5", "limits.max_running is 1.5: it must be a whole number"},
		{"integer for string", "[server]\ndir = 5", "server.dir is 5: it must be a string, in quotes"},
		{"duration of no whole number", "[defaults]\nlease = 0.5", `defaults.lease is 0.5: it must be a duration such as "30s"`},
		{"duration beyond all", "[defaults]\nlease = 9223372036854775807", "defaults.lease is 9223372036854775807: it must be a duration"},
		{"milliseconds out of bounds", "[defaults]\nlease = \"30ms\"", "defaults.lease is 30ms: it must be 1s to 1h"},
		{"bad duration", "[defaults]\nlease = \"30 sec\"", `defaults.lease is "30 sec": it must be a duration`},
		{"microseconds", "[defaults]\ntimeout = \"1500us\"", "defaults.timeout is \"1500us\": it must be whole milliseconds"},
		{"bad size", "[limits]\nlog_max_size = \"1 gig\"", `limits.log_max_size is "1 gig": it must be a size such as`},
		{"huge size", "[limits]\nlog_max_size = \"99999999999GiB\"", "it must be a size such as"},
		{"string for number", "[defaults.backoff]\nfactor = \"2\"", `defaults.backoff.factor is "2": it must be a number`},
		{"table for value", "[defaults.lease]\na = 1", "defaults.lease is a table: it must be a duration"},
		{"value for table", "server = 1", "server is 1: it must be a table"},
		{"value for backoff", "[types.a]\nbackoff = \"1s\"", `types.a.backoff is "1s": it must be a table`},
		{"value for type", "[types]\nemail = 3", "types.email is 3: it must be a table, [types.email]"},
		{"array of tables", "[[types.email]]\nlease=\"1s\"", "types.email is a list: it must be a table"},
		{"type name", "[types.\"E-Mail\"]\nlease = \"5s\"", `engine.toml:1: types.E-Mail "E-Mail" is no type name`},
		{"priority name", "[types.email.per_priority.urgent]\ntimeout = \"1s\"", `types.email.per_priority.urgent "urgent" is no priority: use 0 to 9`},
		{"priority bound", "[types.email.per_priority.10]\ntimeout = \"1s\"", "is no priority"},
		{"priority has no lease", "[types.email.per_priority.3]\nlease = \"1s\"", "types.email.per_priority.3.lease is no setting"},
		{"durability", "[server]\ndurability = \"never\"", `server.durability is "never": it must be "always" or "interval"`},
		{"log level", "[server]\nlog_level = \"loud\"", `server.log_level is "loud": it must be "debug"`},
		{"boolean", "[server]\ndedup_bucket = \"no\"", `server.dedup_bucket is "no": it must be true or false`},
		{"log format", "[server]\nlog_format = 1", "server.log_format is 1: it must be"},
		{"listen", "[server]\nnats_listen = \"4222\"", `server.nats_listen is "4222": it must be host:port`},
		{"port", "[server]\nhttp = \"localhost:99999\"", "server.http is"},
		{"empty listen", "[server]\nhttp = \"\"", "server.http is \"\": it must be host:port"},
		{"empty dir", "[server]\ndir = \"\"", "server.dir is empty"},
		{"url", "[server]\nnats_url = \"somewhere\"", "server.nats_url is a URL without a scheme: "},
		{"url without a host", "[server]\nnats_url = \"nats:///somewhere\"", "server.nats_url is a URL without a host: "},
		{"no url", "[server]\nnats_url = \"nats://u:pass/word@host:1\"", "server.nats_url is not a URL: "},
		{"prefix", "[server]\nprefix = \"a.b\"", "server.prefix is \"a.b\""},
		{"zero is not absent", "[limits]\nmax_running = 0", "limits.max_running is 0: it must be 1 to"},
		{"capacity bound", "[types.a]\ncapacity = 1001", "engine.toml:2: types.a.capacity is 1001: it must be 1 to 1000"},
		{"lease bound", "[types.a]\nlease = \"500ms\"", "types.a.lease is 500ms: it must be 1s to 1h"},
		{"timeout bound", "[types.a]\ntimeout = \"0s\"", "types.a.timeout is 0s: it must be 1ms to"},
		{"attempts bound", "[types.a]\nmax_attempts = 0", "types.a.max_attempts is 0: it must be 1 to 1000"},
		{"age step bound", "[types.a]\nage_step = \"-1s\"", "types.a.age_step is -1s: it must be"},
		{"params bound", "[types.a]\nmax_params = \"2MiB\"", "types.a.max_params is 2MiB: it must be 2B to 1MiB"},
		{"factor bound", "[types.a]\nbackoff = { factor = 0.5 }", "types.a.backoff.factor is 0.5: it must be 1 to 100"},
		{"factor nan", "[types.a]\nbackoff.factor = nan", "types.a.backoff.factor is NaN: it must be 1 to 100"},
		{"jitter bound", "[types.a.per_priority.1]\nbackoff.jitter = 1.5", "types.a.per_priority.1.backoff.jitter is 1.5: it must be 0 to 1"},
		{"backoff order", "[types.a]\nbackoff = { initial = \"1m\" }", "types.a doesn't hold together with the defaults: backoff.max is 30s: it must be initial (1m) to 1d"},
		{"defaults' backoff order", "[defaults]\nbackoff = { max = \"10ms\" }", "defaults doesn't hold together: backoff.max is 10ms: it must be initial (1s) to 1d"},
		{"memory bound", "[limits]\nmax_memory = \"1B\"", "limits.max_memory is 1B: it must be 16MiB to"},
		{"store bound", "[limits]\nmax_store = \"1B\"", "limits.max_store is 1B: it must be 64MiB to"},
		{"free bound", "[limits]\nmin_free = \"-1B\"", "limits.min_free is \"-1B\": it must be a size"},
		{"log age", "[limits]\nlog_max_age = \"1s\"", "limits.log_max_age is 1s: it must be 1m to"},
		{"exec empty", "[types.a]\nexec = []", "types.a.exec.command is missing"},
		{"exec no command", "[types.a.exec]\nconcurrency = 2", "types.a.exec.command is missing"},
		{"exec string", "[types.a]\nexec = \"sha256sum\"", "types.a.exec is \"sha256sum\": it must be a list of strings"},
		{"exec numbers", "[types.a]\nexec = [\"a\", 1]", "types.a.exec has 1 as its element 2: all must be strings"},
		{"exec concurrency", "[types.a.exec]\ncommand=[\"a\"]\nconcurrency = 2000", "types.a.exec.concurrency is 2000: it must be 0 to 1000"},
		{"exec grace", "[types.a.exec]\ncommand=[\"a\"]\ngrace = \"1h\"", "types.a.exec.grace is 1h: it must be 0s to 10m"},
		{"exec capability", "[types.a.exec]\ncommand=[\"a\"]\ncapabilities = [\"G P U\"]", "types.a.exec.capabilities has \"G P U\""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse("engine.toml", []byte(tt.file))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v\nwant %s", err, tt.want)
			}
			var e *Error
			if !errors.As(err, &e) || e.File != "engine.toml" || e.Line == 0 {
				t.Errorf("no *Error with file and line: %#v", e)
			}
		})
	}
}

// Everything that is wrong is reported at once, in the order of the file.
func TestAllErrorsAtOnce(t *testing.T) {
	_, err := Parse("e.toml", []byte("[server]\nprot = 1\ndurability = \"x\"\n[types.a]\ncapacity = 0\nlease = \"x\"\n[types.b]\nfoo = 1\n"))
	var got []string
	for _, e := range faults("", err) {
		got = append(got, strings.SplitN(e.Error(), " ", 3)[0]+e.Key)
	}
	want := []string{"e.toml:2:server.prot", "e.toml:3:server.durability", "e.toml:5:types.a.capacity", "e.toml:6:types.a.lease", "e.toml:8:types.b.foo"}
	if !slices.Equal(got, want) {
		t.Fatalf("got %q\nwant %q", got, want)
	}
}

func TestPatchApplyAndConflicts(t *testing.T) {
	c := mustParse(t, `
[defaults]
lease = "20s"
[types.email]
capacity = 7
backoff = { max = "1m" }
[types.email.per_priority.8]
timeout = "10s"
backoff = { initial = "5s" }
`)
	p := c.Types["email"].Patch
	if got, want := p.Named(), []string{"capacity", "backoff.max", "per_priority.8.timeout", "per_priority.8.backoff.initial"}; !slices.Equal(got, want) {
		t.Fatalf("named %v, want %v", got, want)
	}
	s := c.Settings("email")
	if s.Capacity != 7 || s.Lease != events.Millis(20_000) || s.Backoff.Max != events.Millis(60_000) || s.Backoff.Initial != events.Millis(1000) {
		t.Fatalf("settings %+v", s)
	}
	o := s.PerPriority[8]
	if *o.Timeout != events.Millis(10_000) || o.Backoff.Initial != events.Millis(5000) || o.Backoff.Max != events.Millis(60_000) || o.MaxAttempts != nil {
		t.Fatalf("priority 8: %+v", o)
	}
	if got := p.Conflicts(s); got != nil {
		t.Fatalf("its own settings conflict: %v", got)
	}
	free := s
	free.Lease, free.MaxAttempts = events.Millis(5000), 9
	if got := p.Conflicts(free); got != nil {
		t.Fatalf("settings that the file doesn't name conflict: %v", got)
	}
	bad := s
	bad.Capacity, bad.PerPriority = 8, nil
	if got := p.Conflicts(bad); !slices.Equal(got, []string{"capacity", "per_priority.8.timeout", "per_priority.8.backoff.initial"}) {
		t.Fatalf("conflicts %v", got)
	}
	if s.PerPriority == nil || c.Settings("email").Capacity != 7 {
		t.Fatal("Conflicts has changed what it was given")
	}
}

// What the log says of a setting stays, unless the file names it.
func TestApplyKeepsTheRest(t *testing.T) {
	base := events.DefaultTypeSettings()
	base.Capacity = 33
	base.PerPriority = map[events.Priority]events.PriorityOverride{8: {MaxAttempts: ptr(events.Attempt(4))}}
	p := Patch{"lease": 5 * time.Second, "per_priority.8.timeout": time.Second}
	got := p.Apply(base)
	if got.Capacity != 33 || got.Lease != events.Millis(5000) || *got.PerPriority[8].MaxAttempts != 4 || *got.PerPriority[8].Timeout != events.Millis(1000) {
		t.Fatalf("got %+v", got)
	}
	if base.PerPriority[8].Timeout != nil {
		t.Fatal("base was changed")
	}
}

func TestValidateWithoutFile(t *testing.T) {
	c := Default()
	c.Limits.MaxRunning = -1
	c.Types["Bad Name"] = Type{Exec: &Exec{}}
	errs := faults("", c.Validate())
	if len(errs) != 3 || errs[0].Error() != "limits.max_running is -1: it must be 1 to 900000" {
		t.Fatalf("errors %v", errs)
	}
}

func TestDedupBucketOff(t *testing.T) {
	if !mustParse(t, "[server]\ndedup_bucket = false").Server.NoDedupBucket || mustParse(t, "[server]\ndedup_bucket = true").Server.NoDedupBucket {
		t.Fatal("dedup_bucket is not read")
	}
}

func TestLoadErrors(t *testing.T) {
	dir := t.TempDir()
	if _, err := Load(filepath.Join(dir, "absent.toml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent file: %v", err)
	}
	big := filepath.Join(dir, "big.toml")
	if err := os.WriteFile(big, make([]byte, MaxFileBytes+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(big); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("big file: %v", err)
	}
}

// FuzzParse reads any text as a configuration. What is accepted is valid, and so
// is it without the file; what is wrong is told with a bounded text, the same
// each time.
func FuzzParse(f *testing.F) {
	example, err := os.ReadFile("../engine.example.toml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(example)
	for _, s := range []string{
		"[types.a]\nexec = {command=[\"x\"]}\n[types.a.per_priority.3]\nbackoff.factor=1",
		"[http]\ntokens_file=\"t\"\n[[http.clients]]\nname=\"a\"\nroles=[\"read\"]\n[[nats.users]]\nname=\"a\"\npassword=\"0123456789ab\"\nroles=[\"submit\",\"work\"]",
		"[limits]\nmax_queued=5\nqueue_steps=[[0.5, 3]]\n[pools.p]\nslots=1\n[types.a]\npool=\"p\"\ndedup_window=\"1h\"",
		"[schedules.s]\ntype=\"a\"\nevery=\"5m\"\n[schedules.t]\ntype=\"a\"\ncron=\"* * * * *\"\nzone=\"Europe/Berlin\"\nparams={a=1979-05-27}",
		"server = {dir=\"\", x=1, y=2}\nlimits = 5",
		"[retention]\ncompleted=\"1h\"\ncut_events=0x10\n[defaults]\ncapacity=1_0\nlease=\"-1s\"\nage_step=\"1ns\"\nmax_params=\"9223372036854775807TiB\"",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > MaxFileBytes {
			return
		}
		c, err := Parse("f.toml", data)
		if err == nil {
			if err := c.Validate(); err != nil {
				t.Fatalf("parsed, yet invalid: %v", err)
			}
			if err := c.WithDefaults().Validate(); err != nil {
				t.Fatalf("parsed, yet invalid with its defaults: %v", err)
			}
			return
		}
		for _, e := range faults("", err) {
			if e.Msg == "" || len(e.Msg) > 4096 {
				t.Fatalf("an error with %d bytes of text: %.100s", len(e.Msg), e.Msg)
			}
		}
		if _, again := Parse("f.toml", data); again == nil || again.Error() != err.Error() {
			t.Fatalf("one time it is wrong that\n%v\nthe other\n%v", err, again)
		}
	})
}

// docs/reference/CONFIG.md holds the table as the code renders it.
// Run with UPDATE_DOCS=1 to write it.
func TestDocsAreCurrent(t *testing.T) {
	const path, begin, end = "../docs/reference/CONFIG.md", "<!-- begin: settings -->\n", "<!-- end: settings -->"
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(data), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s lacks the marks %q and %q", path, begin, end)
	}
	want := head + begin + settingsTable() + end + tail
	if string(data) == want {
		return
	}
	if os.Getenv("UPDATE_DOCS") == "" {
		t.Fatalf("%s is not current: run UPDATE_DOCS=1 go test ./config", path)
	}
	if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
