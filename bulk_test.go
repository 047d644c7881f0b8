package streamwright_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/faultproxy"
	"github.com/streamwright/streamwright/internal/natscluster"
	"github.com/streamwright/streamwright/wire"
)

func mails(n int) []streamwright.Item {
	items := make([]streamwright.Item, n)
	for i := range items {
		items[i] = streamwright.Item{Type: "email", Params: map[string]int{"n": i}}
	}
	return items
}

func TestSubmitManyKeepsOrderAndTellsErrorsApart(t *testing.T) {
	e := start(t)
	c := connect(t, e, streamwright.WithTryTimeout(500*time.Millisecond), streamwright.WithMaxDocument(1<<19))
	items := mails(250)
	items[7].Type = "No Such"
	items[170].Params = func() {} // can't be sent at all
	items[180].Params = strings.Repeat("x", 1<<20)
	// The first reply is lost; the next request is refused at first.
	e.Next(wire.APISubmit, faultproxy.Lose, faultproxy.Refuse(events.Refuse(events.CodeUnavailable, "later")))
	out, err := c.SubmitMany(testContext(t), items, streamwright.PerRequest(100), streamwright.InFlight(3))
	if err != nil || len(out) != len(items) {
		t.Fatalf("%d answers, %v", len(out), err)
	}
	want := map[int]events.Code{7: events.CodeBadType, 170: events.CodeBadParams, 180: events.CodeTooLarge}
	for i, s := range out {
		if code, bad := want[i]; bad {
			if s.Error == nil || s.Error.Code != code {
				t.Errorf("%d: got %+v, want %s", i, s, code)
			}
			continue
		}
		it, err := c.Get(testContext(t), s.ID)
		if s.Error != nil || err != nil || string(it.Params) != fmt.Sprintf(`{"n":%d}`, i) {
			t.Fatalf("%d: got %+v, which is %s, %v", i, s, it.Params, err)
		}
	}
	if n := e.count(); n != len(items)-3 {
		t.Errorf("%d items", n)
	}
}

// Elements refused as unavailable are sent again, alone.
func TestSubmitManyRepeatsElements(t *testing.T) {
	e := start(t)
	c := connect(t, e)
	e.Next(wire.APISubmit, faultproxy.Reply(`[{"id":"A","state":"queued","position":"40000000"},{"error":{"code":"unavailable","message":"stopping"}},{"error":{"code":"queue_full","message":"full"}}]`))
	out, err := c.SubmitMany(testContext(t), mails(3))
	if err != nil || out[0].ID != "A" || out[1].State != events.StateQueued || out[2].Error == nil || out[2].Error.Code != events.CodeQueueFull || out[2].ID == "" {
		t.Errorf("got %+v, %v", out, err)
	}
	if requests, n := len(e.Requests(wire.APISubmit)), e.count(); requests != 2 || n != 1 || c.Position() != "40000000" {
		t.Errorf("%d requests, %d items, position %s", requests, n, c.Position())
	}
	e.Next(wire.APISubmit, faultproxy.Reply(`[]`))
	_, err = c.SubmitMany(testContext(t), mails(1))
	wantCode(t, err, events.CodeInternal, "0 of 1")
}

// A request takes at most half of what the server does.
func TestSubmitManyIsBoundInBytes(t *testing.T) {
	e := start(t)
	c := connect(t, e, streamwright.WithTryTimeout(time.Minute))
	items := make([]streamwright.Item, 42)
	for i := range items {
		items[i] = streamwright.Item{Type: "email", Params: strings.Repeat("x", 100_000)}
	}
	out, err := c.SubmitMany(testContext(t), items)
	if err != nil || slices.ContainsFunc(out, func(s streamwright.Submitted) bool { return s.Error != nil }) {
		t.Fatalf("got %v", err)
	}
	if n := len(e.Requests(wire.APISubmit)); n != 2 { // 41 items of 100 kB are all that half of 8 MiB takes
		t.Errorf("%d requests", n)
	}
}

func TestSubmitManyWithoutAnEngine(t *testing.T) {
	c, err := streamwright.Connect(testContext(t), natscluster.Alone(t, 0).ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	out, err := c.SubmitMany(ctx, mails(3000), streamwright.PerRequest(500))
	wantCode(t, err, events.CodeTimeout, "no engine answers")
	if len(out) != 3000 || out[2999].Error == nil {
		t.Errorf("%d answers", len(out))
	}
}

func TestSubmitSeqStopsWhenToldTo(t *testing.T) {
	e := start(t)
	c := connect(t, e)
	enough := errors.New("enough")
	n := 0
	err := c.SubmitSeq(testContext(t), slices.Values(mails(5000)), func(streamwright.Submitted) error {
		if n++; n == 10 {
			return enough
		}
		return nil
	}, streamwright.PerRequest(100))
	if !errors.Is(err, enough) || n != 10 {
		t.Errorf("got %v after %d", err, n)
	}
}

// What the client costs, with a reply that is always the same.
func BenchmarkSubmitMany(b *testing.B) {
	url := natscluster.Alone(b, 0).ClientURL()
	nc, err := nats.Connect(url)
	if err != nil {
		b.Fatal(err)
	}
	defer nc.Close()
	reply := []byte("[" + strings.Repeat(`{"id":"01JD3V6YB2M4C9W8ZK5T7QXRNE","state":"queued","position":"123456"},`, 999) +
		`{"id":"01JD3V6YB2M4C9W8ZK5T7QXRNE","state":"queued","position":"123456"}]`)
	if _, err := nc.Subscribe("work.api.submit", func(m *nats.Msg) { _ = m.Respond(reply) }); err != nil {
		b.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		b.Fatal(err)
	}
	c, err := streamwright.Connect(b.Context(), url)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	items := mails(10_000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.SubmitMany(b.Context(), items); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*float64(len(items))/b.Elapsed().Seconds(), "items/s")
}
