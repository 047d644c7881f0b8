package embedded

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/events"
)

// The ack streams are in the metrics once there are any, and those that
// capture are bounded, the oldest going first.
func TestAckStreamsAreSeenAndBounded(t *testing.T) {
	t.Parallel()
	o := quiet(t.TempDir())
	o.HTTP = "127.0.0.1:0"
	o.Config = config.Default()
	plain := mustStart(t, o)
	if page := scrape(t, plain); strings.Contains(page, `stream="dispatch`) {
		t.Errorf("without an ack type the page has\n%s", streamLines(page))
	}
	if err := plain.Stop(testContext(t)); err != nil {
		t.Fatal(err)
	}
	o.Config.Types = map[events.Type]config.Type{"thumbnail": {Patch: config.Patch{"protocol": events.ProtocolAck}}}
	e, client, worker := startAck(t, o)
	id := fine(client.Submit(testContext(t), streamwright.Item{Type: "thumbnail"}))(t).ID
	m := fine(worker.Next(jetstream.FetchMaxWait(testTimeout)))(t)
	if err := m.DoubleAck(testContext(t)); err != nil {
		t.Fatal(err)
	}
	fine(client.Wait(testContext(t), id))(t)
	want := []string{
		`streamwright_stream_messages{stream="dispatch_acks"} 2`, `streamwright_stream_max_messages{stream="dispatch_acks"} 400000`,
		`streamwright_stream_bytes{stream="dispatch"} 0`, // what is recorded is removed
	}
	page := ""
	for deadline := time.Now().Add(testTimeout); ; time.Sleep(10 * time.Millisecond) {
		missing := ""
		page = scrape(t, e)
		for _, w := range want {
			if !strings.Contains(page, w+"\n") {
				missing = w
			}
		}
		if missing == "" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("no %s in\n%s", missing, streamLines(page))
		}
	}
	js := jetstreamOf(t, e)
	for _, name := range []string{"WORK_DISPATCH_ACKS"} {
		c := fine(js.Stream(testContext(t), name))(t).CachedInfo().Config
		if c.MaxMsgs != 400_000 || c.MaxAge != 72*time.Hour || c.MaxMsgSize != 128<<10 || c.Discard != jetstream.DiscardOld || c.Retention != jetstream.LimitsPolicy {
			t.Errorf("%s is bounded by %+v", name, c)
		}
	}
}

func scrape(t *testing.T, e *Engine) string {
	t.Helper()
	resp := fine(http.Get("http://" + e.HTTP() + "/metrics"))(t)
	defer resp.Body.Close()
	return string(fine(io.ReadAll(resp.Body))(t))
}

func streamLines(page string) string {
	var lines []string
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "streamwright_stream_") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// fine is for what can't fail in a test that goes well.
func fine[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
