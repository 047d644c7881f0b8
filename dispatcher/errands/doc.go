// Package errands does work that takes many decisions, each of which stands alone:
// making the children of a large spawn, from the document that the log refers to, and
// cancelling what still belongs to an item that has ended.
//
// The remaining work is a function of the item (see [events.Item.NeedsFollowUp]). So the
// partition's next owner continues where this one has stopped, and an errand that runs
// twice finds its decisions taken.
//
// The dispatcher's loop starts the errands ([Errands.Send]) and never waits for them:
// each runs in a goroutine of its own, whose commands reach the loop like all others.
// After a refusal the errand is sent again, after a pause.
package errands
