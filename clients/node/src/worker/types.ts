import type { Outcome, SignalError, Submit } from "../wire.gen.js";

/** One work item as its handler sees it. */
export interface Item<P = any> {
  readonly id: string;
  /** That the item belongs to: the client's. */
  readonly namespace: string;
  readonly type: string;
  /** This run's number, from 1. */
  readonly attempt: number;
  readonly params: P;
  /** The params as they were submitted, for what JavaScript's numbers can't hold. */
  readonly text: string;
  readonly labels: Readonly<Record<string, string>>;
  /** When the signal is aborted with "timeout"; undefined: never. */
  readonly deadline: Date | undefined;
  /** The traceparent of the submission. */
  readonly trace: string | undefined;
  /** What an earlier attempt has saved last. */
  readonly checkpoint: unknown;
  /** Set if the item has spawned children, which have ended. */
  readonly continuation: { readonly name: string; readonly children: readonly Outcome[] } | undefined;
  /** Set if an earlier run has ended in a wait, which has ended. */
  readonly waited: EndedWait | undefined;
}

/** How a wait has ended. It is told to each run until one ends in an outcome: completed, another wait, children. */
export interface EndedWait {
  /** The deadline has ended it. */
  readonly timedOut: boolean;
  /** The signals that it has taken, in the order in which they came. */
  readonly signals: readonly ReceivedSignal[];
}

/** A signal that has come to the item. */
export interface ReceivedSignal {
  readonly number: number;
  readonly name: string;
  readonly payload?: unknown;
  /** In place of a payload, of one that came by a token: look at it first. */
  readonly error?: SignalError;
  readonly msg_id?: string;
  /** Somebody has presented a token. */
  readonly token?: boolean;
  /** The number of the question that it answers: see answerOf. */
  readonly answer?: number;
  readonly by?: string;
  readonly at: string;
}

export type LogLevel = "debug" | "info" | "warn" | "error";

/** A child to spawn: a submission, whose id may be left out. */
export type Child = Submit;

export interface SpawnOptions {
  /**
   * The item runs again once its children have ended, with this name in
   * item.continuation; true: with no name. Left out: it completes then.
   */
  continuation?: string | true;
  /** What a dead or cancelled child does. Default "fail": the item is dead, its other children are cancelled. */
  childPolicy?: "fail" | "continue";
}

export interface TokenOptions {
  /** Whom it is given to: the token is a link then, by which he answers the question of that name, at BASE/#/answer/TOKEN. */
  for?: string;
}

/** How long a wait is, one of forMs and until, and what becomes of the item then: it runs again, unless fail or complete says otherwise. */
export interface RunWaitOptions {
  forMs?: number;
  until?: Date;
  /** It takes a signal of each name; else one, of any of them. */
  all?: boolean;
  /** At the deadline the item is dead. */
  fail?: { code?: string; error?: string };
  /** At the deadline the item completes, with a result of at most 4 KiB of JSON. */
  complete?: { result?: unknown };
}

/** A question to people: docs/guides/APPROVALS.md. */
export interface Question {
  /** What is asked, in a line of plain text. */
  title: string;
  /** More of it, in Markdown. */
  text?: string;
  /** Default: approve and reject. */
  choices?: readonly Choice[];
  /** A JSON schema of an object: the value that an answer has. */
  form?: object;
  /** What is to be approved, and the form's first values. */
  proposal?: unknown;
  who?: { users?: readonly string[]; roles?: readonly string[]; notSubmitter?: boolean };
  /** An item of a type is submitted again and again while the question is open. */
  remind?: { everyMs: number; type: string; params?: unknown; most?: number };
}

export type Choice = "approve" | "reject" | "edit" | "answer";

/** An answer to a question. */
export interface Answer<V = any> {
  readonly choice: Choice;
  /** The form as it was filled in, or the proposal, changed or not. */
  readonly value?: V;
  /** Of the choice answer: the answer. */
  readonly comment?: string;
  /** The name of the login, or of whom the link was for; where nobody logs in, who he says he is. */
  readonly by?: string;
}

/** The answer to the question of a name that the item's last wait has asked; undefined if nobody has answered. */
export function answerOf<V = any>(item: Item, name: string): Answer<V> | undefined {
  return item.waited?.signals.find((s) => s.name === name && s.answer)?.payload as Answer<V> | undefined;
}

/** What a handler returns to end its run without completing the item. */
export class Ended {
  /** @internal */
  constructor(readonly report: { event: "snooze" | "spawn" | "wait"; [field: string]: unknown }) {}
}

/** What a handler may do beside its work. */
export interface Context {
  /**
   * Aborted when the run must stop; its reason is a RunStopped whose code says
   * why: cancelled, lease_lost, timeout, shutdown.
   */
  readonly signal: AbortSignal;
  /** Adds a record to the item's log; at most 8 KiB, best effort. */
  log(message: string, level?: LogLevel): void;
  /**
   * Writes to the item's output, which others follow while the run lasts, and resolves once it is stored: await it, so that
   * no more is on its way than the engine takes. It rejects with "output_full" at the engine's bound; the run may go on.
   */
  output(data: string | Uint8Array): Promise<void>;
  /** Says how far the run has come; told at most once a second, the latest counts. */
  progress(percent: number, message?: string): void;
  /**
   * Saves a JSON document of at most 64 KiB for the item's next attempt, and
   * resolves once the engine has it durably. It rejects when the run must stop.
   */
  checkpoint(document: unknown): Promise<void>;
  /**
   * Makes a token for somebody outside: who presents it, with no login, sends the item the signal of this name, once, with a
   * result or an error (client.presentToken). It resolves once the engine has the token's hash durably, and rejects as checkpoint
   * does, and with "mailbox_full" beyond 100 that nobody has presented. The token outlives the run. Give it away, then
   * `return ctx.wait(name, ...)`.
   */
  token(name: string, options?: TokenOptions): Promise<string>;
  /** `return ctx.snooze(ms)` puts the item off, with no attempt used. */
  snooze(delayMs: number, reason?: string): Ended;
  /** `return ctx.wait("approved", { forMs })` waits for a signal, with no slot held and no attempt used. The next run finds it in item.waited. */
  wait(names: string | readonly string[], options: RunWaitOptions): Ended;
  /** `return ctx.ask("ok", { title }, { forMs })` asks people. The next run finds the answer by answerOf(item, "ok"). */
  ask(name: string, question: Question, options: RunWaitOptions): Ended;
  /** `return ctx.spawn(children)` ends the run in children, made together with its end or not at all. */
  spawn(children: readonly Child[], options?: SpawnOptions): Ended;
}

/**
 * Runs one item. What it returns is recorded as the result; what it throws fails
 * the attempt, which is retried unless it is a WorkError that says otherwise. It
 * may run again elsewhere after a lost lease, so its side effects should be
 * idempotent. It must not block the event loop for a third of the lease.
 */
export type Handler<P = any> = (item: Item<P>, context: Context) => unknown;

/** A handler, and how many of its items run at once in this worker. */
export interface TypeOptions {
  handler: Handler;
  limit?: number;
}

export interface Logger {
  debug(text: string): void;
  info(text: string): void;
  warn(text: string): void;
  error(text: string): void;
}

/** How a worker behaves. */
export interface WorkerOptions {
  /** The handlers, by type. */
  types: Record<string, Handler | TypeOptions>;
  /** The worker's name, unique among those alive. Default: host, process and random digits. */
  id?: string;
  /** How many handlers run at once, 1 to 1,000. Default 4. */
  concurrency?: number;
  /** What this worker can do beyond its types. */
  capabilities?: readonly string[];
  /** How long stop lets handlers finish. Default 30,000. */
  drainTimeoutMs?: number;
  /** Shown to operators. */
  version?: string;
  /** Shown to operators. Default: the machine's name. */
  host?: string;
  /** Answers the engine's probes, so that a worker that hangs is found out. */
  probe?: boolean;
  /** Gets what the operator should know. Default: warnings and errors to the console. */
  logger?: Logger;
}

/** Counts what a worker has and has had. */
export interface WorkerStats {
  registered: boolean;
  running: number;
  settling: number;
  completed: number;
  failed: number;
  released: number;
  spawned: number;
  snoozed: number;
  waited: number;
  leasesLost: number;
}
