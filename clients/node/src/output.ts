import type { NatsConnection } from "@nats-io/nats-core";

import { sleep } from "./text.js";
import type { OutputChunk, OutputReply } from "./wire.gen.js";

/** A part of what a run of an item has written. */
export interface Output {
  /** Its position: a reader goes on behind it with `after`. */
  seq: number;
  attempt: number;
  /** The first of a run: what an earlier run has written is void. */
  reset: boolean;
  /** The bytes that the run has written before. More than the reader has: those between are no longer kept. */
  offset: number;
  /** The output has reached its bound here. */
  cut: boolean;
  bytes: Uint8Array;
}

/** Which part of an item's output is read. */
export interface OutputOptions {
  /** Behind the chunk with this seq. Default: from the beginning. */
  after?: number;
  /** Goes on until the item has ended. */
  follow?: boolean;
  /** Ends the iteration. */
  signal?: AbortSignal;
}

const lookMs = 1_000; // how often it looks when nothing shows that there is more

/** The bytes of a chunk. */
export function bytesOf(chunk: { text?: string; base64?: string }): Uint8Array {
  return chunk.base64 ? Buffer.from(chunk.base64, "base64") : Buffer.from(chunk.text ?? "");
}

function outputOf(c: OutputChunk): Output {
  return { seq: c.seq, attempt: c.attempt, reset: c.reset ?? false, offset: c.offset, cut: c.cut ?? false, bytes: bytesOf(c) };
}

/** What a follower needs of its client. */
export interface AskOutput {
  nc: NatsConnection;
  page(after: number, signal: AbortSignal): Promise<OutputReply>;
  /** The subject of the output. */
  subject: string;
  /** Resolves when the item has ended. */
  ended(signal: AbortSignal): Promise<unknown>;
}

/** An item's output, chunk by chunk. */
export async function* readOutput(ask: AskOutput, options: OutputOptions): AsyncGenerator<Output, void, void> {
  const over = new AbortController();
  const signal = options.signal ? AbortSignal.any([options.signal, over.signal]) : over.signal;
  let look = (): void => {};
  const sub = options.follow ? ask.nc.subscribe(ask.subject, { callback: () => look() }) : undefined;
  let ended = !options.follow;
  let failed: unknown;
  if (options.follow) {
    ask.ended(signal).then(
      () => { ended = true; look(); },
      (err: unknown) => { failed = err; look(); },
    );
  }
  try {
    for (let after = options.after ?? 0; ; ) {
      const last = ended;
      const more = new AbortController(); // aborted by what comes from now on
      look = () => more.abort();
      const page = await ask.page(after, signal);
      for (const chunk of page.chunks) {
        yield outputOf(chunk);
        after = chunk.seq;
      }
      if (page.more) continue;
      if (last) return;
      if (!ended && failed === undefined) await sleep(lookMs, AbortSignal.any([signal, more.signal])).catch(() => {});
      if (failed !== undefined) throw failed;
      if (options.signal?.aborted) return;
    }
  } catch (err) {
    if (!options.signal?.aborted) throw err;
  } finally {
    over.abort();
    sub?.unsubscribe();
  }
}
