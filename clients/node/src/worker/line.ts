import { RunStopped, StreamwrightError, textOf, WorkError } from "../errors.js";
import { newWaitToken } from "../ids.js";
import { cut, toJson } from "../text.js";
import type { Core } from "./core.js";
import { maxCheckpointBytes, maxProgressBytes, now, progressEveryMs } from "./limits.js";
import type { Said } from "./outcome.js";
import type { Pending } from "./reports.js";
import type { Run } from "./run.js";

interface Progress {
  percent: number;
  message: string;
}

/** Codes that say that the run does not count any more. */
const over = new Set(["stale_token", "wrong_state", "wrong_attempt", "wrong_worker", "not_found"]);

/** Acts on the answer to a report from the middle of a run. */
export function midRunAnswered(core: Core, run: Run, error: StreamwrightError | undefined): void {
  if (!error) return;
  if (!over.has(error.code)) {
    core.log.warn(`the engine refused a report from the middle of the run of item ${run.id}: ${error.message}`);
  } else if (run.state === "running" && run.stop === undefined) {
    // It was cancelled, has timed out, or another has its item.
    core.endRun(run, "lease_lost", true);
  }
}

/** What a run has to tell before its end. */
export class Line {
  #latest: Progress | undefined; // not told yet
  #told: Progress = { percent: 0, message: "" };
  #telling = false;
  #tellAt = 0; // the earliest time for the next
  #recording: Promise<unknown> = Promise.resolve();

  constructor(
    private readonly core: Core,
    private readonly run: Run,
  ) {}

  progress(percent: number, message = ""): void {
    if (this.run.state !== "running" || this.run.letGo) return;
    const whole = Number.isFinite(percent) ? Math.trunc(percent) : 0;
    this.#latest = { percent: Math.min(Math.max(whole, 0), 100), message: cut(message, maxProgressBytes) };
    this.tell(now());
  }

  /** Reports the latest progress if it is time. */
  tell(at: number): void {
    const latest = this.#latest;
    if (!latest || this.#telling || this.run.state !== "running") return;
    if (latest.percent === this.#told.percent && latest.message === this.#told.message) {
      this.#latest = undefined;
      return;
    }
    if (at < this.#tellAt && (latest.percent < 100 || this.#told.percent === 100)) return this.core.dueBy(this.#tellAt);
    this.#telling = true;
    this.#tellAt = at + progressEveryMs;
    const settled = (error?: StreamwrightError): void => {
      this.#telling = false;
      midRunAnswered(this.core, this.run, error);
      this.tell(now());
    };
    this.core.reports.add(this.run, this.core.reports.pending(this.run, this.#report(latest), { midRun: settled }));
  }

  #report(p: Progress): Said {
    this.#latest = undefined;
    this.#told = p;
    return { event: "progress", percent: p.percent, message: p.message };
  }

  /** What to report at the run's end: its outcome, and before it the progress that was held back. */
  lastWords(outcome: Said): (Said | Pending)[] {
    const latest = this.#latest;
    const told = latest && latest.percent === this.#told.percent && latest.message === this.#told.message;
    if (!latest || told || outcome.event === "complete") return [outcome];
    return [this.core.reports.pending(this.run, this.#report(latest), { midRun: () => {}, last: true }), outcome];
  }

  /** Saves a checkpoint. */
  checkpoint(document: unknown): Promise<void> {
    return this.#inTurn(() => this.#save(document));
  }

  /** Makes a token for the signal of a name, or a link to the question of that name. */
  async token(name: string, to?: string): Promise<string> {
    const { text, hash } = newWaitToken(this.run.id);
    await this.#inTurn(() => this.#record({ event: "token", wait_token: to === undefined ? { name, hash } : { name, hash, for: to } }));
    return text;
  }

  /** Records one at a time: a later one must not be overtaken by an earlier one that is asked again. */
  #inTurn(record: () => Promise<void>): Promise<void> {
    const recorded = this.#recording.then(record);
    this.#recording = recorded.catch(() => {});
    return recorded;
  }

  async #save(document: unknown): Promise<void> {
    let text: string | undefined;
    try {
      text = toJson(document);
    } catch (err) {
      throw new WorkError(`the checkpoint can't be written as JSON: ${textOf(err)}`, { code: "bad_checkpoint", retryable: false, cause: err });
    }
    const bytes = Buffer.byteLength(text ?? "");
    if (text === undefined || bytes > maxCheckpointBytes) {
      throw new WorkError(`the checkpoint has ${bytes} bytes of JSON: 1 to ${maxCheckpointBytes} can be saved`, { code: "bad_checkpoint", retryable: false });
    }
    return this.#record({ event: "checkpoint", checkpoint: document });
  }

  /** Reports a checkpoint or a token, and resolves once it is recorded. */
  async #record(said: Said): Promise<void> {
    const signal = this.run.abort?.signal;
    if (!signal || signal.aborted) throw signal?.reason ?? new RunStopped("lease_lost");
    let given = false;
    let stop = (): void => {};
    try {
      await new Promise<void>((resolve, reject) => {
        stop = () => reject(signal.reason);
        signal.addEventListener("abort", stop, { once: true });
        const answered = (error?: StreamwrightError): void => {
          midRunAnswered(this.core, this.run, error);
          if (error) reject(signal.aborted ? signal.reason : error);
          else resolve();
        };
        this.core.reports.add(this.run, this.core.reports.pending(this.run, said, { midRun: answered, given: () => given }));
      });
    } finally {
      given = true;
      signal.removeEventListener("abort", stop);
    }
  }
}
