import { maxTimer } from "../text.js";
import type { Core } from "./core.js";
import { now } from "./limits.js";
import type { Run } from "./run.js";

/**
 * Renews leases, hands back what waits too long, and notices pull requests that
 * were lost: one timer for all of them.
 */
export class Clock {
  #next = Infinity;
  #timer: NodeJS.Timeout | undefined;
  #stopped = false;

  constructor(private readonly core: Core) {}

  /** Looks at things no later than that. */
  dueBy(at: number): void {
    if (at >= this.#next || this.#stopped) return;
    this.#next = at;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#tick(), Math.min(Math.max(at - now(), 0), maxTimer));
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
  }

  #tick(): void {
    const { core } = this;
    this.#next = Infinity;
    const at = now();
    core.tickHeld(at);
    for (const run of core.runs.values()) {
      if (run.state !== "running" && run.state !== "settling") continue;
      if (at >= run.renewAt) this.#renew(run, at);
      this.dueBy(run.renewAt);
      core.lines.get(run)?.tell(at);
    }
    for (const c of core.consumers.values()) c.tick(at);
    core.refillAll();
  }

  /** Extends a run's lease or, after a whole lease without a connection, takes it for lost. */
  #renew(run: Run, at: number): void {
    const { core } = this;
    run.renewAt = at + run.leaseMs / 3;
    if (run.gaveUp || (run.letGo && run.stop !== "cancelled")) return;
    if (core.link.connected) {
      run.contactAt = at;
      const { reply } = run.dispatch; // heartbeats keep what has none
      if (reply) core.link.nc.publish(reply, "+WPI");
      return;
    }
    const lost = run.contactAt + run.leaseMs;
    if (at < lost) {
      run.renewAt = Math.min(run.renewAt, lost);
    } else if (run.state === "running" && run.stop === undefined) {
      core.log.warn(`no connection for a whole lease: the run of item ${run.id} is stopped`);
      core.endRun(run, "lease_lost", false);
    }
  }
}
