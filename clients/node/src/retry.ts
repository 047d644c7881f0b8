import { NoEngineError, StreamwrightError, textOf } from "./errors.js";
import { sleep } from "./text.js";

const minBackoffMs = 25; // before the second try; doubled each time
const maxBackoffMs = 500;
const ownerBackoffMs = 250; // while an engine answers that it is not the owner
const maxRetryAfterMs = 60_000;

/** How long something is tried. */
export interface Patience {
  /** Milliseconds until a failed try is the last; Infinity: until the signal. */
  forMs: number;
  /** Milliseconds for which tries without any reply go on, if that is longer and forMs is not 0. */
  unansweredMs?: number;
  signal?: AbortSignal | undefined;
  /** The error to give up with, for the last try's. */
  explain?: (error: StreamwrightError) => Promise<StreamwrightError>;
  onRetry?: ((what: string, error: StreamwrightError) => void) | undefined;
  /** Two would do more than one: it is tried again only where nobody has taken it. */
  once?: boolean;
}

/** Whether a refusal may end by itself: no engine, or none that can answer now. */
export function isTransient(err: unknown): err is StreamwrightError {
  return err instanceof StreamwrightError && (err.code === "unavailable" || err.code === "timeout" || err.code === "not_owner");
}

/** The wait after a failed try. */
function waitAfter(err: StreamwrightError, tries: number): number {
  if (err.code === "not_owner") return backoff(tries, minBackoffMs, ownerBackoffMs);
  return Math.max(backoff(tries), Math.min(err.retryAfterMs ?? 0, maxRetryAfterMs));
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
    if (signal?.aborted) throw endOf(what, signal.reason, last instanceof StreamwrightError ? ((await patience.explain?.(last)) ?? last) : last);
    try {
      return await attempt();
    } catch (err) {
      if (signal?.aborted) throw endOf(what, signal.reason, last ?? err);
      if (!isTransient(err)) throw err;
      if (patience.once && !(err instanceof NoEngineError) && err.code !== "not_owner") {
        const cause = (await patience.explain?.(err)) ?? err;
        throw new StreamwrightError(cause.code, `${cause.message}; the ${what} may have been done`, { cause });
      }
      const wait = waitAfter(err, tries);
      const forMs = patience.forMs > 0 && err.code === "timeout" ? Math.max(patience.forMs, patience.unansweredMs ?? 0) : patience.forMs;
      if (Date.now() - start + wait > forMs) throw (await patience.explain?.(err)) ?? err;
      patience.onRetry?.(what, err);
      last = err;
      await sleep(wait, signal);
    }
  }
}

/** A request whose signal was aborted first. tried: its message says what the last try had met. */
export class EndedError extends StreamwrightError {
  constructor(message: string, readonly tried: boolean, cause: unknown) {
    super("timeout", message, { cause });
  }
}

/** Whether a signal was aborted because its time is over. */
export const isTimeUp = (reason: unknown): boolean => reason instanceof Error && reason.name === "TimeoutError";

/** The error of a request that its caller has ended. */
function endOf(what: string, reason: unknown, last: unknown): EndedError {
  const tried = last !== undefined && last !== reason;
  const text = isTimeUp(reason) ? `${what}: the time given for it is over` : `${what} was interrupted: what was asked may have been done`;
  return new EndedError(tried ? `${text}; the last try: ${textOf(last)}` : text, tried, reason);
}
