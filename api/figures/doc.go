// Package figures counts what the projection doesn't keep: how long items have
// been waiting, how many come and go per second, how long they run, what they
// fail and die of.
//
// [Figures] is the one listener (dispatcher.Hooks.Projected) for all of it; the
// metrics, the replies about the engine's figures and the trends of the web
// page are read from it. Every change that the projection tells of carries the
// item as it was before, so nothing is kept for an item beyond a batch, and
// memory follows the number of types alone. For each type, at most
// events.MaxTypes, it holds
//
//   - the totals since the process began, and a ring with those of the last 61
//     seconds, of 56 bytes each;
//   - the number of queued items by priority and by the moment since which they
//     wait, in buckets that widen with age ([Precision]). They are filled once
//     from the projection's ready index ([Figures.Load]) and kept from then on;
//   - its Prometheus counters and histograms.
//
// A type that is removed takes all of it along. Events of a type beyond the
// bound are not counted.
//
// Nothing is decided by any of it, and it can be thrown away at any time.
package figures
