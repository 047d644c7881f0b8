package wire_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

const anID = "01JD3V6YB2M4C9W8ZK5T7QXRNE"

func freshID(at time.Time) events.ID {
	return events.ID(ulid.MustNew(ulid.Timestamp(at), ulid.DefaultEntropy()))
}

func TestShow(t *testing.T) {
	id, _ := events.ParseID(anID)
	at := time.Date(2030, 1, 1, 0, 0, 0, 5, time.UTC)
	it := &events.Item{
		ID: id, Type: "email", State: events.StateDead, Priority: 3, Attempt: 2, MaxAttempts: 2, Timeout: time.Minute,
		Error: "boom", Code: "error", Retryable: true, Reason: "exhausted", CreatedAt: at, Seq: 12, MergedCount: 1,
	}
	got := wire.FromItem(it, []byte("{}"), nil, []events.MergedEntry{{ID: id, At: at, Provenance: events.Provenance{Source: "s"}}})
	text, err := json.Marshal(got)
	want := `{"id":"01JD3V6YB2M4C9W8ZK5T7QXRNE","type":"email","state":"dead","priority":3,"params":{},"attempt":2,"max_attempts":2,"timeout_ms":60000,"merged_provenance":[{"id":"01JD3V6YB2M4C9W8ZK5T7QXRNE","at":"2030-01-01T00:00:00.000000005Z","source":"s"}],"merged_count":1,"created_at":"2030-01-01T00:00:00.000000005Z","error":{"message":"boom","code":"error","retryable":true},"reason":"exhausted","position":"12"}`
	if err != nil || string(text) != want {
		t.Errorf("got %s, %v\nwant %s", text, err, want)
	}
	ev := wire.FromEvent(events.Event{Seq: 4, Kind: events.KindDead, ID: id, Type: "email", At: at, Attempt: 2, Body: &events.Dead{Reason: "exhausted", Attempts: 2}})
	text, err = json.Marshal(ev)
	want = `{"seq":4,"kind":"dead","id":"01JD3V6YB2M4C9W8ZK5T7QXRNE","type":"email","at":"2030-01-01T00:00:00.000000005Z","attempt":2,"data":{"reason":"exhausted","attempts":2}}`
	if err != nil || string(text) != want {
		t.Errorf("got %s, %v\nwant %s", text, err, want)
	}
}

func TestPositionsAndErrors(t *testing.T) {
	for _, seq := range []events.Seq{0, 1, 1 << 60} {
		if got, err := wire.PositionOf(seq).Seq(); err != nil || got != seq {
			t.Errorf("%d: got %d, %v", seq, got, err)
		}
	}
	_, err := wire.Position("x").Seq()
	wantRefused(t, err, events.CodeBadRequest, "decimal")
	e := &events.Error{Code: events.CodeQueueFull, Message: "full", RetryAfter: 1500 * time.Microsecond}
	if got := wire.FromError(fmt.Errorf("submit: %w", e)); got.Code != events.CodeQueueFull || got.RetryAfter != events.Millis(2) {
		t.Errorf("got %+v", got)
	}
	if got := wire.FromError(errors.New("x")); got.Code != events.CodeInternal || wire.FromError(nil) != nil {
		t.Errorf("got %+v", got)
	}
}
