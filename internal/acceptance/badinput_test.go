package acceptance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/blobs"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

const (
	takenID  = "01JD3V6YB2M4C9W8ZK5T7QXRNE"
	farTime  = "2099-01-01T00:00:00Z"
	tooLarge = 300 << 10
)

// badSubmissions are what can't become an item, by each way in.
var badSubmissions = []struct {
	name   string
	code   events.Code
	typ    string // of the plain publish
	header map[string]string
	body   string
	api    string      // the request; empty: it can't be said there
	apiC   events.Code // if another than code
	cli    []string    // what follows `engine submit`
	exit   int
	cliSay string
}{
	{"no JSON", events.CodeBadParams, "email", nil, `{to: 1}`, `{"type":"email","params":{to:1}}`, events.CodeBadRequest, []string{"email", "{to: 1}"}, 2, "bad_params"},
	{"empty type", events.CodeBadType, "E-Mail", nil, `1`, `{"type":"E-Mail"}`, "", []string{"E-Mail"}, 2, "bad_type"},
	{"long type", events.CodeBadType, strings.Repeat("a", 64), nil, `1`, `{"type":"` + strings.Repeat("a", 64) + `"}`, "", []string{strings.Repeat("a", 64)}, 2, "bad_type"},
	{"priority", events.CodeBadPriority, "email", map[string]string{wire.HeaderPriority: "10"}, `1`, `{"type":"email","priority":10}`, "", []string{"email", "--priority", "10"}, 2, "0 to 9"},
	{"id", events.CodeBadID, "email", map[string]string{wire.HeaderID: "order-7"}, `1`, `{"type":"email","id":"order-7"}`, "", []string{"email", "--id", "order-7"}, 2, "bad_id"},
	{"taken id", events.CodeIDConflict, "email", map[string]string{wire.HeaderID: takenID}, `"other"`, `{"type":"email","params":"other","id":"` + takenID + `"}`, "", []string{"email", `"other"`, "--id", takenID}, 1, "id_conflict"},
	{"due time", events.CodeBadTime, "email", map[string]string{wire.HeaderAvailableAt: farTime}, `1`, `{"type":"email","available_at":"` + farTime + `"}`, "", []string{"email", "--at", farTime}, 2, "bad_time"},
	{"unreadable time", events.CodeBadTime, "email", map[string]string{wire.HeaderAvailableAt: "noon"}, `1`, `{"type":"email","available_at":"noon"}`, "", []string{"email", "--at", "noon"}, 2, "use a time such as"},
	{"delay", events.CodeBadTime, "email", map[string]string{wire.HeaderDelay: "soon"}, `1`, `{"type":"email","delay_ms":-5}`, "", []string{"email", "--delay", "soon"}, 2, "soon"},
	{"unknown field", events.CodeBadHeader, "email", map[string]string{"Work-Colour": "red"}, `1`, `{"type":"email","colour":"red"}`, events.CodeBadRequest, []string{"email", "--colour", "red"}, 2, "--colour"},
	{"too large", events.CodeTooLarge, "email", nil, `"` + strings.Repeat("x", tooLarge) + `"`, `{"type":"email","params":"` + strings.Repeat("x", tooLarge) + `"}`, "", []string{"email", "@LARGE"}, 1, "too_large"},
}

func TestBadSubmissions(t *testing.T) {
	t.Parallel()
	r := newRig(t, embedded.Options{Memory: true, NATSListen: "127.0.0.1:0"})
	r.submit(streamwright.Item{Type: "email", ID: takenID, Params: "first"})
	large := filepath.Join(t.TempDir(), "large.json")
	// The command line has an object store for what the engine itself refuses.
	if err := os.WriteFile(large, bytes.Repeat([]byte("1"), int(blobs.DefaultMaxBytes)+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, c := range badSubmissions {
		t.Run(c.name, func(t *testing.T) {
			// Published plainly it is accepted for now, and recorded as rejected,
			// with what it was.
			msg := nats.NewMsg("work.submit." + c.typ)
			msg.Data = []byte(c.body)
			for k, v := range c.header {
				msg.Header.Set(k, v)
			}
			ack := must(r.js.PublishMsg(r.ctx, msg))(t)
			var all []events.Rejected
			eventually(t, "the rejected event", func() bool { all = r.rejected(); return len(all) == i+1 })
			stored := ack.Sequence
			if _, direct := wire.DirectPosition(stored); direct {
				stored = 0 // it was not in the intake
			}
			checkRejected(t, all[i], stored, c.code, c.header, c.body)

			reply := must(r.nc.Request("work.api.submit", []byte(c.api), patience))(t)
			var e wire.ErrorReply
			fromJSON(t, reply.Data, &e)
			want := c.code
			if c.apiC != "" {
				want = c.apiC
			}
			if e.Error == nil || e.Error.Code != want || e.Error.Message == "" {
				t.Errorf("api: got %s, want %s", reply.Data, want)
			}
			args := append([]string{"submit"}, c.cli...)
			for i := range args {
				args[i] = strings.Replace(args[i], "@LARGE", "@"+large, 1)
			}
			cli(t, r.eng.URL(), args...).wants(t, c.exit, c.cliSay)
		})
	}
	if n := must(r.c.Engine().Stats(r.ctx))(t); n.Rejected != int64(len(badSubmissions)) || n.Types[0].States["queued"] != 1 {
		t.Errorf("got %+v", n)
	}
	// What is larger than the intake takes is refused to the publisher.
	_, err := r.js.Publish(r.ctx, "work.submit.email", bytes.Repeat([]byte("x"), 2*events.MaxParamsCeiling))
	if err == nil {
		t.Error("a message of 2 MiB was taken")
	}
	r.verify()
}

func checkRejected(t *testing.T, got events.Rejected, seq uint64, code events.Code, header map[string]string, body string) {
	t.Helper()
	if got.Code != string(code) || got.Message == "" || got.Intake.Seq != seq || got.Size != len(body) {
		t.Errorf("rejected with %s (%s) at %d, want %s at %d", got.Code, got.Message, got.Intake.Seq, code, seq)
	}
	text := got.Text
	if text == "" {
		text = string(got.Bytes)
	}
	if !strings.HasPrefix(body, text) || len(text) < min(len(body), events.MaxRejectedBytes) || got.Truncated != (len(text) < len(body)) {
		t.Errorf("of the original %d bytes are kept (truncated: %t), of %d", len(text), got.Truncated, len(body))
	}
	for k, v := range header {
		if hs := got.Headers[k]; len(hs) != 1 || hs[0] != v {
			t.Errorf("the original's header %s is %v", k, hs)
		}
	}
}

// Of an array each element is decided on its own, and what is no request at
// all is refused with a stable code.
func TestBadRequests(t *testing.T) {
	r := inMemory(t, "")
	reply := must(r.nc.Request("work.api.submit", []byte(`[{"type":"a"},{"type":"B"},{"typ":"a"},{"type":"a","params":2}]`), patience))(t)
	var out []wire.Submitted
	fromJSON(t, reply.Data, &out)
	if len(out) != 4 || out[0].Error != nil || out[3].Error != nil || out[1].Error == nil || out[1].Error.Code != events.CodeBadType || out[2].Error == nil || out[2].Error.Code != events.CodeBadRequest {
		t.Errorf("got %s", reply.Data)
	}
	many := "[" + strings.TrimSuffix(strings.Repeat(`{"type":"a"},`, events.MaxSubmitBatch+1), ",") + "]"
	for _, c := range []struct {
		op, body string
		code     events.Code
	}{
		{"submit", `{`, events.CodeBadRequest}, {"submit", ``, events.CodeBadType}, {"submit", `"text"`, events.CodeBadRequest}, {"submit", many, events.CodeTooLarge},
		{"get", `{"id":"x"}`, events.CodeBadID}, {"get", `{}`, events.CodeBadRequest}, {"get", `{"id":"01JD3V6YB2M4C9W8ZK5T7QXRNA"}`, events.CodeNotFound},
		{"history", `{"id":"01JD3V6YB2M4C9W8ZK5T7QXRNA"}`, events.CodeNotFound}, {"cancel", `{"id":"01JD3V6YB2M4C9W8ZK5T7QXRNA"}`, events.CodeNotFound},
		{"wait", `{"ids":["01JD3V6YB2M4C9W8ZK5T7QXRNA"]}`, events.CodeNotFound}, {"reschedule", `{"id":"01JD3V6YB2M4C9W8ZK5T7QXRNA","now":true}`, events.CodeNotFound},
		{"list", `{"limit":-1}`, events.CodeBadRequest}, {"list", `{"min_position":"x"}`, events.CodeBadRequest}, {"drain", `{"worker":"none"}`, events.CodeNotFound},
		{"register", `{"worker":"a b","types":["a"],"slots":1}`, events.CodeBadRequest}, {"configure", `{"type":"a","settings":{"capacity":0}}`, events.CodeBadRequest},
	} {
		reply, err := r.nc.Request("work.api."+c.op, []byte(c.body), patience)
		if err != nil {
			t.Fatal(err)
		}
		var e wire.ErrorReply
		if json.Unmarshal(reply.Data, &e) != nil || e.Error == nil || e.Error.Code != c.code || e.Error.Message == "" {
			t.Errorf("%s %.60s: got %.200s, want %s", c.op, c.body, reply.Data, c.code)
		}
	}
	r.verify()
}

// What keeps `engine serve` from starting is told, with what to do.
func TestServeDoesNotStart(t *testing.T) {
	t.Parallel()
	taken := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer taken.Close()
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	typos := write("engine.toml", "[limits]\nmax_runing = 5\n\n[types.email]\nlease = \"soon\"\ncapacity = 10\n[types.EMail]\n")
	write("newer/VERSION", "99\n")
	data := func(name string) string { return filepath.Join(dir, name) }
	busy := serve(t, "")
	for name, c := range map[string]struct {
		args []string
		says []string
	}{
		"NATS port":      {[]string{"--dir", data("a"), "--nats-listen", taken.Addr().String(), "--http", "off"}, []string{taken.Addr().String(), "in use", "nats_listen", "(cannot_listen)"}},
		"HTTP port":      {[]string{"--dir", data("b"), "--nats-listen", "off", "--http", taken.Addr().String()}, []string{taken.Addr().String(), "in use", "http", "(cannot_listen)"}},
		"data folder":    {[]string{"--dir", busy.dir, "--nats-listen", "off", "--http", "off"}, []string{busy.dir, fmt.Sprint("process ", busy.p.cmd.Process.Pid), "choose another folder", "(folder_in_use)"}},
		"newer folder":   {[]string{"--dir", data("newer"), "--nats-listen", "off", "--http", "off"}, []string{"format 99", "newer program", "(newer_format)"}},
		"no NATS":        {[]string{"--dir", data("c"), "--nats-url", "nats://bob:secret@127.0.0.1:1", "--http", "off"}, []string{"nats://***@127.0.0.1:1", "nats_url", "(unavailable)"}},
		"typos":          {[]string{"--config", typos}, []string{typos + ":2: ", "max_runing", typos + ":5: ", "types.email.lease", typos + ":7: ", "EMail", "(bad_config)"}},
		"no such config": {[]string{"--config", data("none.toml")}, []string{"none.toml"}},
		"bad durability": {[]string{"--dir", data("d"), "--durability", "never"}, []string{"never", "always", "interval"}},
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Now()
			exit := 1
			if name == "bad durability" { // a mistake of the command line
				exit = 2
			}
			r := cli(t, "", append([]string{"serve"}, c.args...)...).wants(t, exit, c.says...)
			if contains(r.errs, "secret") || contains(r.errs, "goroutine") || contains(r.errs, `\n`) {
				t.Errorf("it says too much: %s", r.errs)
			}
			t.Logf("%v: %s", time.Since(begin), strings.TrimSpace(r.errs))
		})
	}
	// The running engine has not noticed.
	busy.submit(streamwright.Item{Type: "email"})
	cli(t, "nats://127.0.0.1:1", "status").wants(t, 1, "no NATS server answers", "unavailable")
}
