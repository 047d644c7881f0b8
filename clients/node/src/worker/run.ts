import { RunStopped, type StopCode } from "../errors.js";
import { isId } from "../ids.js";
import type * as wire from "../wire.gen.js";
import { defaultLeaseMs, slowRunMs, startAfterMs } from "./limits.js";
import type { Handler } from "./types.js";

/**
 * Where an item that the engine has sent is in its life:
 *   starting   its start is reported, and answered before the handler runs
 *   running    the handler runs
 *   settling   the handler has returned and left its slot; the outcome is on its way
 *   returning  handed back, not begun; the release is on its way
 *   gone       answered
 */
export type RunState = "starting" | "running" | "settling" | "returning" | "gone";

/** A type and its handler. */
export class Registration {
  #meanRunMs = slowRunMs;
  constructor(
    readonly type: string,
    readonly handler: Handler,
    readonly limit: number,
  ) {}

  /** Notes how long a handler has taken. */
  took(ms: number): void {
    this.#meanRunMs += (ms - this.#meanRunMs) / 8;
  }

  /** Whether runs are mostly over before their start would be reported. */
  get quick(): boolean {
    return this.#meanRunMs < startAfterMs;
  }
}

/** One run of one item, from its coming to the answer to its end. */
export class Run {
  state: RunState = "gone"; // until it is counted
  /** While running. */
  abort: AbortController | undefined;
  /** Why it must stop, or is to. */
  stop: StopCode | undefined;
  /** The engine no longer wants to hear of it. */
  letGo = false;
  /** Stop no longer waits for it. */
  gaveUp = false;

  readonly id: string;
  readonly token: string;
  readonly leaseMs: number;

  constructor(
    readonly assigned: Assigned,
    readonly registration: Registration,
    readonly receivedAt: number,
  ) {
    ({ id: this.id, token: this.token } = assigned);
    this.leaseMs = assigned.lease_ms || defaultLeaseMs;
  }

  /** Aborts the handler's signal, now or as soon as it has one. */
  end(code: StopCode): void {
    this.stop = code;
    this.abort?.abort(new RunStopped(code));
  }
}

/** An item that the engine has claimed for this worker, with its params as they were submitted. */
export type Assigned = Omit<wire.Assigned, "bytes" | "params"> & { text: string };

const beforeParams = /,"bytes":([0-9]+),"params":/y;

/** Where the item that begins at a place has its params, behind all that earlier runs have left, which may hold anything. */
function findParams(chars: string, at: number): RegExpExecArray | null {
  let depth = 0;
  for (let i = at; i < chars.length; i++) {
    const c = chars[i];
    if (c === '"') {
      while (++i < chars.length && chars[i] !== '"') if (chars[i] === "\\") i++;
    } else if (c === "{" || c === "[") depth++;
    else if (c === "}" || c === "]") depth--;
    else if (c === "," && depth === 1) {
      beforeParams.lastIndex = i;
      const found = beforeParams.exec(chars);
      if (found) return found;
    }
  }
  return null;
}

/** Reads a message of items. JSON.parse alone would lose the params' text. */
export function readAssigned(data: Uint8Array): Assigned[] {
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  const chars = bytes.toString("latin1"); // one for each byte
  const all: Assigned[] = [];
  for (let at = 1; ; ) {
    const found = findParams(chars, at);
    if (!found) throw new SyntaxError(`at ${at}: no item`);
    const begin = found.index + found[0].length;
    const end = begin + Number(found[1]);
    const head = JSON.parse(`${bytes.toString("utf8", at, found.index)}}`) as wire.Assigned;
    all.push({ ...head, text: bytes.toString("utf8", begin, end) });
    const close = chars.slice(end, end + 2);
    if (close === "}]") return all;
    if (close !== "},") throw new SyntaxError(`at ${end}: the item does not end`);
    at = end + 2;
  }
}

/** Makes the run of an item; a text says why it can't be run. */
export function newRun(a: Assigned, types: ReadonlyMap<string, Registration>, at: number): Run | string {
  if (!isId(a.id)) return `its id is "${a.id}"`;
  const registration = types.get(a.type);
  return registration ? new Run(a, registration, at) : `item ${a.id} is of type "${a.type}", which this worker has no handler for`;
}
