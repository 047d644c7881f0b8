package bridge_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

// What a worker logs is in the item's log, in order and within its bounds. A request with a record that names no item writes nothing.
func TestWorkersWriteToItemsLogs(t *testing.T) {
	e := startEngine(t, embedded.Options{})
	w := e.worker(t, wire.WorkerRegistration{Worker: "w1", Types: []string{"step"}, Slots: 1})
	id := e.submit(t, "step", `1`)
	it := w.one()
	at := time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC)
	refuse := func(want events.Code, session string, lines ...wire.WorkerLogLine) {
		t.Helper()
		status, p, err := e.ask(testContext(t), http.MethodPost, w.path("log"), wire.WorkerLogs{Session: session, Records: lines}, nil)
		if err != nil || status < 400 || p.Code != want {
			t.Errorf("refused with %d %s, %v: want %s", status, p.Code, err, want)
		}
	}
	good := wire.WorkerLogLine{ID: id, Type: "step", Message: "not to be written"}
	refuse(events.CodeBadID, w.session, good, wire.WorkerLogLine{ID: "x", Type: "step"})
	refuse(events.CodeBadType, w.session, good, wire.WorkerLogLine{ID: id, Type: "No Type"})
	refuse(events.CodeWorkerIDInUse, "another", good)
	refuse(events.CodeTooLarge, w.session, slices.Repeat([]wire.WorkerLogLine{{}}, 1001)...)
	var ok wire.OK
	w.must("log", wire.WorkerLogs{Session: w.session, Records: []wire.WorkerLogLine{
		{ID: id, Type: "step", Attempt: 1, Level: "warn", At: at, Message: "one"}, {ID: id, Type: "step", Level: "odd", Message: strings.Repeat("é", 5000)},
	}}, &ok)
	w.ok(complete(it, `1`))
	var logs []streamwright.LogRecord
	need.Eventually(t, "the log has two records", func() (is bool) {
		var err error
		if logs, err = e.client.Logs(testContext(t), id, 10); err != nil {
			t.Fatal(err)
		}
		return len(logs) == 2
	})
	if l := logs[0]; l.Message != "one" || l.Level != "warn" || l.Attempt != 1 || l.Worker != "w1" || !l.At.Equal(at) {
		t.Errorf("the first record is %+v", l)
	}
	if l := logs[1]; l.Message != strings.Repeat("é", 4096) || l.Level != "info" || l.At.IsZero() {
		t.Errorf("the second record is %d bytes, %s, %v", len(l.Message), l.Level, l.At)
	}
}
