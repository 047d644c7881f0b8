// Package errands does what takes many decisions, each of which stands alone:
// making the children of a large spawn, from the document that the log refers to,
// and cancelling what belongs to an item that has ended before it.
//
// What is left to do is a function of the item (see [events.Item.NeedsFollowUp]).
// So whoever owns the partition next goes on where this owner has stopped, and an
// errand that is run twice finds its decisions taken.
//
// The dispatcher's loop sends the errands ([Errands.Send]) and never waits for
// them: each is run by a goroutine of its own, whose commands come to the loop as
// everybody's do. A refusal leaves the errand to be sent again, after a pause.
package errands
