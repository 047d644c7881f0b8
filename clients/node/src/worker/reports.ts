import { StreamwrightError } from "../errors.js";
import { backoff } from "../retry.js";
import { toJson } from "../text.js";
import type { Reported } from "../wire.gen.js";
import type { Core } from "./core.js";
import { backoffMaxMs, backoffMinMs, maxReportBytes, maxReports, now, reportSenders, requestMs } from "./limits.js";
import type { Said } from "./outcome.js";
import type { Run } from "./run.js";

/** One element of a report request. */
export interface Pending {
  readonly run: Run;
  readonly said: Said;
  readonly bytes: number;
  tries: number;
  /** Of reports from the middle of a run: gets the answer, or that nobody wants it. */
  readonly midRun?: (error: StreamwrightError | undefined) => void;
  /** Progress that goes ahead of the outcome. */
  readonly last?: boolean;
  /** Nobody waits for the answer any more. */
  readonly given?: () => boolean;
}

/** Codes of refusals that may end by themselves. */
const transient = new Set(["unavailable", "not_owner", "internal", "timeout", "queue_full", "rate_limited"]);
/** Codes that say that the engine does not know this worker: not the item's fault. */
const unknown = new Set(["unknown_worker", "worker_id_in_use"]);

/** Every report but these counts as the run's start, too, if none has been reported. */
function startOf({ said }: Pending): { start?: true } {
  return said.event !== "start" && said.event !== "release" ? { start: true } : {};
}

/**
 * The queue of reports. Up to two requests are on their way at once, each with
 * whatever was there, so a lone report leaves at once and a busy worker batches
 * by itself. What got no answer is asked again, with backoff: reports are
 * idempotent. It is bounded by the worker's runs.
 */
export class Reports {
  #queue: Pending[] = [];
  #later: Pending[] = [];
  #timer: NodeJS.Timeout | undefined;
  #senders = 0;
  #pumping = false;
  #closed = false;

  constructor(private readonly core: Core) {}

  /** Takes reports that are to be sent in this order. */
  add(run: Run, ...said: (Said | Pending)[]): void {
    for (const s of said) this.#queue.push("said" in s ? s : this.pending(run, s));
    this.#pumpSoon();
  }

  pending(run: Run, said: Said, extra: Partial<Pending> = {}): Pending {
    return { run, said, bytes: 200 + Buffer.byteLength(toJson(said) ?? ""), tries: 0, ...extra };
  }

  /** Sends reports at once, whatever else is on its way. */
  addNow(batch: Pending[]): void {
    void this.#send(batch);
  }

  /** Makes everything that waits for another try due. */
  retryNow(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#queue.push(...this.#later);
    this.#later = [];
    this.#pumpSoon();
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#queue = [];
    this.#later = [];
  }

  /** Sends after what is running now has run, so that what comes together goes together. */
  #pumpSoon(): void {
    if (this.#pumping) return;
    this.#pumping = true;
    setImmediate(() => {
      this.#pumping = false;
      while (!this.#closed && this.core.link.connected && this.#senders < reportSenders && this.#queue.length > 0) {
        this.#senders++;
        void this.#send(this.#take()).finally(() => {
          this.#senders--;
          if (this.#queue.length > 0) this.#pumpSoon();
        });
      }
    });
  }

  #take(): Pending[] {
    let n = 0;
    for (let bytes = 0; n < this.#queue.length && n < maxReports && bytes < maxReportBytes; n++) bytes += this.#queue[n]!.bytes;
    return this.#queue.splice(0, n);
  }

  async #send(taken: Pending[]): Promise<void> {
    const asked = now();
    const batch = taken.filter((p) => !this.#dropped(p));
    if (batch.length === 0) return;
    const again = await this.#ask(batch, asked);
    if (again.length > 0 && !this.#closed) this.#addLater(again);
  }

  /** Sends a batch and acts on the answers; returns what must be asked again. */
  async #ask(batch: Pending[], asked: number): Promise<Pending[]> {
    const { core } = this;
    const body = batch.map((p) => ({ id: p.run.id, token: p.run.token, worker: core.id, session: core.session, ...startOf(p), ...p.said }));
    let replies: Reported[];
    try {
      replies = JSON.parse(await core.request("report", toJson(body)!, requestMs)) as Reported[];
      if (!Array.isArray(replies) || replies.length !== batch.length) throw new Error(`the engine did not answer each of ${batch.length} reports`);
    } catch (err) {
      core.log.debug(`reports got no answer; asking again: ${String(err)}`);
      return batch;
    }
    if (this.#closed) return [];
    return batch.filter((p, i) => !this.#answered(p, replies[i]!, asked));
  }

  #addLater(batch: Pending[]): void {
    const wait = Math.min(...batch.map((p) => backoff(p.tries++, backoffMinMs, backoffMaxMs)));
    this.#later.push(...batch);
    this.#timer ??= setTimeout(() => this.retryNow(), wait);
  }

  /** Forgets reports from the middle of a run, and of its start, that nobody waits for. */
  #dropped({ run, said, midRun, last, given }: Pending): boolean {
    if (!midRun) return said.event === "start" && run.state !== "starting";
    const wanted = !given?.() && (run.state === "running" || (last === true && run.state === "settling"));
    if (!wanted) midRun(new StreamwrightError("stale_token", "the run has ended"));
    return !wanted;
  }

  /** Acts on one answer; false: it must be asked again. */
  #answered(p: Pending, reply: Reported, asked: number): boolean {
    const { core } = this;
    const error = reply.error;
    const code = error?.code ?? (reply.ok ? "" : "internal");
    if (unknown.has(code)) {
      core.needRegister(); // the answer to that says what to do with the runs
      return false;
    }
    if (transient.has(code)) return false;
    if (p.midRun) p.midRun(code === "" ? undefined : new StreamwrightError(code, error!.message));
    else if (p.said.event === "start") core.startAnswered(p.run, code, asked);
    else core.outcomeAnswered(p, reply, code);
    return true;
  }
}
