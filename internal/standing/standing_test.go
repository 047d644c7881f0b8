package standing

import (
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

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
	s.Confirm(&wire.Registered{Heartbeat: events.Millis(10_000)}, at(0))
	if s.Rest(at(10)) {
		t.Error("a worker rests that was not told it may")
	}
	beat := func(now int, idle, answered bool) (announced time.Duration) {
		announced = s.Beat(idle)
		if answered {
			s.Beaten(&wire.HeartbeatReply{Idle: events.Millis(25_000)}, at(now))
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
