/**
 * A refused request. The code is stable (docs/reference/ERRORS.md lists them); the message
 * says what is wrong and what to do.
 */
export class StreamwrightError extends Error {
  override readonly name: string = "StreamwrightError";
  /** When it may be worth trying again, in milliseconds; undefined: not said. */
  readonly retryAfterMs: number | undefined;

  constructor(
    readonly code: string,
    message: string,
    options: { retryAfterMs?: number | undefined; cause?: unknown } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.retryAfterMs = options.retryAfterMs || undefined;
  }
}

/** The error of a request that nobody has subscribed to. */
export class NoEngineError extends StreamwrightError {}

/** What a WorkError says beyond its message. */
export interface WorkErrorOptions {
  /** The stable name under which the failure is recorded, at most 256 bytes. */
  code?: string;
  /** Whether another attempt makes sense; default true. */
  retryable?: boolean;
  /** The wait before the next attempt, in place of the type's backoff. */
  retryAfterMs?: number;
  cause?: unknown;
}

/**
 * Thrown by a handler to say more of its failure than that it failed. Any other
 * thrown value fails the attempt as well, with code "error", and is retried.
 */
export class WorkError extends Error {
  override readonly name = "WorkError";
  readonly code: string | undefined;
  readonly retryable: boolean;
  readonly retryAfterMs: number | undefined;

  constructor(message: string, options: WorkErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = options.code;
    this.retryable = options.retryable ?? true;
    this.retryAfterMs = options.retryAfterMs;
  }
}

/** Why a run must stop: the reason of its handler's signal. */
export type StopCode =
  /** The item was cancelled. */
  | "cancelled"
  /** The item is no longer this worker's, or may not be; what the run returns is not likely to count. */
  | "lease_lost"
  /** The attempt took longer than it may. It is recorded as failed. */
  | "timeout"
  /** The worker stops and its drain has run out of time. The item goes back to the queue. */
  | "shutdown";

const stopTexts: Record<StopCode, string> = {
  cancelled: "the work item was cancelled",
  lease_lost: "the lease of the work item is lost: another worker may be running it",
  timeout: "the attempt took longer than its timeout",
  shutdown: "the worker is shutting down",
};

/** The reason with which a handler's signal is aborted. */
export class RunStopped extends Error {
  override readonly name = "RunStopped";
  constructor(readonly code: StopCode) {
    super(stopTexts[code]);
  }
}

/** The text of anything thrown. */
export function textOf(thrown: unknown): string {
  if (thrown instanceof Error) return thrown.message || thrown.name;
  return String(thrown);
}
