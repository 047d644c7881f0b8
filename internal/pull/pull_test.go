package pull

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

const id = "01JD3V6YB2M4C9W8ZK5T7QXRNE"

func message(headers ...string) *nats.Msg {
	m := &nats.Msg{Header: nats.Header{wire.HeaderID: {id}, wire.HeaderToken: {"1"}, wire.HeaderType: {"email"}}, Data: []byte(`{"n":1}`), Reply: "ack"}
	for i := 0; i < len(headers); i += 2 {
		m.Header.Set(headers[i], headers[i+1])
	}
	return m
}

func TestParse(t *testing.T) {
	got, err := Parse(message())
	if err != nil || got.RawID != id || got.ID.String() != id || got.Lease != events.DefaultLease || got.Timeout != 0 || got.Attempt != 0 || got.Labels() != nil || got.Reply != "ack" {
		t.Errorf("got %+v, %v", got, err)
	}
	got, err = Parse(message(wire.HeaderAttempt, "3", wire.HeaderLease, "5s", wire.HeaderDeadline, "1m", wire.HeaderTrace, "x"))
	if err != nil || got.Attempt != 3 || got.Lease != 5*time.Second || got.Timeout != time.Minute || got.Trace != "x" || string(got.Params) != `{"n":1}` {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := Parse(message(wire.HeaderLease, "-1s")); err != nil || got.Lease != events.DefaultLease {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, bad := range [][]string{{wire.HeaderID, "x"}, {wire.HeaderToken, ""}, {wire.HeaderAttempt, "one"}} {
		if got, err := Parse(message(bad...)); err == nil {
			t.Errorf("%v: got %+v", bad, got)
		}
	}
}

func TestRequest(t *testing.T) {
	for want, r := range map[string]Request{
		`{"batch":2,"expires":1000000000}`:                {Batch: 2, Expires: time.Second},
		`{"no_wait":true,"batch":2}`:                      {Batch: 2, NoWait: true},
		`{"no_wait":true,"batch":7,"expires":2000000000}`: {Batch: 7, NoWait: true, Expires: 2 * time.Second},
	} {
		if got := string(r.Body()); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestReadStatus(t *testing.T) {
	for _, c := range []struct {
		code, text string
		want       End
	}{
		{"100", "Idle Heartbeat", Alive},
		{"408", "Request Timeout", Empty},
		{"408", "Requests Pending", Busy},
		{"404", "No Messages", Empty},
		{"404", "Consumer Not Found", Gone},
		{"409", "Consumer Deleted", Gone},
		{"409", "Leadership Change", Moved},
		{"409", "Server Shutdown", Moved},
		{"409", "Exceeded MaxWaiting", Refused},
		{"503", "", Gone},
		{"400", "Bad Request", Refused},
	} {
		m := &nats.Msg{Header: nats.Header{"Status": {c.code}, "Description": {c.text}}}
		if got, ok := ReadStatus(m); !ok || got.End != c.want || got.Code != c.code || got.Text != c.text {
			t.Errorf("%s %s: got %+v, %v", c.code, c.text, got, ok)
		}
	}
	if _, ok := ReadStatus(message("Status", "408")); ok {
		t.Error("a message with data was taken for a status")
	}
	if _, ok := ReadStatus(message()); ok {
		t.Error("a message without a status was taken for one")
	}
}

func TestRefusals(t *testing.T) {
	for code, want := range map[events.Code][2]bool{
		events.CodeUnavailable: {true, false}, events.CodeQueueFull: {true, false}, events.CodeNotOwner: {true, false},
		events.CodeStaleToken: {false, true}, events.CodeNotFound: {false, true},
		events.CodeTooLarge: {false, false},
	} {
		if got := [2]bool{Transient(code), Over(code)}; got != want {
			t.Errorf("%s: got %v, want %v", code, got, want)
		}
	}
}

func TestRest(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(1000+s), 0) }
	var s Standing
	s.Confirm(&wire.Registered{HeartbeatMS: 10_000}, at(0))
	if s.Rest(at(10)) {
		t.Error("a worker rests that was not told it may")
	}
	beat := func(now int, idle, answered bool) (announced time.Duration) {
		announced = s.Beat(idle)
		if answered {
			s.Beaten(&wire.HeartbeatReply{IdleMS: 25_000}, at(now))
		}
		return announced
	}
	if n := beat(10, true, true); n != 0 || s.Rest(at(20)) {
		t.Errorf("announces %s: want none before the engine allows it, and no rest that was not announced", n)
	}
	if n := beat(20, true, true); n != 25*time.Second {
		t.Errorf("announces %s, want what the engine allows", n)
	}
	for _, now := range []int{30, 40} {
		if !s.Due().Equal(at(now)) || !s.Rest(at(now)) {
			t.Errorf("at %d s: due at %s, want to rest", now, s.Due())
		}
	}
	if !s.Due().Equal(at(50)) || s.Rest(at(50)) {
		t.Errorf("at 50 s: due at %s, want a heartbeat", s.Due())
	}
	// The engine may have heard that this worker has something, and not that it rests.
	if beat(50, false, false); s.Rest(at(51)) {
		t.Error("a worker rests after a heartbeat without an answer")
	}
	beat(51, true, true)
	s.Rest(at(61))
	if s.Ask(); s.Due().After(at(62)) || s.Rest(at(62)) {
		t.Error("a heartbeat that was asked for is not due")
	}
	// One that was asked for at the moment of a heartbeat is due until the next is answered.
	s.Beat(true)
	s.Ask()
	s.Beaten(&wire.HeartbeatReply{}, at(62))
	if s.Due().After(at(62)) {
		t.Error("the answer to a heartbeat from before answers the one that was asked for")
	}
	if beat(62, true, true); !s.Due().Equal(at(72)) {
		t.Errorf("due at %s", s.Due())
	}
	s.Confirm(&wire.Registered{}, at(70)) // with another engine
	if s.Rest(at(71)) {
		t.Error("a worker rests because another engine has let it")
	}
}
