// Package cli is what the command lines of all programs share, those under cmd and
// the outbox's: flags in groups, those by which NATS is reached, and mistakes that
// are told alike and end with exit code 2. A program makes its tree of commands,
// and gives it to [Prepare] before it is run.
package cli
