package policy

import (
	"time"

	"github.com/streamwright/streamwright/events"
)

// take lets one through at now, behind ahead others that are let through at
// now or later and not in tat yet. tat is the theoretical arrival time of
// before, the zero time for a full bucket. It returns that of after, or when
// the next may pass; then ok is false.
func Take(r events.RateLimit, tat, now time.Time, ahead int) (at time.Time, ok bool) {
	step := r.Step()
	slack := time.Duration(r.AtOnce()-1) * step
	if tat.Before(now) {
		tat = now
	}
	if most := now.Add(slack + step); tat.After(most) {
		tat = most // the burst was larger once: the bucket is no more than empty
	}
	tat = tat.Add(time.Duration(ahead) * step)
	if opens := tat.Add(-slack); opens.After(now) {
		return opens, false
	}
	return tat.Add(step), true
}
