import type { Msg } from "@nats-io/nats-core";

import { RunStopped, type StopCode } from "../errors.js";
import { isId } from "../ids.js";
import { defaultLeaseMs, holdMs, slowRunMs, startAfterMs } from "./limits.js";
import type { Handler } from "./types.js";

/**
 * Where a dispatched item is in its life:
 *   held       pulled, and waiting for a slot
 *   claiming   has a slot; the claim is on its way
 *   running    granted: the handler runs, the lease is renewed
 *   settling   the handler has returned and left its slot; the outcome is on its way
 *   returning  handed back, not begun; the release is on its way
 *   gone       answered, and acked
 */
export type RunState = "held" | "claiming" | "running" | "settling" | "returning" | "gone";

/** A type and its handler, and what this worker has of it. */
export class Registration {
  held = 0;
  inSlots = 0;
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

/** What the engine says of an item that it sends to a worker. */
export interface Dispatch {
  readonly id: string;
  readonly token: string;
  readonly attempt: number;
  readonly leaseMs: number;
  /** How long the attempt may take; 0 if it does not say. */
  readonly timeoutMs: number;
  readonly labels: Readonly<Record<string, string>>;
  readonly trace: string | undefined;
  /** The params, as they were submitted. */
  readonly text: () => string;
  /** Where a pulled message is acked and renewed. */
  readonly reply?: string | undefined;
  /** The engine has claimed the item for this worker: there is nothing to ack and to renew. */
  readonly assigned?: true;
}

/** One dispatch of one item, from its coming to the answer to its end. */
export class Run {
  state: RunState = "gone"; // until it is counted
  renewAt = 0;
  /** The last renewal that may have arrived. */
  contactAt: number;
  /** While running. */
  abort: AbortController | undefined;
  /** Why it must stop, or is to. */
  stop: StopCode | undefined;
  /** The engine no longer wants to hear of it. */
  letGo = false;
  /** It said so in answer to a report from the middle of the run. */
  refused = false;
  /** Stop no longer waits for it. */
  gaveUp = false;

  readonly id: string;
  readonly token: string;
  readonly attempt: number;
  readonly leaseMs: number;

  constructor(
    readonly dispatch: Dispatch,
    readonly registration: Registration,
    readonly receivedAt: number,
  ) {
    ({ id: this.id, token: this.token, attempt: this.attempt, leaseMs: this.leaseMs } = dispatch);
    this.contactAt = receivedAt;
  }

  get assigned(): boolean {
    return this.dispatch.assigned === true;
  }

  /** Whether the lease has run out if it was never renewed. */
  lapsed(at: number): boolean {
    return at - this.receivedAt >= this.leaseMs;
  }

  /** When a held item is handed back. */
  get holdUntil(): number {
    return this.receivedAt + Math.min(holdMs, this.leaseMs / 4);
  }

  /** How long the attempt may take; 0 if nobody has said. */
  timeoutMs(said: number | undefined): number {
    return said || this.dispatch.timeoutMs;
  }

  /** Aborts the handler's signal, now or as soon as it has one. */
  end(code: StopCode): void {
    this.stop = code;
    this.abort?.abort(new RunStopped(code));
  }
}

/** Reads a dispatched message; a text says why it can't be run. */
export function parseRun(msg: Msg, types: ReadonlyMap<string, Registration>, at: number): Run | string {
  const header = (name: string): string => msg.headers?.get(name) ?? "";
  const id = header("Work-Id");
  if (!isId(id)) return `its Work-Id is "${id}"`;
  const token = header("Work-Token");
  if (!/^[0-9a-z]+$/.test(token)) return `item ${id} has no token`;
  const type = header("Work-Type");
  const registration = types.get(type);
  if (!registration) return `item ${id} is of type "${type}", which this worker has no handler for`;
  const attempt = Number(header("Work-Attempt") || "0");
  if (!Number.isSafeInteger(attempt)) return `item ${id} has "${header("Work-Attempt")}" for an attempt`;
  const dispatch: Dispatch = {
    id,
    token,
    attempt,
    leaseMs: parseDuration(header("Work-Lease")) || defaultLeaseMs,
    timeoutMs: parseDuration(header("Work-Deadline")),
    labels: parseLabels(header("Work-Labels")),
    trace: header("traceparent") || undefined,
    text: () => msg.string(),
    reply: msg.reply,
  };
  return new Run(dispatch, registration, at);
}

const units: Record<string, number> = { ns: 1e-6, us: 1e-3, "µs": 1e-3, ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };

/** A Go duration, such as 1m30s, in milliseconds; 0 for what is none. */
export function parseDuration(text: string): number {
  let ms = 0;
  let rest = text;
  while (rest !== "") {
    const part = /^([0-9]+(?:\.[0-9]+)?)(ns|us|µs|ms|s|m|h)/.exec(rest);
    if (!part) return 0;
    ms += Number(part[1]) * units[part[2]!]!;
    rest = rest.slice(part[0].length);
  }
  return ms;
}

/** Reads k=v,k=v as the engine writes it. */
export function parseLabels(text: string): Record<string, string> {
  const labels: Record<string, string> = {};
  for (const part of text.split(",")) {
    const at = part.indexOf("=");
    if (at > 0) labels[part.slice(0, at)] = part.slice(at + 1);
  }
  return labels;
}
