package embedded

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

// The NATS server puts its answers where the asker says, past all permissions.
// An empty one would delete a stream, and one that delivers a stored message
// would run it as a request: none of them may come to the engine's account.
func TestTheServersAnswersDoNothing(t *testing.T) {
	e := guarded(t)
	ctx := testContext(t)
	submit(t, e, wire.Submit{Type: "email"})
	work, _ := as(t, e, "work")
	read, _ := as(t, e, "read")
	submitter, _ := as(t, e, "submit")

	// What a worker pulls are the params that somebody has submitted.
	busy := make(chan struct{}, 100)
	w, err := workers.New(work.Conn(), workers.Config{ID: "w1", Concurrency: 1, Names: work.Names(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	leave := make(chan struct{})
	workers.HandleRaw(w, "order", func(ctx context.Context, _ *workers.RawItem) (any, error) {
		busy <- struct{}{}
		<-leave
		return nil, nil
	})
	if err := w.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		close(leave)
		if err := w.Stop(testContext(t)); err != nil {
			t.Error(err)
		}
	})
	for range 5 {
		submit(t, e, wire.Submit{Type: "order", Params: []byte(`{"type":"email"}`)})
	}
	<-busy

	send := func(nc *nats.Conn, request, body string, replies ...string) {
		t.Helper()
		for _, api := range []string{"$JS.API.", "$JS.work.API."} {
			for _, reply := range replies {
				if err := nc.PublishRequest(api+request, reply, []byte(body)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := nc.FlushTimeout(testTimeout); err != nil {
			t.Fatal(err)
		}
	}
	pull := `{"batch":1,"no_wait":true}`
	send(work.Conn(), "CONSUMER.MSG.NEXT.WORK_DISPATCH.order", pull, "work.api.pause", "work.api.pause", "work.api.pause")
	send(work.Conn(), "CONSUMER.MSG.NEXT.WORK_DISPATCH.nothing", pull, "$JS.API.STREAM.DELETE.OBJ_work_blobs", "work.api.rebuild")
	send(read.Conn(), "DIRECT.GET.WORK_EVENTS_0", `{"seq":99999999}`, "$JS.API.STREAM.DELETE.WORK_LOGS", "work.api.cut", "work.control.w1")
	send(read.Conn(), "DIRECT.GET.WORK_EVENTS_0", `{"seq":99999999}`, "$JS.API.STREAM.DELETE.WORK_EVENTS_0")
	if err := submitter.Conn().PublishRequest("work.submit.email", "$JS.API.STREAM.PURGE.WORK_EVENTS_0", nil); err != nil {
		t.Fatal(err)
	}
	// The engine's answers come after those.
	if _, err := submitter.Conn().Request("work.submit.email", nil, testTimeout); err != nil {
		t.Fatal(err)
	}
	spy, err := e.connect(true)
	if err != nil {
		t.Fatal(err)
	}
	defer spy.Close()
	for _, stream := range []string{"WORK_EVENTS_0", "WORK_LOGS", "OBJ_work_blobs"} {
		m, err := spy.Request("$JS.API.STREAM.MSG.GET."+stream, []byte(`{"seq":99999999}`), 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(m.Data), `"err_code":10037`) { // no such message, of a stream that is there
			t.Errorf("the stream %s: %s", stream, m.Data)
		}
	}
	list := request[wire.TypesReply](t, e, wire.APITypes, wire.StatsRequest{})
	for _, typ := range list.Types {
		if typ.Paused != nil {
			t.Errorf("a worker has paused %s", typ.Type)
		}
	}
}
