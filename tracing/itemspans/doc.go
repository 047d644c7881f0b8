// Package itemspans makes spans of what happens to work items in the engine, so
// that a trace shows the waiting as well as the running:
//
//	submit email                       the client's
//	└ email                            the item, from created to its end
//	  ├ waiting                        for other items
//	  ├ delayed                        not due: a delay, a backoff, a snooze
//	  ├ queued                         due, until it was claimed
//	  └ attempt 1                      claimed, until the attempt ended
//	    └ run email                    the worker's
//	      └ …                          the handler's own
//
// A span is made when it has ended, of the events that say so, once they are
// durable and projected. Nothing is kept in between: the ids of the spans that
// others hang below (the item's, each attempt's) follow from the item's id and
// the dispatch's token, so that the worker can name its parent before that span
// exists, and an engine that takes over makes the same ids. So a span may be made
// twice after a crash, under the same id, and the spans of items that have not ended
// are missing until they do.
//
// An item submitted without a traceparent begins a trace of its own, whose id
// is the item's ULID; whether it is sampled is for the provider's sampler.
//
// All times are the engine's clock.
package itemspans
