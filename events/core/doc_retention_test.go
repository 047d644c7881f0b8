package core

import (
	"github.com/streamwright/streamwright/events"
)

func init() {
	kindDocs[events.KindFormatRaised] = kindDoc{"From here on the log may hold what only programs of this format level read; older ones refuse it, here or at the `snapshot` with which it begins once it has been cut. The event's `v` is the level. A log without this event is at level 1.", map[string]string{
		"level":   "from 2; it only rises",
		"version": "of the program that raised it",
		"by":      "who asked for it, if a person did",
	}}
	kindDocs[events.KindSnapshot] = kindDoc{"A part of a round, which re-states everything so that the log in front of it can be cut: first one with mark `begin`, then a `carried` for each item whose base lies in front of that, then those with mark `rejected` that say what is kept of submissions that became no item, and at last those that say what else belongs to no item. A round without its end means nothing; of a log that has been cut, the first event is a `begin` whose round is complete.", map[string]string{
		"round":   "counts the rounds, from 1",
		"mark":    "`begin`, `rejected`, `part`, `end`",
		"part":    "in `part` and `end`: counts them, from 1",
		"level":   "in `begin`: the log's format level, if it is above 1; it is the event's `v` too",
		"version": "in `begin`, with `level`: the version of the program that raised it",
		"meta":    "in `end`: the partition's own record (position, epoch, intake position, counters)",
		"types":   "all types with settings, pause and circuit; the counters follow from the items",
		"records": "what else there is of the partition, by `kind` and `key`: schedules, workers' circuits, causes of death, workers marked to drain, namespaces",
		"keys":    "the held keys that follow from no item: rate limits and groups",

		"rejected": "in `rejected`: rejected submissions by `seq`, their event's sequence, with `type`, `at`, what they count as (`size`) and, unless they were purged, their payload (`rejected`)",
		"answers":  "in `rejected`: what messages of the intake stream became, if no item: `intake_seq`, the `seq` of their `rejected` event, and the item that a duplicate repeats (`of`)",
		"kept":     "in `end`: the sequences from which on those two are kept (`from`, `answers`); absent: nothing of them was re-stated, and what lies in front of the round's begin is forgotten",
	}}
	kindDocs[events.KindCarried] = kindDoc{"All that is known of an item, or a part of it if that is much. Who knows the item learns nothing from it; who begins to read here learns everything. Documents and history are byte for byte what was stored.", map[string]string{
		"part":      "from 1; the parts are one decision",
		"parts":     "how many there are",
		"item":      "in part 1: the item; durations end in `_ns`, in nanoseconds",
		"keys":      "in part 1: the keys that lead to it: `ref` with `kind`, `type`, `key`; `until`",
		"documents": "`kind` (`params`, `result`, `checkpoint`, `outcomes`) and `data`",
		"merged":    "the submissions merged into it, the newest 10,000 at most",
		"history":   "its events so far: `seq` and `event`, without what stands beside it; at most 1,000, of which one may be a marker `{\"kind\":\"carried\",\"data\":{\"folded\":n}}` in place of n older ones",
		"fold":      "what was folded or dropped now: the history's entries `from` to `to` into `marker`, the merged submissions up to `merged_to`; the projection does the same",
	}}
	kindDocs[events.KindPruned] = kindDoc{"The item is forgotten, with all that is kept of it. Its id may be used again.", map[string]string{
		"reason": "`retention`, or an operator's: `purged`",
	}}
	kindDocs[events.KindDrainSet] = kindDoc{"The event's `worker` is to finish what it runs, and gets nothing new. It holds, also over a restart of the engine or of the worker, until `drain_ended`.", map[string]string{
		"reason": "why, at most 256 bytes",
		"by":     "who, at most 256 bytes",
	}}
	kindDocs[events.KindTypeForgotten] = kindDoc{"The event's type has no items, nobody has set anything for it, and no worker serves it; or an operator has removed it, with its settings: nothing is kept of it any more. A later submission makes it known again.", map[string]string{
		"reason": "`idle`",
	}}
	kindDocs[events.KindDrainEnded] = kindDoc{"The event's `worker` is no longer marked to drain.", map[string]string{
		"reason": "`left`: it has unregistered; `undrained`: by an operator; `unseen`: it was not heard of for 24 hours",
		"by":     "who, at most 256 bytes",
	}}
}
