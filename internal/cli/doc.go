// Package cli is shared by the command lines of all programs, under cmd and in the
// outbox: flags in groups, the flags by which NATS is reached, and uniform messages for
// mistakes, with exit code 2. A program makes its tree of commands, and gives it to
// [Prepare] before it is run.
package cli
