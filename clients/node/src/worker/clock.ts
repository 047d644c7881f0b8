import { maxTimer } from "../text.js";
import type { Core } from "./core.js";
import { now } from "./limits.js";

/** Tells progress that was held back, and notices that leases are lost: one timer for all runs. */
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
    for (const run of core.runs.values()) {
      if (run.state !== "running") continue;
      core.lines.get(run)?.tell(at);
      core.loseBy(run, at);
    }
  }
}
