package intake

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

// maxIntakeEvent bounds the event of a rejected submission, in bytes: what it
// keeps of the original, each byte of it escaped, fits any max_payload that the
// engine accepts.
const maxIntakeEvent = 1 << 20

// FuzzMessage reads a message of the intake stream: it becomes an item or is
// rejected, by events that are bounded and are read back as they were written.
func FuzzMessage(f *testing.F) {
	f.Add("work.intake.0.email", "Work-Priority", "high", "Nats-Msg-Id", "m-1", []byte(`{"a":1}`))
	f.Add("work.intake.0.email", "Status", "404", "Nats-Stream", "WORK_EVENTS_0", []byte(``))
	f.Add("work.intake.0.E-Mail", "Work-Id", "01JD3V6YB2M4C9W8ZK5T7QXRNE", "Work-Labels", "\xff=\x00", []byte("\xff\x00"))
	f.Add("work.submit.email", "Nats-Expected-Last-Sequence", "1", "Work-\r\nX", "y", []byte(`{"type":"io.nats.jetstream.api.v1.pub_ack_response"}`))
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f.Fuzz(func(t *testing.T, subject, name, value, other, otherValue string, body []byte) {
		msg := &nats.Msg{Subject: subject, Header: nats.Header{name: {value}}, Data: body}
		msg.Header[other] = append(msg.Header[other], otherValue, strings.Repeat(otherValue, 100))
		s, err := core.NewState(core.Empty{})
		if err != nil {
			t.Fatal(err)
		}
		m := Parse(7, now, msg, wire.Default, events.ID{1})
		cmd := core.Command(m.Submit)
		if m.Err != nil {
			var refused *events.Error
			if !errors.As(m.Err, &refused) || refused.Code == events.CodeInternal || refused.Message == "" {
				t.Fatalf("%v is no refusal", m.Err)
			}
			cmd = m.Reject(refused)
		}
		dec, err := core.Decide(s, cmd, now)
		if m.Err == nil && err != nil {
			var refused *events.Error
			if !errors.As(err, &refused) {
				t.Fatalf("a submission stops the partition: %v", err)
			}
			dec, err = core.Decide(s, m.Reject(refused), now)
		}
		if err != nil {
			t.Fatalf("a rejection is refused: %v", err)
		}
		if len(dec.Events) == 0 {
			t.Fatal("a message leaves no event: the intake's position would not move")
		}
		for i, ev := range dec.Events {
			ev.Seq = events.Seq(i + 1)
			data, err := ev.AppendJSON(nil)
			if err != nil || !json.Valid(data) {
				t.Fatalf("%+v is written as %q, %v", ev, data, err)
			}
			if ev.Kind == events.KindRejected && len(data) > maxIntakeEvent {
				t.Fatalf("a rejection has %d bytes", len(data))
			}
			back, err := events.DecodeEvent(data)
			if err != nil {
				t.Fatalf("%s can't be read back: %v", data, err)
			}
			again, err := back.AppendJSON(nil)
			if err != nil || !reflect.DeepEqual(again, data) {
				t.Fatalf("%s is read and written again as %s, %v", data, again, err)
			}
		}
	})
}
