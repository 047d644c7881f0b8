package api

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// as makes a request as one who is known.
func (r *rig) as(name, endpoint string, req any) {
	r.t.Helper()
	body, err := json.Marshal(req)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx := access.WithIdentity(r.ctx(), access.Identity{Name: name, Roles: access.All})
	if _, err := r.svc.Call(ctx, endpoint, body); err != nil {
		r.t.Fatal(err)
	}
}

// acts lists what was done, as "kind by".
func (r *rig) acts(req wire.Audit) string {
	r.t.Helper()
	var all []string
	for {
		page := ask[wire.AuditReply](r, wire.APIAudit, req)
		for _, ev := range page.Acts {
			all = append(all, ev.Kind.String()+" "+ev.By)
		}
		if req.Cursor == "" && (page.From.IsZero() || page.FromSeq == 0) {
			r.t.Errorf("the answer does not say where the log begins: %+v", page)
		}
		if req.Cursor = page.NextCursor; req.Cursor == "" {
			return strings.Join(all, ", ")
		}
	}
}

func TestAuditListsWhoDidWhat(t *testing.T) {
	r := newRig(t, nil)
	first, second := r.submit(wire.Submit{Type: "email"}), r.submit(wire.Submit{Type: "email"})
	r.as("feeder", wire.APISubmit, wire.Submit{Type: "email", Tenant: "bulk"})
	r.as("ann", wire.APICancel, wire.Cancel{ID: first.ID})
	r.as("bob", wire.APIReplay, wire.Replay{ID: first.ID})
	r.as("bob", wire.APIPause, wire.Pause{Type: "email", By: "somebody else"})
	r.as("ann", wire.APIReschedule, wire.Reschedule{ID: second.ID, Priority: new(wire.Priority(9))})
	r.as("ann", wire.APIConfigure, wire.Configure{Type: "other", Settings: json.RawMessage(`{"capacity":3}`)})
	r.as("bob", wire.APIBulk, wire.Bulk{Action: wire.BulkCancel, Select: wire.Selection{List: wire.List{Tenant: "bulk"}}})
	r.cancel(second.ID) // by whom is not known: the engine is open
	const all = "cancelled ann, replayed bob, paused bob, rescheduled ann, type_configured ann, cancelled bob, cancelled anyone"
	for name, tc := range map[string]struct {
		req  wire.Audit
		want string
	}{
		"all":             {wire.Audit{}, all},
		"page after page": {wire.Audit{Limit: 1}, all},
		"by one":          {wire.Audit{By: "bob"}, "replayed bob, paused bob, cancelled bob"},
		"of a kind":       {wire.Audit{Action: "cancelled"}, "cancelled ann, cancelled bob, cancelled anyone"},
		"of a type":       {wire.Audit{Type: "other"}, "type_configured ann"},
		"submissions":     {wire.Audit{Action: "created"}, "created feeder"},
		"of before":       {wire.Audit{Since: time.Now().Add(-time.Hour)}, all},
		"nobody":          {wire.Audit{By: "somebody else"}, ""},
	} {
		if got := r.acts(tc.req); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
	// The claim of one who is known counts for nothing.
	page := ask[wire.AuditReply](r, wire.APIAudit, wire.Audit{Action: "paused"})
	if data := string(page.Acts[0].Data); !strings.Contains(data, `"by":"bob"`) {
		t.Errorf("paused: %s", data)
	}
	// Histories tell it too.
	var by []string
	for _, ev := range ask[wire.HistoryReply](r, wire.APIHistory, wire.History{ID: first.ID}).Events {
		by = append(by, ev.Kind.String()+" "+ev.By)
	}
	if got := strings.Join(by, ", "); got != "created , queued , cancelled ann, replayed bob" {
		t.Errorf("history: %s", got)
	}
}

// Requests that can't be understood are refused.
func TestAuditRefuses(t *testing.T) {
	r := newRig(t, nil)
	for text, req := range map[string]wire.Audit{
		"limit is 1001": {Limit: 1001}, `invalid action "sung": use one of created, cancelled`: {Action: "sung"},
		`invalid action "queued"`: {Action: "queued"}, "cursor is not": {Cursor: "x"}, "not reached": {Cursor: "99999999999"},
	} {
		_, err := try[wire.AuditReply](r, wire.APIAudit, req)
		wantCode(t, err, events.CodeBadRequest)
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%+v: %v, want %q", req, err, text)
		}
	}
}

// What the engine does for itself is by nobody.
func TestTheEngineItselfIsNobody(t *testing.T) {
	r := newRig(t, nil)
	sub := r.submit(wire.Submit{Type: "email"})
	body, _ := json.Marshal(wire.Cancel{ID: sub.ID})
	if _, err := r.svc.Call(context.Background(), wire.APICancel, body); err != nil {
		t.Fatal(err)
	}
	if got := r.acts(wire.Audit{}); got != "" {
		t.Errorf("got %s", got)
	}
}
