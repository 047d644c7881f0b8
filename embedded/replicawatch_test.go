package embedded

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/api"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

// hole writes zeros amid the first block of a node's replica of a stream, and returns a function
// that takes them back.
func hole(t *testing.T, dir, stream string) (mend func()) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "jetstream", "*", "streams", stream, "msgs", "*.blk"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no blocks of %s: %v", stream, err)
	}
	f, err := os.OpenFile(files[0], os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	at, old := info.Size()/3, make([]byte, 200)
	if _, err := f.ReadAt(old, at); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(make([]byte, len(old)), at); err != nil {
		t.Fatal(err)
	}
	return func() {
		f, err := os.OpenFile(files[0], os.O_RDWR, 0)
		if err == nil {
			_, err = f.WriteAt(old, at)
		}
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// An engine that stands alone finds damage in its log, raises the alarm everywhere, and takes it
// back once the log is whole.
func TestADamagedLogIsAnAlarm(t *testing.T) {
	ctx := testContext(t)
	o := secured(t, quiet(t.TempDir()))
	o.HTTP, o.replicasAgain, o.Config.HTTP.AllowOpen = "127.0.0.1:0", 10*time.Millisecond, true
	e := mustStart(t, o)
	c := mustClient(t, e)
	for range 50 {
		if _, err := c.Submit(ctx, streamwright.Item{Type: "t", Params: strings.Repeat("x", 100)}); err != nil {
			t.Fatal(err)
		}
	}
	find := func(what string, damaged bool) {
		t.Helper()
		need.Eventually(t, what, func() bool {
			return (len(e.replicas.reads()().Damaged) > 0) == damaged && !e.replicas.reads()().At.IsZero()
		})
	}
	find("it was read", false)
	stream := e.names().EventStream(0)
	mend := hole(t, e.Dir(), stream)
	find("the damage", true)

	st, err := c.Engine().Stats(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if len(st.Alarms) != 1 || st.Alarms[0].Code != wire.AlarmReplica || st.Alarms[0].Severity != wire.AlarmCritical || !strings.Contains(st.Alarms[0].Message, stream) || !strings.Contains(st.Alarms[0].Action, "engine restore") {
		t.Errorf("alarms %+v", st.Alarms)
	}
	nodes, err := c.Engine().Nodes(ctx)
	if err != nil || len(nodes.Warnings) != 1 || !strings.Contains(nodes.Warnings[0], "is damaged: block 1: ") || len(nodes.Nodes[0].Damaged) != 1 || nodes.Nodes[0].ReplicasRead.IsZero() {
		t.Errorf("nodes %+v, %v", nodes, err)
	}
	status, body := fetchPage(t, e, "/healthz")
	var h api.Health
	if err := json.Unmarshal([]byte(body), &h); err != nil || status != http.StatusOK || len(h.Warnings) != 1 || !strings.Contains(h.Warnings[0], stream) {
		t.Errorf("/healthz: %d %s", status, body)
	}
	if _, body := fetchPage(t, e, "/metrics"); !strings.Contains(body, `streamwright_replicas_damaged{stream="`+stream+`"} 1`) || !strings.Contains(body, `streamwright_alarm{code="replica_damaged",severity="critical"} 1`) || !strings.Contains(body, `streamwright_replicas_damaged{stream="OBJ_work_blobs"} 0`) || !strings.Contains(body, "streamwright_replicas_read_seconds 1") {
		t.Errorf("/metrics: %s", body)
	}
	mend()
	find("it is whole", false)
	if st, err := c.Engine().Stats(ctx); err != nil || len(st.Alarms) != 0 {
		t.Errorf("alarms %+v, %v", st.Alarms, err)
	}
}

// fetchPage gets a path from an engine's HTTP server.
func fetchPage(t *testing.T, e *Engine, path string) (status int, body string) {
	t.Helper()
	r, err := http.Get(e.HTTPURL() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(b)
}
