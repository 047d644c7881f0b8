import { randomBytes } from "node:crypto";
import { hostname } from "node:os";

import type { Msg, Subscription } from "@nats-io/nats-core";

import type { Client } from "../client.js";
import { StreamwrightError, textOf } from "../errors.js";
import { fromEngine } from "../link.js";
import type { Control, Probe, Probed } from "../wire.gen.js";
import { Core } from "./core.js";
import { abandonMs, farewellMs, maxConcurrency, probeMs, settleMs } from "./limits.js";
import { Registration } from "./run.js";
import { isLasting } from "./session.js";
import type { Handler, Logger, TypeOptions, WorkerOptions, WorkerStats } from "./types.js";

/** How long run() runs. */
export interface RunOptions {
  /** Stops the worker when it is aborted. */
  signal?: AbortSignal;
  /** Stops the worker in good order on these signals of the process, such as ["SIGTERM", "SIGINT"]. */
  stopOn?: readonly NodeJS.Signals[];
}

const silent = (): void => {};
const console_: Logger = { debug: silent, info: silent, warn: (t) => console.warn(t), error: (t) => console.error(t) };

/**
 * Runs work items of the types that it has handlers for: the engine
 * sends as many as it has slots free for. It runs the handler, keeps the lease, and
 * reports what came of it. It is started once, and does not close the client.
 */
export class Worker {
  readonly id: string;
  readonly #core: Core;
  readonly #drainTimeoutMs: number;
  #subscriptions: Subscription[] = [];
  #unlisten: () => void = silent;
  #stopping: Promise<void> | undefined;

  /** Throws a RangeError that says what is out of bounds. */
  constructor(client: Client, options: WorkerOptions) {
    const host = options.host ?? hostname();
    this.id = options.id ?? freshId(host);
    if (!/^[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?$/.test(this.id)) throw new RangeError(`"${this.id}" is no id of a worker: use at most 128 letters and digits, with - _ . between them`);
    const concurrency = whole("concurrency", options.concurrency ?? 4, 1, maxConcurrency);
    this.#drainTimeoutMs = whole("drainTimeoutMs", options.drainTimeoutMs ?? 30_000, 0, Number.MAX_SAFE_INTEGER);
    this.#core = new Core({
      client,
      id: this.id,
      concurrency,
      capabilities: [...(options.capabilities ?? [])],
      version: options.version ?? "",
      host,
      probe: options.probe ?? false,
      log: options.logger ?? console_,
      types: registrations(options.types),
    });
  }

  /**
   * Registers the worker, which then is sent items. It rejects when the engine refuses
   * the worker (a StreamwrightError, such as worker_id_in_use); when no engine
   * answers it resolves and goes on trying.
   */
  async start(): Promise<void> {
    const core = this.#core;
    if (core.phase !== "new") throw new StreamwrightError("bad_request", "the worker has been started before: make a new one");
    core.phase = "active";
    const nc = core.link.nc;
    for (const subject of [core.names.control(this.id), core.names.controlAll()]) {
      this.#subscriptions.push(nc.subscribe(subject, { callback: (err, msg) => this.#control(subject, err, msg) }));
    }
    if (core.registration().probe) {
      this.#subscriptions.push(nc.subscribe(core.names.probe(this.id), { callback: (err, msg) => void (err ?? this.#probe(msg)) }));
    }
    core.receiver.open();
    this.#unlisten = core.link.onChange(() => core.connectionChanged());
    try {
      await core.sessions.register();
    } catch (err) {
      if (isLasting(err)) {
        await this.stop();
        throw err;
      }
      core.log.warn(`no engine answers yet: the worker goes on trying to register (${textOf(err)})`);
    }
    core.sessions.start();
  }

  /**
   * Starts the worker and stops it when the signal is aborted, a signal of the
   * process comes, the engine has drained it, or the connection is closed.
   */
  async run(options: RunOptions = {}): Promise<void> {
    const { signal, stopOn = [] } = options;
    let asked = signal?.aborted ?? false;
    const ask = (): void => {
      asked = true;
      this.#core.changed();
    };
    signal?.addEventListener("abort", ask, { once: true });
    for (const s of stopOn) process.once(s, ask);
    try {
      await this.start();
      const core = this.#core;
      await core.until(() => asked || core.drained || core.link.closed || this.#stopping !== undefined, Infinity);
      await this.stop();
      if (core.link.closed && !asked) throw new StreamwrightError("unavailable", "the connection to NATS is closed: the worker can't go on");
    } finally {
      signal?.removeEventListener("abort", ask);
      for (const s of stopOn) process.removeListener(s, ask);
    }
  }

  /**
   * Drains and ends the worker: it takes no more, lets handlers finish for drainTimeoutMs, then aborts them with
   * "shutdown" and hands their items back, waits for the answers to the last
   * reports and unregisters. It rejects if handlers had to be abandoned or
   * reports got no answer: the leases of those items run out by themselves.
   */
  stop(): Promise<void> {
    this.#stopping ??= this.#shutDown();
    return this.#stopping;
  }

  stats(): WorkerStats {
    const c = this.#core;
    return { ...c.stats, registered: c.registered, running: c.busy, settling: c.count("settling") };
  }

  async #shutDown(): Promise<void> {
    const core = this.#core;
    const was = core.phase;
    core.phase = "stopping";
    if (was === "new") {
      core.phase = "stopped";
      return;
    }
    core.changed();
    const abandoned = await this.#finishHandlers();
    const open = (): number => core.runs.size - core.count("running");
    await core.until(() => open() === 0 || core.link.closed, settleMs);
    const unanswered = open();
    await within(farewellMs, core.sessions.unregister());
    await this.#end();
    const problems = [];
    if (abandoned > 0) problems.push(`${abandoned} handlers did not end although their signal was aborted`);
    if (unanswered > 0) problems.push(`${unanswered} reports got no answer from the engine`);
    if (problems.length > 0) throw new StreamwrightError("timeout", `stop worker ${this.id}: ${problems.join(", ")}; the leases of their items will run out`);
  }

  /** Waits for the handlers, aborts them when the drain has taken too long, and gives up on those that do not end then. */
  async #finishHandlers(): Promise<number> {
    const core = this.#core;
    const none = (): boolean => core.count("running") === 0 && (core.count("starting") === 0 || core.link.closed);
    if (await core.until(none, this.#drainTimeoutMs)) return 0;
    const running = [...core.runs.values()].filter((r) => r.state === "running");
    for (const run of running) core.endRun(run, "shutdown", false);
    if (await core.until(() => core.count("running") === 0, abandonMs)) return 0;
    const left = running.filter((r) => r.state === "running");
    for (const run of left) run.gaveUp = true;
    return left.length;
  }

  async #end(): Promise<void> {
    const core = this.#core;
    core.reports.close();
    await within(farewellMs, core.sessions.end());
    core.phase = "stopped";
    core.failures.flush();
    core.clock.stop();
    this.#unlisten();
    for (const s of this.#subscriptions) s.unsubscribe();
    core.receiver.close();
    if (!core.link.closed) await within(farewellMs, core.link.nc.flush()); // what handlers have logged is on its way
  }

  #control(subject: string, err: Error | null, msg: Msg): void {
    if (err) return this.#core.log.error(`the control subject can't be read: ${err.message}`);
    if (!fromEngine(msg)) return;
    try {
      const c = msg.json<Control>();
      if (subject !== this.#core.names.controlAll()) this.#core.obey(c);
      else if (c.register) this.#core.called();
    } catch (cause) {
      this.#core.log.warn(`a control message can't be read: ${textOf(cause)}`);
    }
  }

  /** Answers a probe by a request. One that fails is the engine's to notice. */
  async #probe(msg: Msg): Promise<void> {
    const core = this.#core;
    try {
      const { nonce } = msg.json<Probe>();
      const answer: Probed = { worker: this.id, session: core.session, nonce };
      await core.link.request(core.names.api("probed"), JSON.stringify(answer), probeMs);
    } catch (cause) {
      core.log.debug(`a probe could not be answered: ${textOf(cause)}`);
    }
  }
}

function registrations(types: WorkerOptions["types"]): Map<string, Registration> {
  const all = new Map<string, Registration>();
  for (const [type, given] of Object.entries(types)) {
    const o: TypeOptions = typeof given === "function" ? { handler: given as Handler } : given;
    if (!/^[a-z0-9]+([_-][a-z0-9]+)*$/.test(type) || type.length > 63) throw new RangeError(`"${type}" is no type: use at most 63 of a-z and 0-9, with single - or _ between them`);
    if (typeof o.handler !== "function") throw new RangeError(`type "${type}" has no handler`);
    all.set(type, new Registration(type, o.handler, o.limit === undefined ? 0 : whole(`the limit of ${type}`, o.limit, 1, maxConcurrency)));
  }
  if (all.size === 0) throw new RangeError("there is no handler: give types at least one");
  return all;
}

function whole(name: string, n: number, least: number, most: number): number {
  if (!Number.isSafeInteger(n) || n < least || n > most) throw new RangeError(`${name} is ${n}: it must be ${least} to ${most}`);
  return n;
}

/** Waits for something, but not for ever; what goes wrong is the clock's or the engine's to notice. */
async function within(ms: number, what: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  await Promise.race([what.catch(silent), new Promise((resolve) => (timer = setTimeout(resolve, ms)))]);
  clearTimeout(timer);
}

function freshId(host: string): string {
  const clean = host.replace(/[^A-Za-z0-9-]/g, "-").replace(/^-+|-+$/g, "").slice(0, 64) || "worker";
  return `${clean}-${process.pid}-${randomBytes(4).toString("hex")}`;
}
