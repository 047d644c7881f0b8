// What a worker logs of its handlers' failures.

import type { Said } from "./outcome.js";
import type { Run } from "./run.js";
import type { Logger } from "./types.js";

const maxLines = 20; // a second; the number of the others is logged
const maxText = 500;

/** Logs failures, so many a second. */
export class FailureLog {
  #began = 0;
  #said = 0;
  #left = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(private readonly to: Logger) {}

  log(run: Run, said: Said): void {
    const now = Date.now();
    if (now - this.#began >= 1000) [this.#began, this.#said] = [now, 0];
    if (this.#said < maxLines) {
      this.#said++;
      const text = said.error ?? "";
      this.to.warn(`a handler has failed: item ${run.id}, type ${run.registration.type}, code ${said.code ?? "error"}: ${text.length > maxText ? `${text.slice(0, maxText)}…` : text}`);
      return;
    }
    this.#left++;
    this.#timer ??= setTimeout(() => this.flush(), 1000).unref();
  }

  /** Says now how many were left out, if any were. */
  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#left > 0) this.to.warn(`more handlers failed than are logged in a second: ${this.#left} left out`);
    this.#left = 0;
  }
}
