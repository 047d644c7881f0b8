// Package workertest runs one handler against one work item, synchronously and
// with no server: for the tests of programs that use package workers.
//
//	got := workertest.Run(t, sendEmail, Email{To: "a@example.org"})
//	if got.Err != nil { … }
//
// It returns what the runtime would have reported: params are decoded and
// results encoded in the same way, and panics, marks of errors and the
// context's timeout mean the same.
package workertest
