import { StreamwrightError, textOf } from "./errors.js";
import { sleep } from "./text.js";

const minBackoffMs = 25; // before the second try; doubled each time
const maxBackoffMs = 2_000;
const maxRetryAfterMs = 60_000;

/** How long something is tried. */
export interface Patience {
  /** Milliseconds until a failed try is the last; Infinity: until the signal. */
  forMs: number;
  signal?: AbortSignal | undefined;
  onRetry?: ((what: string, error: StreamwrightError) => void) | undefined;
}

/** Whether a refusal may end by itself: no engine, or none that can answer now. */
export function isTransient(err: unknown): err is StreamwrightError {
  return err instanceof StreamwrightError && (err.code === "unavailable" || err.code === "timeout" || err.code === "not_owner");
}

/** The wait before another try, with jitter. */
export function backoff(tries: number, min: number = minBackoffMs, max: number = maxBackoffMs): number {
  const full = Math.min(min * 2 ** Math.min(tries, 10), max);
  return full / 2 + Math.random() * (full / 2);
}

/**
 * Calls attempt until it succeeds, is refused for good, the signal is aborted, or
 * nobody could answer for so long.
 */
export async function retry<T>(what: string, patience: Patience, attempt: () => Promise<T>): Promise<T> {
  const { signal } = patience;
  const start = Date.now();
  for (let tries = 0, last: unknown; ; tries++) {
    if (signal?.aborted) throw gaveUp(what, signal.reason, last);
    try {
      return await attempt();
    } catch (err) {
      if (signal?.aborted) throw gaveUp(what, signal.reason, last ?? err);
      if (!isTransient(err)) throw err;
      const wait = Math.max(backoff(tries), Math.min(err.retryAfterMs ?? 0, maxRetryAfterMs));
      if (Date.now() - start + wait > patience.forMs) throw err;
      patience.onRetry?.(what, err);
      last = err;
      await sleep(wait, signal);
    }
  }
}

/** The error of a wait that its caller has ended. */
export function gaveUp(what: string, reason: unknown, last: unknown): StreamwrightError {
  const met = last === undefined || last === reason ? "" : `; the last try: ${textOf(last)}`;
  return new StreamwrightError("timeout", `${what}: gave up waiting (${textOf(reason)})${met}`, { cause: reason });
}
