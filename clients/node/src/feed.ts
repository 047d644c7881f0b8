import { DeliverPolicy, jetstream, jetstreamManager, JetStreamApiError, type ConsumerMessages, type JetStreamManager, type JsMsg, type OrderedConsumerOptions } from "@nats-io/jetstream";

import { StreamwrightError } from "./errors.js";
import { isId } from "./ids.js";
import type { Link } from "./link.js";
import type { Names } from "./names.js";
import { backoff, isTransient } from "./retry.js";
import { sleep } from "./text.js";
import type { HistoryEvent } from "./wire.gen.js";

/** Which events are told, and from where on. Nothing: all, from now on. */
export interface EventsOptions {
  /** Only of these types. */
  types?: string[];
  /** Only of these kinds, such as "completed". */
  kinds?: string[];
  /** Only of this item. */
  id?: string;
  /** With events from then on; not with fromSeq. */
  since?: Date;
  /** With this position. */
  fromSeq?: number;
  /** Ends the iteration. */
  signal?: AbortSignal;
}

const maxFilters = 256; // subjects of one consumer
const version = 1; // of the envelope
const messageNotFound = 10037;

interface Envelope {
  v: number;
  kind: string;
  id?: string;
  type?: string;
  at: string;
  tx?: { n: number; of: number };
  attempt?: number;
  worker?: string;
  data?: unknown;
}

interface Decoded {
  event: HistoryEvent;
  n: number;
  of: number;
}

/**
 * The events of the log, live and in order. An event is told once its whole
 * decision is in the log, so what a crash has cut short is never seen. Over a
 * lost connection's repair no event is skipped.
 */
export async function* readEvents(link: Link, names: Names, options: EventsOptions): AsyncGenerator<HistoryEvent, void, void> {
  const { signal } = options;
  const config = consumerConfig(names, options);
  if (signal?.aborted) return;
  const messages = await open(link, names, config);
  const stop = (): void => messages.stop();
  signal?.addEventListener("abort", stop, { once: true });
  const filtered = (options.types?.length ?? 0) + (options.kinds?.length ?? 0) > 0;
  const wanted = options.id?.toUpperCase();
  const decisions = filtered ? new Lookup(link, names, signal) : new Buffered();
  try {
    for await (const m of messages) {
      for (const event of await decisions.take(decode(names, m), wanted)) {
        if (signal?.aborted) return;
        if (wanted === undefined || event.id === wanted) yield event;
      }
    }
    if (!signal?.aborted) throw new StreamwrightError("unavailable", "the feed of events has ended: the connection is closed");
  } finally {
    signal?.removeEventListener("abort", stop);
    messages.stop();
  }
}

async function open(link: Link, names: Names, config: Partial<OrderedConsumerOptions>): Promise<ConsumerMessages> {
  const stream = names.eventStream(0);
  try {
    if (config.deliver_policy === DeliverPolicy.New) {
      // From a position, so that what comes while the connection is repaired
      // before the first event is not skipped.
      const jsm = await jetstreamManager(link.nc, { checkAPI: false });
      config.deliver_policy = DeliverPolicy.StartSequence;
      config.opt_start_seq = (await jsm.streams.info(stream)).state.last_seq + 1;
    }
    const consumer = await jetstream(link.nc).consumers.get(stream, config);
    return await consumer.consume({ max_messages: 512 });
  } catch (err) {
    if (err instanceof JetStreamApiError) {
      throw new StreamwrightError("unavailable", `there is no stream ${stream} at ${link.where()} (${err.message}): has \`engine serve\` run there?`, { cause: err });
    }
    throw link.failed(`read ${stream}`, err);
  }
}

function consumerConfig(names: Names, o: EventsOptions): Partial<OrderedConsumerOptions> {
  const refuse = (code: string, text: string): never => {
    throw new StreamwrightError(code, text);
  };
  for (const t of o.types ?? []) if (!/^[a-z0-9]+([_-][a-z0-9]+)*$/.test(t)) refuse("bad_type", `"${t}" is no type`);
  for (const k of o.kinds ?? []) if (!/^[a-z_]+$/.test(k)) refuse("bad_request", `"${k}" is no event kind: see docs/EVENTS.md for the list`);
  if (o.id !== undefined && !isId(o.id)) refuse("bad_id", `"${o.id}" is no id of an item`);
  if (o.fromSeq !== undefined && o.since !== undefined) refuse("bad_request", "both a position and a time to begin with are given: give one of them");
  const orAny = (list?: string[]): string[] => (list?.length ? [...new Set(list)] : ["*"]);
  const filters = orAny(o.types).flatMap((t) => orAny(o.kinds).map((k) => names.event("0", t, k)));
  if (filters.length > maxFilters) refuse("too_large", `${filters.length} pairs of type and kind are asked for: at most ${maxFilters} are allowed`);
  const config: Partial<OrderedConsumerOptions> = { filter_subjects: filters, deliver_policy: DeliverPolicy.New };
  if (o.fromSeq !== undefined) {
    config.deliver_policy = DeliverPolicy.StartSequence;
    config.opt_start_seq = Math.max(1, o.fromSeq);
  } else if (o.since) {
    config.deliver_policy = DeliverPolicy.StartTime;
    config.opt_start_time = o.since.toISOString();
  }
  return config;
}

interface Raw {
  subject: string;
  seq: number;
  json<T>(): T;
  headers?: { get(name: string): string } | undefined;
}

/** Reads a message of the event stream; undefined for one that no engine wrote. */
function decode(names: Names, m: JsMsg | Raw): Decoded | undefined {
  if (!m.headers?.get("Nats-Msg-Id")) return undefined;
  const e = m.json<Envelope>();
  if (!(e.v <= version)) throw new StreamwrightError("newer_format", `the event at position ${m.seq} is of format ${e.v}: use a newer client`);
  if (m.subject !== names.event("0", e.type ?? "_", e.kind)) return undefined;
  const { v: _, tx, ...rest } = e;
  return { event: { seq: m.seq, ...rest }, n: tx?.n ?? 0, of: tx?.of ?? 0 };
}

/** Tells the events of whole decisions from a feed of all events. */
class Buffered {
  #pending: Decoded[] = [];
  #any = false;

  async take(d: Decoded | undefined): Promise<HistoryEvent[]> {
    const first = !this.#any;
    this.#any = true;
    const last = this.#pending.at(-1);
    if (!d || (last && (d.event.seq !== last.event.seq + 1 || d.of !== last.of || d.n !== last.n + 1))) {
      this.#pending = []; // interrupted: it was never decided
    }
    if (!d || (d.n > 1 && this.#pending.length === 0 && !first)) return [];
    this.#pending.push(d);
    if (d.n !== d.of) return [];
    const whole = this.#pending.map((p) => p.event);
    this.#pending = [];
    return whole;
  }
}

/**
 * Tells events whose neighbours are filtered out: whether their decision was
 * completed is looked up in the stream.
 */
class Lookup {
  #end = -1; // the last position of the decision that was last looked up
  #decided = false;
  #manager: Promise<JetStreamManager> | undefined;

  constructor(
    private readonly link: Link,
    private readonly names: Names,
    private readonly signal?: AbortSignal,
  ) {}

  async take(d: Decoded | undefined, wanted?: string): Promise<HistoryEvent[]> {
    if (!d || (wanted !== undefined && d.event.id !== wanted)) return [];
    if (d.n === d.of) return [d.event];
    const end = d.event.seq + d.of - d.n;
    if (end !== this.#end) {
      this.#decided = await this.#isDecided(end, d.of);
      this.#end = end;
    }
    return this.#decided ? [d.event] : [];
  }

  async #isDecided(end: number, of: number): Promise<boolean> {
    this.#manager ??= jetstreamManager(this.link.nc, { checkAPI: false });
    const jsm = await this.#manager;
    for (let tries = 0; !this.signal?.aborted; tries++) {
      try {
        const m = await jsm.streams.getMessage(this.names.eventStream(0), { seq: end });
        const last = m ? decode(this.names, { subject: m.subject, seq: m.seq, headers: m.header, json: <T>() => m.json<T>() }) : undefined;
        return last !== undefined && last.of === of && last.n === of;
      } catch (err) {
        const notYet = err instanceof JetStreamApiError && err.code === messageNotFound;
        const failure = this.link.failed("read the event stream", err);
        if (!notYet && !isTransient(failure)) throw failure;
      }
      await sleep(backoff(tries), this.signal); // the very next events tell
    }
    return false;
  }
}
