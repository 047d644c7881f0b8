package rest_test

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"testing"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

func TestDeadLetters(t *testing.T) {
	r := start(t, "[types.doomed]\nmax_attempts = 1\n")
	r.work("doomed", 2, func(context.Context, *workers.Item[any]) (any, error) {
		return nil, workers.WithCode(errors.New("it went wrong"), "no_luck")
	})
	ids := make([]string, 4)
	for i := range ids {
		ids[i] = r.submit(`{"type":"doomed"}`)
		if it := r.ended(ids[i]); it.State != events.StateDead {
			t.Fatalf("it is %s", it.State)
		}
	}
	if page := want[wire.Listed](r, http.StatusOK, "GET", "/api/v1/dead?type=doomed&limit=3", ""); len(page.Items) != 3 || page.NextCursor == "" {
		t.Errorf("dead: %+v", page)
	}
	causes := want[wire.CausesReply](r, http.StatusOK, "GET", "/api/v1/causes", "")
	if len(causes.Causes) != 1 || causes.Causes[0].Dead != 4 {
		t.Fatalf("causes: %+v", causes)
	}
	if page := want[wire.Listed](r, http.StatusOK, "GET", "/api/v1/dead?cause="+causes.Causes[0].Cause, ""); len(page.Items) != 4 {
		t.Errorf("dead of the cause: %+v", page)
	}
	for _, query := range []string{"error=went+wrong", "q=doomed", "q=wro"} {
		if page := want[wire.Listed](r, http.StatusOK, "GET", "/api/v1/work?state=dead&"+query, ""); len(page.Items) != 4 {
			t.Errorf("%s finds %d of 4", query, len(page.Items))
		}
	}
	dry := want[wire.BulkReply](r, http.StatusOK, "POST", "/api/v1/dead/replay", `{"select":{"type":"doomed"},"dry_run":true}`)
	if dry.Matched != 4 || dry.Changed != 0 {
		t.Errorf("a dry run: %+v", dry)
	}
	r.refused(400, "bad_request", "narrow", "POST", "/api/v1/dead/replay", `{"select":{}}`)
	r.refused(400, "bad_request", `"action", which the path says`, "POST", "/api/v1/dead/purge", `{"action":"cancel","select":{"type":"doomed"}}`)
	gone := want[wire.ReplayReply](r, http.StatusOK, "DELETE", "/api/v1/dead/"+ids[0]+"?reason=enough", "")
	r.refused(404, "not_found", "", "GET", "/api/v1/work/"+ids[0]+"?min_position="+string(gone.Position), "")
	replayed := want[wire.BulkReply](r, http.StatusOK, "POST", "/api/v1/dead/replay", `{"select":{"type":"doomed","limit":2}}`)
	if replayed.Changed != 2 || replayed.NextCursor == "" {
		t.Errorf("replayed: %+v", replayed)
	}
	r.eventually("the replayed ones have died again", func() bool {
		return len(want[wire.Listed](r, http.StatusOK, "GET", "/api/v1/dead?min_position="+string(replayed.Position), "").Items) == 3
	})
	if got := want[wire.BulkReply](r, http.StatusOK, "POST", "/api/v1/dead/purge", `{"select":{"type":"doomed"}}`); got.Changed != 3 {
		t.Errorf("purged: %+v", got)
	}
}

func TestManyItemsAreCancelledAndRescheduled(t *testing.T) {
	r := start(t, "")
	for range 3 {
		r.submit(`{"type":"idle"}`)
	}
	other := r.submit(`{"type":"other"}`)
	high := want[wire.BulkReply](r, http.StatusOK, "POST", "/api/v1/work/reschedule", `{"select":{"type":"idle"},"priority":"high"}`)
	if high.Matched != 3 || high.Changed != 3 {
		t.Errorf("rescheduled: %+v", high)
	}
	if dry := want[wire.BulkReply](r, http.StatusOK, "POST", "/api/v1/work/cancel", `{"select":{"type":"idle","min_position":"`+string(high.Position)+`"},"dry_run":true}`); dry.Matched != 3 || dry.Changed != 0 {
		t.Errorf("a dry run: %+v", dry)
	}
	r.refused(400, "bad_request", "narrow", "POST", "/api/v1/work/cancel", `{"select":{"state":"queued"}}`)
	r.refused(400, "bad_request", `"action", which the path says`, "POST", "/api/v1/work/cancel", `{"action":"purge","select":{"type":"idle"}}`)
	r.refused(404, "not_found", "nope", "POST", "/api/v1/work/cancel", `{"select":{"type":"nope"}}`)
	done := want[wire.BulkReply](r, http.StatusOK, "POST", "/api/v1/work/cancel", `{"select":{"type":"idle"},"reason":"too late"}`)
	if done.Changed != 3 {
		t.Errorf("cancelled: %+v", done)
	}
	page := want[wire.Listed](r, http.StatusOK, "GET", "/api/v1/work?state=queued&min_position="+string(done.Position), "")
	if len(page.Items) != 1 || page.Items[0].ID != other {
		t.Errorf("what is left: %+v", page.Items)
	}
}

func TestRejected(t *testing.T) {
	r := start(t, "")
	nc, err := r.e.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	for range 2 {
		if _, err := nc.Request("work.submit.mail", []byte("no json"), patience); err != nil {
			t.Fatal(err)
		}
	}
	var page wire.RejectedListed
	r.eventually("both are rejected", func() bool {
		page = want[wire.RejectedListed](r, http.StatusOK, "GET", "/api/v1/rejected?type=mail", "")
		return len(page.Rejected) == 2
	})
	seq := strconv.FormatUint(uint64(page.Rejected[0].Seq), 10)
	if one := want[wire.Rejected](r, http.StatusOK, "GET", "/api/v1/rejected/"+seq, ""); one.Text != "no json" {
		t.Errorf("rejected: %+v", one)
	}
	r.refused(400, "bad_params", "", "POST", "/api/v1/rejected/"+seq+"/replay", "")
	if got := want[wire.Submitted](r, http.StatusOK, "POST", "/api/v1/rejected/"+seq+"/replay", `{"params":{"to":"x"}}`); got.ID == "" || got.State != events.StateQueued {
		t.Errorf("replayed: %+v", got)
	}
	other := strconv.FormatUint(uint64(page.Rejected[1].Seq), 10)
	want[wire.PurgedRejected](r, http.StatusOK, "DELETE", "/api/v1/rejected/"+other+"?reason=spam", "")
	r.refused(404, "not_found", "", "GET", "/api/v1/rejected/999999", "")
	r.refused(400, "bad_request", "seq", "GET", "/api/v1/rejected/first", "")
}

func TestNamespaces(t *testing.T) {
	need.NoReload(t)
	r := start(t, "")
	set := want[wire.NamespaceReply](r, http.StatusOK, "PUT", "/api/v1/namespaces/acme", `{"limits":{"max_queued":7}}`)
	if set.Namespace == nil || set.Namespace.Name != "acme" || set.Namespace.Limits.MaxQueued != 7 {
		t.Errorf("set: %+v", set)
	}
	if again := want[wire.NamespaceReply](r, http.StatusOK, "PUT", "/api/v1/namespaces/acme", `{}`); !again.Repeat || again.Namespace.Limits.MaxQueued != 7 {
		t.Errorf("set again: %+v", again)
	}
	if all := want[wire.NamespacesReply](r, http.StatusOK, "GET", "/api/v1/namespaces?min_position="+string(set.Position), ""); len(all.Namespaces) != 1 {
		t.Errorf("namespaces: %+v", all)
	}
	for _, c := range []struct {
		method, path, body string
		want               func(*wire.NamespaceInfo) bool
	}{
		{"POST", "/pause", "", func(n *wire.NamespaceInfo) bool { return n.Paused }},
		{"POST", "/resume", "", func(n *wire.NamespaceInfo) bool { return !n.Paused }},
		{"POST", "/move", `{"node":"node-2"}`, func(n *wire.NamespaceInfo) bool { return n.Node == "node-2" }},
		{"PATCH", "", `{"limits":{"requests_per_second":5}}`, func(n *wire.NamespaceInfo) bool { return n.Limits.RequestsPerSecond == 5 && n.Limits.MaxQueued == 7 }},
	} {
		got := want[wire.NamespaceReply](r, http.StatusOK, c.method, "/api/v1/namespaces/acme"+c.path, c.body)
		if got.Namespace == nil || !c.want(got.Namespace) {
			t.Errorf("%s: %+v", c.path, got.Namespace)
		}
		r.refused(404, "not_found", "nobody", c.method, "/api/v1/namespaces/nobody"+c.path, c.body)
	}
	if one := want[wire.NamespaceInfo](r, http.StatusOK, "GET", "/api/v1/namespaces/acme", ""); one.Node != "node-2" || one.State == nil {
		t.Errorf("namespace: %+v", one)
	}
	if would := want[wire.NamespaceRemoval](r, http.StatusOK, "DELETE", "/api/v1/namespaces/acme?dry_run=true", ""); would.Removed || would.Namespace.Name != "acme" {
		t.Errorf("would remove: %+v", would)
	}
	gone := want[wire.NamespaceRemoval](r, http.StatusOK, "DELETE", "/api/v1/namespaces/acme?force=true&by=ops", "")
	if !gone.Removed {
		t.Errorf("removed: %+v", gone)
	}
	r.eventually("acme is gone", func() bool { return r.send("GET", "/api/v1/namespaces/acme", "").status == http.StatusNotFound })
	r.refused(400, "bad_request", "always there", "PUT", "/api/v1/namespaces/default", `{}`)
}

func TestSchedules(t *testing.T) {
	r := start(t, "")
	set := want[wire.ScheduleReply](r, http.StatusOK, "PUT", "/api/v1/schedules/nightly", `{"type":"report","cron":"0 3 * * *"}`)
	if set.Schedule == nil || set.Schedule.Name != "nightly" || set.Schedule.Next.IsZero() {
		t.Errorf("set: %+v", set)
	}
	if again := want[wire.ScheduleReply](r, http.StatusOK, "PUT", "/api/v1/schedules/nightly", `{"type":"report","cron":"0 3 * * *"}`); !again.Repeat {
		t.Errorf("set again: %+v", again)
	}
	if all := want[wire.SchedulesReply](r, http.StatusOK, "GET", "/api/v1/schedules?min_position="+string(set.Position), ""); len(all.Schedules) != 1 {
		t.Errorf("schedules: %+v", all)
	}
	if one := want[wire.ScheduleInfo](r, http.StatusOK, "GET", "/api/v1/schedules/nightly?min_position="+string(set.Position), ""); one.Cron != "0 3 * * *" {
		t.Errorf("schedule: %+v", one)
	}
	if paused := want[wire.ScheduleReply](r, http.StatusOK, "POST", "/api/v1/schedules/nightly/pause", ""); paused.Schedule == nil || !paused.Schedule.Paused {
		t.Errorf("paused: %+v", paused)
	}
	if resumed := want[wire.ScheduleReply](r, http.StatusOK, "POST", "/api/v1/schedules/nightly/resume", ""); resumed.Schedule == nil || resumed.Schedule.Paused {
		t.Errorf("resumed: %+v", resumed)
	}
	if fired := want[wire.Submitted](r, http.StatusOK, "POST", "/api/v1/schedules/nightly/fire", `{"id":"`+nobody+`"}`); fired.ID != nobody {
		t.Errorf("fired: %+v", fired)
	}
	gone := want[wire.ScheduleReply](r, http.StatusOK, "DELETE", "/api/v1/schedules/nightly", "")
	r.refused(404, "not_found", "nightly", "GET", "/api/v1/schedules/nightly?min_position="+string(gone.Position), "")
	r.refused(404, "not_found", "nightly", "POST", "/api/v1/schedules/nightly/pause", "")
	r.refused(400, "bad_request", "", "PUT", "/api/v1/schedules/nightly", `{"type":"report","cron":"nonsense"}`)
}
