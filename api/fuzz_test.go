package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// maxErrorText bounds the text of a refusal, in bytes.
const maxErrorText = 8192

// replaying are the endpoints that read the whole log, which grows while the
// engine is fuzzed.
var replaying = []string{wire.APIVerify, wire.APIRebuild, wire.APICut, wire.APIState}

// FuzzRequest asks a real engine anything. It answers with JSON, or with a
// refusal that has a stable code and a text; and what it has understood it
// refuses when there is one field more.
func FuzzRequest(f *testing.F) {
	r := newRig(f, nil)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	first, err := r.svc.Call(ctx, wire.APISubmit, []byte(`{"type":"email","params":{"a":1},"labels":{"k":"v"}}`))
	if err != nil {
		f.Fatal(err)
	}
	var sub wire.Submitted
	if err := json.Unmarshal(first, &sub); err != nil {
		f.Fatal(err)
	}
	endpoints := slices.DeleteFunc(slices.Sorted(maps.Keys(r.svc.direct)), func(e string) bool { return slices.Contains(replaying, e) })
	for i, e := range endpoints {
		for _, body := range requestSeeds[e] {
			f.Add(uint8(i), bytes.ReplaceAll([]byte(body), []byte("ID"), []byte(sub.ID)))
		}
		f.Add(uint8(i), []byte(`{}`))
		f.Add(uint8(i), []byte(`{"id":"`+sub.ID+`"}`))
	}
	f.Fuzz(func(t *testing.T, n uint8, body []byte) {
		endpoint := endpoints[int(n)%len(endpoints)]
		if !ask1(t, r.svc, endpoint, body) || endpoint == wire.APISubmit || endpoint == wire.APIReport {
			return
		}
		var object map[string]json.RawMessage
		if json.Unmarshal(body, &object) != nil || object == nil {
			return
		}
		object["no_such_field"] = json.RawMessage(`1`)
		more, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		if ask1(t, r.svc, endpoint, more) {
			t.Fatalf("%s understands %s", endpoint, more)
		}
	})
}

// requestSeeds are requests that get far, ID being an item's.
var requestSeeds = map[string][]string{
	wire.APISubmit:          {`{"type":"email","params":[1],"priority":9,"dedup_key":"k","after":["ID"],"delay_ms":5}`, `[{"type":"email"},{"type":"E"},{"type":"a","x":1}]`},
	wire.APIReport:          {`[{"id":"ID","token":"1-1","worker":"w1","event":"claim"}]`, `{"id":"ID","token":"1-1","worker":"w1","event":"spawn","children":[{"type":"a"}]}`},
	wire.APIList:            {`{"state":"queued","type":"email","limit":1}`, `{"label":"k=v","created_after":"2026-01-01T00:00:00Z","cursor":"AAAA"}`},
	wire.APIWait:            {`{"ids":["ID"],"timeout_ms":1}`, `{"ids":["ID","ID"],"any":true,"timeout_ms":1,"min_position":"0-999999999"}`},
	wire.APIHistory:         {`{"id":"ID","min_position":"0-1"}`},
	wire.APIConfigure:       {`{"type":"email","settings":{"capacity":5}}`, `{"type":"email","settings":null}`, `{"type":"email","lease_ms":-1}`},
	wire.APIRegister:        {`{"worker":"w1","session":"s","types":["email"],"slots":5,"capabilities":["gpu"]}`},
	wire.APIHeartbeat:       {`{"worker":"w1","session":"s","in_flight":[{"id":"ID","token":"1-1"}]}`},
	wire.APIPlace:           {`{"ids":["ID"]}`},
	wire.APIHeld:            {`{"type":"email","key":"k"}`},
	wire.APIPause:           {`{"type":"email","reason":"r","until":"2030-01-01T00:00:00Z"}`},
	wire.APIDead:            {`{"type":"email","cause":"c","limit":3}`},
	wire.APIBulk:            {`{"op":"cancel","ids":["ID"],"dry_run":true}`},
	wire.APIReplay:          {`{"ids":["ID"]}`, `{"id":"ID","priority":9}`},
	wire.APIScheduleSet:     {`{"name":"s","type":"email","cron":"* * * * *","zone":"Europe/Berlin","params":{}}`, `{"name":"s","type":"email","every_ms":60000}`},
	wire.APINamespaceSet:    {`{"name":"acme","limits":{"max_queued":3},"node":"n"}`},
	wire.APINamespaceChange: {`{"name":"acme","paused":true}`},
	wire.APINamespaceRemove: {`{"name":"acme","force":true,"by":"ops"}`, `{"name":"acme","dry_run":true}`},
	wire.APIScheduleFire:    {`{"name":"s"}`},
	wire.APITicks:           {`{"cron":"0 3 * * mon","zone":"Europe/Berlin","count":3}`, `{"every_ms":1000,"anchor":"2026-01-01T00:00:00Z"}`, `{"cron":"@every 5m"}`},
	wire.APIShowRejected:    {`{"seq":3}`},
	wire.APIReschedule:      {`{"id":"ID","priority":1,"delay_ms":1000}`},
	wire.APIDrain:           {`{"worker":"w1"}`},
	wire.APICircuitReset:    {`{"type":"email"}`, `{"worker":"w1"}`},
	wire.APIReplayRejected:  {`{"seq":3,"params":{}}`},
}

// ask1 makes a request, checks the answer and reports whether it was granted.
func ask1(t *testing.T, s *Service, endpoint string, body []byte) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	reply, err := s.Call(ctx, endpoint, body)
	if err == nil {
		if !json.Valid(reply) {
			t.Fatalf("%s %q is answered %q", endpoint, body, reply)
		}
		return true
	}
	var refused *events.Error
	if !errors.As(err, &refused) {
		var onWire *wire.Error
		if !errors.As(err, &onWire) {
			t.Fatalf("%s %q: %v is no refusal", endpoint, body, err)
		}
		refused = &events.Error{Code: onWire.Code, Message: onWire.Message}
	}
	if refused.Code == "" || refused.Code == events.CodeInternal || refused.Message == "" || len(refused.Message) > maxErrorText || !utf8.ValidString(refused.Message) {
		t.Fatalf("%s %q is refused with %q: %d bytes, %.300q", endpoint, body, refused.Code, len(refused.Message), refused.Message)
	}
	return false
}
