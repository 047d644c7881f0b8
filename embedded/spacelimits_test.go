package embedded

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/blobs"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

// limitNamespace changes the limits of a namespace, and returns it once it runs with them.
func limitNamespace(t testing.TB, e *Engine, name string, to streamwright.NamespaceLimitsChange) (s *space) {
	t.Helper()
	n, err := inNamespace(t, e, "default").Namespaces().Change(testContext(t), name, streamwright.NamespaceChange{Limits: to})
	if err != nil {
		t.Fatal(err)
	}
	need.Eventually(t, name+" runs with its limits", func() bool {
		s, _ = e.spaces.get(events.Namespace(name)).now()
		return s != nil && s.info.Limits == n.Limits
	})
	need.Eventually(t, name+" answers", func() bool {
		_, err := inNamespace(t, e, name).Engine().Info(testContext(t))
		return err == nil || events.CodeOf(err) == events.CodeQuotaExceeded
	})
	return s
}

func submitTo(ctx context.Context, t testing.TB, e *Engine, name string, params any) error {
	_, err := inNamespace(t, e, name).Submit(ctx, streamwright.Item{Type: "mail", Params: params})
	return err
}

// A change of a limit takes effect while the namespace runs, and leaves what it holds.
func TestLimitsOfANamespaceThatRuns(t *testing.T) {
	e := mustStart(t, Options{Dir: t.TempDir(), NATSListen: config.Off, HTTP: "127.0.0.1:0", Logger: need.Logger(t)})
	addNamespaces(t, e, "acme")
	for range 2 {
		if err := submitTo(testContext(t), t, e, "acme", 1); err != nil {
			t.Fatal(err)
		}
	}
	limitNamespace(t, e, "acme", streamwright.NamespaceLimitsChange{MaxQueued: new(2), MaxDocumentBytes: new(int64(5 << 20))})
	if err := submitTo(testContext(t), t, e, "acme", 1); events.CodeOf(err) != events.CodeQueueFull {
		t.Errorf("beyond max_queued: %v", err)
	}
	js, err := connect.JetStream(e.nc, e.names())
	if err != nil {
		t.Fatal(err)
	}
	bucket, err := js.Stream(testContext(t), blobs.Stream(e.names().Namespace("acme")))
	if err != nil || bucket.CachedInfo().Config.MaxBytes != 5<<20 {
		t.Errorf("the documents are not bounded: %+v, %v", bucket, err)
	}
	limitNamespace(t, e, "acme", streamwright.NamespaceLimitsChange{MaxQueued: new(3)})
	if err := submitTo(testContext(t), t, e, "acme", 1); err != nil {
		t.Error(err)
	}
}

// A namespace whose log is larger than its bound takes no new work until there is room, and
// goes on with what it has accepted.
func TestTheBoundOfALog(t *testing.T) {
	slow(t)
	t.Parallel()
	e := mustStart(t, Options{Dir: t.TempDir(), NATSListen: config.Off, HTTP: config.Off, Logger: need.Logger(t)})
	addNamespaces(t, e, "acme", "beta")
	limitNamespace(t, e, "acme", streamwright.NamespaceLimitsChange{MaxLogBytes: new(int64(events.MinBound))})
	large := strings.Repeat("x", 200_000)
	need.Eventually(t, "the log is full", func() bool {
		if awaitNamespace(t, e, "acme").decider.full() != nil {
			return true
		}
		ctx, cancel := context.WithTimeout(testContext(t), time.Second) // at the bound it is tried again until then
		defer cancel()
		if err := submitTo(ctx, t, e, "acme", large); err != nil {
			t.Log(err)
		}
		return false
	})
	c := inNamespace(t, e, "acme")
	m, err := c.Conn().Request(c.Names().API(wire.APISubmit), []byte(`{"type":"mail"}`), 5*time.Second)
	if err != nil || !strings.Contains(string(m.Data), `"unavailable"`) || !strings.Contains(string(m.Data), "engine cut --namespace acme") {
		t.Errorf("%s, %v", m.Data, err)
	}
	stats, err := c.Engine().Stats(testContext(t))
	if err != nil || len(stats.Alarms) == 0 || stats.Alarms[0].Code != wire.AlarmLog {
		t.Errorf("%+v, %v", stats.Alarms, err)
	}
	if err := submitTo(testContext(t), t, e, "beta", large); err != nil {
		t.Errorf("another namespace: %v", err)
	}
	// A plain publish waits in the intake.
	if err := c.Conn().Publish(c.Names().Submit("mail"), []byte(`{"params":"published"}`)); err != nil {
		t.Fatal(err)
	}
	all, err := c.List(testContext(t), streamwright.Filter{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range all.Items { // which is no new work
		if _, _, err := c.Cancel(testContext(t), it.ID, ""); err != nil {
			t.Fatal(err)
		}
	}
	limitNamespace(t, e, "acme", streamwright.NamespaceLimitsChange{MaxLogBytes: new(int64(100 << 20))})
	need.Eventually(t, "the publish is decided", func() bool {
		now, err := c.List(testContext(t), streamwright.Filter{Limit: 1000})
		return err == nil && len(now.Items) == len(all.Items)+1
	})
	if err := submitTo(testContext(t), t, e, "acme", large); err != nil {
		t.Error(err)
	}
}

// The requests of all users of a namespace are counted together, over NATS and HTTP.
func TestRequestsOfANamespace(t *testing.T) {
	e := mustStart(t, Options{Dir: t.TempDir(), NATSListen: config.Off, HTTP: "127.0.0.1:0", Logger: need.Logger(t)})
	addNamespaces(t, e, "acme", "beta")
	limitNamespace(t, e, "acme", streamwright.NamespaceLimitsChange{RequestsPerSecond: new(1)})
	c := inNamespace(t, e, "acme")
	need.Eventually(t, "a request too many", func() bool {
		_, err := c.Engine().Info(testContext(t))
		return events.CodeOf(err) == events.CodeQuotaExceeded
	})
	if status := getJSON(t, e.HTTPURL()+"/ns/acme/api/v1/stats", nil); status != http.StatusTooManyRequests {
		t.Errorf("over HTTP: %d", status)
	}
	for range 20 {
		if _, err := inNamespace(t, e, "beta").Engine().Info(testContext(t)); err != nil {
			t.Fatal(err)
		}
	}
}
