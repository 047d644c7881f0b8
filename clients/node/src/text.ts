import { Buffer } from "node:buffer";

/** Shortens a text to at most so many bytes of UTF-8, not inside a character. */
export function cut(text: string, most: number): string {
  const bytes = Buffer.from(text, "utf8"); // lone surrogates become U+FFFD
  if (bytes.length <= most) return bytes.toString("utf8");
  let end = most;
  while (end > 0 && (bytes[end]! & 0xc0) === 0x80) end--;
  return bytes.toString("utf8", 0, end);
}

/**
 * A value's JSON; undefined for undefined and for what JSON has no form for.
 * It throws where JSON.stringify does.
 */
export function toJson(value: unknown): string | undefined {
  return JSON.stringify(value) as string | undefined;
}

/** Waits so long, or less if the signal is aborted; it never rejects. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  if (signal?.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", done, { once: true });
  });
}

/** The longest time that a timer of Node takes, in milliseconds. */
export const maxTimer = 2 ** 31 - 1;

/** Those who wait for something to become so. */
export class Waiters {
  readonly #looks = new Set<() => void>();

  /** Resolves with true once ok, with false after so long; what is longer than a timer takes is for ever. */
  until(ok: () => boolean, ms: number): Promise<boolean> {
    return new Promise((resolve) => {
      const done = (is: boolean): void => {
        clearTimeout(timer);
        this.#looks.delete(look);
        resolve(is);
      };
      const look = (): void => {
        if (ok()) done(true);
      };
      const timer = ms > maxTimer ? undefined : setTimeout(() => done(ok()), ms);
      this.#looks.add(look);
      look();
    });
  }

  /** Has everyone look again. */
  look(): void {
    for (const fn of [...this.#looks]) fn();
  }
}
