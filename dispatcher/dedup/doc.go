// Package dedup asks a host's dedup hook which submissions are the same work,
// where dedup keys can't say.
//
// Questions are asked before a submission reaches the dispatcher's loop, by goroutines
// of their own, so that only the submission in question waits for the host. The verdict
// enters with the submission and is recorded.
//
// # Nothing is missed
//
// A submission is undecided from [Asker.Enter] until [Group.End], which comes once its
// events are durable. Until then it is a candidate for all that arrive after it. After
// that the projection has it, and each question waits for the projection. So no question
// misses a submission that had been decided, or was being asked about, when it was put.
// A submission whose verdict names an undecided one waits for that one. A verdict always
// names an earlier submission, so no two wait for each other.
//
// # Spawned children
//
// The children of a spawn are asked about separately from its report ([Asker.Spawns]).
// Until their verdicts are there, the report is answered "unavailable", and workers send
// it again.
//
// # Failure
//
// If a hook fails, answers too late, or gives an invalid verdict, Config.Fallback
// decides. Everything here is volatile: after a takeover the producers, the intake and
// the workers send again what was not decided.
package dedup
