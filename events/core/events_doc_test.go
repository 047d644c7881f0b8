package core

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/events"
)

// kindDoc says what a kind means. Fields are those of its payload, by their
// JSON name; those within an object are written parent.child.
type kindDoc struct {
	means  string
	fields map[string]string
}

var intakeFields = map[string]string{
	"intake_seq":   "the message of the intake stream that this event answers; absent if it came otherwise",
	"site":         "the site at the edge where it was published; absent if it came otherwise",
	"site_seq":     "its message in the site's stream: the last one of a site is how far that stream has been answered",
	"msg_id":       "that message's `Nats-Msg-Id`: one of the same type that is published with it again before `msg_id_until` is a repeat",
	"msg_id_until": "RFC 3339; see `msg_id`",
}

// kindDocs has an entry for each kind that this program writes.
var kindDocs = map[events.Kind]kindDoc{
	events.KindCreated: {"An item was submitted. The event holds all that its submitter said, with the type's defaults filled in. `queued` or `merged` follows in the same decision.", map[string]string{
		"params":                "the document that the handler gets: byte for byte what was submitted, without the blanks around it, and with spaces for line breaks; at most `max_params`, nested at most 1,000 deep; `null` for none",
		"priority":              "0 to 9, higher first",
		"max_attempts":          "attempts until the item is dead, 1 to 1,000",
		"timeout_ms":            "how long one attempt may run",
		"dedup_key":             "while an item with this key and type is not terminal, another becomes part of it; at most 512 bytes",
		"idempotency_key":       "a submission with this key and type gives this item, until `idempotency_until`; at most 512 bytes",
		"idempotency_until":     "RFC 3339; see `idempotency_key`",
		"available_at":          "RFC 3339: may run from then on; absent: at once",
		"delayed":               "true: `available_at` is a delay from this event, not a moment that somebody named",
		"capabilities":          "what a worker must have to run it, sorted, each once; at most 16",
		"tenant":                "on whose behalf; at most 256 bytes",
		"labels":                "free names and values, at most 32",
		"provenance":            "why the item exists: `source` and `trigger`, at most 256 bytes each",
		"traceparent":           "the W3C trace context of the submission",
		"digest":                "of the submission's content, where the submitter chose the id: tells a repeat from a conflict",
		"after":                 "the items that must have ended before it runs, at most 1,000",
		"after_policy":          "what a dead or cancelled one of them does: `cancel` (the default), `dead`, or `run` all the same",
		"dedup_policy":          "what became of a taken dedup key: `distinct` (the item has it not), `supersede`, `defer` (it has it from now on); absent: the item is merged, or has its key if it gives one",
		"dedup_window_ms":       "how long the dedup key stays taken once the item has completed",
		"expires_at":            "RFC 3339: not started by then, the item is cancelled",
		"estimated_duration_ms": "how long a run is likely to take, if the submitter said so",
		"own_attempts":          "true if the submitter set `max_attempts`",
		"own_timeout":           "true if the submitter set `timeout_ms`",
		"group":                 "what fairness and the limits per key go by: the tenant, or a label's value; see `group_by`",
		"parent":                "the item that spawned it",
		"spawn":                 "in which of the parent's spawns, from 1",
		"score_ms":              "the host's score: how far ahead of its time of submission its place in the queue is",
		"verdict":               "what the host's dedup hook said: `policy`, the `canonical` item, its `source` (`hook`, or `fallback` when it did not answer) and `reason`",
		"rates":                 "the rate limits that it counted against: each `key` and its theoretical arrival time `tat` from here on",
	}},
	events.KindMerged: {"The item is a duplicate, and has become part of another. Its provenance counts as the other's, too. It is terminal.", map[string]string{
		"into":       "the other item",
		"reason":     "`dedup_key`: both have the same type and dedup key; `verdict`: the host's dedup hook said so",
		"raised":     "true: the other had a lower priority and takes the item's, by the `rescheduled` event that follows",
		"not_raised": "the state (`claimed`, `running`) in which the other keeps its lower priority",
	}},
	events.KindQueued: {"The item is to be run.", map[string]string{
		"reason":       "`submitted`; `retry` after a failed attempt; `after` once what it waited for has ended; `continuation` once its children have; `signalled` and `timed_out` once its wait has ended",
		"order_at":     "RFC 3339: its place among those of its type and priority; a retried item keeps its place",
		"available_at": "RFC 3339: may run from then on (a delay, a backoff); absent: at once",
		"jitter_ms":    "the part of a backoff that was drawn at random; absent: none",
		"timeout_ms":   "how long an attempt may run from here on: the code's policy has lengthened it; absent: as it was",
		"outcomes":     "with `continuation`: how the children ended, in their order: of each `id`, `type`, `state`, `result`, `error`, `code`, `reason`; results that together pass 256 KiB are left out, and say `result_omitted`",
		"signals":      "with `signalled` and `timed_out`: the numbers of the signals that the wait has taken, in the order in which they came",
	}},
	events.KindClaimed: {"The item was granted to a worker, and an attempt has begun: the event's `attempt`, by its `worker`.", map[string]string{
		"token":        "the fencing token of the dispatch that was claimed: every report of this run carries it, and it is never granted again",
		"start_by":     "RFC 3339: not started by then, the item goes back to the queue",
		"probe":        "true if the run tries the half-open circuit of its type",
		"worker_probe": "true if the run tries the half-open circuit of its worker",
		"delivered_at": "RFC 3339: when an ack worker ([ACK.md](../guides/ACK.md)) was given it, if the server has said so; the claim is recorded once the run is known of",
		"rates":        "the rate limits at dispatch that the run counts against: each `key` and its theoretical arrival time `tat` from here on",
	}},
	events.KindRunning: {"The worker has started the handler.", map[string]string{
		"deadline": "RFC 3339: not ended by then, the attempt has failed with code `timeout`",
	}},
	events.KindCompleted: {"The handler has succeeded. The item is terminal, and its dedup key is free.", map[string]string{
		"duration_ms":    "from the start of the handler",
		"result":         "what it gave, byte for byte; absent for nothing; at most 256 KiB, nested at most 1,000 deep",
		"unread_signals": "signals that had come and that no run was given",
		"timed_out":      "true: no run has completed it, but the deadline of its wait",
	}},
	events.KindFailed: {"The attempt has failed. `queued` (a retry) or `dead` follows in the same decision.", map[string]string{
		"error":        "what went wrong, at most 8 KiB",
		"code":         "the handler's own code, `error` if it gave none, or one of the engine's: `lease_expired`, `timeout`, `panic`, `killed`; see [PROTECTION.md](../guides/PROTECTION.md) for those that have a policy",
		"retryable":    "whether another attempt makes sense, by the report and by the policy of the code",
		"duration_ms":  "from the start of the handler, 0 if it had not started",
		"max_attempts": "the limit that applied, at least the attempt that failed",
		"spared":       "true: the worker was lost early in the attempt, and `max_attempts` is one higher for it",
	}},
	events.KindDead: {"The item has failed for good. It is terminal, and its dedup key is free.", map[string]string{
		"reason":   "`exhausted`, `not_retryable`; `poisoned`: its runs have lost so many leases (`poison_after`); `child_dead`: a child is dead or cancelled; `children_not_made`: a child of a spawn in parts was refused, or can't be had; `wait_timed_out`: no signal that it waited for came in time; `upstream_dead`, `upstream_cancelled`: an item that it came after is; `upstream_failed`: it is a batch with items that have failed",
		"by":       "the child, or the item that it came after",
		"attempts": "attempts made",
		"error":    "of the last attempt",
		"code":     "of the last attempt",
		"cause":    "the fingerprint of its type, `reason`, `code` and `error`, the last without its numbers, ids and quoted texts; `other-<type>` where causes are too many to be told apart",
	}},
	events.KindCancelled: {"The item is not to be run, or no longer. It is terminal, and its dedup key is free; later reports of its run are refused.", map[string]string{
		"reason":      "the operator's, else `cancelled`; `superseded`; `expired`; `upstream_dead`, `upstream_cancelled`: an item that it came after is; `upstream_failed`: it is a batch with items that have failed; `parent_dead`, `parent_cancelled`: the item that spawned it is",
		"by":          "the item because of which: what superseded it, what it came after, its parent",
		"was_running": "true if it was claimed or running; the event then has that run's `attempt` and `worker`",
	}},
	events.KindWaiting: {"The item waits for others, or, with `ended`, for one less. `queued` follows when none is left; or `cancelled` or `dead`, when one has ended badly.", map[string]string{
		"reason": "`after`: as submitted; `defer`, `supersede`: for the holder of its dedup key; `children`: for items that its children were merged into",
		"for":    "at first: the items, at most 1,000",
		"behind": "that one of them which it waits for because of its dedup key: any end of it will do",
		"ended":  "the one that has just ended; absent at first",
		"left":   "how many remain",
	}},
	events.KindSpawned: {"The run has ended in children, and used no attempt: the item waits for them. Their own events follow in the same decision. Of more than 300 children, or more than 1 MiB of params, the first of these events only declares how many there are; each part that follows makes up to 100 of them. An item that is a batch is opened, and sealed, by this event as well.", map[string]string{
		"spawn":        "which of the item's spawns this is, from 1",
		"children":     "the items, at most 300, or 100 of a part, in the order given",
		"declared":     "how many children there are to be, or, once that is settled, items of the batch",
		"pending":      "reference of the object that holds the children which are declared",
		"part":         "which part this is, from 1",
		"taken":        "how many of the declared children the part answers: those that it makes, and those that repeat others",
		"batch":        "true: the item is a batch",
		"sealed":       "true: the batch gets no other items than are declared",
		"name":         "of the batch, for people",
		"existing":     "those of them that were there before (a repeated id or idempotency key)",
		"continues":    "true: once all have ended, the item runs again; else it completes",
		"continuation": "the name of what it then does, for its handler",
		"child_policy": "what a dead or cancelled child does: `fail` (the default: the item is dead, its other children are cancelled), or `continue`",
		"duration_ms":  "from the start of the handler",
	}},
	events.KindSnoozed: {"The run has put the item off: it is in the queue, in its old place, and the attempt does not count.", map[string]string{
		"available_at": "RFC 3339: may run from then on",
		"reason":       "the worker's, at most 256 bytes",
		"duration_ms":  "from the start of the handler",
	}},
	events.KindProgressed: {"How far the run says it has come. At most one a second, but for the one that reaches 100 percent.", map[string]string{
		"percent": "0 to 100",
		"message": "at most 1 KiB",
	}},
	events.KindCheckpointed: {"The run has saved what the item's next attempt is to begin from. It is kept until the item is terminal.", map[string]string{
		"checkpoint": "a JSON document of at most 64 KiB, byte for byte",
	}},
	events.KindParked: {"The run has ended in a wait, and used no attempt: the item waits for signals. The signals that the run was given are used up. `queued` follows when those that it waits for have come, which may be in the same decision; or, at the deadline, what `then` says.", map[string]string{
		"names":       "of the signals, at most 16; absent: only the deadline ends the wait",
		"all":         "true: it takes one signal of each name; else one, of any of them",
		"until":       "RFC 3339: the deadline",
		"delayed":     "true: `until` is a delay from this event, not a moment that somebody named",
		"then":        "what becomes of the item at the deadline: `continue` (it is queued, with the signals that have come), `fail` (it is dead), `complete`",
		"code":        "of `fail`; absent: `wait_timed_out`",
		"error":       "of `fail`; at most 8 KiB",
		"result":      "of `complete`: a JSON document of at most 4 KiB",
		"ask":         "what it asks people: `number` (in the item, from 1), `title`, `text` (Markdown), `choices`, `form` (a JSON schema), `proposal`, `who` may answer (`users`, `roles`, `not_submitter`), `remind` (`every_ms`, `type`, `params`, `most`); the first of `names` is the answer's. Absent: nothing",
		"duration_ms": "from the start of the handler",
	}},
	events.KindSignalled: {"A signal has come into the item's mailbox, whatever the item was doing. It stays there until the outcome (completed, waiting, children) of a run that was given it.", map[string]string{
		"number":  "in the item, from 1",
		"name":    "at most 256 bytes",
		"payload": "a JSON document of at most 64 KiB, without needless spaces; absent: none",
		"error":   "in place of a payload: what went wrong outside, said with a token: a `code` (at most 256 bytes) and a `message` (cut to 4 KiB)",
		"msg_id":  "the sender's: a signal with the id of another is not a second one",
		"token":   "the hash of the token that somebody has presented",
		"answer":  "the number of the question that it answers: the payload has `choice`, `by`, `value` and `comment`; absent: none",
	}},
	events.KindReminded: {"A reminder of the question that the item asks was due. The item that reminds is made in the same decision.", map[string]string{
		"number": "of the question",
		"nth":    "of the question's reminders, from 1",
		"next":   "RFC 3339: when the next one is due; absent: it was the last",
		"item":   "that reminds; absent: its submission was refused",
		"code":   "why it was refused: a stable code such as `queue_full`",
		"error":  "and in words",
	}},
	events.KindTokenGiven: {"A run has made a token: whoever presents it sends the item one signal. The token outlives the run.", map[string]string{
		"name": "of the signal",
		"hash": "SHA-256 of the token, in lower-case hex; the token itself is nowhere in the log",
		"for":  "whom it was given to: the token is a link, by which he answers the question whose answer has that name; absent: it is none",
	}},
	events.KindReleased: {"The run was handed back: the item is in the queue, in its old place, and the attempt does not count.", map[string]string{
		"reason": "the worker's (`released`, `shutdown`), or `not_started`: it was claimed and not started in time",
	}},
	events.KindRescheduled: {"The order of a queued item was changed, or the priority of a waiting one; or the clock was set back, and a wait or run that was counted by the wrong clock is counted anew. The payload is what holds from now on, in full.", map[string]string{
		"priority":     "0 to 9, higher first",
		"order_at":     "RFC 3339: its place among those of its type and priority",
		"available_at": "RFC 3339: may run from then on; absent: at once",
		"delayed":      "true: `available_at` is a wait from this event, not a moment that somebody named",
		"limit":        "RFC 3339: until when a claimed item must start, or a running one may run; absent: as before, or it does not run",
		"by":           "the item that was merged into it, and so raised its priority; absent: an operator or the engine did it",
	}},
	events.KindRejected: {"A message of the intake stream became no item: it could not be read, or repeats one that was accepted. It belongs to no item; its type is `_` in the subject, and absent here, if it could not be read.", map[string]string{
		"code":      "a stable code such as `bad_params`; `duplicate` for a repeat",
		"message":   "what is wrong and what to do",
		"subject":   "that it was published to",
		"headers":   "its headers, at most 16 KiB together",
		"text":      "its original body, if that is text: at most 64 KiB",
		"bytes":     "its original body in base64, if it is not",
		"size":      "bytes of the original body",
		"truncated": "true if body or headers were cut",
		"of":        "the item that a duplicate repeats",
	}},
	events.KindOwned: {"An engine has taken the partition over: from here on only events of this epoch's owner follow. An append by an older owner does not fit behind it.", map[string]string{
		"epoch":   "counts the ownerships, from 1",
		"owner":   "the engine's name",
		"version": "the engine's version",
		"barrier": "true if the same owner states its epoch again, to settle an append whose outcome it does not know",
		"clock":   "an operator has confirmed the server's clock (`engine clock accept`), and the partition's time is the server's from this event on: `from`, the log's last time before, which may lie behind the time of this event or ahead of it, and `by`, who has confirmed it",
	}},
	events.KindReplayed: {"An operator has had a dead or cancelled item queued again, in last place. What its attempts have made so far stays.", map[string]string{
		"priority":     "0 to 9, higher first",
		"max_attempts": "attempts until the item is dead, those made before included",
		"own_attempts": "true if the replay set `max_attempts`, or the submission did",
		"order_at":     "RFC 3339: its place among those of its type and priority",
		"params":       "the document that the handler gets from now on, byte for byte; absent: as it was",
		"reason":       "the operator's",
	}},
	events.KindCauseNoted: {"Items of the event's type have begun to die of something new, or die of it in great number. It follows the `dead` that made it so, in the same decision.", map[string]string{
		"cause":   "see `dead`",
		"why":     "`new`: the first of it; `growing`: the 10th, 100th, 1,000th … within 5 minutes",
		"count":   "items that have died of it",
		"window":  "and how many in this window of 5 minutes",
		"reason":  "of the example",
		"code":    "of the example",
		"error":   "of the example, at most 512 bytes",
		"example": "the item that has just died of it",
	}},
	events.KindRejectedPurged: {"An operator has had a rejected submission forgotten.", map[string]string{
		"seq":    "of its `rejected` event",
		"reason": "`purged`, or the operator's",
	}},
	events.KindTypeConfigured: {"The settings of a type from here on, in full. The first of a type makes it known.", map[string]string{
		"source":                    "`default`, `file` (engine.toml) or `api`",
		"settings":                  "all settings, filled in:",
		"settings.capacity":         "items dispatched or running at most",
		"settings.lease_ms":         "how long a worker may be silent",
		"settings.timeout_ms":       "how long one attempt may run, unless the submission says",
		"settings.max_attempts":     "attempts until an item is dead, unless the submission says",
		"settings.backoff":          "the wait before a retry: `initial_ms` × `factor`^(attempt−1), at most `max_ms`, lengthened by up to the fraction `jitter`",
		"settings.age_step_ms":      "waiting this long equals one priority",
		"settings.timeout_set":      "true if somebody chose `timeout_ms`: then no built-in policy of a failure code changes it",
		"settings.max_attempts_set": "true if somebody chose `max_attempts`: then no built-in policy of a failure code changes it",
		"settings.max_params_bytes": "the bound of params",
		"settings.per_priority":     "`timeout_ms`, `max_attempts` and `backoff` for items of a priority",
		"settings.dedup_policy":     "what becomes of a submission whose dedup key is taken, unless it says: `merge` (the default), `distinct`, `supersede`, `defer`",
		"settings.dedup_window_ms":  "how long a dedup key stays taken after completion, unless the submission says; absent: not at all",
		"settings.codes":            "how failures with a code are retried: `no_retry`, `max_attempts`, `delay_factor`, `timeout_factor`, `timeout_max_ms`; laid over the built-in ones",
		"settings.poison_after":     "lost leases until an item is dead as `poisoned`; absent: 3",
		"settings.circuit":          "when the circuit opens (`consecutive` failures; `ratio` of failures in `window_ms` once it has `min_runs`), for how long (`cooldown_ms`, doubled up to `max_cooldown_ms`), how many `probes` try it then, and whether failures that are not retried count (`count_no_retry`); absent: no circuit",
		"settings.max_queued":       "items queued or waiting beyond which submissions are refused; absent: no limit",
		"settings.queue_steps":      "beyond `over` items, what is still accepted: `min_priority` and above, or from one of `sources`",
		"settings.rates":            "rate limits: `n` per `interval_ms` with a `burst`, `per` type, tenant or label:NAME, `at` submit or dispatch",
		"settings.pool":             "the pool whose slots its runs take as well",
		"settings.pool_weight":      "its share of that pool when it is contended; absent: 1",
		"settings.group_by":         "what makes a group: `tenant` (the default), `label:NAME`, `none`",
		"settings.group_capacity":   "items of one group that run at once; absent: no limit",
		"settings.assign_by":        "which worker with a free slot is assigned an item: `most_free` (the default), `round_robin`, or by a hash of the `tenant` or a `label:NAME`",
		"settings.protocol":         "how items reach their workers: `ack` ([ACK.md](../guides/ACK.md)); absent: by offers",
		"settings.retain":           "how long ended items are kept: `completed_ms`, `dead_ms`, `cancelled_ms`, `merged_ms`; absent: 24 h, 30 days for dead ones",
	}},
	events.KindScheduleSet: {"A schedule was made, or replaced. The event's type is that of its items.", map[string]string{
		"schedule": "the schedule from here on, in full: `name`, `type`, `cron` and its `zone` or `every_ms` and its `anchor` (a tick, from which the others are counted), `missed` (`skip`, `one`, `all`), `overlap` (`distinct`, `merge`, `defer`, `supersede`), what its items are made of (`params`, `priority`, `tenant`, `labels`, `max_attempts`, `timeout_ms`), `source` (`file`, `api`), `paused`, and where it is among its ticks: `next`, `last_tick`, `last_item`, `last_code` and `last_error`",
	}},
	events.KindScheduleRemoved: {"A schedule has ended. Items that it made stay.", map[string]string{
		"name":   "the schedule",
		"source": "`api`, or `file`: engine.toml no longer has it",
	}},
	events.KindScheduleFired: {"A schedule's tick was answered, and all before it. The events of the item that it makes, if any, follow in the same decision.", map[string]string{
		"name":    "the schedule",
		"tick":    "RFC 3339: when it was due; the item has it as its label `schedule_tick`",
		"next":    "RFC 3339: the tick that is due next; absent: none",
		"item":    "the item; absent: the tick was skipped, or its submission refused",
		"skipped": "ticks up to this one that were missed and get no item",
		"code":    "why the submission was refused",
		"error":   "and in words",
	}},
	events.KindNamespaceSet: {"A [namespace](../guides/NAMESPACES.md) was added, or changed. It is in the log of the namespace `default` only, which has the list of the others.", map[string]string{
		"namespace": "the namespace from here on, in full: `name`, `paused`, `limits` (`max_queued`, `max_log_bytes`, `max_document_bytes`, `requests_per_second`; absent: none), `node` (which should own its log; absent: any), `weight` (of its share of the processors; absent: 1), `source` (`file`, `api`) and `created_at`, which stays the same until it is removed",
	}},
	events.KindNamespaceRemoved: {"A namespace is no more. Its streams and stores are destroyed once this event is durable.", map[string]string{
		"name": "the namespace",
		"by":   "who removed it, at most 256 bytes",
	}},
}

// protectionDocs are those of the kinds that hold work back.
var protectionDocs = map[events.Kind]kindDoc{
	events.KindPaused: {"The type is paused: its items wait. What runs goes on. Of a type that is paused already: what holds of that pause from here on.", map[string]string{
		"reason": "why, at most 256 bytes",
		"by":     "who, at most 256 bytes",
		"until":  "RFC 3339: when it ends by itself; absent: when somebody ends it",
	}},
	events.KindResumed: {"The type is no longer paused.", map[string]string{
		"by":     "who, at most 256 bytes",
		"reason": "`until`: the pause's time has come; absent: somebody has ended it",
	}},
	events.KindCircuitOpened: {"The circuit of the event's `type`, or of its `worker`, has opened, in the decision that ended a run: the items wait, or go to other workers.", map[string]string{
		"reason": "`consecutive`, `ratio`, or `probe`: a run that tried it has failed",
		"until":  "RFC 3339: when it becomes half open",
		"opens":  "how often it has opened in a row, with no close between",
		"failed": "the failures that opened it",
		"of":     "and of how many ended runs",
	}},
	events.KindCircuitHalfOpened: {"The circuit of the event's `type`, or of its `worker`, lets some runs through, which try it.", map[string]string{
		"probes": "how many at once; so many successes close it, one failure opens it again",
	}},
	events.KindCircuitClosed: {"The circuit of the event's `type`, or of its `worker`, is closed: work goes through.", map[string]string{
		"reason": "`probes`: enough have succeeded; `reset`: by an operator; `configured`: it was switched off",
	}},
}

func init() { maps.Copy(kindDocs, protectionDocs) }

// jsonFields lists a struct's JSON names, those of embedded structs included,
// and those of the settings within.
func jsonFields(t reflect.Type, prefix string) (names []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous:
			embedded := f.Type
			if embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			names = append(names, jsonFields(embedded, prefix)...)
			continue
		case tag == "":
			tag = "(no name) " + f.Name
		}
		names = append(names, prefix+tag)
		if f.Type == reflect.TypeFor[events.TypeSettings]() {
			names = append(names, jsonFields(f.Type, tag+".")...)
		}
	}
	return names
}

func (d kindDoc) field(name string) string {
	if s, ok := d.fields[name]; ok {
		return s
	}
	return intakeFields[name]
}

func TestEveryReasonOfDeathIsDocumented(t *testing.T) {
	for _, reason := range events.DeadReasons() {
		if text := kindDocs[events.KindDead].field("reason"); !strings.Contains(text, "`"+reason+"`") {
			t.Errorf("the reason %s is not described: %s", reason, text)
		}
	}
}

func TestEveryFieldIsDocumented(t *testing.T) {
	for k := range events.Kind(events.NumKinds) {
		doc, ok := kindDocs[k]
		if ok != knownKind(k) {
			t.Errorf("%s: documented %v, known %v", k, ok, knownKind(k))
			continue
		}
		if !ok {
			continue
		}
		names := jsonFields(reflect.TypeOf(newBody(k)).Elem(), "")
		for _, n := range names {
			if doc.field(n) == "" {
				t.Errorf("%s.%s has no description", k, n)
			}
		}
		for n := range doc.fields {
			if !strings.Contains(" "+strings.Join(names, " ")+" ", " "+n+" ") {
				t.Errorf("%s.%s is described and does not exist", k, n)
			}
		}
	}
}

func TestEventsDoc(t *testing.T) {
	golden(t, "../../docs/reference/EVENTS.md", []byte(eventsDoc(t)))
}

const eventsHead = `# Events

*Rendered by ` + "`go test ./events/core -update`" + ` from the code and from really encoded events; a test fails when it is stale.*

Every transition of every work item is one event in the log of its partition,
and that log is the only truth. It is the JetStream stream ` + "`WORK_EVENTS_<p>`" + `; only the
engine writes there.

## Frames

One append to the log is one message, a frame, on ` + "`work.frame.<p>`" + `. Its body is
the events as JSON in the order decided, one a line, each line ended by a newline. So documents
of several lines, such as params, are kept with spaces in place of the line breaks. A frame is stored whole or not at all:
no reader sees half a decision.

| header | meaning |
|---|---|
| ` + "`Work-Frame`" + ` | the frame's id, which no other append has: 12 digits and capital letters that name the writer, a period, and a number in base 36 |
| ` + "`Work-Epoch`" + ` | the epoch of the owner that wrote it |
| ` + "`Work-Node`" + ` | the owner's name |
| ` + "`Work-Level`" + ` | the log's format level |
| ` + "`Work-Events`" + ` | the number of its events, 1 to 4,095 |
| ` + "`Work-Before`" + ` | the number of events in the log before it, those that have been cut off included |

An event's position is its frame's stream sequence × 4,096, plus its index in the
frame from 0. Positions are ordered, and not contiguous: ` + "`Work-Before`" + ` counts.

A reader passes over messages without a frame id, and frames of an epoch below that of the
last ` + "`owned`" + ` event that it has read. If ` + "`Work-Before`" + ` is not the number of events that
it knows, some are missing.

## Subjects

` + "`work.event.<p>.<type>.<kind>`" + `: the partition (0 with one), the work type (` + "`_`" + ` in
%s, and where a rejected submission's type could not be read), the kind. So a plain NATS subscriber filters on the server:

| subscribe to | for |
|---|---|
| ` + "`work.event.>`" + ` | everything |
| ` + "`work.event.*.email.*`" + ` | all that happens to e-mails |
| ` + "`work.event.*.email.dead`" + ` | e-mails that failed for good |
| ` + "`work.event.*.*.rejected`" + ` | submissions that became no item |

## Envelope

A JSON object. Fields that do not apply are left out; fields that a reader does
not know are to be ignored; times are RFC 3339 in UTC with nanoseconds.

| field | meaning |
|---|---|
| ` + "`v`" + ` | the format level that the reader must know, %d for nearly all events; it refuses one that it does not know ([levels](../operate/UPGRADE.md)) |
| ` + "`kind`" + ` | what has happened |
| ` + "`id`" + ` | the item, a ULID |
| ` + "`type`" + ` | the work type |
| ` + "`at`" + ` | when, by the partition's clock; never earlier than the event before |
| ` + "`attempt`" + ` | the item's attempt, from 1, in events of a run |
| ` + "`worker`" + ` | the worker, in events of a run |
| ` + "`by`" + ` | who asked for it, as the access layer knew (the name of a token, certificate or NATS user; ` + "`anyone`" + ` where the engine is open), in acts that a request led to: %s ([who did what](../operate/ACCESS.md#who-did-what)) |
| ` + "`data`" + ` | the payload of the kind |

Every field has a bound, and no event exceeds 2 MiB.

`

// oneLine is the length of the longest example that stands on one line, as in the log.
const oneLine = 100

func eventsDoc(t *testing.T) string {
	var sb strings.Builder
	var acts []string
	for k := range events.Kind(events.NumKinds) {
		if k.Act() {
			acts = append(acts, "`"+k.String()+"`")
		}
	}
	fmt.Fprintf(&sb, eventsHead, ofNoType(), events.Version, strings.Join(acts, ", "))
	examples := exampleEvents(t)
	sb.WriteString("## Kinds\n")
	for k := range events.Kind(events.NumKinds) {
		doc, ok := kindDocs[k]
		if !ok {
			continue
		}
		fmt.Fprintf(&sb, "\n### %s\n\n%s\n\n| field of `data` | meaning |\n|---|---|\n", k, doc.means)
		for _, n := range jsonFields(reflect.TypeOf(newBody(k)).Elem(), "") {
			fmt.Fprintf(&sb, "| `%s` | %s |\n", n, doc.field(n))
		}
		if k == events.KindSnapshot || k == events.KindCarried {
			sb.WriteString("\nThe payload is the log's own bookkeeping, and may change.\n")
			continue
		}
		var pretty bytes.Buffer
		var example struct{ Data json.RawMessage }
		if err := json.Unmarshal(examples[k], &example); err != nil {
			t.Fatal(err)
		}
		if len(example.Data) <= oneLine {
			pretty.Write(example.Data)
		} else if err := json.Indent(&pretty, example.Data, "", "  "); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&sb, "\n```json\n%s\n```\n", pretty.String())
	}
	return sb.String()
}

// ofNoType are the kinds whose subject has "_" for the type, as the page shows them.
func ofNoType() string {
	var kinds []string
	for k := range events.Kind(events.NumKinds) {
		if _, ok := kindDocs[k]; ok && (k == events.KindOwned || k == events.KindFormatRaised || k == events.KindSnapshot || k == events.KindDrainSet || k == events.KindDrainEnded || k.Scope() == events.ScopeNamespace) {
			kinds = append(kinds, "`"+k.String()+"`")
		}
	}
	return strings.Join(kinds, ", ")
}

// exampleEvents has the fullest event of each kind in the golden log.
func exampleEvents(t *testing.T) map[events.Kind][]byte {
	examples := map[events.Kind][]byte{}
	for _, w := range []*world{goldenWorld(t), nextLevelWorld(t)} {
		for i, data := range w.encoded() {
			if k := w.log[i].Kind; len(data) > len(examples[k]) {
				examples[k] = data
			}
		}
	}
	return examples
}
