// Rendered from the Go types of the protocol: do not edit.
// UPDATE_DOCS=1 go test ./internal/schemas writes it anew.

/** Where an item is in its life. */
export type ItemState = "created" | "queued" | "claimed" | "running" | "waiting" | "failed" | "completed" | "dead" | "cancelled" | "merged";

/** AcceptClock confirms the NATS server's clock: from then on it is the engine's. */
export interface AcceptClock {
  /** who confirms it, at most 256 bytes */
  by?: string;
}

/** Ages say how long the queued items that may run have been waiting, in milliseconds: from when they were first queued, or have become due since. The oldest is exact, as long as it does not take more than projector.MaxWaitingReads index entries to find; else it, like the others, is right to 67 ms or 1/32 of itself (of the delay, for an item that was delayed), whichever is more. All zero: nothing waits. */
export interface Ages {
  oldest_ms: number;
  p50_ms: number;
  p95_ms: number;
}

/** Alarm is one thing that keeps the engine from its work, or soon will. An alarm ends when its cause does. The list of them is in [StatsReply], the gravest first. */
export interface Alarm {
  /** what to do */
  action: string;
  /** see [AlarmCodes] */
  code: string;
  /** what is wrong, and what that stops */
  message: string;
  severity: "critical" | "warning";
}

/** Answer answers a question. */
export interface Answer {
  /** where nobody logs in: who answers */
  by?: string;
  /** approve, reject, edit or answer */
  choice: string;
  comment?: string;
  /** of the item */
  id: string;
  /** of the question */
  number: number;
  /** what the form is filled in with, or the changed proposal: at most 32 KiB */
  value?: unknown;
}

/** AnswerReply answers an Answer. */
export interface AnswerReply {
  id: string;
  position: string;
  /** he had given this answer before */
  repeat?: boolean;
  state: ItemState;
}

/** AnsweredShown says how a question was answered. */
export interface AnsweredShown {
  at: string;
  by?: string;
  choice: string;
}

/** Answerers say who may answer a question, among those whose role lets them answer any: whoever is one of Users or has one of Roles; everybody if there are neither. */
export interface Answerers {
  /** NotSubmitter excludes the one who submitted the item, and where it is not known who that was, everybody whose own name is known. */
  not_submitter?: boolean;
  roles?: string[];
  /** names that the access layer knows */
  users?: string[];
}

/** Approval is a question of an item. */
export interface Approval {
  /** nil: nobody has answered */
  answered?: AnsweredShown;
  choices: string[];
  /** of a link: whom it was given to */
  for?: string;
  /** a JSON schema */
  form?: unknown;
  /** of the item */
  id: string;
  /** MayAnswer says that whoever asks may answer it, and WhyNot why not. */
  may_answer: boolean;
  /** of the signal that the answer becomes */
  name: string;
  /** the same as a tree of elements: texts and {tag, href, children} */
  nodes?: unknown;
  number: number;
  proposal?: unknown;
  /** reminders so far */
  reminded?: number;
  since?: string;
  submitted_by?: string;
  tenant?: string;
  /** Markdown */
  text?: string;
  /** what becomes of the item then */
  then?: string;
  title: string;
  /** and its type */
  type: string;
  /** the deadline; with since, zero if it is not open */
  until?: string;
  who?: Answerers;
  why_not?: string;
}

/** Approvals asks for the questions that items ask now, those last touched first. */
export interface Approvals {
  /** the next_cursor of the page before */
  cursor?: string;
  /** how many at most: 1 to 1,000, 50 if left out */
  limit?: number;
  min_position?: string;
  /** only those that whoever asks may answer */
  mine?: boolean;
  /** only of items of this type */
  type?: string;
}

/** ApprovalsReply is a page of questions, without text, nodes, form and proposal. It may be shorter than the limit, even empty, and still have a NextCursor. No NextCursor: the end. */
export interface ApprovalsReply {
  approvals: Approval[];
  next_cursor?: string;
  /** see [Listed] */
  stale?: string;
}

/** AskShown is what an item asks: an [Approval] has more of it. */
export interface AskShown {
  choices: string[];
  number: number;
  title: string;
  who?: Answerers;
}

/** Assigned is an item that the engine has claimed for a session of a worker, and sends to Names.RunOf. A message has an array of them. */
export interface Assigned {
  attempt: number;
  /** Bytes is the length of Params, for readers that are no JSON parsers. */
  bytes: number;
  checkpoint?: unknown;
  continuation?: Continuation;
  id: string;
  labels?: { [key: string]: string };
  lease_ms: number;
  params: unknown;
  timeout_ms?: number;
  token: string;
  traceparent?: string;
  type: string;
  waited?: EndedWait;
}

/** Attention is one kind of trouble: how many types or workers have it, and those of them that have most. */
export interface Attention {
  /** types or workers */
  count: number;
  /** First has at most [MaxAttention] of them, those with most items first. */
  first: AttentionOf[];
  /** Items counts the items of all of them: dead ones of "dead", else queued ones; 0 for kinds of workers. */
  items?: number;
  /** see [AttentionKinds] */
  kind: string;
  severity: "critical" | "warning";
}

/** AttentionOf is one type or worker that needs attention. */
export interface AttentionOf {
  /** who paused it */
  by?: string;
  /** see Attention.Items */
  items?: number;
  /** the limit that the queue is near to */
  most?: number;
  /** how long the first of the items has waited */
  oldest_ms?: number;
  /** as given, or as the circuit's */
  reason?: string;
  /** Recent counts the items that died in the last ten minutes. */
  recent?: number;
  /** of a circuit: open or half_open */
  state?: string;
  type?: string;
  worker?: string;
}

/** Audit asks who did what: for the acts that somebody asked for, oldest first. */
export interface Audit {
  /** only events of this kind, such as cancelled; left out: all but created */
  action?: string;
  /** only of this token, certificate or user; anyone: where the engine is open */
  by?: string;
  /** the next_cursor of the answer before */
  cursor?: string;
  /** how many at most: 1 to 1,000, 50 if left out */
  limit?: number;
  /** only those stored at this time or later */
  since?: string;
  /** only of this type */
  type?: string;
}

/** AuditReply answers an Audit. It may have fewer acts than the limit, even none, and still have a NextCursor: an answer reads a bounded part of the log. No NextCursor: the end. From is when the log begins: what was done before is no longer known. It is in answers to requests without a cursor. */
export interface AuditReply {
  acts: HistoryEvent[];
  from?: string;
  from_seq?: number;
  next_cursor?: string;
}

/** Backoff sets the wait before a retry: Initial × Factor^(attempt-1), at most Max, lengthened by up to Jitter (a fraction of it). */
export interface Backoff {
  factor: number;
  initial_ms: number;
  jitter: number;
  max_ms: number;
}

/** Batch opens a batch, or seals one that is open. A batch is an item that runs nothing: it waits for the items that are submitted to it, and completes when their number is settled and the last of them has ended. */
export interface Batch {
  /** Callback is submitted along with the batch and runs once it has ended. Its AfterPolicy says what becomes of it if the batch is cancelled. A batch whose items end dead or cancelled completes all the same. */
  callback?: Submit;
  /** Count is the number of items to come; 0: a later request with Seal says. */
  count?: number;
  /** ID is the batch's id, a ULID; without one the engine chooses it. With an id the request may be repeated. */
  id?: string;
  labels?: { [key: string]: string };
  /** for people, at most 256 bytes */
  name?: string;
  /** of the batch's own item */
  priority?: number | "low" | "medium" | "high";
  /** Seal settles the number of items of the batch ID: Count, or, with 0, as many as there are. Name and Callback are not used then. */
  seal?: boolean;
  source?: string;
  tenant?: string;
  traceparent?: string;
  trigger?: string;
}

/** BatchCounts is the progress of a batch. */
export interface BatchCounts {
  cancelled: number;
  /** merged ones among them */
  completed: number;
  dead: number;
  /** items that there are to be, once that is settled */
  declared?: number;
  /** have ended, in whatever way */
  done: number;
  name?: string;
  /** that is settled: no others come */
  sealed: boolean;
  /** items so far */
  total: number;
}

/** BatchReply answers a Batch with the batch's new state. */
export interface BatchReply {
  batch: BatchCounts;
  callback?: Submitted;
  id: string;
  position?: string;
  /** it was already so */
  repeat?: boolean;
  state: ItemState;
}

/** BlockReason is one reason why an item is not running now, in words and as a stable code. */
export interface BlockReason {
  /** items in front of it, for WhyBehind */
  ahead?: number;
  code: string;
  /** the others that it is about, at most ten */
  items?: string[];
  message: string;
  /** when it passes by itself, where that is known */
  until?: string;
}

/** Bulk does one thing to a page of the items of a selection: at most the selection's Limit, 1,000 by default and at most. Items in a state that does not allow the action are skipped. Go on with the reply's NextCursor. */
export interface Bulk {
  action: string;
  /** the selection may name nothing but a state */
  all?: boolean;
  /** reschedule */
  available_at?: string;
  /** reschedule */
  delay_ms?: number;
  /** only return what would change */
  dry_run?: boolean;
  /** replay */
  max_attempts?: number;
  /** reschedule */
  now?: boolean;
  /** replay: the same for all of them */
  params?: unknown;
  /** replay: a JSON merge patch, applied to each item's own params */
  patch?: unknown;
  /** replay, reschedule */
  priority?: number | "low" | "medium" | "high";
  /** replay, purge, cancel */
  reason?: string;
  select: Selection;
}

/** BulkError is an item to which a bulk's action could not be done. */
export interface BulkError {
  error: Error;
  id: string;
}

/** BulkReply answers a Bulk. Errors holds the errors of the first few items that failed, Sample the ids of the first few that matched. */
export interface BulkReply {
  changed: number;
  errors?: BulkError[];
  failed: number;
  matched: number;
  next_cursor?: string;
  position?: string;
  sample?: string[];
  /** matched items of each type */
  types?: { [key: string]: number };
}

/** Cancel stops an item from running, or from running on. */
export interface Cancel {
  id: string;
  /** why; it is kept with the item */
  reason?: string;
}

/** Cancelled answers a Cancel. WorkerTold says that a registered worker was running it and was sent the cancel at once; a worker that missed it hears of it with its next heartbeat or report. */
export interface Cancelled {
  id: string;
  position: string;
  state: ItemState;
  was_running: boolean;
  worker_told: boolean;
}

/** Cause groups dead items of one type, reason and code whose error texts differ only in numbers, ids, paths and quoted texts. "other-<type>" gathers the deaths of a type that has too many causes to keep apart. */
export interface Cause {
  cause: string;
  code?: string;
  /** deaths, in all */
  count: number;
  /** items that are dead of it now */
  dead: number;
  /** of the example, at most 512 bytes */
  error?: string;
  /** the item that died of it last */
  example: string;
  first: string;
  last: string;
  reason: string;
  type: string;
}

/** CausesQuery asks what items have died of. */
export interface CausesQuery {
  /** include resolved causes: no item of theirs is dead now */
  all?: boolean;
  /** only of this code */
  code?: string;
  /** how many at most */
  limit?: number;
  min_position?: string;
  /** only of this reason */
  reason?: string;
  /** last (if left out), first, count or dead; the highest first */
  sort?: string;
  /** only of this type */
  type?: string;
}

/** CausesReply lists causes. Total counts them without the limit. */
export interface CausesReply {
  causes: Cause[];
  /** as in [Listed] */
  stale?: string;
  total: number;
}

/** Changed answers a Pause, a Resume, a CircuitReset, a TypeRemove, an Undrain or a NodeRemove. Changed is false if there was nothing to change. */
export interface Changed {
  changed: boolean;
  position?: string;
}

/** ChildCounts counts what an item has spawned the last time. */
export interface ChildCounts {
  /** Declared is the number of children to come, for a spawn made in parts. */
  declared?: number;
  /** have ended dead or cancelled */
  failed: number;
  /** have not ended */
  live: number;
  /** how often it has spawned */
  spawns: number;
  total: number;
}

/** Circuit is a circuit that is not closed, as queries show it. */
export interface Circuit {
  /** in a row */
  opens: number;
  /** runs that try it */
  probing?: number;
  /** why it opened: consecutive, ratio, probe */
  reason: string;
  since: string;
  /** open, half_open */
  state: string;
  /** open: when it becomes half open */
  until?: string;
  /** whose it is; empty: the type's */
  worker?: string;
}

/** CircuitReset closes the circuit of a type, or of a worker: exactly one of them is given. */
export interface CircuitReset {
  type?: string;
  worker?: string;
}

/** CircuitSettings say when a circuit opens and how it closes again. Zero fields have the defaults of [CircuitSettings.WithDefaults]; with neither Consecutive nor Ratio there is no circuit. */
export interface CircuitSettings {
  /** failures in a row that open it */
  consecutive?: number;
  /** open for so long, doubled each time in a row */
  cooldown_ms?: number;
  /** failures that are not retried count too */
  count_no_retry?: boolean;
  /** up to this */
  max_cooldown_ms?: number;
  /** in the window, before the ratio counts */
  min_runs?: number;
  /** runs at once that try a half-open one, and successes that close it */
  probes?: number;
  /** share of failures in the window that opens it */
  ratio?: number;
  window_ms?: number;
}

/** Clock answers clock and clock_accept: the engine's time, and its judgement of the NATS server's. */
export interface Clock {
  /** server_time less engine_time */
  difference_ms: number;
  /** by which everything is recorded */
  engine_time: string;
  /** Held names what rests until the clock is plausible or accepted. */
  held?: string[];
  /** KnownGood is the last time at which an earlier process of this engine found the server's clock plausible. */
  known_good?: string;
  last_event?: string;
  /** MaxJump is the setting max_clock_jump; 0: any time of the server is followed. */
  max_jump_ms: number;
  /** of the NATS server */
  server_time: string;
  /** of a verdict that is not plausible, by the engine's time */
  since?: string;
  /** Verdict is one of the Clock constants. What is not plausible is not followed. */
  verdict: string;
  /** of the same, and what to do */
  why?: string;
}

/** CodePolicy says how failures with one code are retried. Zero fields follow the type. */
export interface CodePolicy {
  /** of the backoff */
  delay_factor?: number;
  max_attempts?: number;
  no_retry?: boolean;
  /** by which the item's timeout grows */
  timeout_factor?: number;
  /** up to this */
  timeout_max_ms?: number;
}

/** Configure changes some of a type's settings. */
export interface Configure {
  /** the fields of TypeSettings to change */
  settings: unknown;
  type: string;
}

/** Continuation tells a run how the children of an earlier run ended. */
export interface Continuation {
  /** how they ended, in order: an array of [events.Outcome] */
  children: unknown;
  /** as the spawn said */
  name?: string;
}

/** ContinueWith says that an item runs again when its children have ended. */
export interface ContinueWith {
  /** for the handler */
  name?: string;
}

/** Control is the body of a message on a worker's control subject. */
export interface Control {
  cancel?: RunRef[];
  drain?: boolean;
  /** Polls names the engine process at which a worker over HTTP polls from now on, for the others: it is of no concern to workers. */
  polls?: string;
  reason?: string;
  /** Register asks the worker to register again: the engine does not know it. */
  register?: boolean;
  /** Status tells of a change that the worker's own heartbeats did not bring about; see HeartbeatReply. */
  status?: "active" | "draining" | "unhealthy" | "dead";
}

/** Cut has the engine cut its log. With Past it does so only while the log still holds that position. A round that is under way goes on, and may have begun before Past: ask until the log begins after it. */
export interface Cut {
  past?: string;
}

/** DamagedReplica is a node's replica of a stream that does not hold what it should. */
export interface DamagedReplica {
  /** what is wrong, and where */
  damage: string;
  /** Repair says what becomes of it, or what to do. */
  repair: string;
  /** when it was found */
  since: string;
  stream: string;
}

/** Drain asks a worker to finish what it runs and take no more. */
export interface Drain {
  /** at most 256 bytes */
  by?: string;
  /** at most 256 bytes */
  reason?: string;
  worker: string;
}

/** DrainMark records that a worker is to drain. */
export interface DrainMark {
  at: string;
  by?: string;
  reason?: string;
  worker: string;
}

/** EndedWait tells a run how the wait has ended that the item was in. */
export interface EndedWait {
  /** signalled or timed_out */
  ended: string;
  /** those that the wait has taken, in the order in which they came: an array of [events.Signal] */
  signals?: unknown;
}

/** Error is a refused request. */
export interface Error {
  code: string;
  message: string;
  retry_after_ms?: number;
}

/** ErrorReply is the body of a refused request. */
export interface ErrorReply {
  error: Error;
}

/** EventsGap says that retention has cut these positions from the log. */
export interface EventsGap {
  from: number;
  to: number;
}

/** EventsReply answers a ReadEvents. */
export interface EventsReply {
  events: HistoryEvent[];
  gap?: EventsGap;
  /** the reply is at a bound: ask again at once */
  more?: boolean;
  /** where to continue */
  next_seq: number;
}

/** FailingCheck is a check that does not pass. */
export interface FailingCheck {
  check: string;
  error: string;
}

/** FirstSignal is a signal that comes with a submission. */
export interface FirstSignal {
  /** a signal with the id of one that has come is that one: the submission may be repeated */
  msg_id: string;
  /** 1 to 256 bytes */
  name: string;
  /** at most 64 KiB */
  payload?: unknown;
}

/** Get asks for one item, by id or by the intake sequence that the JetStream ack of a plain publish gave. */
export interface Get {
  /** AtPosition or AtTime asks for the item as it was then, from its own history. */
  at_position?: string;
  at_time?: string;
  id?: string;
  intake_seq?: number;
  min_position?: string;
}

/** GetRejected asks for one rejected submission, with its original: by the sequence of its event, or by the sequence of its message in the intake stream. */
export interface GetRejected {
  intake_seq?: number;
  min_position?: string;
  /** the position of its rejected event */
  seq?: number;
}

/** Health is a worker's report on itself. */
export interface Health {
  /** CPU is the part of all its processors that the process has used since the last heartbeat, 0 to 1. */
  cpu?: number;
  /** Failing are the worker's own checks that fail; with any it is unhealthy. */
  failing?: FailingCheck[];
  /** Load is the part of its slots that are taken, 0 to 1. */
  load?: number;
  /** MemoryBytes is the process's resident memory. */
  memory_bytes?: number;
}

/** Heartbeat keeps a worker registered, and renews the leases of the runs that it names. It carries the registration, so that an engine that has lost its registry learns it anew. */
export interface Heartbeat {
  capabilities?: string[];
  health?: Health;
  host?: string;
  /** Idle says that the worker has nothing, that nothing is wrong with it, and that it sends the next heartbeat within so many milliseconds unless that changes: at most the Idle of the last reply. 0: it sends one each heartbeat_ms. */
  idle_ms?: number;
  in_flight?: RunRef[];
  /** Most bounds how many items of a type run at once in the worker, below Slots. */
  most?: { [key: string]: number };
  /** Offers says that a free slot is no offer: the worker gets no more than it asks for with Offer. */
  offers?: boolean;
  /** Probe says that the worker listens on the subject Names.Probe, and answers. */
  probe?: boolean;
  /** Session names this life of the worker: letters, digits, - and _, at most MaxSession bytes, new for each life. The worker listens on Names.RunsOf(Session), for items, before it registers. An id that is alive under another session is refused with worker_id_in_use. */
  session: string;
  slots: number;
  types: string[];
  version?: string;
  worker: string;
}

/** HeartbeatReply answers a Heartbeat. */
export interface HeartbeatReply {
  /** runs that must stop */
  cancel?: RunRef[];
  /** Fence is the least token of this owner of the log. An assigned item that comes after this reply and has a lesser token was sent by an earlier owner and has been taken back: it must not run. */
  fence?: string;
  /** Idle is how long a worker may be silent that has nothing and with which nothing is wrong; see Heartbeat. 0: it sends a heartbeat each heartbeat_ms even so. */
  idle_ms?: number;
  reason?: string;
  should_drain: boolean;
  /** Status is the engine's view of the worker, and Reason explains it unless the worker is active. An unhealthy worker is sent nothing. */
  status?: "active" | "draining" | "unhealthy" | "dead";
}

/** History asks for the events of an item. */
export interface History {
  id: string;
  min_position?: string;
}

/** HistoryEvent is one event as queries and tails show it. */
export interface HistoryEvent {
  at: string;
  attempt?: number;
  /** queued and not due: a delay, a backoff, a snooze */
  backed_off_ms?: number;
  /** who asked for it, as the access layer knew */
  by?: string;
  data?: unknown;
  /** waiting for other items */
  held_ms?: number;
  id?: string;
  kind: string;
  /** running */
  ran_ms?: number;
  seq: number;
  /** claimed, until it started */
  starting_ms?: number;
  type?: string;
  /** queued and due, until it was claimed */
  waited_ms?: number;
  worker?: string;
}

/** HistoryReply holds an item's events, oldest first. */
export interface HistoryReply {
  events: HistoryEvent[];
  totals: StateDurations;
}

/** Holder is the live item that holds a dedup key. The KV bucket of taken dedup keys has it in the same form. */
export interface Holder {
  id: string;
  state: ItemState;
}

/** HolderRequest asks which live item holds a dedup key. */
export interface HolderRequest {
  /** the dedup key */
  key: string;
  min_position?: string;
  type: string;
}

/** InfoReply describes the engine. */
export interface InfoReply {
  /** Clock is left out while the NATS server's clock is plausible. */
  clock?: Clock;
  data_dir?: string;
  durability: string;
  /** of the ownership; 0 from a standby */
  epoch: number;
  /** FormatLevel is the log's format level, and ReadsLevel the highest that this engine reads. */
  format_level?: number;
  held?: string;
  http?: string;
  /** JetStreamDomain is the domain in which the caller reaches the engine's streams: requests begin with $JS.<domain>.API. It is set if the caller's account is not the engine's. */
  js_domain?: string;
  /** NATS is the address for other processes (`engine --server`), without passwords; empty: nothing listens. Prefix begins the engine's subjects. */
  nats?: string;
  /** Node names the engine that answers, and Role says whether it owns the log. */
  node: string;
  now: string;
  /** of the log */
  owner: string;
  position: string;
  prefix?: string;
  projected: string;
  reads_level?: number;
  /** Refused says why new work is refused for want of room on the engine's disk, and Held why nothing new is begun either; left out while there is room. */
  refused?: string;
  /** Retention is left out while the engine is not the partition's owner. */
  retention?: Retention;
  role: string;
  version: string;
}

/** Item is a work item as queries show it. */
export interface Item {
  /** shown as it was then */
  as_of?: PastPosition;
  attempt: number;
  /** AttemptsSpared counts the attempts that were lost early with their worker since the item was last replayed: max_attempts is so much higher. */
  attempts_spared?: number;
  available_at?: string;
  /** items that wait for this one */
  awaited?: number;
  /** of a batch: how far it has come */
  batch?: BatchCounts;
  /** By is the item that ended this one: the one that superseded it, that it waited for, or that spawned it. */
  by?: string;
  capabilities?: string[];
  /** of a dead one: see Cause */
  cause?: string;
  children?: ChildCounts;
  claimed_at?: string;
  continuation?: string;
  /** Continues says that a run for the continuation has come, or comes once the children have ended; Continuation is its name. */
  continues?: boolean;
  created_at: string;
  deadline?: string;
  dedup_key?: string;
  dedup_window_ms?: number;
  error?: ItemError;
  /** EstimatedDuration is the likely duration of a run, from its submission. */
  estimated_duration_ms?: number;
  expires_at?: string;
  finished_at?: string;
  group?: string;
  has_checkpoint?: boolean;
  id: string;
  idempotency_key?: string;
  intake_seq?: number;
  labels?: { [key: string]: string };
  leases_lost?: number;
  /** the limit that applied to the last failure, attempts_spared counted in */
  max_attempts: number;
  merged_count?: number;
  merged_into?: string;
  merged_provenance?: MergedProvenance[];
  /** what can't be shown, and why */
  notes?: string[];
  /** its submission or replay chose max_attempts */
  own_attempts?: boolean;
  /** its submission chose timeout_ms */
  own_timeout?: boolean;
  params?: unknown;
  /** the item that spawned it */
  parent?: string;
  /** of the last event that touched it */
  position: string;
  priority: number;
  progress?: Progress;
  provenance?: Provenance;
  queued_at?: string;
  reason?: string;
  result?: unknown;
  started_at?: string;
  state: ItemState;
  /** SubmittedBy is who submitted it, as the access layer knew; of a child, who submitted its parent. Empty: nobody who had logged in. */
  submitted_by?: string;
  tenant?: string;
  /** of the next or current attempt */
  timeout_ms: number;
  type: string;
  unread_signals?: number;
  /** Waits are the items that it waits for and that have not ended, at most MaxShownWaits of them; WaitsLeft counts them all. */
  waits?: string[];
  /** WaitsFor is the wait that the item is in, and UnreadSignals how many signals have come that no run has used up. */
  waits_for?: WaitShown;
  waits_left?: number;
  worker?: string;
}

/** ItemError is an item's last failure. */
export interface ItemError {
  code: string;
  message: string;
  retryable: boolean;
}

/**
 * List asks for a page of items, newest state change first. An item must match all of the filters.
 *
 * Error finds items by the words of their last failure's message and code; all of them must occur, in any order, and the last may be the beginning of a word. A word is a run of letters and digits of 2 bytes or more, in upper or lower case; only the first 40 bytes of a longer one count. The first 24 different words of an item are known, beginning with those of its code; the first 8 of a query count.
 *
 * Q finds what a person types: the item with that id; else the items whose type, tenant, dedup key or a label's value equals it, and those that Error would find.
 */
export interface List {
  /** only items of this batch, or spawned by this item */
  batch?: string;
  /** only those whose last failure has this code */
  code?: string;
  /** only those created after this time */
  created_after?: string;
  /** only those created before this time */
  created_before?: string;
  /** the next_cursor of the page before */
  cursor?: string;
  /** only those whose last failure has all these words, in any order; the last may be the beginning of one */
  error?: string;
  /** only with this label: name=value */
  label?: string;
  /** how many at most: 1 to 1,000, 50 if left out */
  limit?: number;
  min_position?: string;
  /** an item's id; else a type, tenant, dedup key or label's value, or words of the last failure */
  q?: string;
  /** only items that are in their state for this reason */
  reason?: string;
  /** only items that this schedule has made */
  schedule?: string;
  /** only in this state: queued, waiting, claimed, running, completed, failed, dead, cancelled, merged */
  state?: string;
  /** only of this tenant */
  tenant?: string;
  /** only of this type */
  type?: string;
  /** only items that wait for the signal of this name */
  waits_for?: string;
  /** only items that this worker holds now: claimed or running */
  worker?: string;
}

/** ListRejected asks for a page of rejected submissions, newest first. */
export interface ListRejected {
  /** only with this code */
  code?: string;
  /** the next_cursor of the page before */
  cursor?: string;
  /** how many at most: 1 to 1,000, 50 if left out */
  limit?: number;
  min_position?: string;
  /** only of this type */
  type?: string;
}

/** Listed is a page. Items come without params and result. A page may be shorter than the limit, even empty, and still have a NextCursor: a page reads a bounded number of entries. No NextCursor: the end. */
export interface Listed {
  items: Item[];
  next_cursor?: string;
  /** Stale says why the page may lack items: the node that answers is cut off from the others, or behind them; empty: it has all. */
  stale?: string;
}

/** LogRecord is one line of an item's log. It is also the body of a message on the item's log subject. */
export interface LogRecord {
  at: string;
  attempt?: number;
  /** debug, info, warn, error */
  level: string;
  /** at most 8 KiB */
  message: string;
  seq?: number;
  worker?: string;
}

/** Logs asks for an item's log records, oldest first. */
export interface Logs {
  /** After asks for the first records behind this sequence, in place of the last ones: 0 for those from the beginning. */
  after?: number;
  id: string;
  /** the last so many, of 4 MiB together; default 1,000, at most 10,000 */
  limit?: number;
}

/** LogsReply is an item's log. More says that there are records behind these, if they were asked for by After. */
export interface LogsReply {
  more?: boolean;
  records: LogRecord[];
}

/** MergedProvenance is one submission that was merged into an item. */
export interface MergedProvenance {
  at: string;
  id: string;
  source?: string;
  trigger?: string;
}

/** NamespaceChange changes a namespace that is there. What it leaves out stays as it is. */
export interface NamespaceChange {
  /** empty: none */
  accept?: string[];
  limits?: NamespaceLimitsChange;
  /** the namespace's name */
  name: string;
  /** empty: any */
  node?: string;
  paused?: boolean;
  /** 1 to MaxWeight */
  weight?: number;
}

/** NamespaceGet asks for one namespace, answered with a NamespaceInfo. */
export interface NamespaceGet {
  min_position?: string;
  /** the namespace's name */
  name: string;
}

/** NamespaceInfo is a namespace, and how it is. */
export interface NamespaceInfo {
  /** Accept lists the namespaces whose clients may hand work to this one. */
  accept?: string[];
  /** CreatedAt is when it was added. One that is removed and added again has another. */
  created_at: string;
  limits?: NamespaceLimits;
  name: string;
  /** the node that should own its log; empty: any */
  node?: string;
  paused?: boolean;
  /** at most 256 bytes */
  removed_by?: string;
  /** Removing says that it is being removed: what it holds is destroyed, and then it is taken off the list. RemovedBy is who asked for that. */
  removing?: boolean;
  /** file, api */
  source: string;
  /** left out: the engine that answers holds none but the default one */
  state?: NamespaceState;
  /** Weight is that of its share of a process's processors, while they are all taken: 1 to MaxWeight; 0 stands for 1. */
  weight?: number;
}

/** NamespaceLimits bounds what a namespace uses. 0 sets no limit beside the engine's. */
export interface NamespaceLimits {
  /** of its object store of large documents */
  max_document_bytes?: number;
  /** of its event stream */
  max_log_bytes?: number;
  /** items queued or waiting */
  max_queued?: number;
  /** of all its users together */
  requests_per_second?: number;
}

/** NamespaceLimitsChange changes a namespace's limits. What is nil stays as it is. */
export interface NamespaceLimitsChange {
  /** from 1 MiB */
  max_document_bytes?: number;
  /** from 1 MiB */
  max_log_bytes?: number;
  /** 0: no limit, for all of these */
  max_queued?: number;
  /** of all its users together */
  requests_per_second?: number;
}

/** NamespaceInfo describes a namespace. The default namespace has none: it is there by itself. */
export interface NamespaceRecord {
  /** Accept lists the namespaces whose clients may hand work to this one. */
  accept?: string[];
  /** CreatedAt is when it was added. One that is removed and added again has another. */
  created_at: string;
  limits?: NamespaceLimits;
  name: string;
  /** the node that should own its log; empty: any */
  node?: string;
  paused?: boolean;
  /** at most 256 bytes */
  removed_by?: string;
  /** Removing says that it is being removed: what it holds is destroyed, and then it is taken off the list. RemovedBy is who asked for that. */
  removing?: boolean;
  /** file, api */
  source: string;
  /** Weight is that of its share of a process's processors, while they are all taken: 1 to MaxWeight; 0 stands for 1. */
  weight?: number;
}

/** NamespaceRemoval answers a removal with the namespace as it was. */
export interface NamespaceRemoval {
  namespace: NamespaceInfo;
  position?: string;
  /** left out of the answer to a dry run */
  removed?: boolean;
}

/** NamespaceRemove removes a namespace with all that it holds. It is refused while items of it are live, and while what it holds is not known, unless Force is set. DryRun removes nothing, and answers what would be destroyed, live or not. */
export interface NamespaceRemove {
  /** who asks, at most 256 bytes */
  by?: string;
  /** remove nothing, and answer what would be destroyed */
  dry_run?: boolean;
  /** destroy live items, and what is not known */
  force?: boolean;
  /** the namespace's name */
  name: string;
}

/** NamespaceReply answers a change of a namespace, which is left out if it has been removed since. */
export interface NamespaceReply {
  namespace?: NamespaceInfo;
  position?: string;
  /** it was so already */
  repeat?: boolean;
}

/** NamespaceSet adds a namespace, a log of its own in the same engine, or changes one. What it leaves out stays as it is, or is the default of a new one. */
export interface NamespaceSet {
  /** empty: none */
  accept?: string[];
  limits?: NamespaceLimitsChange;
  /** a-z and 0-9 with single - between them, at most 32 bytes */
  name: string;
  /** empty: any */
  node?: string;
  paused?: boolean;
  /** 1 to MaxWeight */
  weight?: number;
}

/** NamespaceState says how a namespace is, as the node that answers knows it. */
export interface NamespaceState {
  /** how the owner before it went, if there was one that the node knows of */
  because?: string;
  /** why it is failed or unknown */
  error?: string;
  /** of its last event */
  last_at?: string;
  /** of its event stream */
  log_bytes?: number;
  /** the node that owns its log */
  owner?: string;
  /** running, starting, failed, removing, unknown */
  state: string;
  /** its items by state, zeros left out */
  states?: { [key: string]: number };
  /** messages on its subjects for submissions that are stored and not decided */
  undecided?: number;
}

/** NamespacesReply lists the namespaces, by name, without the default one. */
export interface NamespacesReply {
  namespaces: NamespaceInfo[];
  position?: string;
  /** as in [Listed] */
  stale?: string;
}

/** Node says how one node is. */
export interface Node {
  /** Copying lists the streams that its NATS server has not caught up with since it started. It does not count as a whole replica of them. */
  copying?: string[];
  /** CutOff says why a standby knows no more of the log; empty: it follows it. */
  cut_off?: string;
  damaged?: DamagedReplica[];
  /** of the ownership, if it is this node's */
  epoch?: number;
  /** Full says why the node has no room for new work: disk_low or store_full; empty: it has. As the owner it would refuse new work. */
  full?: string;
  /** address of its HTTP server */
  http?: string;
  lag_events: number;
  /** Lag is how long its store has made no step although there are events to project. */
  lag_ms?: number;
  /** LeadsLog is set if the node's own NATS server leads the event stream. */
  leads_log?: boolean;
  /** address of its NATS server */
  nats?: string;
  node: string;
  /** Online is false for a node of the cluster that has not answered; then only Node is set. */
  online: boolean;
  /** who owns the log, as this node knows */
  owner?: string;
  /** Position is the end of the log as the node knows it, Projected that of its own store, and LagEvents the events in between. */
  position?: string;
  projected?: string;
  /** Recovering is set while an owner can't decide yet. */
  recovering?: boolean;
  /** ReplicasRead is when the node had last read the replicas on its own disk through; zero: it has not yet, or has no NATS server of its own. Damaged are those that it found so. */
  replicas_read?: string;
  role?: string;
  /** Settings is a digest of the settings that must agree on all nodes. */
  settings?: string;
  /** SettingsDiffer is set if they are others than the owner's. */
  settings_differ?: boolean;
  /** Since is when the node took its present role, by its own clock, and TookOverFrom who owned the log before an owner that stood by. */
  since?: string;
  /** Starting says what a node that starts does, or waits for; empty: it has started. */
  starting?: string;
  /** TookOverBecause says how that one went; empty where TookOverFrom is. */
  took_over_because?: string;
  took_over_from?: string;
  version?: string;
}

/** NodeRemove takes a dead node out of the cluster for good. */
export interface NodeRemove {
  /** the node's name */
  node: string;
}

/** NodesReply answers nodes. */
export interface NodesReply {
  /** the node that answers, as it sees the others */
  answered: string;
  /** its name; empty on an existing NATS */
  cluster?: string;
  /** by name */
  nodes: Node[];
  /** of the log; empty: none answers */
  owner?: string;
  /** Streams are those that hold primary data; empty where it is not known. */
  streams?: StreamReplicas[];
  /** Warnings say what is at risk now; empty: nothing. */
  warnings?: string[];
}

/** OK answers a request whose reply carries no data. */
export interface OK {
  ok: boolean;
}

/** Offer says how many more items a worker takes that registered with Offers. It replaces the offer before, and each item that is sent takes one of it. An engine that becomes the owner knows of no offer. */
export interface Offer {
  /** 0 to the worker's slots */
  room: number;
  session: string;
  worker: string;
}

/** Outcome tells a parent's continuation how one child ended. */
export interface Outcome {
  code?: string;
  error?: string;
  id: string;
  reason?: string;
  result?: unknown;
  /** the results together pass MaxOutcomesBytes: get it by id */
  result_omitted?: boolean;
  /** absent: it has been forgotten */
  state?: ItemState;
  type: string;
}

/** Output asks for an item's output, from its beginning or behind a chunk. */
export interface Output {
  /** the seq of the last chunk that the reader has */
  after?: number;
  id: string;
}

/** OutputChunk is a part of what one run of an item has written. */
export interface OutputChunk {
  at: string;
  attempt: number;
  /** in place of text */
  base64?: string;
  /** the output has reached its bound here */
  cut?: boolean;
  /** Offset is the number of bytes that the run has written before. If it is more than the reader has of this run, the bytes between are no longer kept. */
  offset: number;
  /** Reset says that it is the first chunk of a run: a reader drops what an earlier run has written. */
  reset?: boolean;
  /** its position, which grows with each chunk */
  seq: number;
  text?: string;
}

/** OutputReply is a part of an item's output. With More there are chunks behind these. */
export interface OutputReply {
  chunks: OutputChunk[];
  more?: boolean;
}

/** OutputSummary says how much of a run's output is stored. It answers an OutputWrite. */
export interface OutputSummary {
  /** the offset of the run's next chunk */
  bytes: number;
  /** Cut says that the output has reached its bound. What is beyond is not stored, of a chunk and of all that follow. */
  cut?: boolean;
}

/** OutputWrite adds a chunk to the output of an item, by the run that has it. The first chunk of a run takes the place of what an earlier run has written; it may be empty. */
export interface OutputWrite {
  /** in place of text */
  base64?: string;
  id: string;
  /** Offset is the number of bytes that the run has written before this chunk: what is stored already of a chunk that is sent again is not stored twice. Left out, the chunk is stored behind what is there. */
  offset?: number;
  text?: string;
  token: string;
}

/** PastPosition names the event up to which an item's history is shown. */
export interface PastPosition {
  at: string;
  /** nothing has happened to it since */
  latest: boolean;
  position: string;
}

/** Pause holds the items of a type back until it is resumed, or until a time. For a paused type it changes that time. */
export interface Pause {
  /** at most 256 bytes */
  by?: string;
  /** from now on */
  for_ms?: number;
  /** at most 256 bytes */
  reason?: string;
  type: string;
  /** when it ends by itself; at most one of Until and For */
  until?: string;
}

/** Pause records that a type is paused. */
export interface PauseInfo {
  at: string;
  by?: string;
  reason?: string;
  /** when it ends by itself; zero: never */
  until?: string;
  /** UntilSet is the time of the last change of Until; zero: none since the pause began. */
  until_set?: string;
}

/** PendingItem is an item that has not ended. MergedInto is the item that is waited for in its place, whose state it shows. */
export interface PendingItem {
  id: string;
  merged_into?: string;
  state: ItemState;
}

/** PerSecond are means over the last minute, or over the time since the engine has started if that is less. */
export interface PerSecond {
  completed: number;
  dead: number;
  /** attempts */
  failed: number;
  /** created items, merged ones among them */
  submitted: number;
}

/** PresentToken presents a token: the item gets the signal that it is for. */
export interface PresentToken {
  /** in its place */
  error?: SignalError;
  /** the signal's payload: any JSON document of at most 64 KiB */
  result?: unknown;
  token: string;
}

/** PriorityOverride holds the settings that a priority may have of its own. Nil fields follow the type. */
export interface PriorityOverride {
  backoff?: Backoff;
  max_attempts?: number;
  timeout_ms?: number;
}

/** Probe is the body of a message on a worker's probe subject: the engine asks whether the worker is well. */
export interface Probe {
  /** goes into the answer */
  nonce: string;
}

/** Probed answers a probe. One without failing checks is a good answer. */
export interface Probed {
  failing?: FailingCheck[];
  /** of the probe */
  nonce: string;
  session: string;
  worker: string;
}

/** Progress is the progress that a run reports. */
export interface Progress {
  at: string;
  message?: string;
  /** 0 to 100 */
  percent: number;
}

/** Provenance says why an item exists. */
export interface Provenance {
  source?: string;
  trigger?: string;
}

/** Purge forgets an item that has ended. */
export interface Purge {
  id: string;
  /** why; the event records it */
  reason?: string;
}

/** PurgeRejected forgets a rejected submission. */
export interface PurgeRejected {
  /** why; the event records it */
  reason?: string;
  /** the position of its rejected event */
  seq: number;
}

/** PurgedRejected answers a PurgeRejected. */
export interface PurgedRejected {
  position: string;
  seq: number;
}

/** QueueStep narrows what is accepted as a queue grows: where more than Over items would wait, it admits only items of MinPriority and above (0: of no priority), or from one of Sources ([Provenance].Source). The last step that is exceeded counts. */
export interface QueueStep {
  min_priority?: number;
  over: number;
  sources?: string[];
}

/** RateLimit lets N through per interval, and up to Burst at once. Unless Burst is set, a limit at submit lets N through at once, and one at dispatch never lets more than N begin in any interval. */
export interface RateLimit {
  /** submit, dispatch */
  at: string;
  /** 0: not set */
  burst?: number;
  interval_ms: number;
  n: number;
  /** type, tenant, or label:NAME */
  per: string;
}

/** ReadEvents asks for events of the log, in order, in whole decisions. It begins at FromSeq, or with the first event stored at Since or later; with neither, behind the end. */
export interface ReadEvents {
  from_seq?: number;
  /** only of this item */
  id?: string;
  /** only of these kinds */
  kinds?: string[];
  /** only of items with this label: name=value */
  label?: string;
  /** Limit and MaxBytes bound the reply: at most 1,000 events and 1 MiB, which are the defaults. One event is sent in any case. */
  limit?: number;
  max_bytes?: number;
  since?: string;
  /** only of items of this tenant */
  tenant?: string;
  /** only of these types */
  types?: string[];
  /** Wait is the time to wait for an event if there is none yet; at most a minute. */
  wait_ms?: number;
}

/** Register announces a worker. */
export interface Register {
  capabilities?: string[];
  host?: string;
  /** Most bounds how many items of a type run at once in the worker, below Slots. */
  most?: { [key: string]: number };
  /** Offers says that a free slot is no offer: the worker gets no more than it asks for with Offer. */
  offers?: boolean;
  /** Probe says that the worker listens on the subject Names.Probe, and answers. */
  probe?: boolean;
  /** Session names this life of the worker: letters, digits, - and _, at most MaxSession bytes, new for each life. The worker listens on Names.RunsOf(Session), for items, before it registers. An id that is alive under another session is refused with worker_id_in_use. */
  session: string;
  slots: number;
  types: string[];
  version?: string;
  worker: string;
}

/** Registered answers a Register. */
export interface Registered {
  heartbeat_ms: number;
  /** by type */
  lease_ms: { [key: string]: number };
  session: string;
}

/** Rejected is a submission that became no item. Text has its original body, or Bytes, if that is no text. */
export interface Rejected {
  at: string;
  bytes?: string;
  code: string;
  headers?: { [key: string]: string[] };
  intake_seq?: number;
  message: string;
  /** of its rejected event */
  seq: number;
  /** of the body, in bytes */
  size: number;
  subject?: string;
  text?: string;
  truncated?: boolean;
  /** empty if it could not be read */
  type?: string;
}

/** RejectedListed is a page of rejected submissions, without their originals. */
export interface RejectedListed {
  next_cursor?: string;
  rejected: Rejected[];
  /** as in [Listed] */
  stale?: string;
}

/** Replay queues a dead or cancelled item again. Fields that are left out stay as they were; MaxAttempts counts further attempts, by default as many as the item's submission or last replay chose, else as its type has. Params replace the item's; Patch is a JSON merge patch (RFC 7396) applied to them. At most one of the two may be given. */
export interface Replay {
  id: string;
  max_attempts?: number;
  params?: unknown;
  patch?: unknown;
  priority?: number | "low" | "medium" | "high";
  reason?: string;
}

/** ReplayRejected submits a rejected submission anew, with corrections: Params, if given, replace its body, Type its type; of Headers each replaces the one of its name, and an empty one drops it. The new item's trigger is "rejected:SEQ". ID is the new item's, so that a repeated request makes one item; empty: a fresh one. */
export interface ReplayRejected {
  headers?: { [key: string]: string };
  id?: string;
  params?: unknown;
  /** the position of its rejected event */
  seq: number;
  type?: string;
}

/** ReplayReply answers a Replay, and a Purge, which leaves no state. */
export interface ReplayReply {
  id: string;
  position: string;
  state?: ItemState;
}

/** Report tells the engine about one run. Requests carry an array of reports, at most 1,000; they are decided in order, each on its own. */
export interface Report {
  /** 0: not said */
  attempt?: number;
  /** of checkpoint */
  checkpoint?: unknown;
  child_policy?: "fail" | "continue";
  /** Of spawn. No Continuation: the item completes when its children have. */
  children?: Submit[];
  /** ChildrenRef, in place of Children, refers to an object that holds them as a JSON array: children too large for a message are put there first. */
  children_ref?: unknown;
  code?: string;
  continuation?: ContinueWith;
  /** of snooze */
  delay_ms?: number;
  error?: string;
  event: string;
  id: string;
  /** of progress */
  message?: string;
  /** of progress: 0 to 100 */
  percent?: number;
  reason?: string;
  result?: unknown;
  retry_after_ms?: number;
  /** default true */
  retryable?: boolean;
  session?: string;
  /** of an end, wait, snooze, spawn, progress, checkpoint or token: the run has started, which no report has said */
  start?: boolean;
  /** of complete: refused while signals have come that the run was not given */
  strict?: boolean;
  token: string;
  /** of wait */
  wait?: WaitFor;
  /** of token */
  wait_token?: WaitToken;
  worker: string;
}

/** Reported answers a Report. */
export interface Reported {
  attempt?: number;
  deadline?: string;
  error?: Error;
  ok: boolean;
  position?: string;
  /** State is that of the item. A refusal has it only where the run was cancelled. */
  state?: ItemState;
  /** Timeout bounds the attempt, from its start. */
  timeout_ms?: number;
}

/** Reschedule changes a queued item's order. */
export interface Reschedule {
  available_at?: string;
  delay_ms?: number;
  id: string;
  now?: boolean;
  priority?: number | "low" | "medium" | "high";
}

/** Rescheduled answers a Reschedule. */
export interface Rescheduled {
  id: string;
  position: string;
  state: ItemState;
}

/** Resume ends a pause. */
export interface Resume {
  by?: string;
  type: string;
}

/** Retention says how long items are kept once they have ended. Zero fields have the defaults. */
export interface Retain {
  cancelled_ms?: number;
  completed_ms?: number;
  dead_ms?: number;
  merged_ms?: number;
}

/** Retention describes what the engine keeps, in replies to info and cut. */
export interface Retention {
  /** of them, past their time, but with a key or an item that refers to them */
  held?: number;
  /** when the last round of snapshots ended */
  last_cut?: string;
  /** that the log holds */
  log_events: number;
  /** the first event that the log holds */
  log_first: string;
  log_last: string;
  /** in all */
  pruned: number;
  /** items */
  retained: number;
  /** how far the one under way has come: begun, carrying, syncing, cutting */
  round?: string;
}

/** RunRef names one run. */
export interface RunRef {
  id: string;
  token: string;
}

/** Schedule sets a schedule: periodic work. */
export interface Schedule {
  /** of an interval: one of its ticks; left out: now, or as it was */
  anchor?: string;
  /** five fields, or @hourly and the like */
  cron?: string;
  /** instead of Cron */
  every_ms?: number;
  labels?: { [key: string]: string };
  max_attempts?: number;
  /** skip, one (left out), all */
  missed?: string;
  /** the schedule's name */
  name: string;
  /** distinct (left out), merge, defer, supersede */
  overlap?: string;
  params?: unknown;
  paused?: boolean;
  priority?: number | "low" | "medium" | "high";
  tenant?: string;
  timeout_ms?: number;
  type: string;
  /** IANA name; left out: UTC */
  zone?: string;
}

/** ScheduleFire asks for an item beside the ticks, answered with a Submitted. ID, if given, is the item's: the same request again then gives the same item. */
export interface ScheduleFire {
  id?: string;
  /** the schedule's name */
  name: string;
}

/** ScheduleInfo is a schedule and its place among its ticks. */
export interface ScheduleInfo {
  /** of an interval: one of its ticks; left out: now, or as it was */
  anchor?: string;
  /** five fields, or @hourly and the like */
  cron?: string;
  /** instead of Cron */
  every_ms?: number;
  labels?: { [key: string]: string };
  /** why the last tick's item was refused */
  last_error?: Error;
  last_item?: string;
  /** of LastItem, while the engine keeps it */
  last_state?: ItemState;
  last_tick?: string;
  max_attempts?: number;
  /** skip, one (left out), all */
  missed?: string;
  /** the schedule's name */
  name: string;
  /** left out: no tick will come */
  next?: string;
  /** distinct (left out), merge, defer, supersede */
  overlap?: string;
  params?: unknown;
  paused?: boolean;
  priority?: number | "low" | "medium" | "high";
  /** file, api */
  source: string;
  tenant?: string;
  timeout_ms?: number;
  type: string;
  /** IANA name; left out: UTC */
  zone?: string;
}

/** ScheduleName names a schedule to remove, pause or resume. */
export interface ScheduleName {
  /** the schedule's name */
  name: string;
}

/** Schedule is periodic work. */
export interface ScheduleRecord {
  /** with Every: a tick, from which the others are counted */
  anchor?: string;
  /** five fields, or @hourly and the like */
  cron?: string;
  /** instead of Cron */
  every_ms?: number;
  labels?: { [key: string]: string };
  /** why the last tick has no item, if its submission was refused */
  last_code?: string;
  last_error?: string;
  last_item?: string;
  last_tick?: string;
  max_attempts?: number;
  missed: string;
  name: string;
  /** the tick that is due next; zero: none */
  next?: string;
  /** what becomes of a tick whose previous item has not ended; distinct: both run */
  overlap: "merge" | "distinct" | "supersede" | "defer";
  params?: unknown;
  paused?: boolean;
  priority?: number;
  /** file, api */
  source: string;
  tenant?: string;
  timeout_ms?: number;
  type: string;
  /** IANA; empty: UTC */
  zone?: string;
}

/** ScheduleReply answers a change of a schedule; Schedule is left out of the answer to a removal. */
export interface ScheduleReply {
  position?: string;
  /** it was so already */
  repeat?: boolean;
  schedule?: ScheduleInfo;
}

/** SchedulesReply lists the schedules, by name. */
export interface SchedulesReply {
  position?: string;
  schedules: ScheduleInfo[];
  /** as in [Listed] */
  stale?: string;
}

/** Selection says which items are meant, and which page of them. Since and Until are about when they ended, both ends included. Cause is of dead items alone; see [Cause]. */
export interface Selection {
  /** only items of this batch, or spawned by this item */
  batch?: string;
  /** only items that died of this cause */
  cause?: string;
  /** only those whose last failure has this code */
  code?: string;
  /** only those created after this time */
  created_after?: string;
  /** only those created before this time */
  created_before?: string;
  /** the next_cursor of the page before */
  cursor?: string;
  /** only those whose last failure has all these words, in any order; the last may be the beginning of one */
  error?: string;
  /** only with this label: name=value */
  label?: string;
  /** how many at most: 1 to 1,000, 50 if left out */
  limit?: number;
  min_position?: string;
  /** an item's id; else a type, tenant, dedup key or label's value, or words of the last failure */
  q?: string;
  /** only items that are in their state for this reason */
  reason?: string;
  /** only items that this schedule has made */
  schedule?: string;
  /** only items that ended at this time or later */
  since?: string;
  /** only in this state: queued, waiting, claimed, running, completed, failed, dead, cancelled, merged */
  state?: string;
  /** only of this tenant */
  tenant?: string;
  /** only of this type */
  type?: string;
  /** only items that ended at this time or before */
  until?: string;
  /** only items that wait for the signal of this name */
  waits_for?: string;
  /** only items that this worker holds now: claimed or running */
  worker?: string;
}

/** ShowApproval asks for the last question that an item has asked. */
export interface ShowApproval {
  id: string;
  min_position?: string;
}

/** ShowLink asks for the question that a link is for. */
export interface ShowLink {
  token: string;
}

/** Signal sends an item a signal. */
export interface Signal {
  id: string;
  /** a signal with the id of one that has come is that one */
  msg_id?: string;
  /** 1 to 256 bytes */
  name: string;
  /** at most 64 KiB */
  payload?: unknown;
}

/** SignalError is what somebody who presents a token says instead of a result. */
export interface SignalError {
  /** at most 256 bytes */
  code?: string;
  /** cut to 4 KiB */
  message?: string;
}

/** Signalled answers a Signal. */
export interface Signalled {
  id: string;
  position: string;
  /** it had come before */
  repeat?: boolean;
  state: ItemState;
}

/** SiteState says how a site at the edge is, as last heard. */
export interface SiteState {
  connected: boolean;
  /** the last message of the site's stream that is decided */
  decided: number;
  /** zero: not since the engine has started */
  heard_at?: string;
  /** the site mirrors the log, and decided and waiting are events that it has and lacks */
  mirror?: boolean;
  site: string;
  /** messages behind it, as of heard_at */
  waiting: number;
}

/** State is the engine as of a moment. */
export interface State {
  /** of the last event */
  at: string;
  /** of death, with dead items */
  causes: number;
  /** workers that are to drain */
  drains?: DrainMark[];
  epoch: number;
  /** without the default one */
  namespaces?: NamespaceRecord[];
  owner?: string;
  position: string;
  rejected: number;
  schedules: ScheduleRecord[];
  types: TypeState[];
  /** only circuits that are not closed */
  worker_circuits?: { [key: string]: Circuit };
}

/** StateAt asks for the engine's state as of a position, or a time; at least one of them. The engine streams progress replies before the last. */
export interface StateAt {
  at_position?: string;
  at_time?: string;
}

/** StateDurations is the time that an item has spent in each state, up to its last event, in whole milliseconds. The sum is the time from its created event to its last, less the time between an end and a replay. */
export interface StateDurations {
  /** queued and not due: a delay, a backoff, a snooze */
  backed_off_ms?: number;
  /** waiting for other items */
  held_ms?: number;
  /** running */
  ran_ms?: number;
  /** claimed, until it started */
  starting_ms?: number;
  /** queued and due, until it was claimed */
  waited_ms?: number;
}

/** StateReply answers a StateAt. The engine streams progress replies (Done false) before the last, which alone has State. */
export interface StateReply {
  done: boolean;
  elapsed_ms: number;
  /** replayed so far */
  events: number;
  state?: State;
  total: number;
}

/** StatsReply is the engine at a glance. Counts are exact as of Position; rates, means and recoveries cover this process only, since it started. */
export interface StatsReply {
  ages: Ages;
  /** Alarms lists what keeps the engine from its work, or soon will, the gravest first. */
  alarms: Alarm[];
  /** Attention lists what else someone should look at, by kind: recent deaths first, the others in the order of [AttentionKinds]. */
  attention: Attention[];
  /** Capacity bounds InFlight: the sum of the types' capacities, at most the engine's own max_running. */
  capacity: number;
  /** dispatched or running, of all types */
  in_flight: number;
  /** MaxQueued bounds the items queued or waiting over all types; 0: no limit. */
  max_queued?: number;
  mean_run_ms: number;
  /** PerSecond, MeanRun, Ages and Scheduled: as of a type, over all. */
  per_second: PerSecond;
  position: string;
  /** Recoveries counts what the engine has repaired since it started, by cause (see [Recoveries]); zeros are left out. RecoveriesHour and RecoveriesDay count those of the last hour and the last day. */
  recoveries: { [key: string]: number };
  recoveries_last_day: { [key: string]: number };
  recoveries_last_hour: { [key: string]: number };
  rejected: number;
  scheduled: number;
  /** Sites lists the sites at the edge, as configured. */
  sites?: SiteState[];
  /** Slots is the number of slots of all active workers. */
  slots: number;
  /** of all types, by state, zeros left out */
  states: { [key: string]: number };
  types: TypeStats[];
  /** Circuits lists the circuits of workers that are not closed, by worker. */
  worker_circuits?: Circuit[];
  /** that are not dead */
  workers: number;
  /** WorkersByStatus counts active, draining and unhealthy workers, and those that died within the last ten minutes. All four are always present. */
  workers_by_status: { [key: string]: number };
}

/** StatsRequest is the body of stats and types, which ask for nothing else. An empty body will do too. */
export interface StatsRequest {
  min_position?: string;
}

/** StreamReplicas says where a stream is. */
export interface StreamReplicas {
  /** Behind names the servers that have less of it than the leader or can't be reached; empty without a leader. */
  behind?: string[];
  /** empty: none is known */
  leader?: string;
  /** LeaderlessSince is when the node that answers saw first that there is none. */
  leaderless_since?: string;
  /** Replicas is the number of servers that should have the stream. */
  replicas: number;
  /** Spare is how many more servers may be lost before the stream can't be written; below 0 it can't be now. */
  spare: number;
  stream: string;
}

/** Submit asks for a new item. */
export interface Submit {
  /** After are the items that must have ended first, at most events.MaxAfter; AfterPolicy says what a bad end of one does. */
  after?: string[];
  after_policy?: "cancel" | "dead" | "run";
  available_at?: string;
  /** Batch is the batch that it belongs to. */
  batch?: string;
  capabilities?: string[];
  dedup_key?: string;
  /** DedupPolicy says what becomes of it if its dedup key is taken, and DedupWindow how long the key stays taken once it has completed. Left out, they are the type's. */
  dedup_policy?: "merge" | "distinct" | "supersede" | "defer";
  dedup_window_ms?: number;
  delay_ms?: number;
  /** EstimatedDuration is the likely duration of a run. The estimated waits of the items behind it go by it; unlike timeout_ms it bounds nothing. */
  estimated_duration_ms?: number;
  /** ExpiresAt is the time at which the item is cancelled if it has not started. */
  expires_at?: string;
  id?: string;
  idempotency_key?: string;
  labels?: { [key: string]: string };
  max_attempts?: number;
  /** Namespace is another namespace that the item is handed to, and which must accept that; in a request to submit alone. Empty: the one that is asked. */
  namespace?: string;
  params?: unknown;
  priority?: number | "low" | "medium" | "high";
  /** Signal goes to the item, or to the one that this repeats or is merged into: it starts an item or wakes one, in one decision. Not of a child, and not with Namespace. */
  signal?: FirstSignal;
  source?: string;
  tenant?: string;
  timeout_ms?: number;
  traceparent?: string;
  trigger?: string;
  type: string;
}

/** Submitted answers a Submit. In the answer to an array, an element that was refused has only Error. */
export interface Submitted {
  /** ContentDiffers: the first submission with this idempotency key had other content. That one counts. */
  content_differs?: boolean;
  error?: Error;
  id?: string;
  merged_into?: string;
  /** Namespace is the one that the item was handed to, and then has no position here. */
  namespace?: string;
  not_raised?: ItemState;
  position?: string;
  /** Raised: the item that it was merged into had a lower priority, and has taken this one's. NotRaised is the state in which that item keeps its lower priority. */
  raised?: boolean;
  /** it was already there */
  repeat?: boolean;
  state?: ItemState;
}

/** Ticks previews the ticks of a timing. It needs no schedule. */
export interface Ticks {
  /** one of the interval's ticks; now if left out */
  anchor?: string;
  /** how many: 1 to 100, 5 if left out */
  count?: number;
  /** five fields, or @hourly and the like */
  cron?: string;
  /** an interval in milliseconds, in place of cron */
  every_ms?: number;
  /** the time zone of cron, such as Europe/Berlin; UTC if left out */
  zone?: string;
}

/** TicksReply has the ticks, each with the offset of its time zone. There are fewer than asked for where the next is more than ten years after the one before. */
export interface TicksReply {
  ticks: string[];
}

/** TokenPresented answers a PresentToken. It is the same for the same answer again. */
export interface TokenPresented {
  /** of the item */
  id: string;
}

/** Tree asks for an item with the items that it has spawned, and those above it. */
export interface Tree {
  /** levels below the item; default 10, at most 100 */
  depth?: number;
  id: string;
  /** items below it; default 200, at most 10,000 */
  limit?: number;
  min_position?: string;
}

/** TreeNode is an item in a tree. */
export interface TreeNode {
  attempt?: number;
  children?: TreeNode[];
  /** of its last failure */
  code?: string;
  id: string;
  progress?: Progress;
  reason?: string;
  state: ItemState;
  /** Truncated says that it has further children, left out because of the depth or the limit. */
  truncated?: boolean;
  type: string;
}

/** TreeReply holds an item with the items below it, and the path of items above it. */
export interface TreeReply {
  /** Nodes counts the items below the root that are shown. */
  nodes: number;
  /** Path are the items above: the item that spawned it is the last. */
  path?: TreeNode[];
  /** the item */
  root: TreeNode;
}

/** TypeRemove forgets a type that nothing uses. */
export interface TypeRemove {
  type: string;
}

/** TypeReply is one type. */
export interface TypeReply {
  /** nil: closed, or none exists */
  circuit?: Circuit;
  /** Defaults and Unset as in TypesReply; in replies about one type over HTTP. */
  defaults?: TypeSettings;
  /** nil: it is not */
  paused?: PauseInfo;
  /** SetInFile names the settings that engine.toml makes for the type, as it spells them (lease, backoff.max): requests can't change them. */
  set_in_file?: string[];
  settings: TypeSettings;
  /** of the settings: default, file, api */
  source: string;
  type: string;
  unset?: TypeSettings;
}

/** TypeSettings are a type's settings, all filled in. */
export interface TypeSettings {
  /** waiting this long equals one priority */
  age_step_ms: number;
  /** AssignBy says which worker with a free slot is assigned an item: most_free (the default), round_robin, or, for tenant and label:NAME, the same worker for all items with the same value, chosen by a hash. */
  assign_by?: string;
  backoff: Backoff;
  /** items dispatched or running at most */
  capacity: number;
  circuit?: CircuitSettings;
  /** laid over the built-in ones */
  codes?: { [key: string]: CodePolicy };
  /** Of what follows, the zero value is the default. */
  dedup_policy?: "merge" | "distinct" | "supersede" | "defer";
  /** a key stays taken so long after completion */
  dedup_window_ms?: number;
  /** GroupBy says what makes a group, among which the items of a priority take turns: tenant (the default), label:NAME, or none. */
  group_by?: string;
  /** items of one group that run at once; 0: no limit */
  group_capacity?: number;
  /** a run ends after so long without a word from its worker; for ack types, the ack-wait */
  lease_ms: number;
  max_attempts: number;
  max_attempts_set?: boolean;
  max_params_bytes: number;
  /** items queued or waiting; 0: no limit */
  max_queued?: number;
  /** PerPriority overrides some settings for items of a priority. */
  per_priority?: { [key: string]: PriorityOverride };
  /** lost leases until an item is dead; 0: DefaultPoisonAfter */
  poison_after?: number;
  /** whose slots the type's runs take as well */
  pool?: string;
  /** its share of the pool when it is contended; 0: 1 */
  pool_weight?: number;
  /** how items reach their workers: offer (the default) or ack */
  protocol?: string;
  queue_steps?: QueueStep[];
  rates?: RateLimit[];
  retain?: Retain;
  timeout_ms: number;
  /** TimeoutSet and MaxAttemptsSet say that somebody chose these two values, though it be the default: then no built-in policy of a failure code changes them. */
  timeout_set?: boolean;
}

/** TypeState is a type as of a moment. */
export interface TypeState {
  capacity: number;
  /** nil: closed */
  circuit?: Circuit;
  paused?: PauseInfo;
  /** zeros left out */
  queued_by_priority?: { [key: string]: number };
  /** items by state, zeros left out */
  states: { [key: string]: number };
  type: string;
}

/** TypeStats counts a type's items. */
export interface TypeStats {
  ages: Ages;
  /** AgesByPriority has the priorities at which something waits. */
  ages_by_priority?: { [key: string]: Ages };
  capacity: number;
  /** nil: closed, or none exists */
  circuit?: Circuit;
  /** DesiredWorkers is the number of workers that the type needs: see docs/reference/METRICS.md#desired_workers. */
  desired_workers: number;
  /** dispatched or running */
  in_flight: number;
  /** MaxQueued bounds the type's items queued or waiting; 0: no limit. */
  max_queued?: number;
  /** of the last minute's completed runs; 0 if there were none */
  mean_run_ms: number;
  /** Ages.Oldest */
  oldest_queued_ms?: number;
  /** nil: it is not */
  paused?: PauseInfo;
  per_second: PerSecond;
  queued_by_priority?: { [key: string]: number };
  /** Running counts what is claimed or running by the priority that it was dispatched with, zeros left out. */
  running_by_priority?: { [key: string]: number };
  /** Scheduled items are queued but not due yet: delayed, or in a backoff. */
  scheduled: number;
  /** of those workers, shared with their other types */
  slots: number;
  /** Starving items wait for more than 80 % of the time after which nothing that is newly submitted can overtake them: (9 - priority) × age_step. Items of priority 9 can't be overtaken. */
  starving: number;
  /** by state, zeros left out */
  states: { [key: string]: number };
  type: string;
  /** that serve the type and take work */
  workers: number;
}

/** TypesReply lists the types and their settings. Defaults are the settings of a type that has none of its own: the built-in ones, overridden by engine.toml. */
export interface TypesReply {
  defaults?: TypeSettings;
  /** as in [Listed] */
  stale?: string;
  types: TypeReply[];
  /** Unset shows the effect of each setting that is left out or 0. */
  unset?: TypeSettings;
}

/** Undrain ends the drain of a worker. */
export interface Undrain {
  /** at most 256 bytes */
  by?: string;
  worker: string;
}

/** Unregister takes a worker out. */
export interface Unregister {
  session: string;
  worker: string;
}

/** Verify asks a node to verify its store. */
export interface Verify {
  /** empty: whichever is asked */
  node?: string;
}

/** VerifyReply answers verify and rebuild. The engine streams progress replies (Done false) before the last. */
export interface VerifyReply {
  /** the first keys that differ */
  diff?: string[];
  /** of the store rebuilt from the log */
  digest?: string;
  done: boolean;
  elapsed_ms: number;
  equal?: boolean;
  /** replayed so far */
  events: number;
  /** of the live store */
  live?: string;
  /** whose store it is */
  node?: string;
  position?: string;
  total: number;
}

/** Wait asks for items once all of them have ended, or with Any one of them, or for what is known after Timeout. An item has ended when it is completed, dead or cancelled; for one that was merged into another, that other one counts. */
export interface Wait {
  /** answer once one of them has ended */
  any?: boolean;
  /** 1 to 1,000 */
  ids: string[];
  min_position?: string;
  /** at most 5 minutes; 30 s if left out */
  timeout_ms?: number;
}

/** WaitFor says what the run of a wait report ends in: the item waits for signals. */
export interface WaitFor {
  /** for a signal of each name; else for one, of any of them */
  all?: boolean;
  /** Ask is what it asks people, an [events.Question] without its number: the answer is a signal of the first of Names. Absent: nothing. */
  ask?: unknown;
  /** of fail; empty: wait_timed_out */
  code?: string;
  /** of fail */
  error?: string;
  for_ms?: number;
  /** of the signals; none: it waits for the deadline alone */
  names?: string[];
  /** of complete: at most 4 KiB */
  result?: unknown;
  /** Then says what becomes of the item at the deadline: continue, fail or complete. */
  then: string;
  /** Until is the deadline; For, in its place, how long it is away. One of them is needed. */
  until?: string;
}

/** WaitShown is what an item waits for. */
export interface WaitShown {
  all?: boolean;
  /** what it asks people; nil: nothing */
  ask?: AskShown;
  names?: string[];
  since: string;
  then: string;
  until: string;
}

/** WaitToken says, in a token report, that a run has made a token for its item: somebody outside who presents it sends the item the signal. */
export interface WaitToken {
  /** For makes it a link: whoever presents it answers the question of that name, as him. */
  for?: string;
  /** SHA-256 of the token's text, in lower-case hex; the text is ID-SECRET: see PROTOCOL.md */
  hash: string;
  /** of the signal */
  name: string;
}

/** Waited answers a Wait. Ended are the items that have ended, in the order asked, whole up to 1 MiB; a note of each of the others says what is left out. Pending are those that have not. Merged says into which item one that was asked for was merged, if that has ended; it stands in Ended once. */
export interface Waited {
  ended: Item[];
  merged?: { [key: string]: string };
  pending?: PendingItem[];
}

/** Why asks why an item is not running now. */
export interface Why {
  id: string;
  min_position?: string;
}

/** WhyReply answers a Why. Reasons come with the most telling one first; an item may have several at once. */
export interface WhyReply {
  /** when this was so */
  at: string;
  id: string;
  position?: string;
  reasons: BlockReason[];
  state: ItemState;
  type: string;
}

/** WorkerInfo is a registered worker; also the value in the work_workers bucket. */
export interface WorkerInfo {
  capabilities?: string[];
  /** nil: it is closed; in replies only */
  circuit?: Circuit;
  /** when it had been silent for too long */
  died_at?: string;
  /** as it last said itself */
  health?: Health;
  host?: string;
  /** items that it has claimed or runs */
  in_flight: number;
  last_seen: string;
  /** see Register */
  most?: { [key: string]: number };
  /** by its last Offer; what was sent since has used some of it */
  offered?: number;
  /** see Register */
  offers?: boolean;
  /** whether it answers probes */
  probe?: boolean;
  probed_at?: string;
  /** why it is unhealthy */
  reason?: string;
  registered_at: string;
  session: string;
  slots: number;
  status: "active" | "draining" | "unhealthy" | "dead";
  types: string[];
  version?: string;
  worker: string;
}

/** WorkersReply lists the registered workers and the ones that died recently. */
export interface WorkersReply {
  /** including those of workers that are not registered */
  drains?: DrainMark[];
  workers: WorkerInfo[];
}

/** Requests of which two do more than one: they are not repeated unless nobody has taken them. */
export const onlyOnce: ReadonlySet<string> = new Set([
  "node_remove",
  "type_remove",
  "replay",
  "purge",
  "bulk",
  "purge_rejected",
  "schedule_remove",
  "namespace_remove",
  "clock_accept",
]);
