package core

import (
	"encoding/json"
	"reflect"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/policy"
)

// fewCauses is MaxCauses for a sim: less than there are to die of.
const fewCauses = 3

func (s *sim) replayCommand() Command {
	switch pick(s, "replay step", "replay", "replay", "replay", "kill", "purge rejected", "purge rejected") {
	case "kill": // so that there is something to replay
		r := s.run()
		return Fail{Run: r, Error: pick(s, "cause", "boom 17", "boom 18", "no such file /tmp/x"), Code: pick(s, "code", "logic", "io", "net")}
	case "purge rejected":
		return PurgeRejected{Seq: pick(s, "rejected", append(s.rejected, 0, events.SeqOf(uint64(len(s.log)+1), 0))...), Type: pick(s, "type", events.Type(""), "email")}
	}
	c := Replay{ID: s.ended(), Params: json.RawMessage(pick(s, "params", "", "", `{ "b" : 1 }`, "[1,2")), MaxAttempts: pick(s, "attempts", events.Attempt(0), 1, 2, -1),
		Reason: pick(s, "reason", "", "fixed")}
	if len(c.Params) == 0 && s.chance("as they were", 80) {
		c.Params = nil
	}
	if s.chance("priority", 30) {
		p := pick(s, "priority", events.Priority(0), 9, 10)
		c.Priority = &p
	}
	return c
}

// ended is an item that can be replayed, mostly.
func (s *sim) ended() events.ID {
	var ids []events.ID
	for _, id := range s.ids {
		if it, err := s.oracle.Item(id); err == nil && it != nil && (it.State == events.StateDead || it.State == events.StateCancelled) {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 || s.chance("not ended", 10) {
		return s.anID()
	}
	return pick(s, "ended", ids...)
}

// checkCauses counts the dead by cause.
func (s *sim) checkCauses() {
	dead := map[string]int64{}
	for _, e := range s.oracle.items {
		if e.cur == nil {
			continue // pruned
		}
		if (e.cur.State == events.StateDead) != (e.cur.Cause != "") {
			s.t.Fatalf("%s is %s, of cause %q", e.cur.ID, e.cur.State, e.cur.Cause)
		}
		if e.cur.Cause != "" {
			dead[e.cur.Cause]++
		}
	}
	idle := 0
	for key, c := range s.oracle.causes.m {
		if c.Dead != dead[key] || c.Count < c.Dead || c.Last.Before(c.First) || c.Window < c.Noted || c.Noted == 0 && c.Window >= policy.CauseGrowth {
			s.t.Fatalf("cause %s: %+v, %d items are dead of it", key, c, dead[key])
		}
		delete(dead, key)
		if c.Dead == 0 {
			idle++
		}
	}
	if len(dead) > 0 {
		s.t.Fatalf("causes that are not known: %v", dead)
	}
	types := len(s.oracle.types)
	if n := s.oracle.causes.len(); n > fewCauses+types {
		s.t.Fatalf("%d causes are known", n)
	}
	if s.oracle.causes.idle != idle || s.live.causes.idle != idle || !reflect.DeepEqual(s.live.causes.m, s.oracle.causes.m) {
		s.t.Fatalf("causes: live %v (%d idle), by the log %v (%d idle), %d are", s.live.causes.keys(), s.live.causes.idle, s.oracle.causes.keys(), s.oracle.causes.idle, idle)
	}
}
