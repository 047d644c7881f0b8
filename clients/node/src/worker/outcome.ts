import { RunStopped, StreamwrightError, textOf, WorkError } from "../errors.js";
import { cut, toJson } from "../text.js";
import type { Report, WaitFor } from "../wire.gen.js";
import { maxChildren, maxDelayMs, maxErrorBytes, maxNameBytes, maxSpawnBytes } from "./limits.js";
import { Ended, type Child, type Question, type SpawnOptions, type RunWaitOptions } from "./types.js";

/** What a report says beyond which run it is about. */
export type Said = Omit<Report, "id" | "token" | "worker" | "session">;

/** Makes the end of a run that puts its item off. */
export function snoozed(delayMs: number, reason = ""): Ended {
  const delay = Math.ceil(delayMs);
  if (!(delay >= 1 && delay <= maxDelayMs)) throw badSpawn(`the snooze of ${delayMs} ms is outside 1 ms to ten years`);
  return new Ended({ event: "snooze", delay_ms: delay, reason: cut(reason, maxNameBytes) });
}

/** Makes the end of a run that asks people. */
export function asked(name: string, question: Question, options: RunWaitOptions): Ended {
  const { who, remind, ...ask } = question;
  return parked(name, options, {
    ...ask,
    ...(who && { who: { users: who.users, roles: who.roles, not_submitter: who.notSubmitter } }),
    ...(remind && { remind: { every_ms: remind.everyMs, type: remind.type, params: remind.params, most: remind.most } }),
  });
}

/** Makes the end of a run that waits for signals. */
export function parked(names: string | readonly string[], options: RunWaitOptions, ask?: object): Ended {
  const { forMs, until, all, fail, complete } = options;
  if ((forMs === undefined) === (until === undefined)) throw badSpawn("the wait must say how long it is: give forMs or until");
  const wait: WaitFor = { names: typeof names === "string" ? [names] : [...names], then: "continue" };
  if (all) wait.all = true;
  if (ask) wait.ask = ask;
  if (until !== undefined) wait.until = until.toISOString();
  else wait.for_ms = Math.max(Math.ceil(forMs!), 1);
  if (fail !== undefined) {
    wait.then = "fail";
    if (fail.code) wait.code = cut(fail.code, maxNameBytes);
    if (fail.error) wait.error = cut(fail.error, maxErrorBytes);
  } else if (complete !== undefined) {
    wait.then = "complete";
    if (complete.result !== undefined) wait.result = complete.result;
  }
  return new Ended({ event: "wait", wait });
}

/** Makes the end of a run that spawns. */
export function spawned(children: readonly Child[], options: SpawnOptions = {}): Ended {
  if (children.length < 1 || children.length > maxChildren) {
    throw badSpawn(`the spawn has ${children.length} children: 1 to ${maxChildren} are allowed; return a result instead, or spawn items that spawn the rest`);
  }
  const size = Buffer.byteLength(toJson(children) ?? "");
  if (size > maxSpawnBytes) throw badSpawn(`the children have ${size} bytes of JSON together: at most ${maxSpawnBytes}; store what is large elsewhere`);
  const { continuation, childPolicy } = options;
  return new Ended({
    event: "spawn",
    children: [...children],
    ...(continuation === undefined ? {} : { continuation: continuation === true ? {} : { name: continuation } }),
    ...(childPolicy === undefined ? {} : { child_policy: childPolicy }),
  });
}

function badSpawn(text: string): WorkError {
  return new WorkError(text, { code: "bad_spawn", retryable: false });
}

/** The JSON of a handler's result; undefined for none. */
export function resultText(result: unknown): string | undefined {
  try {
    const text = toJson(result);
    if (text === undefined && result !== undefined) throw new TypeError(`a ${typeof result} has no form in JSON`);
    return text;
  } catch (err) {
    throw new WorkError(`the result can't be written as JSON: ${textOf(err)}`, { code: "bad_result", retryable: false, cause: err });
  }
}

/** The report of what a handler has thrown under the reason, if any, with which its signal was aborted. */
export function failure(thrown: unknown, signal: AbortSignal): Said {
  const reason: unknown = signal.aborted ? signal.reason : undefined;
  if (reason instanceof RunStopped) {
    if (reason.code === "shutdown" || reason.code === "lease_lost") return { event: "release", reason: reason.code };
    if (reason.code === "timeout") {
      const said = textOf(thrown);
      let text = `${reason.message}; the handler threw: ${said}`;
      if (said.includes(reason.message)) text = said; // once is enough
      else if (thrown instanceof Error && thrown.name === "AbortError") text = reason.message; // the signal's
      return { event: "fail", error: cut(text, maxErrorBytes), code: "timeout" };
    }
  }
  const said: Said = { event: "fail", error: cut(textOf(thrown), maxErrorBytes), code: "error" };
  if (thrown instanceof WorkError) {
    if (thrown.code) said.code = cut(String(thrown.code), maxNameBytes);
    if (!thrown.retryable) said.retryable = false;
    const wait = thrown.retryAfterMs;
    if (wait !== undefined && wait > 0) said.retry_after_ms = Math.min(Math.ceil(wait), maxDelayMs);
  }
  return said;
}

/** What the object store could not do, as the failure of an attempt. */
export function blobFailure(what: string, err: unknown): WorkError {
  const code = err instanceof StreamwrightError ? err.code : "";
  const lasting = code === "blob_gone" || code === "blob_damaged" || code === "bad_params" || code === "too_large";
  const name = code === "too_large" ? "bad_result" : lasting ? code : "blob_unavailable";
  return new WorkError(`${what}: ${textOf(err)}`, { code: name, retryable: !lasting, cause: err });
}
