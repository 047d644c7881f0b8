// Package streamwrighttest helps to test programs that submit work items and
// handle them. [New] starts a whole engine in memory for one test; the code under
// test uses its client as it would any other.
//
//	e := streamwrighttest.New(t, registerHandlers)
//	signUp(ctx, e.Client(), "ada@example.org")
//	e.RequireEnqueued(Welcome.Item(Mail{To: "ada@example.org"}, inAnHour))
//	e.Advance(time.Hour)
//	e.Drain()
//
// Nothing runs by itself: items wait until [Engine.Drain] runs the ones that are due.
// Time passes as usual; [Engine.Advance] makes it jump ahead, so that a delayed item,
// a retry or a schedule's tick becomes due without waiting.
//
// Every engine is independent of all others, so tests may run in parallel. It ends
// with its test.
//
// To test a handler alone, without an engine, see package workers/workertest.
package streamwrighttest
