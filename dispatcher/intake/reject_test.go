package intake

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// The name of a sender's account, by which the engine knows him, is nobody's to read: a message
// that is recorded as rejected has lost it.
func TestRejectedMessagesDoNotNameTheirSendersAccount(t *testing.T) {
	msg := &nats.Msg{Subject: wire.Default.Intake(0, "email"), Data: []byte(`{}`), Header: nats.Header{
		wire.HeaderRequestInfo: {`{"acc":"WORK_bob_secret"}`}, "nats-request-info": {`{"acc":"WORK_bob_secret"}`}, "Work-Priority": {"99"},
	}}
	m := Parse(1, time.Now(), msg, wire.Default, events.ID{1})
	if m.Err == nil {
		t.Fatal("it is no bad message")
	}
	kept := m.Reject(events.Refuse(events.CodeBadPriority, "no")).Rejected.Headers
	if len(kept) != 1 || kept["Work-Priority"] == nil {
		t.Errorf("it is recorded with %v", kept)
	}
	if len(msg.Header) != 3 {
		t.Error("the message itself was changed")
	}
}
