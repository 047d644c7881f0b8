package bridge_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/api/rest"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// raw makes a request whose body is as it is said.
func (e *engine) raw(t testing.TB, path, body string) (int, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(testContext(t), http.MethodPost, "http://"+e.HTTP()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded") // as curl -d has it
	resp, err := e.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, data
}

// Bodies are read as JSON whatever their Content-Type says.
func TestContentTypesDoNotMatter(t *testing.T) {
	e := startEngine(t, embedded.Options{})
	status, data := e.raw(t, "/api/v1/workers", `{"types":["step"],"slots":1}`)
	var reg wire.WorkerSession
	if err := json.Unmarshal(data, &reg); err != nil || status != http.StatusCreated {
		t.Fatalf("register: %d %s", status, data)
	}
	for op, body := range map[string]string{"poll": `{"session":%q,"wait_ms":0}`, "heartbeat": `{"session":%q}`, "report": `{"session":%q,"reports":[]}`} {
		if status, data := e.raw(t, "/api/v1/workers/"+reg.Worker+"/"+op, fmt.Sprintf(body, reg.Session)); status != http.StatusOK {
			t.Errorf("%s: %d %s", op, status, data)
		}
	}
}

// Of reports in one request those that can't be read are refused, each on its
// own, and the others are carried out, as over NATS.
func TestEachReportIsJudgedAlone(t *testing.T) {
	e := startEngine(t, embedded.Options{})
	w := e.worker(t, wire.WorkerRegistration{Types: []string{"step"}, Slots: 2})
	e.submit(t, "step", `1`)
	e.submit(t, "step", `2`)
	one, two := w.one(), w.one()
	list := []string{
		`{"id":7}`,
		fmt.Sprintf(`{"id":%q,"token":%q,"event":"complete","result":{"n":1}}`, one.ID, one.Token),
		`"complete"`,
		`null`,
		fmt.Sprintf(`{"id":%q,"token":%q,"event":"complete","reslut":{}}`, two.ID, two.Token),
		fmt.Sprintf(`{"id":%q,"token":%q,"event":"fail","error":"so","retryable":false}`, two.ID, two.Token),
		`{"token":"1","event":"complete"}`,
	}
	status, data := e.raw(t, w.path("report"), fmt.Sprintf(`{"session":%q,"reports":[%s]}`, w.session, strings.Join(list, ",")))
	var out struct{ Reports []wire.Reported }
	if err := json.Unmarshal(data, &out); err != nil || status != 200 || len(out.Reports) != len(list) {
		t.Fatalf("%d %s %v", status, data, err)
	}
	for i, says := range map[int]string{0: "reports[0]", 2: "reports[2]", 3: "reports[3]", 4: "reslut", 6: ""} {
		if err := out.Reports[i].Error; out.Reports[i].OK || err == nil || !strings.Contains(err.Message, says) || i != 6 && err.Code != events.CodeBadRequest {
			t.Errorf("report %s: %+v", list[i], out.Reports[i])
		}
	}
	for _, i := range []int{1, 5} {
		if !out.Reports[i].OK {
			t.Errorf("report %s: %+v", list[i], out.Reports[i].Error)
		}
		e.client.ObservePosition(out.Reports[i].Position)
	}
	if it := e.item(t, one.ID); it.State != events.StateCompleted || string(it.Result) != `{"n":1}` {
		t.Errorf("the item beside those that can't be read: %+v", it)
	}
	if it := e.item(t, two.ID); it.State != events.StateDead {
		t.Errorf("the failed item: %+v", it)
	}
}

// What is no list of reports at all is refused as a whole, and so is a list of
// somebody else's session, even if nothing in it can be read.
func TestReportsThatAreNoneAreRefused(t *testing.T) {
	e := startEngine(t, embedded.Options{})
	w := e.worker(t, wire.WorkerRegistration{Types: []string{"step"}, Slots: 1})
	many := bytes.Repeat([]byte(`1,`), 1000)
	for body, want := range map[string]int{
		``:                                      400,
		`[]`:                                    400,
		`{"session":"x"}`:                       400,
		`{"session":"x","reports":{}}`:          400,
		`{"session":"x","reports":null}`:        400,
		`{"session":"x","reports":[],"more":1}`: 400,
		`{"session":"x","reports":[{]}`:         400,
		`{"reports":[]}`:                        400,
		`{"session":"x","reports":[1]}`:         409,
		fmt.Sprintf(`{"session":%q,"reports":[%s1]}`, w.session, many): 413,
		fmt.Sprintf(`{"session":%q,"reports":[]}`, w.session):          200,
	} {
		status, data := e.raw(t, w.path("report"), body)
		var p rest.Problem
		if err := json.Unmarshal(data, &p); err != nil || status != want || want != 200 && (p.Status != want || p.Code == "") {
			t.Errorf("%.60s: %d %s", body, status, data)
		}
	}
}
