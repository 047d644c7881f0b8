import { cpus } from "node:os";

import { StreamwrightError, textOf } from "../errors.js";
import { backoff } from "../retry.js";
import { toJson } from "../text.js";
import type * as wire from "../wire.gen.js";
import type { Core } from "./core.js";
import { backoffMaxMs, backoffMinMs, defaultHeartbeatMs, minHeartbeatMs, now, requestMs } from "./limits.js";

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
  #tries = 0;
  #beatAt = 0;
  #used = 0;
  #usedAt = 0;
  #ended = false;
  #left = false; // the worker has been unregistered
  #loop: Promise<void> = Promise.resolve();
  #wake: () => void = () => {};
  #kicked = false;

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
    try {
      if (core.phase === "active" && !core.registered) {
        await this.register();
      } else if (!core.registered || now() >= this.#beatAt) {
        await this.#beat();
        this.#beatAt = now() + this.heartbeatMs;
      }
      this.#tries = 0;
      return Math.max(this.#beatAt - now(), 0);
    } catch (err) {
      const text = `the engine does not keep this worker registered; trying again: ${textOf(err)}`;
      if (this.#tries === 0 || (isLasting(err) && !core.replaced)) core.log.warn(text);
      else core.log.debug(text);
      if (err instanceof StreamwrightError && err.code === "worker_id_in_use") core.giveWay(textOf(err));
      return backoff(++this.#tries, backoffMinMs, backoffMaxMs);
    }
  }

  async #call<T>(endpoint: string, body: object): Promise<T> {
    return JSON.parse(await this.core.request(endpoint, toJson(body)!, requestMs)) as T;
  }

  /** Registers once and takes over what the engine says. */
  async register(): Promise<void> {
    const { core } = this;
    if (core.phase !== "active") return;
    const { epoch } = core.link;
    const reply = await this.#call<wire.Registered>("register", core.registration());
    if (core.phase !== "active") {
      if (this.#left) await this.unregister(); // it has left meanwhile, and leaves again
      return;
    }
    if (reply.heartbeat_ms > 0) this.heartbeatMs = Math.max(reply.heartbeat_ms, minHeartbeatMs);
    this.#beatAt = now(); // a registration does not say what runs: a heartbeat is due
    core.registered = epoch === core.link.epoch;
    core.replaced = false;
    core.log.info(`registered as ${core.id}, session ${core.session}`);
    core.reports.retryNow();
  }

  async #beat(): Promise<void> {
    const { core } = this;
    const inFlight: wire.RunRef[] = [...core.runs.values()].map(({ id, token }) => ({ id, token }));
    const health = { memory_bytes: process.memoryUsage.rss(), cpu: this.#cpu(), load: core.busy / core.concurrency };
    let reply: wire.HeartbeatReply;
    try {
      reply = await this.#call<wire.HeartbeatReply>("heartbeat", { ...core.registration(), in_flight: inFlight, health });
    } catch (err) {
      if (isLasting(err)) core.registered = false;
      throw err;
    }
    core.registered ||= core.phase !== "active";
    core.receiver.fence = reply.fence ?? "";
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

  async unregister(): Promise<void> {
    const { core } = this;
    this.#left = true;
    if (!core.link.connected) return;
    try {
      await this.#call<wire.OK>("unregister", { worker: core.id, session: core.session });
    } catch (err) {
      core.log.debug(`could not unregister; the engine will notice by the missing heartbeats: ${textOf(err)}`);
    }
  }
}
