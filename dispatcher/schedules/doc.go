// Package schedules answers the ticks of schedules.
//
// The next tick of each schedule is in the state, and only the log says which ticks have
// been answered. The ticks that have come are computed here (internal/cron), right
// before the decision that records them.
//
// [Schedules.Tick] answers the ticks that have come, at most MaxTicks at a time, so
// that no flood of requests delays them and they delay nothing else.
// [Schedules.Next] says when there is more to do. After a takeover nothing ticks
// until the schedules of engine.toml ([FromFile]) are those of the log: the caller
// holds them with [Schedules.Hold].
//
// A schedule that this program can't compute, such as one in an unknown time zone,
// rests: for a program that can, its ticks count as missed.
//
// Everything here is owned by the dispatcher's loop, and follows from the state.
package schedules
