import { randomBytes } from "node:crypto";

import type { Msg, Subscription } from "@nats-io/nats-core";

import { textOf } from "../errors.js";
import { isId } from "../ids.js";
import { fromEngine } from "../link.js";
import type * as wire from "../wire.gen.js";
import type { Core } from "./core.js";
import { execute } from "./execute.js";
import { defaultLeaseMs, lookMs, now, stallMs, startAfterMs } from "./limits.js";
import { midRunAnswered } from "./line.js";
import type { Pending } from "./reports.js";
import { Run, type Registration } from "./run.js";

/**
 * Receives the items that the engine assigns to this worker: it has claimed them,
 * so their handlers start at once. It is opened when an engine says that it assigns,
 * and has one name for the life of the worker.
 *
 * An item whose start is not reported in time goes back to the engine, and a handler
 * that blocks the event loop keeps the report from being sent. So where runs are not
 * mostly over within startAfterMs, the start is sent ahead of the handler; and what
 * came while the loop was blocked is claimed before it runs.
 */
export class Inbox {
  #word = ""; // of the registration; empty: not open
  #subscription: Subscription | undefined;
  #started: Run[] = []; // their starts are to be reported, oldest first
  #timer: NodeJS.Timeout | undefined;
  #looks: NodeJS.Timeout | undefined;
  #lookedAt = 0;
  #stalled = false; // what comes now may be old
  /** From the last heartbeat's reply: an item with a lesser token came too late. */
  fence = "";

  constructor(private readonly core: Core) {}

  get isOpen(): boolean {
    return this.#word !== "";
  }

  /** Subscribes, so that the next registration offers the inbox. */
  open(): void {
    const { core } = this;
    const word = randomBytes(16).toString("hex");
    const subject = core.names.inbox(core.id, word);
    this.#subscription = core.link.nc.subscribe(subject, {
      callback: (err, msg) => (err ? core.log.error(`the inbox can't be read: ${err.message}`) : this.#receive(subject, msg)),
    });
    this.#word = word;
    this.#lookedAt = now();
    this.#looks = setInterval(() => this.#look(), lookMs).unref();
  }

  /** What a registration says of the inbox. */
  offer(): { inbox?: string; most?: Record<string, number> } {
    if (!this.isOpen) return {};
    const limited = [...this.core.types.values()].filter((r) => r.limit > 0);
    return { inbox: this.#word, most: Object.fromEntries(limited.map((r) => [r.type, r.limit])) };
  }

  close(): void {
    this.#subscription?.unsubscribe();
    clearTimeout(this.#timer);
    clearInterval(this.#looks);
  }

  /** Notices that the event loop was blocked; until the next look, what it receives may have waited as long. */
  #look(): void {
    const at = now();
    this.#stalled = at - this.#lookedAt > lookMs + stallMs;
    this.#lookedAt = at;
  }

  #receive(subject: string, msg: Msg): void {
    const { core } = this;
    if (!fromEngine(msg, subject)) return;
    const at = now();
    const ahead: Run[] = [];
    try {
      for (const a of readAssigned(msg.data)) this.#take(a, at, ahead);
    } catch (err) {
      core.log.error(`assigned items can't be read: they go back to the engine: ${textOf(err)}`);
    }
    if (ahead.length === 0) return;
    core.reports.addNow(ahead.map((run) => this.#start(run)));
    setImmediate(() => { // the starts are on the wire
      for (const run of ahead) void execute(core, run, { ok: true }, at);
    });
  }

  /** Starts an assigned item, or adds it to those whose start is reported ahead. */
  #take(a: Assigned, at: number, ahead: Run[]): void {
    const { core } = this;
    const run = assignedRun(a, core.types, at);
    if (typeof run === "string") return core.log.error(`an assigned item can't be run and goes back to the engine: ${run}`);
    if (isLess(run.token, this.fence) || core.runs.has(run.token)) return; // it came too late, or twice
    core.runs.set(run.token, run);
    const unwanted = core.unwanted || (core.busy >= core.concurrency ? "no_slot" : "");
    if (unwanted !== "") return core.handBack(run, unwanted);
    if (a.ask || this.#stalled) return core.claim(run);
    core.begin(run);
    if (!run.registration.quick) return void ahead.push(run);
    this.#started.push(run);
    this.#timer ??= setTimeout(() => this.#report(), startAfterMs);
    void execute(core, run, { ok: true }, at);
  }

  /** Reports the starts that are due. */
  #report(): void {
    this.#timer = undefined;
    const at = now();
    const early = this.#started.findIndex((r) => r.state === "running" && at - r.receivedAt < startAfterMs);
    for (const run of this.#started.splice(0, early < 0 ? this.#started.length : early)) {
      if (run.state === "running" && !run.letGo) this.core.reports.add(run, this.#start(run));
    }
    if (this.#started.length > 0) this.#timer = setTimeout(() => this.#report(), this.#started[0]!.receivedAt + startAfterMs - at);
  }

  #start(run: Run): Pending {
    return this.core.reports.pending(run, { event: "start" }, { midRun: (error) => midRunAnswered(this.core, run, error) });
  }
}

/** Compares tokens, which are numbers in base 36. */
function isLess(a: string, b: string): boolean {
  return a.length === b.length ? a < b : a.length < b.length;
}

/** An assigned item, with its params as they were submitted. */
type Assigned = Omit<wire.Assigned, "bytes" | "params"> & { text: string };

const beforeParams = /,"bytes":([0-9]+),"params":/g; // in no string, where quotes are escaped

/** Reads a message of assigned items. JSON.parse alone would lose the params' text. */
export function readAssigned(data: Uint8Array): Assigned[] {
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  const chars = bytes.toString("latin1"); // one for each byte
  const all: Assigned[] = [];
  for (let at = 1; ; ) {
    beforeParams.lastIndex = at;
    const found = beforeParams.exec(chars);
    if (!found) throw new SyntaxError(`at ${at}: no item`);
    const begin = beforeParams.lastIndex;
    const end = begin + Number(found[1]);
    const head = JSON.parse(`${bytes.toString("utf8", at, found.index)}}`) as wire.Assigned;
    all.push({ ...head, text: bytes.toString("utf8", begin, end) });
    const close = chars.slice(end, end + 2);
    if (close === "}]") return all;
    if (close !== "},") throw new SyntaxError(`at ${end}: the item does not end`);
    at = end + 2;
  }
}

/** Makes the run of an assigned item; a text says why it can't be run. */
function assignedRun(a: Assigned, types: ReadonlyMap<string, Registration>, at: number): Run | string {
  if (!isId(a.id)) return `its id is "${a.id}"`;
  const registration = types.get(a.type);
  if (!registration) return `item ${a.id} is of type "${a.type}", which this worker has no handler for`;
  const { id, token, attempt } = a;
  return new Run(
    { id, token, attempt, leaseMs: a.lease_ms || defaultLeaseMs, timeoutMs: a.timeout_ms ?? 0, labels: a.labels ?? {}, trace: a.traceparent, text: () => a.text, assigned: true },
    registration,
    at,
  );
}
