package embedded

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

// Acts over HTTP bear the name of the token, in the log of the namespace that they concern.
func TestActsBearTheNameOfTheToken(t *testing.T) {
	need.NoReload(t)
	ann, bob := "0123456789-abcdef-ann", "0123456789-abcdef-bob"
	all := "*/submit,*/read,*/operate"
	e := mustStart(t, Options{Memory: true, NATSListen: config.Off, HTTP: "127.0.0.1:0", HTTPTokens: "ann " + ann + " " + all + "\nbob " + bob + " " + all + "\n"})
	c := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(c.CloseIdleConnections)
	do := func(token, method, path, body string) []byte {
		t.Helper()
		req, err := http.NewRequestWithContext(testContext(t), method, e.HTTPURL()+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		data, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode >= 300 {
			t.Fatalf("%s %s: %d %s, %v", method, path, resp.StatusCode, data, err)
		}
		return data
	}
	acts := func(path string) string {
		t.Helper()
		var reply wire.AuditReply
		if err := json.Unmarshal(do(ann, "GET", path, ""), &reply); err != nil {
			t.Fatal(err)
		}
		var list []string
		for _, act := range reply.Acts {
			list = append(list, act.Kind.String()+" "+act.By)
		}
		return strings.Join(list, ", ")
	}
	do(ann, "PUT", "/api/v1/namespaces/acme", `{}`)
	awaitNamespace(t, e, "acme")
	do(bob, "POST", "/api/v1/types/email/pause", `{"by":"ann"}`)
	do(ann, "POST", "/ns/acme/api/v1/types/email/pause", `{}`)
	do(bob, "POST", "/ns/acme/api/v1/work", `{"type":"email"}`)
	do(bob, "POST", "/ns/acme/api/v1/work/cancel", `{"select":{"type":"email"}}`)
	for path, want := range map[string]string{
		"/api/v1/audit":                        "namespace_set ann, paused bob",
		"/api/v1/audit?by=bob":                 "paused bob",
		"/ns/acme/api/v1/audit":                "paused ann, cancelled bob",
		"/ns/acme/api/v1/audit?action=created": "created bob",
	} {
		if got := acts(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}
