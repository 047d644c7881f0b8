package acceptance

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/workers"
)

// ballast takes up storage beside the engine's streams.
type ballast struct {
	r *rig
	s jetstream.Stream
}

func newBallast(r *rig) *ballast {
	r.t.Helper()
	return &ballast{r: r, s: must(r.admin().CreateStream(r.ctx, jetstream.StreamConfig{Name: "BALLAST", Subjects: []string{"ballast"}}))(r.t)}
}

// fill stores up to n bytes, or until the server takes no more.
func (b *ballast) fill(n int) {
	b.r.t.Helper()
	const piece = 64 << 10
	for ; n > 0; n -= piece {
		if _, err := b.r.js.Publish(b.r.ctx, "ballast", bytes.Repeat([]byte("x"), piece)); err != nil {
			return
		}
	}
}

func (b *ballast) drop() {
	b.r.t.Helper()
	if err := b.r.js.DeleteStream(b.r.ctx, "BALLAST"); err != nil {
		b.r.t.Fatal(err)
	}
}

// health is what /healthz says.
func (r *rig) health() (int, string) {
	r.t.Helper()
	resp := must(http.Get("http://" + r.eng.HTTP() + "/healthz"))(r.t)
	defer resp.Body.Close()
	var h struct{ Status string }
	if err := json.Unmarshal(must(io.ReadAll(resp.Body))(r.t), &h); err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, h.Status
}

// submitOnce asks once, and does not try again.
func (r *rig) submitOnce() error {
	r.t.Helper()
	msg := must(r.nc.Request("work.api.submit", []byte(`{"type":"job"}`), patience))(r.t)
	var reply struct {
		Error *struct {
			Code         events.Code
			Message      string
			RetryAfterMS int64 `json:"retry_after_ms"`
		}
	}
	fromJSON(r.t, msg.Data, &reply)
	if reply.Error == nil {
		return nil
	}
	return &events.Error{Code: reply.Error.Code, Message: reply.Error.Message, RetryAfter: time.Duration(reply.Error.RetryAfterMS) * time.Millisecond}
}

const smallStore = "[server]\nhttp = \"127.0.0.1:0\"\n[limits]\nmax_store = \"64MiB\"\n"

// Near the limit of the streams new work is refused, and what was accepted is
// done; with room again everything goes on by itself.
func TestNearlyFullStore(t *testing.T) {
	t.Parallel()
	r := onDisk(t, smallStore)
	accepted := r.submit(streamwright.Item{Type: "job"})
	b := newBallast(r)
	b.fill(60 << 20)
	eventually(t, "submissions are refused", func() bool { return r.submitOnce() != nil })
	err := r.submitOnce()
	wantCode(t, err, events.CodeUnavailable, "max_store")
	if e := err.(*events.Error); e.RetryAfter <= 0 {
		t.Error("it does not say when to try again")
	}
	if code, status := r.health(); code != http.StatusServiceUnavailable || status != "store_full" {
		t.Errorf("health %d %s", code, status)
	}
	// What is published is kept and waits.
	p := must(r.c.Publish(r.ctx, streamwright.Item{Type: "job"}))(t)
	r.worker(workers.Config{}, "job", done)
	r.wait(accepted, events.StateCompleted)
	if _, err := r.c.GetByIntake(r.ctx, p.IntakeSeq); events.CodeOf(err) != events.CodeNotFound {
		t.Errorf("the intake is read in spite of the lack of room: %v", err)
	}
	b.drop()
	r.wait(r.submit(streamwright.Item{Type: "job"}), events.StateCompleted)
	eventually(t, "the published item is there", func() bool { _, err := r.c.GetByIntake(r.ctx, p.IntakeSeq); return err == nil })
	r.wait(p.ID, events.StateCompleted)
	if code, status := r.health(); code != http.StatusOK || status != "ok" {
		t.Errorf("health %d %s", code, status)
	}
	r.verify()
	for _, say := range []string{"new work is refused", "new work is accepted"} {
		if !contains(r.log.String(), say) {
			t.Errorf("the log does not say %q", say)
		}
	}
}

// At the very limit no event fits. The engine stays up, says so, does not spin,
// and goes on when there is room.
func TestFullStore(t *testing.T) {
	t.Parallel()
	r := onDisk(t, smallStore)
	var ids []string
	for range 20 {
		ids = append(ids, r.submit(streamwright.Item{Type: "job"}))
	}
	g := newGate()
	r.worker(workers.Config{Concurrency: len(ids)}, "job", g.run)
	for range ids {
		recv(t, "an item runs", g.begun)
	}
	b := newBallast(r)
	b.fill(80 << 20)
	close(g.open)
	eventually(t, "the log says that the stream is full", func() bool { return contains(r.log.String(), "event stream is full") })
	eventually(t, "the health says so", func() bool {
		code, status := r.health()
		return code == http.StatusServiceUnavailable && status == "store_full"
	})
	begin, before := time.Now(), bytes.Count([]byte(r.log.String()), []byte("full"))
	eventually(t, "a while passes", func() bool { return time.Since(begin) > 500*time.Millisecond })
	if n := bytes.Count([]byte(r.log.String()), []byte("full")) - before; n > 50 {
		t.Errorf("%d entries of the log in half a second: it spins", n)
	}
	wantCode(t, r.submitOnce(), events.CodeUnavailable, "max_store")
	b.drop()
	for _, id := range ids {
		r.wait(id, events.StateCompleted)
	}
	r.wait(r.submit(streamwright.Item{Type: "job"}), events.StateCompleted)
	r.completedOnce(ids)
	r.verify()
}

// With too little free disk nothing new is taken, over restarts too.
func TestLowDisk(t *testing.T) {
	t.Parallel()
	r := onDisk(t, "[server]\nhttp = \"127.0.0.1:0\"\n")
	id := r.submit(streamwright.Item{Type: "job"})
	r.stop()
	plenty := r.opt.Config
	free := must(embedded.FreeSpace(r.opt.Dir))(t)
	r.opt.Config.Limits.MinFreeBytes = int64(free + free/2) // and well above the half of it
	r.start()
	wantCode(t, r.submitOnce(), events.CodeUnavailable, "min_free")
	if code, status := r.health(); code != http.StatusServiceUnavailable || status != "disk_low" {
		t.Errorf("health %d %s", code, status)
	}
	p := must(r.c.Publish(r.ctx, streamwright.Item{Type: "job"}))(t)
	w := r.worker(workers.Config{}, "job", done)
	r.wait(id, events.StateCompleted)
	if _, err := r.c.GetByIntake(r.ctx, p.IntakeSeq); events.CodeOf(err) != events.CodeNotFound {
		t.Errorf("the intake is read in spite of the lack of room: %v", err)
	}
	if err := w.Stop(r.ctx); err != nil {
		t.Error(err)
	}
	r.stop()
	r.opt.Config = plenty
	r.start()
	r.worker(workers.Config{}, "job", done)
	eventually(t, "the published item is there", func() bool { _, err := r.c.GetByIntake(r.ctx, p.IntakeSeq); return err == nil })
	r.wait(p.ID, events.StateCompleted)
	r.verify()
}
