package embedded

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/workers"
)

// Whoever has nothing but HTTP gets at documents in the object store too.
func TestDocumentsOverHTTP(t *testing.T) {
	t.Parallel()
	e := mustStart(t, Options{Memory: true, NATSListen: config.Off, HTTP: "127.0.0.1:0"})
	c, ctx := mustClient(t, e), testContext(t)
	fetch := func(id, what string) (int, []byte) {
		t.Helper()
		res, err := http.Get(e.HTTPURL() + "/api/v1/work/" + id + "/" + what)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, body
	}
	defer http.DefaultClient.CloseIdleConnections()
	large := largeDoc(3 << 20)
	sub, err := c.Submit(ctx, streamwright.Item{Type: "copy", Params: large})
	if err != nil {
		t.Fatal(err)
	}
	small, err := c.Submit(ctx, streamwright.Item{Type: "copy", Params: 7})
	if err != nil {
		t.Fatal(err)
	}
	if status, body := fetch(sub.ID, "result"); status != http.StatusNotFound || !bytes.Contains(body, []byte("queued")) {
		t.Errorf("no result yet: %d %s", status, body)
	}
	handleLarge(t, e, "copy", func(_ context.Context, it *workers.RawItem) (any, error) { return it.Raw, nil })
	for id, want := range map[string][]byte{sub.ID: large, small.ID: []byte("7")} {
		if _, err := c.Wait(ctx, id); err != nil {
			t.Fatal(err)
		}
		for _, what := range []string{"params", "result"} {
			if status, body := fetch(id, what); status != http.StatusOK || !bytes.Equal(body, want) {
				t.Errorf("%s of %s: %d, %d bytes", what, id, status, len(body))
			}
		}
	}
	if status, _ := fetch(events.ID{1}.String(), "params"); status != http.StatusNotFound {
		t.Errorf("no item: %d", status)
	}
}
