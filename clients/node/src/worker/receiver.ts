import type { Msg, Subscription } from "@nats-io/nats-core";

import { textOf } from "../errors.js";
import { fromEngine } from "../link.js";
import type { Core } from "./core.js";
import { execute } from "./execute.js";
import { lookMs, now, stallMs, startAfterMs } from "./limits.js";
import { midRunAnswered } from "./line.js";
import type { Pending } from "./reports.js";
import { newRun, readAssigned, type Assigned, type Run } from "./run.js";

/**
 * Receives the items that the engine has claimed for this worker. Their handlers
 * start at once.
 *
 * An item whose start is not reported in time goes back to the engine, and a handler
 * that blocks the event loop keeps the report from being sent. So where runs are not
 * mostly over within startAfterMs, the start is sent ahead of the handler; and what
 * came while the loop was blocked runs only once its start is answered.
 */
export class Receiver {
  #subscription: Subscription | undefined;
  #started: Run[] = []; // their starts are to be reported, oldest first
  #timer: NodeJS.Timeout | undefined;
  #looks: NodeJS.Timeout | undefined;
  #lookedAt = 0;
  #stalled = false; // what comes now may be old
  /** From the last heartbeat's reply: an item with a lesser token came too late. */
  fence = "";

  constructor(private readonly core: Core) {}

  /** Subscribes to the session's items, ahead of the first registration. */
  open(): void {
    const { core } = this;
    this.#subscription = core.link.nc.subscribe(core.names.runsOf(core.session), {
      callback: (err, msg) => (err ? core.log.error(`items can't be read: ${err.message}`) : this.#receive(msg)),
    });
    this.#lookedAt = now();
    this.#looks = setInterval(() => this.#look(), lookMs).unref();
  }

  /** What a registration says of the types' limits. */
  limits(): { most: Record<string, number> } {
    const limited = [...this.core.types.values()].filter((r) => r.limit > 0);
    return { most: Object.fromEntries(limited.map((r) => [r.type, r.limit])) };
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

  #receive(msg: Msg): void {
    const { core } = this;
    if (!fromEngine(msg)) return;
    const at = now();
    const ahead: Run[] = [];
    try {
      for (const a of readAssigned(msg.data)) this.#take(a, at, ahead);
    } catch (err) {
      core.log.error(`items can't be read: they go back to the engine: ${textOf(err)}`);
    }
    if (ahead.length === 0) return;
    core.reports.addNow(ahead.map((run) => this.#start(run)));
    setImmediate(() => { // the starts are on the wire
      for (const run of ahead) void execute(core, run, at);
    });
  }

  /** Starts an item, or adds it to those whose start is reported ahead. */
  #take(a: Assigned, at: number, ahead: Run[]): void {
    const { core } = this;
    const run = newRun(a, core.types, at);
    if (typeof run === "string") return core.log.error(`an item can't be run and goes back to the engine: ${run}`);
    if (isLess(run.token, this.fence) || core.runs.has(run.token)) return; // it came too late, or twice
    core.runs.set(run.token, run);
    const unwanted = core.unwanted || (core.busy >= core.concurrency ? "no_slot" : "");
    if (unwanted !== "") return core.handBack(run, unwanted);
    if (this.#stalled) return core.startFirst(run);
    core.begin(run);
    if (!run.registration.quick) return void ahead.push(run);
    this.#started.push(run);
    this.#timer ??= setTimeout(() => this.#report(), startAfterMs);
    void execute(core, run, at);
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
