package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/faultproxy"
	"github.com/streamwright/streamwright/internal/leaks"
	"github.com/streamwright/streamwright/internal/natscluster"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

// The test's program is the engine if it gets a command of that: engine demo starts more of
// the program that it is in.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-test.") {
		main()
	}
	leaks.Check(m)
}

const anID = "01JD3V6YB2M4C9W8ZK5T7QXRNE"

// ran is what a run of the program came to.
type ran struct {
	code      int
	out, errs string
}

// engine runs the program as a user would.
func engine(t *testing.T, stdin string, args ...string) ran {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var out, errs bytes.Buffer
	code := run(ctx, args, strings.NewReader(stdin), &out, &errs)
	return ran{code, out.String(), errs.String()}
}

// wants checks the exit code and that the streams say what they should.
func (r ran) wants(t *testing.T, code int, says ...string) ran {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d", r.code, code)
	}
	for _, s := range says {
		if !strings.Contains(r.out+r.errs, s) {
			t.Errorf("it does not say %q", s)
		}
	}
	if t.Failed() {
		t.Fatalf("out:\n%s\nerr:\n%s", r.out, r.errs)
	}
	return r
}

func lines(s string) []string { return strings.Split(strings.TrimSuffix(s, "\n"), "\n") }

func TestUsage(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		says string
	}{
		"unknown command":       {[]string{"stats"}, "did you mean status"},
		"unknown flag":          {[]string{"list", "--colour"}, "--colour"},
		"missing argument":      {[]string{"history"}, "`engine history ID`"},
		"no selection":          {[]string{"replay"}, "give an ID, or filters"},
		"a state is not enough": {[]string{"replay", "--dead"}, "--all"},
		"ids and filters":       {[]string{"purge", anID, "--type", "email"}, "give one of them"},
		"no moment":             {[]string{"state", "--at", "soon"}, "use a position"},
		"no header":             {[]string{"rejected", "replay", "7", "--header", "x"}, "NAME=VALUE"},
		"too many":              {[]string{"status", "now"}, "now"},
		"no type":               {[]string{"submit"}, "TYPE"},
		"priority":              {[]string{"submit", "email", "--priority", "urgent"}, "0 to 9"},
		"time":                  {[]string{"submit", "email", "--at", "noon"}, "2030-01-31T08:00:00Z"},
		"two times":             {[]string{"submit", "email", "--at", "2030-01-31T08:00:00Z", "--delay", "5s"}, "one of them"},
		"label":                 {[]string{"submit", "email", "--label", "k"}, "key=value"},
		"lines and params":      {[]string{"submit", "email", "1", "--lines", "x"}, "leave"},
		"lines and wait":        {[]string{"submit", "email", "--lines", "x", "--wait"}, "one item"},
		"state":                 {[]string{"list", "--state", "done"}, "completed"},
		"list label":            {[]string{"list", "--label", "x"}, "key=value"},
		"nothing to do":         {[]string{"reschedule", anID}, "nothing to change"},
		"when twice":            {[]string{"reschedule", anID, "--now", "--delay", "5s"}, "one of them"},
		"setting":               {[]string{"types", "set", "email", "speed=9"}, "backoff"},
		"setting's value":       {[]string{"types", "set", "email", "lease=9x"}, "1h30m"},
		"subcommand":            {[]string{"types", "sets"}, "sets"},
		"since":                 {[]string{"tail", "--since", "yesterday"}, "10m"},
		"two begins":            {[]string{"tail", "--since", "1m", "--from-seq", "3"}, "one of them"},
		"work, no command":      {[]string{"work", "email"}, "-- COMMAND"},
		"work, no dash":         {[]string{"work", "email", "cat"}, "-- COMMAND"},
		"work, no type":         {[]string{"work", "--", "cat"}, "-- COMMAND"},
		"two documents":         {[]string{"show", anID, "--params", "-", "--result", "-"}, "name a file"},
		"namespace":             {[]string{"status", "--namespace", "Acme"}, "a-z and 0-9"},
		"two namespaces":        {[]string{"status", "--namespace", "acme,beta"}, "give one namespace"},
		"namespace twice":       {[]string{"work", "email", "--namespace", "a,a", "--", "cat"}, "a twice"},
		"serve a namespace":     {[]string{"serve", "--namespace", "acme"}, "takes no --namespace"},
		"verify a namespace":    {[]string{"backup", "verify", "--namespace", "acme", "x"}, "takes no --namespace"},
		"half a pair":           {[]string{"status", "--tlscert", "x"}, "tlskey"},
	} {
		t.Run(name, func(t *testing.T) {
			r := engine(t, "", tc.args...).wants(t, 2, tc.says, "--help")
			if r.out != "" {
				t.Errorf("standard output has %q", r.out)
			}
		})
	}
	engine(t, "").wants(t, 0, "submit", "verify")
}

func TestNoServerAndNoEngine(t *testing.T) {
	engine(t, "", "status", "--server", "nats://bob:secret@127.0.0.1:1").wants(t, 1, "no NATS server answers at nats://***@127.0.0.1:1", "engine serve")
	url := natscluster.Alone(t, 0).ClientURL()
	engine(t, "", "submit", "email", "--server", url, "--request-timeout", "100ms").wants(t, 1, "no engine answers on work.api.* at "+url, "is `engine serve` running")
	r := engine(t, "", "list", "--server", url, "--request-timeout", "100ms", "--json").wants(t, 1)
	var e wire.ErrorReply
	if err := json.Unmarshal([]byte(r.errs), &e); err != nil || e.Error.Code != events.CodeTimeout {
		t.Errorf("got %q, %v", r.errs, err)
	}
}

func TestSubmit(t *testing.T) {
	start(t)
	file := filepath.Join(t.TempDir(), "params.json")
	if err := os.WriteFile(file, []byte("{\"from\":\"a file\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for params, want := range map[string]string{`{"to":1}`: `{"to":1}`, "-": `"stdin"`, "@" + file: `{"from":"a file"}`, "": "null"} {
		args := []string{"submit", "email", "--json", "--priority", "high", "--label", "k=v,w"}
		if params != "" {
			args = append(args, params)
		}
		var s wire.Submitted
		if err := json.Unmarshal([]byte(engine(t, `"stdin"`, args...).wants(t, 0).out), &s); err != nil {
			t.Fatal(err)
		}
		var it wire.Item
		if err := json.Unmarshal([]byte(engine(t, "", "show", s.ID, "--json").wants(t, 0).out), &it); err != nil {
			t.Fatal(err)
		}
		if string(it.Params) != want || it.Priority != 8 || it.Labels["k"] != "v,w" {
			t.Errorf("%s: got %+v", params, it)
		}
	}
	engine(t, "", "submit", "email", "--id", anID).wants(t, 0, anID+"  email  queued\n")
	engine(t, "", "submit", "email", "--id", anID).wants(t, 0, "already there")
	engine(t, "", "submit", "email", "--dedup-key", "k").wants(t, 0, "queued")
	engine(t, "", "submit", "email", "--dedup-key", "k").wants(t, 0, "merged into")
	engine(t, "", "submit", "E Mail").wants(t, 2, "bad_type")
	engine(t, "", "submit", "email", "{to:1}").wants(t, 2, "bad_params", "single quotes")
	engine(t, "{to:1}", "submit", "email", "-").wants(t, 1, "bad_params", "the params in standard input", "'t' at byte 2")
	engine(t, "", "submit", "email", "@"+file+".not").wants(t, 1, "params.json.not")
}

func TestSubmitAndWait(t *testing.T) {
	e := start(t)
	e.work("", "email", returns(map[string]int{"sent": 1}, nil))
	e.work("", "sms", fails("net", "no\x1b[31m route"))
	r := engine(t, "", "submit", "email", "--wait").wants(t, 0)
	if !regexp.MustCompile(`^completed in \S+: {"sent":1}\n$`).MatchString(r.out) {
		t.Errorf("got %q", r.out)
	}
	engine(t, "", "submit", "sms", "--id", anID, "--wait").wants(t, 1, `dead after 1 attempt: no\x1b[31m route (net)`)
	engine(t, "", "submit", "sms", "--id", anID, "--wait", "--json").wants(t, 1, `"state":"dead"`)
}

func TestSubmitLines(t *testing.T) {
	start(t)
	r := engine(t, "{\"n\":1}\n\nnot json\n{\"n\":2}", "submit", "email", "--lines", "-").wants(t, 1, "line 3: bad_params", "; 1 refused")
	if has := lines(engine(t, "", "list", "--json").wants(t, 0).out); !strings.HasPrefix(r.out, "2 submitted in ") || len(has) != 2 {
		t.Errorf("got %q, the items %q", r.out, has)
	}
	file := filepath.Join(t.TempDir(), "items.jsonl")
	doc := `{"type":"email","params":1,"dedup_key":"a","priority":0}
{"type":"email","params":2,"dedup_key":"a"}
{"type":"sms","prams":3}
{"params":4}
{"type":"No"}
{"type":"sms","params":5,"delay_ms":50}
`
	if err := os.WriteFile(file, []byte(doc), 0o600); err != nil {
		t.Fatal(err)
	}
	r = engine(t, "", "submit", "--lines", file, "--json", "--source", "import").wants(t, 1, `line 3: bad_request`, "prams", "line 4: bad_type", "line 5: bad_type", "3 submitted", "2 new, 1 merged", "3 refused")
	if got := lines(r.out); len(got) != 4 || !strings.Contains(got[1], `"state":"merged"`) || !strings.Contains(got[2], `"error"`) {
		t.Errorf("got %q", got)
	}
	many := strings.Repeat("{}\n", 2500)
	engine(t, many, "submit", "bulk", "--lines", "-").wants(t, 0, "2,500 submitted in ")
	engine(t, "", "submit", "bulk", "--lines", file+".not").wants(t, 1, "items.jsonl.not")
}

func TestListAndShow(t *testing.T) {
	e := start(t)
	engine(t, "", "list").wants(t, 0, "no items")
	ids := []string{"01JD3V6YB2M4C9W8ZK5T7QXRNA", "01JD3V6YB2M4C9W8ZK5T7QXRNB", "01JD3V6YB2M4C9W8ZK5T7QXRNC"}
	engine(t, "", "submit", "report", "--id", ids[2]).wants(t, 0)
	e.work("", "email", fails("error", "line one\nline two"))
	engine(t, "", "submit", "email", "--id", ids[1], "--label", "region=eu", `{"a":"`+strings.Repeat("x", 90)+`"}`, "--wait").wants(t, 1)
	engine(t, "", "submit", "sms", "--id", ids[0]).wants(t, 0)
	r := engine(t, "", "list", "--limit", "2").wants(t, 0)
	got := lines(r.out)
	if len(got) != 3 || !strings.HasPrefix(got[0], "ID                          TYPE   STATE   PRIO  ATTEMPT  CREATED") || !strings.HasPrefix(got[1], ids[0]) ||
		!strings.HasPrefix(got[2], ids[1]+"  email  dead    5     1/3      ") {
		t.Errorf("got\n%s", r.out)
	}
	if !strings.HasSuffix(got[2], "error: line one") { // show has the rest
		t.Errorf("got\n%s", r.out)
	}
	_, cursor, _ := strings.Cut(r.errs, "--cursor ")
	cursor, _, more := strings.Cut(cursor, ",")
	if !more {
		t.Fatalf("no word of another page: %s", r.errs)
	}
	if got := lines(engine(t, "", "list", "--limit", "2", "--cursor", cursor, "--json").wants(t, 0).out); len(got) != 1 || !strings.Contains(got[0], ids[2]) {
		t.Errorf("got %q", got)
	}
	if got := lines(engine(t, "", "list", "--all", "--limit", "1", "--json", "--state", "queued").wants(t, 0).out); len(got) != 2 {
		t.Errorf("got %q", got)
	}
	e.blocks("mailer-1", "sms")
	if got := lines(engine(t, "", "list", "--json", "--worker", "mailer-1").wants(t, 0).out); len(got) != 1 || !strings.Contains(got[0], ids[0]) {
		t.Errorf("got %q", got)
	}
	engine(t, "", "show", ids[1]).wants(t, 0, "state           dead\n", "attempt         1 of 3\n", "line one (error, not retryable)\n  line two", "label           region=eu\n", "params          \n  {\n    \"a\"")
	engine(t, "", "show", anID).wants(t, 1, "not_found")
}

func TestHistoryAndLogs(t *testing.T) {
	e := start(t)
	e.work("w1", "email", func(_ context.Context, it *workers.RawItem) (any, error) {
		it.Log(workers.LevelWarn, "mind the gap")
		it.Log(workers.LevelInfo, "another")
		return nil, nil
	})
	engine(t, "", "submit", "email", "--id", anID, "--wait").wants(t, 0)
	r := engine(t, "", "history", anID).wants(t, 0, "created", "priority=5", "  +", "claimed", "w1", "completed")
	if got := lines(r.out); len(got) < 6 || !strings.HasPrefix(got[0], "SEQ ") || !strings.Contains(got[0], " AT ") {
		t.Errorf("got\n%s", r.out)
	}
	if got := lines(engine(t, "", "history", anID, "--json").wants(t, 0).out); len(got) != 6 || !strings.Contains(got[0], `"kind":"created"`) || !strings.HasPrefix(got[5], `{"totals":{`) {
		t.Errorf("got %q", got)
	}
	for _, args := range [][]string{{"logs", anID}, {"logs", anID, "--follow"}} {
		r = engine(t, "", args...).wants(t, 0)
		if got := lines(r.out); len(got) != 2 || !strings.HasSuffix(got[0], "  warn   #1  mind the gap") || !strings.HasSuffix(got[1], "  info   #1  another") {
			t.Errorf("%q: got %q", args, got)
		}
	}
}

func TestControl(t *testing.T) {
	e := start(t)
	engine(t, "", "submit", "email", "--id", anID).wants(t, 0)
	engine(t, "", "reschedule", anID, "--priority", "9", "--at", time.Now().Add(48*time.Hour).Format(time.RFC3339)).wants(t, 0, "  9     0/3")
	engine(t, "", "reschedule", anID, "--now").wants(t, 0)
	e.blocks("w1", "email")
	engine(t, "", "workers").wants(t, 0, "WORKER", "w1      email                1 of 4")
	engine(t, "", "workers", "--json").wants(t, 0, `{"worker":"w1"`)
	engine(t, "", "cancel", anID, "--reason", "mistake").wants(t, 0, anID+"  cancelled (its worker is being told to stop)\n")
	engine(t, "", "cancel", anID, "--json").wants(t, 0, `"state":"cancelled","was_running":false`)
	engine(t, "", "workers", "drain", "w1").wants(t, 0, "w1 is draining\n")
	engine(t, "", "types").wants(t, 0, "email  1000      30s    5m       3         1s ×2 to 30s +30%  3m20s     256KiB      -       default")
	engine(t, "", "types", "set", "email", "capacity=7", "lease=1m", "backoff.initial=2s", "backoff.max=10s", `per_priority={"9":{"max_attempts":5}}`).wants(t, 0, "email  7         1m", "2s ×2 to 10s", "api", "the lease of 1m holds for runs that begin from now on")
	engine(t, "", "types", "set", "email", "capacity=0").wants(t, 2, "capacity is 0: it must be 1 to")
}

// The numbers are an engine's after a long life.
func TestStatusTable(t *testing.T) {
	e := start(t)
	for range 2 {
		e.Next(wire.APIInfo, faultproxy.Reply(`{"version":"v0","owner":"fake","epoch":1,"durability":"always","position":"7"}`))
		e.Next(wire.APIStats, faultproxy.Reply(`{"workers":1,"rejected":2,"types":[{"type":"email","states":{"queued":12345,"running":1,"dead":2},"in_flight":3,"capacity":10,"workers":1,"oldest_queued_ms":90000}]}`))
	}
	engine(t, "", "status").wants(t, 0, "engine v0  owner fake (epoch 1)  durability always", "workers 1  rejected submissions 2", "email  12,345  0        1        0          2     0          0       3 of 10    1        1m30s")
	engine(t, "", "status", "--json").wants(t, 0, `{"info":{"version":"v0"`, `"stats":{"types":[`)
}

func TestWorkChecksBeforeItWaits(t *testing.T) {
	t.Setenv("NATS_URL", natscluster.Alone(t, 0).ClientURL())
	engine(t, "", "work", "E Mail", "--", "cat").wants(t, 2, "bad_type")
	engine(t, "", "work", "email", "--", "no-such-program").wants(t, 1, "no-such-program", "give the path")
	engine(t, "", "work", "email", "--id", "a b", "--", "cat").wants(t, 2, "invalid --id", "letters and digits")
	engine(t, "", "work", "email", "--concurrency", "5000", "--", "cat").wants(t, 2, "1 to 1000")
	engine(t, "", "work", "email", "--check", " ", "--", "cat").wants(t, 2, "invalid --check", "use a command")
	many := append([]string{"work", "email"}, slices.Repeat([]string{"--check", "true"}, 17)...)
	engine(t, "", append(many, "--", "cat")...).wants(t, 2, "17 of --check", "at most 16")
}

func TestProve(t *testing.T) {
	e := start(t)
	engine(t, "", "submit", "email").wants(t, 0)
	proved := `equal: \d+ events, replayed in \S+, give the live store; digest [0-9a-f]+\n$`
	if r := engine(t, "", "verify").wants(t, 0); !regexp.MustCompile(proved).MatchString(r.out) {
		t.Errorf("got %q", r.out)
	}
	engine(t, "", "rebuild").wants(t, 0, "rebuilt from ", " events, replayed in ", "; `engine verify`")
	engine(t, "", "rebuild", "--json").wants(t, 0, `"done":true`)
	different := faultproxy.Reply(`{"done":true,"events":5,"total":5,"digest":"a","live":"b","elapsed_ms":1,"diff":["item X"]}`)
	e.Next(wire.APIVerify, different, different)
	engine(t, "", "verify").wants(t, 1, "DIFFERENT", "  item X\n", "engine rebuild")
	engine(t, "", "verify", "--json").wants(t, 1, `"diff":["item X"]`)
}

func TestTail(t *testing.T) {
	e := start(t)
	e.work("w1", "email", fails("error", "no such mailbox"))
	engine(t, "", "submit", "email", "--id", anID, "--wait").wants(t, 1)
	for flag, want := range map[string]string{"--json": `,"kind":"dead","id":"` + anID + `"`, "--json=false": "  email             dead          " + anID + "  #1 w1  error=no such mailbox code=error reason=not_retryable "} {
		ctx, cancel := context.WithCancel(t.Context())
		out := &signalWriter{written: make(chan struct{}, 8)}
		code := make(chan int, 1)
		var errs bytes.Buffer
		go func() {
			code <- run(ctx, []string{"tail", "--server", e.URL, "--type", "email", "--kind", "dead", "--from-seq", "1", flag}, nil, out, &errs)
		}()
		select {
		case <-out.written:
		case <-time.After(2 * time.Minute):
			t.Error("nothing is tailed")
		}
		cancel() // as Ctrl-C does
		if c := <-code; c != 0 || !strings.Contains(out.String(), want) {
			t.Errorf("%s: exit code %d, got %q, want %q; %s", flag, c, out.String(), want, errs.String())
		}
	}
}

// Ctrl-C while --wait waits: the item goes on, and the user is told just that.
func TestSubmitWaitInterrupted(t *testing.T) {
	e := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	errs := &signalWriter{written: make(chan struct{}, 8)}
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"submit", "email", "--server", e.URL, "--id", anID, "--wait"}, nil, new(bytes.Buffer), errs)
	}()
	<-errs.written
	cancel()
	if c := <-code; c != 1 || !strings.Contains(errs.String(), "engine submit: stopped waiting for item "+anID) || strings.Contains(errs.String(), "timeout") || strings.Contains(errs.String(), "context") {
		t.Errorf("exit code %d: %s", c, errs.String())
	}
}

// signalWriter tells that something was written. It is read only after the
// writer has ended.
type signalWriter struct {
	bytes.Buffer
	written chan struct{}
}

func (w *signalWriter) Write(p []byte) (int, error) {
	n, err := w.Buffer.Write(p)
	w.written <- struct{}{}
	return n, err
}
