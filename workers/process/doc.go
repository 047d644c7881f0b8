// Package process runs a work item as a child process: params on stdin, the
// item's identity in the environment, the result on stdout, the item's log on
// stderr, and the exit code as the verdict.
//
//	WORK_ID, WORK_TYPE, WORK_ATTEMPT   the item
//	WORK_NAMESPACE                     the namespace that it is of, for the programs of
//	                                   this project that the child calls
//	WORK_CHECKPOINT                    always set; empty without a checkpoint
//	WORK_REPORT_FD                     3, the descriptor for reports; see below
//	WORK_CONTINUATION                  set when the item's children have ended:
//	                                   the continuation's name, which may be empty
//	WORK_CHILDREN                      set with it: a file with how they ended, a
//	                                   JSON array, removed when the run has ended
//	WORK_WAITED                        set when the item's wait has ended: signalled or
//	                                   timed_out
//	WORK_SIGNALS                       set with it: a file with the signals that the
//	                                   wait has taken, a JSON array
//
// Of the worker's own environment a child gets everything but the variables by
// which this project's programs log in (NATS_PASSWORD, NATS_TOKEN, NATS_CREDS,
// NATS_NKEY, NATS_KEY, NATS_PASSWORD_FILE, a NATS_URL with a login in it,
// WORK_TOKENS, STREAMWRIGHT_TOKEN, OTEL_*_HEADERS), or, with [Restricted], only
// what any program needs; [Env] names more. This keeps secrets out of what a child
// logs, crashes with or passes on. It is no wall: a child that runs as the worker's
// user may read what that user may.
//
//	exit 0    done; the result is stdout's last line if that is JSON, else all
//	          of stdout as a JSON string; nothing on stdout: no result
//	exit 75   failed with code tempfail, retried
//	exit 65   failed with code data_error, not retried
//	exit n    failed with code exit_n, retried
//	killed by a signal from outside: failed with code killed, retried
//	could not be started: failed with code exec_failed, retried
//
// With [Stream], stdout is the item's output instead, which others follow while the child
// runs, and the result says how long it is. Then a child waits in its writes while the
// engine takes nothing.
//
// On the descriptor 3 the child may write lines of JSON while it runs:
//
//	{"progress":40,"message":"page 12 of 30"}
//	{"checkpoint":{"page":12}}             for WORK_CHECKPOINT of the next attempt
//	{"snooze":"30s","reason":"…"}          put off, with no attempt used
//	{"wait":{"names":["approved"],"for":"72h"}}  wait for a signal, with no attempt used
//	{"retry_after":"10s"}                  failed with code tempfail, retried then
//	{"spawn":{"children":[{"type":"page","params":{}}],"continuation":"bind","child_policy":"continue"}}
//
// The first two take effect at once; a checkpoint is not acknowledged. The
// others say what an exit with 0 means, in place of the result; the last
// of them counts. An exit with 75 heeds a retry_after; with any other code they
// are ignored. A child is the same as in [workers.Spawn], with the fields of a
// submission; "continuation" is a name, or true. A wait may have "all":true, and
// "then":"fail" (with "code" and "error") or "complete" (with "result") for its
// deadline. Any other line is logged as an
// error; if it has asked for an end, an exit with 0 fails the item for good,
// with code bad_report. Windows has no such descriptor.
//
// The child leads a process group of its own. When the item's context ends
// (cancel, timeout, lost lease, shutdown) the group gets SIGTERM and, after a
// grace, SIGKILL. When the child has exited, whatever is left of its group is
// killed before the child is reaped, so that the group's number can't have been
// given away. A descendant that has left the group (setsid) is out of reach; if
// it holds the pipes, they are closed after a delay. On Linux the child is also
// killed when the worker itself is.
//
// The heartbeats of the worker tell what it and its children use: memory and CPU of
// a child and its descendants while it runs, on Linux; elsewhere a child's CPU
// counts once it has ended.
//
// Bounds: a result of the worker's Config.MaxDocument, 64 MiB (more fails the
// item for good, with code bad_result; memory is up to three times that for each
// child that writes so much), log lines of 8 KiB (longer ones are split),
// [MaxLogLines] of them in a run; report lines of [MaxReportLine] (longer ones
// are not read).
package process
