import { cpus } from "node:os";

import { StreamwrightError, textOf } from "../errors.js";
import { backoff } from "../retry.js";
import { toJson } from "../text.js";
import type * as wire from "../wire.gen.js";
import type { Core } from "./core.js";
import { backoffMaxMs, backoffMinMs, defaultHeartbeatMs, minHeartbeatMs, now, requestMs } from "./limits.js";
import { Consumer } from "./pulls.js";

/** Refusals that asking again may end. */
const transient = new Set(["unavailable", "not_owner", "internal", "timeout", "queue_full"]);

export function isLasting(err: unknown): boolean {
  return err instanceof StreamwrightError && !transient.has(err.code);
}

/**
 * Keeps the worker registered: it registers whenever that is needed, with
 * backoff, and sends heartbeats. One step at a time.
 */
export class Session {
  heartbeatMs = defaultHeartbeatMs;
  /** A heartbeat is to be sent at once. */
  confirm = false;
  #tries = 0;
  #beatAt = 0;
  #used = 0;
  #usedAt = 0;
  #ended = false;
  #left = false; // the worker has been unregistered
  #loop: Promise<void> = Promise.resolve();
  #wake: () => void = () => {};
  #kicked = false;
  #busy: Promise<unknown> = Promise.resolve(); // what opens and closes consumers, one after the other

  constructor(private readonly core: Core) {}

  start(): void {
    this.#loop = this.#run();
  }

  /** Ends the loop and waits for it. */
  async end(): Promise<void> {
    this.#ended = true;
    this.#wake();
    await this.#loop;
  }

  /** Takes the next step now, unless the steps before have failed: a kick does not cut a backoff short. */
  kick(): void {
    this.#kicked = true;
    if (this.#tries === 0) this.#wake();
  }

  /** Sends a heartbeat no later than that. */
  beatBy(at: number): void {
    if (at >= this.#beatAt) return;
    this.#beatAt = at;
    this.kick();
  }

  /** Takes the next step now, whatever has failed. */
  called(): void {
    this.#tries = 0;
    this.kick();
  }

  async #run(): Promise<void> {
    while (!this.#ended) {
      this.#kicked = false;
      const wait = await this.#step();
      if (this.#ended || (this.#kicked && this.#tries === 0)) continue;
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, wait);
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  }

  /** Does what is needed now and returns the wait until the next step. */
  async #step(): Promise<number> {
    const { core } = this;
    if (!core.link.connected) {
      this.#tries = 0;
      return this.heartbeatMs;
    }
    const confirm = this.confirm;
    this.confirm = false;
    try {
      if (core.phase !== "active" || core.shunned || core.replaced) await this.closeLanes();
      if (core.phase === "active" && !core.registered) {
        await this.register();
      } else if (!core.registered || confirm || now() >= this.#beatAt) {
        await this.#beat();
        this.#beatAt = now() + this.heartbeatMs;
      }
      this.#tries = 0;
      return Math.max(this.#beatAt - now(), 0);
    } catch (err) {
      const text = `the engine does not keep this worker registered; trying again: ${textOf(err)}`;
      if (this.#tries === 0 || (isLasting(err) && !core.replaced)) core.log.warn(text);
      else core.log.debug(text);
      if (err instanceof StreamwrightError && err.code === "worker_id_in_use" && core.giveWay(textOf(err))) await this.closeLanes();
      return backoff(++this.#tries, backoffMinMs, backoffMaxMs);
    }
  }

  async #call<T>(endpoint: string, body: object): Promise<T> {
    const { link, names } = this.core;
    return JSON.parse(await link.request(names.api(endpoint), toJson(body)!, requestMs)) as T;
  }

  /** Lets one thing at a time open and close consumers. */
  #alone<T>(fn: () => Promise<T>): Promise<T> {
    const result = this.#busy.then(fn);
    this.#busy = result.catch(() => {});
    return result;
  }

  /** Registers once and takes over what the engine says. */
  register(): Promise<void> {
    return this.#alone(async () => {
      const { core } = this;
      if (core.phase !== "active") return;
      const epoch = core.link.epoch;
      let reply = await this.#call<wire.Registered>("register", core.registration());
      if (!(await this.#joins(reply))) return;
      if (reply.assigns && !core.inbox.isOpen) {
        core.inbox.open();
        reply = await this.#call<wire.Registered>("register", core.registration());
        if (!(await this.#joins(reply))) return;
      }
      await this.#adopt(reply, epoch);
    });
  }

  /** Takes the session of a registration, and reports whether the worker still wants work. One that has left meanwhile leaves again. */
  async #joins(reply: wire.Registered): Promise<boolean> {
    const { core } = this;
    core.session = reply.session;
    if (core.phase === "active") return true;
    if (this.#left) await this.unregister();
    return false;
  }

  /** Makes a registration the current one and begins to pull: from known consumers that still work, and new ones. */
  async #adopt(reply: wire.Registered, epoch: number): Promise<void> {
    const { core } = this;
    const known = core.consumers;
    const fresh = new Map<string, Consumer>();
    for (const [type, names] of Object.entries(reply.consumers)) {
      const registration = core.types.get(type);
      if (!registration) throw new StreamwrightError("internal", `the engine named the type "${type}", which this worker did not register`);
      for (const name of names) {
        const c = known.get(name);
        const usable = c && c.epoch === epoch && c.registration === registration && !c.closed;
        fresh.set(name, usable ? c : new Consumer(core, reply.stream, name, registration, epoch, reply.js_domain));
      }
    }
    core.consumers = fresh;
    for (const c of fresh.values()) c.mend();
    if (reply.heartbeat_ms > 0) this.heartbeatMs = Math.max(reply.heartbeat_ms, minHeartbeatMs);
    // A registration does not say what runs, nor that all is well: a heartbeat is due.
    this.#beatAt = reply.assigns || core.shunned ? now() : now() + this.heartbeatMs;
    core.registered = epoch === core.link.epoch;
    core.replaced = false;
    core.log.info(`registered as ${core.id}, session ${reply.session}, ${reply.assigns ? "items are assigned" : `${fresh.size} consumers`}`);
    core.refillAll();
    core.reports.retryNow();
    const old = [...known.values()].filter((c) => fresh.get(c.name) !== c);
    await Promise.all(old.map((c) => (c.epoch === epoch ? c.drain() : c.drop())));
  }

  async #beat(): Promise<void> {
    const { core } = this;
    const inFlight: wire.RunRef[] = [];
    for (const r of core.runs.values()) {
      if (r.state === "running" || r.state === "settling" || r.assigned) inFlight.push({ id: r.id, token: r.token });
    }
    const health = { memory_bytes: process.memoryUsage.rss(), cpu: this.#cpu(), load: core.busy / core.concurrency };
    let reply: wire.HeartbeatReply;
    try {
      reply = await this.#call<wire.HeartbeatReply>("heartbeat", { ...core.registration(), in_flight: inFlight, health });
    } catch (err) {
      if (isLasting(err)) core.registered = false;
      throw err;
    }
    core.registered ||= core.phase !== "active";
    core.inbox.fence = reply.fence ?? "";
    core.endRuns(reply.cancel ?? [], "lease_lost");
    if (reply.should_drain) core.drainByEngine();
    core.takenFor(reply.status, reply.reason);
  }

  /** The part of all processors' time that this process has used since the last call. */
  #cpu(): number {
    const at = now();
    const { user, system } = process.cpuUsage();
    const used = (user + system) / 1_000; // milliseconds
    const share = (used - this.#used) / Math.max(at - this.#usedAt, 1) / Math.max(cpus().length, 1);
    this.#used = used;
    this.#usedAt = at;
    return Math.min(Math.max(share, 0), 1);
  }

  /** Ends all pulls, and waits for what the server has already sent. */
  closeLanes(): Promise<void> {
    return this.#alone(async () => {
      const { core } = this;
      const open = [...core.consumers.values()].filter((c) => !c.closed);
      await Promise.all(open.map((c) => (core.link.connected ? c.drain() : c.drop())));
      core.noteDrained();
    });
  }

  async unregister(): Promise<void> {
    const { core } = this;
    this.#left = true;
    if (core.session === "" || !core.link.connected) return;
    try {
      await this.#call<wire.OK>("unregister", { worker: core.id, session: core.session });
    } catch (err) {
      core.log.debug(`could not unregister; the engine will notice by the missing heartbeats: ${textOf(err)}`);
    }
  }
}
