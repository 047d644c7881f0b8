// Package process runs a work item as a child process: params on stdin, the
// item's identity in the environment, the result on stdout, the item's log on
// stderr, and the exit code as the verdict.
//
//	WORK_ID, WORK_TYPE, WORK_ATTEMPT   the item
//	WORK_CHECKPOINT                    always set; empty without a checkpoint
//
//	exit 0    done; the result is stdout's last line if that is JSON, else all
//	          of stdout as a JSON string; nothing on stdout: no result
//	exit 75   failed with code tempfail, retried
//	exit 65   failed with code data_error, not retried
//	exit n    failed with code exit_n, retried
//	killed by a signal from outside: failed with code killed, retried
//	could not be started: failed with code exec_failed, retried
//
// The child leads a process group of its own. When the item's context ends
// (cancel, timeout, lost lease, shutdown) the group gets SIGTERM and, after a
// grace, SIGKILL. When the child has exited, whatever is left of its group is
// killed before the child is reaped, so that the group's number can't have been
// given away. A descendant that has left the group (setsid) is out of reach; if
// it holds the pipes, they are closed after a delay. On Linux the child is also
// killed when the worker itself is.
//
// Bounds: a result of the worker's Config.MaxDocument, 64 MiB (more fails the
// item for good, with code bad_result; memory is up to three times that for each
// child that writes so much), log lines of 8 KiB (longer ones are split), [MaxLogLines] of them in a run.
package process
