import { blobRef, maxInlineBytes } from "../documents.js";
import { RunStopped, StreamwrightError, textOf, WorkError } from "../errors.js";
import { cut, maxTimer, toJson } from "../text.js";
import type { Outcome } from "../wire.gen.js";
import type { Core } from "./core.js";
import { maxInlineChildren, maxLogBytes, now } from "./limits.js";
import { Line } from "./line.js";
import { blobFailure, failure, asked, parked, resultText, snoozed, spawned, type Said } from "./outcome.js";
import { Output } from "./output.js";
import type { Run } from "./run.js";
import { Ended, type Context, type Item, type LogLevel, type ReceivedSignal } from "./types.js";

/** Runs the handler of a run that came, or whose start was sent, at that time, and reports what came of it. It never rejects. */
export async function execute(core: Core, run: Run, since: number): Promise<void> {
  const abort = new AbortController();
  run.abort = abort;
  if (run.stop !== undefined) run.end(run.stop);
  const line = new Line(core, run);
  core.lines.set(run, line);
  // Counted from when the item came or its start was sent, so that this worker's own
  // report of a timeout comes before the engine's timer.
  const timeout = run.assigned.timeout_ms || 0;
  const disarm = timeout > 0 ? arm(abort, since + timeout) : () => {};
  const began = now();
  let outcome: Said;
  try {
    outcome = await outcomeOf(core, run, line, abort.signal, timeout > 0 ? new Date(Date.now() + since + timeout - began) : undefined);
  } catch (thrown) {
    try {
      outcome = failure(thrown, abort.signal);
    } catch {
      outcome = { event: "fail", error: "the handler has thrown what has no text", code: "error" };
    }
  }
  disarm();
  if (outcome.event === "fail" && (!abort.signal.aborted || outcome.code === "timeout")) core.failures.log(run, outcome);
  core.ended(run, outcome, now() - began);
}

/** Aborts with "timeout" at a time, which may be farther off than a timer takes. */
function arm(abort: AbortController, at: number): () => void {
  let timer: NodeJS.Timeout;
  const set = (): void => {
    const left = at - now();
    timer = left > maxTimer ? setTimeout(set, maxTimer) : setTimeout(() => abort.abort(new RunStopped("timeout")), Math.max(left, 0));
  };
  set();
  return () => clearTimeout(timer);
}

async function outcomeOf(core: Core, run: Run, line: Line, signal: AbortSignal, deadline: Date | undefined): Promise<Said> {
  const item = await itemOf(core, run, signal, deadline);
  const output = new Output(core, run, signal);
  const result = await run.registration.handler(item, contextOf(core, run, line, output, item, signal));
  await output.end();
  if (result instanceof Ended) return withChildrenStored(core, run, result.report);
  const text = resultText(result);
  if (text === undefined) return { event: "complete" };
  const bytes = Buffer.from(text);
  if (bytes.length <= maxInlineBytes) return { event: "complete", result };
  try {
    return { event: "complete", result: await core.client.documents.put(run.id, "result", bytes) };
  } catch (err) {
    throw blobFailure(`the result has ${bytes.length} bytes and could not be stored`, err);
  }
}

/** Puts the children of a spawn into the object store if they are too large for a message. */
async function withChildrenStored(core: Core, run: Run, report: Said): Promise<Said> {
  const { children, ...rest } = report;
  if (children === undefined) {
    try {
      toJson(report);
    } catch (err) {
      throw new WorkError(`what the run ends in can't be written as JSON: ${textOf(err)}`, { code: "bad_outcome", retryable: false, cause: err });
    }
    return report;
  }
  const bytes = Buffer.from(toJson(children) ?? "");
  if (bytes.length <= maxInlineChildren) return report;
  try {
    return { ...rest, children_ref: await core.client.documents.put(run.id, "children", bytes) };
  } catch (err) {
    throw blobFailure(`the spawn's ${children.length} children could not be stored`, err);
  }
}

/** The item as its handler sees it, with its params, wherever they are. */
async function itemOf(core: Core, run: Run, signal: AbortSignal, deadline: Date | undefined): Promise<Item> {
  const { assigned } = run;
  let { text } = assigned;
  let params: unknown = JSON.parse(text);
  try {
    const ref = blobRef(params);
    if (ref) {
      text = Buffer.from(await core.client.documents.get(ref, signal)).toString("utf8");
      params = asJson(ref.name, text);
    }
  } catch (err) {
    if (signal.aborted || err instanceof WorkError) throw err;
    throw blobFailure("the params could not be had", err instanceof StreamwrightError && err.code === "too_large" ? new StreamwrightError("bad_params", err.message) : err);
  }
  const { checkpoint, continuation, waited } = assigned;
  return {
    id: run.id,
    namespace: core.names.namespace,
    type: run.registration.type,
    attempt: assigned.attempt,
    params,
    text,
    labels: assigned.labels ?? {},
    deadline,
    trace: assigned.traceparent,
    checkpoint,
    continuation: continuation && { name: continuation.name ?? "", children: (continuation.children ?? []) as Outcome[] },
    waited: waited && { timedOut: waited.ended === "timed_out", signals: (waited.signals ?? []) as ReceivedSignal[] },
  };
}

function asJson(name: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new WorkError(`the object ${name} is no JSON document: put the params as JSON`, { code: "bad_params", retryable: false, cause });
  }
}

const levels = new Set<string>(["debug", "info", "warn", "error"]);

function contextOf(core: Core, run: Run, line: Line, output: Output, item: Item, signal: AbortSignal): Context {
  const subject = core.names.log(item.type, run.id);
  return {
    signal,
    log(message: string, level: LogLevel = "info"): void {
      if (core.link.closed) return;
      const record = { at: new Date().toISOString(), level: levels.has(level) ? level : "info", attempt: item.attempt, worker: core.id, message: cut(String(message), maxLogBytes) };
      core.link.nc.publish(subject, toJson(record)!);
    },
    output: (data) => output.write(data),
    progress: (percent, message) => line.progress(percent, message),
    checkpoint: (document) => line.checkpoint(document),
    token: (name, options) => line.token(name, options?.for),
    snooze: snoozed,
    wait: (names, options) => parked(names, options),
    ask: asked,
    spawn: spawned,
  };
}
