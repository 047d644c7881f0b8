// Package embedded runs everything in one process: a NATS server with
// JetStream, the engine on it, and workers for the types that have a command.
// `engine serve` starts it, and tests of programs that use the engine start it
// in memory.
//
// It owns the data folder. One process has it at a time (the file LOCK, an
// advisory lock that the system releases when the process dies), and its
// format has a number (the file VERSION), so that an older program refuses a
// newer folder in place of misreading it. Beside these two files the folder
// holds jetstream/, where the server keeps the streams: the truth; and what the
// engine derives from them.
//
// It owns the server, too. With users in the configuration each has the
// permissions of its roles, by package access, and nobody else may connect.
// With none, clients connect without credentials, as to any NATS, and may do
// what the protocol needs: submit, request, pull, ack, log, read every stream
// and bucket. What only the engine may write (the event stream, the intake's
// stored form, the dispatch subjects, worker control, the buckets) is denied to
// them, and so is deleting or reconfiguring the streams that hold what exists
// nowhere else, the object store of large documents among them (clients put
// objects; only the engine removes any). These rules keep accidents out; they
// are no defence against someone who may create streams on the same account.
// The engine itself connects in-process, with a key that is made anew at each
// start. It does not start where others than this machine would reach it and
// everyone could do everything: see docs/operate/ACCESS.md.
//
// Start order: lock, version, server, engine. Stop order: the reverse. A
// failure in between undoes what has been started.
package embedded
