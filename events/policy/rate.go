package policy

import (
	"time"

	"github.com/streamwright/streamwright/events"
)

// Take lets one through at now, behind ahead others that pass at now or later and
// are not in tat yet. tat is the theoretical arrival time so far, the zero time for a
// full bucket. Take returns the new theoretical arrival time; or, with ok false, the
// time at which the next may pass.
//
// A rate limit is the generic cell rate algorithm (GCRA, ITU-T I.371, as a virtual
// schedule). The theoretical arrival time is when the bucket is full again. It is a
// key's whole state, kept as the expiry of an [events.HeldKey] of [events.KeyRate],
// so a full bucket takes no room.
func Take(r events.RateLimit, tat, now time.Time, ahead int) (at time.Time, ok bool) {
	step := r.Step()
	slack := time.Duration(r.AtOnce()-1) * step
	if tat.Before(now) {
		tat = now
	}
	if tat.After(now.Add(slack + step)) {
		tat = now // by another burst, or by a clock that was set back since: the limit begins anew
	}
	tat = tat.Add(time.Duration(ahead) * step)
	if opens := tat.Add(-slack); opens.After(now) {
		return opens, false
	}
	return tat.Add(step), true
}
