import { StreamwrightError } from "./errors.js";
import { isId } from "./ids.js";
import type { EventsReply, HistoryEvent, ReadEvents } from "./wire.gen.js";

/** Which events are told, and from where on. Nothing: all, from now on. */
export interface EventsOptions {
  /** Only of these types. */
  types?: string[];
  /** Only of these kinds, such as "completed". */
  kinds?: string[];
  /** Only of this item. */
  id?: string;
  /** Only of items of this tenant. */
  tenant?: string;
  /** Only of items with this label: name=value. */
  label?: string;
  /** With events from then on; not with fromSeq. */
  since?: Date;
  /** With this position. */
  fromSeq?: number;
  /** Ends the iteration. */
  signal?: AbortSignal;
}

const maxFilters = 256; // types, and kinds
const waitMs = 5_000; // how long the engine holds one request

/** Asks for a page; later ones are tried for ever. */
export type AskEvents = (request: ReadEvents, first: boolean, holdMs: number, signal: AbortSignal) => Promise<EventsReply>;

/**
 * The events of the log, live and in order. An event is told once its whole
 * decision is in the log, so what a crash has cut short is never seen. Over a
 * lost connection's repair, or a restart of the engine, no event is skipped.
 */
export async function* readEvents(ask: AskEvents, options: EventsOptions): AsyncGenerator<HistoryEvent, void, void> {
  const { signal } = options;
  const request = firstRequest(options);
  if (signal?.aborted) return;
  const over = new AbortController();
  const stop = (): void => over.abort(signal?.reason);
  signal?.addEventListener("abort", stop, { once: true });
  try {
    let page = await ask(request, true, 0, over.signal); // settles where the feed begins
    for (let first = true; ; first = false) {
      if (page.gap && !first) {
        throw new StreamwrightError("not_found", `retention has cut the positions ${page.gap.from} to ${page.gap.to} before they were read: begin anew`);
      }
      const { since: _, ...rest } = request;
      const next = ask({ ...rest, from_seq: page.next_seq, wait_ms: waitMs }, false, waitMs, over.signal); // one page ahead
      next.catch(() => {}); // told when it is awaited, if it is
      for (const event of page.events) {
        if (signal?.aborted) return;
        yield event;
      }
      page = await next;
    }
  } catch (err) {
    if (!signal?.aborted) throw err;
  } finally {
    signal?.removeEventListener("abort", stop);
    over.abort();
  }
}

function firstRequest(o: EventsOptions): ReadEvents {
  const refuse = (code: string, text: string): never => {
    throw new StreamwrightError(code, text);
  };
  for (const t of o.types ?? []) if (!/^[a-z0-9]+([_-][a-z0-9]+)*$/.test(t)) refuse("bad_type", `"${t}" is no type`);
  for (const k of o.kinds ?? []) if (!/^[a-z_]+$/.test(k)) refuse("bad_request", `"${k}" is no event kind: see docs/reference/EVENTS.md for the list`);
  if (o.id !== undefined && !isId(o.id)) refuse("bad_id", `"${o.id}" is no id of an item`);
  if (o.fromSeq !== undefined && o.since !== undefined) refuse("bad_request", "both a position and a time to begin with are given: give one of them");
  const request: ReadEvents = {};
  for (const [name, list] of [["types", o.types], ["kinds", o.kinds]] as const) {
    const distinct = [...new Set(list ?? [])];
    if (distinct.length > maxFilters) refuse("too_large", `${distinct.length} ${name} are asked for: at most ${maxFilters} are allowed`);
    if (distinct.length > 0) request[name] = distinct;
  }
  if (o.id !== undefined) request.id = o.id;
  if (o.tenant) request.tenant = o.tenant;
  if (o.label) request.label = o.label;
  if (o.fromSeq !== undefined) request.from_seq = Math.max(1, o.fromSeq);
  if (o.since) request.since = o.since.toISOString();
  return request;
}
