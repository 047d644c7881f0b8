import { RunStopped, StreamwrightError } from "../errors.js";
import { backoff, isTransient } from "../retry.js";
import { sleep } from "../text.js";
import type { OutputSummary } from "../wire.gen.js";
import type { Core } from "./core.js";
import type { Run } from "./run.js";

const maxChunk = 64 * 1024;
const maxWaiting = 1024 * 1024; // bytes that are not stored, unless they are of one write
const tryMs = 10_000; // for the answer to one chunk

/** What a run writes for others to follow. Chunks are sent one at a time, each again until it is answered. */
export class Output {
  #offset = 0;
  #last: Promise<void> = Promise.resolve();
  #failed: unknown;
  #waiting = 0;

  constructor(
    private readonly core: Core,
    private readonly run: Run,
    private readonly signal: AbortSignal,
  ) {}

  write(data: string | Uint8Array): Promise<void> {
    const bytes = Buffer.from(data as string);
    const tooMuch = this.#waiting > 0 && this.#waiting + bytes.length > maxWaiting;
    this.#waiting += bytes.length;
    const written = this.#last.then(() => {
      if (tooMuch) throw new StreamwrightError("too_large", `more than ${maxWaiting} bytes of output wait to be stored: await each output`);
      return this.#all(bytes);
    });
    this.#last = written
      .catch((err: unknown) => {
        this.#failed ??= err;
      })
      .finally(() => {
        this.#waiting -= bytes.length;
      });
    return written;
  }

  /** Resolves once all is stored; rejects if something could not be. Output that was cut is no error. */
  async end(): Promise<void> {
    await this.#last;
    if (this.#failed !== undefined && !(this.#failed instanceof StreamwrightError && this.#failed.code === outputFull)) throw this.#failed;
  }

  async #all(bytes: Buffer): Promise<void> {
    for (let at = 0; at < bytes.length; at += maxChunk) {
      if (this.#failed !== undefined) throw this.#failed;
      await this.#send(bytes.subarray(at, at + maxChunk));
    }
  }

  async #send(chunk: Buffer): Promise<void> {
    const text = chunk.toString("utf8");
    const body = Buffer.from(text).equals(chunk) ? { text } : { base64: chunk.toString("base64") };
    const request = JSON.stringify({ id: this.run.id, token: this.run.token, offset: this.#offset, ...body });
    for (let tries = 0; ; tries++) {
      if (this.signal.aborted) throw this.signal.reason;
      try {
        const sum = JSON.parse(await this.core.request("output_write", request, tryMs)) as OutputSummary;
        this.#offset = sum.bytes;
        if (sum.cut) throw new StreamwrightError(outputFull, "the item's output is full: what is beyond output_item_size is dropped");
        return;
      } catch (err) {
        if (err instanceof StreamwrightError && err.code === "stale_token") throw new RunStopped("lease_lost");
        if (!isTransient(err)) throw err;
      }
      await sleep(backoff(tries), this.signal);
    }
  }
}

/** The code of an error of output beyond the engine's bound. */
const outputFull = "output_full";
