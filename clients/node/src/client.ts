import { readFile } from "node:fs/promises";

import { AuthorizationError, UserAuthenticationExpiredError, type NatsConnection } from "@nats-io/nats-core";
import { connect as dial, credsAuthenticator, type NodeConnectionOptions } from "@nats-io/transport-node";

import { blobRef, defaultMaxDocument, Documents, maxInlineBytes } from "./documents.js";
import { StreamwrightError, textOf } from "./errors.js";
import { readEvents, type AskEvents, type EventsOptions } from "./feed.js";
import { DedupBucket, dedupEntry, watchHolder, type AskHolder } from "./held.js";
import { IdSource } from "./ids.js";
import { Link, toError } from "./link.js";
import { Names } from "./names.js";
import { readOutput, type Output, type OutputOptions } from "./output.js";
import { EndedError, isTimeUp, isTransient, retry, type Patience } from "./retry.js";
import { toJson } from "./text.js";
import type * as wire from "./wire.gen.js";
import { onlyOnce } from "./wire.gen.js";

/** How a client behaves. */
export interface ClientOptions {
  /** The engine's subject prefix. Default "work". */
  prefix?: string;
  /** The namespace of the engine to speak to, such as "acme". Default "default". */
  namespace?: string;
  /** The JetStream domain that has the engine's streams. Default: what the engine says. */
  domain?: string;
  /** How long one try waits for its reply. Default 10,000. */
  tryTimeoutMs?: number;
  /** How long a query is tried again while no engine answers. Default 2,000. */
  patienceMs?: number;
  /** How long a submission is tried. Default 60,000; Infinity: until its signal. */
  submitPatienceMs?: number;
  /** Is told why a request is about to be tried again. */
  onRetry?: (request: string, error: StreamwrightError) => void;
  /** Params larger than this go to the object store, in bytes. Default 256 KiB. */
  inlineBytes?: number;
  /** The bound of one document in the object store, in bytes. Default 64 MiB. */
  maxDocument?: number;
}

/**
 * How to connect: all options of the NATS client (servers, tls, user, pass,
 * token, authenticator, inboxPrefix, ...), and the client's own.
 */
export interface ConnectOptions extends ClientOptions, NodeConnectionOptions {
  /** A NATS credentials file (JWT and seed). */
  credsFile?: string;
}

/** An item to submit. An id that is left out is chosen by the client. */
export type Submission = Omit<wire.Submit, "signal"> & {
  /** Goes to the item, or to the one that this repeats or is merged into. A msg_id that is left out is chosen by the client. */
  signal?: Omit<wire.FirstSignal, "msg_id"> & { msg_id?: string };
};

/** What became of one of many submissions. */
export type SubmitResult = (wire.Submitted & { error?: undefined }) | { id: string; error: StreamwrightError };

/** What is said with a token: a result, any JSON of at most 64 KiB, or an error. */
export type TokenAnswer = { result?: unknown; error?: undefined } | { error: wire.SignalError; result?: undefined };

/** Ends a request before it has its answer. */
export interface RequestOptions {
  signal?: AbortSignal;
}

/** How long to wait; by default for ever. */
export interface WaitOptions extends RequestOptions {
  timeoutMs?: number;
}

const maxBatch = 1_000; // items of one request
const maxBatchBytes = 1024 * 1024;
const waitMs = 5_000; // how long the engine holds one wait request: if it dies, another is asked soon after
const failoverMs = 15_000;
const firstTryMs = 2_000; // for the reply to the first try; doubled each time
const maxMergeHops = 16;

/** The error of a wait for so many items that its caller has ended; pending are those that have not ended. */
function notEnded(pending: { id: string; state?: string }[], of: number, reason: unknown): StreamwrightError {
  const one = of === 1 ? pending[0]! : undefined;
  const what = one ? `item ${one.id}` : `${pending.length} of ${of} items`;
  const text = !isTimeUp(reason) ? `stopped waiting for ${what}` : one ? `${what} has not ended in the time given for it` : `${what} have not ended in the time given for them`;
  const goesOn = one ? "it goes on" : "they go on";
  return new StreamwrightError("timeout", `${text}${one?.state ? `: it is ${one.state}` : ""}; ${goesOn}, and can be waited for again`, { cause: reason });
}

/**
 * Connects to NATS, by default at nats://127.0.0.1:4222. Later losses of the
 * connection are repaired in the background, for ever; a server that has been silent
 * for 15 s counts as lost. It does not ask whether an
 * engine is there: the first request will tell.
 */
export async function connect(options: ConnectOptions = {}): Promise<Client> {
  const { credsFile, prefix, namespace, domain, tryTimeoutMs, patienceMs, submitPatienceMs, onRetry, inlineBytes, maxDocument, ...nats } = options;
  const own: ClientOptions = { prefix, namespace, domain, tryTimeoutMs, patienceMs, submitPatienceMs, onRetry, inlineBytes, maxDocument } as ClientOptions;
  new Names(prefix, domain, namespace); // a wrong one is told before anything is opened
  if (credsFile !== undefined) nats.authenticator = credsAuthenticator(await readFile(credsFile));
  let nc: NatsConnection;
  try {
    nc = await dial({ name: "streamwright client", maxReconnectAttempts: -1, ignoreAuthErrorAbort: true, reconnectTimeWait: 250, timeout: 5_000, pingInterval: 5_000, maxPingOut: 2, ...nats });
  } catch (err) {
    if (err instanceof AuthorizationError || err instanceof UserAuthenticationExpiredError) {
      throw new StreamwrightError("unauthenticated", `the NATS server refused the login (${textOf(err)}): give credentials that it knows`, { cause: err });
    }
    throw new StreamwrightError("unavailable", `connect to NATS: ${textOf(err)}: check the address, the credentials and the TLS files, or start an engine with \`engine serve\``, { cause: err });
  }
  return new Client(nc, own, true);
}

/** Talks to an engine. Items and events have the names of the protocol's JSON. */
export class Client {
  /** The NATS connection. */
  readonly connection: NatsConnection;
  /** @internal */
  readonly link: Link;
  /** @internal */
  readonly names: Names;
  /** @internal */
  readonly documents: Documents;
  readonly #bucket: DedupBucket;
  readonly #set: Required<Omit<ClientOptions, "onRetry" | "prefix" | "namespace" | "domain">> & Pick<ClientOptions, "onRetry">;
  readonly #ids = new IdSource();
  #seen = 0n;
  /** Patience of a client that an engine has answered before: another one takes over. */
  #failoverMs = 0;
  readonly #ownPatience: boolean;

  /** Makes a client of a connection; it closes it only if owned. */
  constructor(nc: NatsConnection, options: ClientOptions = {}, private readonly owned = false) {
    this.connection = nc;
    this.names = new Names(options.prefix, options.domain, options.namespace);
    this.link = new Link(nc, this.names);
    this.documents = new Documents(this.link, this.names, options.maxDocument ?? defaultMaxDocument);
    this.#bucket = new DedupBucket(this.link, this.names);
    this.#ownPatience = options.patienceMs !== undefined;
    this.#set = {
      tryTimeoutMs: options.tryTimeoutMs ?? 10_000,
      patienceMs: options.patienceMs ?? 2_000,
      submitPatienceMs: options.submitPatienceMs ?? 60_000,
      inlineBytes: options.inlineBytes ?? maxInlineBytes,
      maxDocument: options.maxDocument ?? defaultMaxDocument,
      onRetry: options.onRetry,
    };
  }

  /** The namespace that the client speaks to. */
  get namespace(): string {
    return this.names.namespace;
  }

  /** The highest position that the engine has told: later queries see it all. */
  get position(): string {
    return this.#seen === 0n ? "" : this.#seen.toString();
  }

  /** Makes later queries see at least everything up to a position, which another client may have been told. */
  saw(position: string | undefined): void {
    if (!position || !/^[0-9]{1,20}$/.test(position)) return;
    const seq = BigInt(position);
    if (seq > this.#seen) this.#seen = seq;
  }

  /**
   * Submits an item and returns once it is durable, or is refused. Ids are chosen
   * before the first try, so it is tried through timeouts and restarts of the
   * engine and still makes one item. An error with code "timeout" or
   * "unavailable" leaves open whether it was accepted: submit it again with the
   * same id.
   */
  submit(item: Submission, options?: RequestOptions): Promise<wire.Submitted>;
  /**
   * Submits items in their order, each on its own: one that is refused has an
   * error in its place.
   */
  submit(items: readonly Submission[], options?: RequestOptions): Promise<SubmitResult[]>;
  async submit(items: Submission | readonly Submission[], options: RequestOptions = {}): Promise<wire.Submitted | SubmitResult[]> {
    if (Array.isArray(items)) return this.#submitMany(items as readonly Submission[], options);
    const item = await this.#prepare(items as Submission, options);
    return this.#ask<wire.Submitted>("submit", item, { forMs: this.#set.submitPatienceMs, signal: options.signal });
  }

  /** Gives an item's signal its message id. */
  #signed(item: Submission): wire.Submit {
    const { signal, ...rest } = item;
    return signal ? { ...rest, signal: { ...signal, msg_id: signal.msg_id ?? this.#ids.next() } } : rest;
  }

  /** Gives an item its id, and puts large params into the object store. */
  async #prepare(item: Submission, options: RequestOptions): Promise<wire.Submit & { id: string }> {
    const ready = { ...this.#signed(item), id: item.id ?? this.#ids.next() };
    const params = toJson(item.params);
    if (params === undefined || Buffer.byteLength(params) <= this.#set.inlineBytes) return ready;
    const put = (): Promise<unknown> => this.documents.put(ready.id, "params", Buffer.from(params));
    const ref = await retry("put params", { forMs: this.#set.submitPatienceMs, explain: this.#explain, signal: options.signal, onRetry: this.#set.onRetry }, put);
    return { ...ready, params: ref };
  }

  async #submitMany(items: readonly Submission[], options: RequestOptions): Promise<SubmitResult[]> {
    const results: SubmitResult[] = [];
    let batch: (wire.Submit & { id: string })[] = [];
    let bytes = 0;
    const flush = async (): Promise<void> => {
      if (batch.length > 0) results.push(...(await this.#submitBatch(batch, options)));
      batch = [];
      bytes = 0;
    };
    for (const item of items) {
      const ready = await this.#prepare(item, options);
      const size = Buffer.byteLength(toJson(ready) ?? "");
      if (batch.length === maxBatch || (batch.length > 0 && bytes + size > maxBatchBytes)) await flush();
      batch.push(ready);
      bytes += size;
    }
    await flush();
    return results;
  }

  /** Submits what fits one request, and again what the engine could not take just then. */
  async #submitBatch(batch: (wire.Submit & { id: string })[], options: RequestOptions): Promise<SubmitResult[]> {
    const results = new Map<string, SubmitResult>();
    let left = batch.map((item, i) => ({ item, key: String(i) }));
    const attempt = async (): Promise<void> => {
      const request = left.map((l) => l.item);
      const replies = await this.#once<wire.Submitted[]>("submit", request, options.signal);
      const again: typeof left = [];
      let transient: StreamwrightError | undefined;
      left.forEach((l, i) => {
        const reply = replies[i] ?? { error: { code: "internal", message: "the engine's reply has no element for the item" } };
        const error = reply.error ? toError(reply.error) : undefined;
        this.saw(reply.position);
        results.set(l.key, error ? { id: l.item.id, error } : ({ ...reply } as SubmitResult));
        if (isTransient(error)) {
          again.push(l);
          transient = error;
        }
      });
      left = again;
      if (transient) throw transient;
    };
    try {
      await retry("submit", { forMs: this.#set.submitPatienceMs, explain: this.#explain, signal: options.signal, onRetry: this.#set.onRetry }, attempt);
    } catch (err) {
      // What was answered is told; what was not has the error of the last try.
      const error = err instanceof StreamwrightError ? err : new StreamwrightError("internal", textOf(err), { cause: err });
      for (const l of left) results.set(l.key, { id: l.item.id, error });
    }
    return batch.map((_, i) => results.get(String(i))!);
  }

  /** An item, with params and result. An unknown id is "not_found". */
  async get(id: string, options: RequestOptions = {}): Promise<wire.Item> {
    return this.#query<wire.Item>("get", { id }, options);
  }

  /**
   * The item that a plain publish became, by the seq of the publish's ack. It may
   * be asked at once: the engine waits for its decision, for two seconds at most.
   * After that, and for a publish that was rejected, it is "not_found".
   */
  async getByIntake(seq: number, options: RequestOptions = {}): Promise<wire.Item> {
    return this.#query<wire.Item>("get", { intake_seq: seq }, options);
  }

  /**
   * A page of items, newest change first, without params and results. A page may
   * be short, even empty, and still have a next_cursor; see all().
   */
  list(filter: wire.List = {}, options: RequestOptions = {}): Promise<wire.Listed> {
    return this.#query<wire.Listed>("list", filter, options);
  }

  /**
   * All items of a filter, page after page. Where a page may lack items (its stale says
   * why), it throws "unavailable" behind the last item.
   */
  async *all(filter: wire.List = {}, options: RequestOptions = {}): AsyncGenerator<wire.Item, void, void> {
    let stale: string | undefined;
    for (let cursor = filter.cursor; ; ) {
      const page = await this.list({ ...filter, cursor }, options);
      yield* page.items;
      stale = page.stale ?? stale;
      cursor = page.next_cursor;
      if (!cursor) break;
    }
    if (stale) throw new StreamwrightError("unavailable", `the list is ${stale}: ask another node, or again`);
  }

  /**
   * An item once it is completed, dead or cancelled. It waits through restarts of
   * the engine until the signal is aborted. Of an item that was merged into
   * another it returns that other one.
   */
  async wait(id: string, options: RequestOptions = {}): Promise<wire.Item> {
    return (await this.#waitFor([id], false, options)).ended[0]!;
  }

  /**
   * Items once all of them have ended, at most 1,000; an unknown id is "not_found" at once. When timeoutMs is
   * over, those that have not are in pending. An answer of the engine has items whole up to 1 MiB, and of the
   * others id, type and state, as their notes say: get() returns them.
   */
  waitAll(ids: string[], options: WaitOptions = {}): Promise<wire.Waited> {
    return this.#waitFor(ids, false, options);
  }

  /** waitAll() until one of the items has ended: it returns all that have ended by then. */
  waitAny(ids: string[], options: WaitOptions = {}): Promise<wire.Waited> {
    return this.#waitFor(ids, true, options);
  }

  async #waitFor(ids: string[], any: boolean, options: WaitOptions): Promise<wire.Waited> {
    const until = Date.now() + (options.timeoutMs ?? Infinity);
    const patience = { forMs: Infinity, signal: options.signal };
    const ended = new Map<string, wire.Item>();
    const merged: Record<string, string> = {};
    let pending: { id: string; state?: string }[] = ids.map((id) => ({ id }));
    for (let heard = 0; ; heard = Date.now()) {
      const hold = Math.max(Math.min(waitMs, until - Date.now()), 1);
      const request = { ids: pending.map((p) => p.id), any: any || undefined, timeout_ms: Math.ceil(hold), min_position: this.position || undefined };
      const page: wire.Waited = await this.#ask<wire.Waited>("wait", request, patience, waitMs).catch((err: unknown) => {
        const goesOn = err instanceof EndedError && (!err.tried || Date.now() - heard < 2 * waitMs); // else it says why nobody answers
        throw goesOn ? notEnded(pending, ids.length, err.cause) : err;
      });
      for (const item of page.ended) ended.set(item.id, item);
      Object.assign(merged, page.merged);
      pending = page.pending ?? [];
      if (pending.length === 0 || (any && ended.size > 0) || Date.now() >= until) {
        const order = new Set(ids.map((id) => merged[id.toUpperCase()] ?? id.toUpperCase()));
        return { ended: [...order].flatMap((id) => ended.get(id) ?? []), pending: page.pending ?? [], merged };
      }
    }
  }

  /**
   * Sends an item a signal, with a payload of at most 64 KiB of JSON. It is kept until the outcome of a run that was given it.
   * One signal is sent, however often the request has to be repeated; with a msgId of your own, however often you call.
   */
  async signal(id: string, name: string, payload?: unknown, options: RequestOptions & { msgId?: string } = {}): Promise<wire.Signalled> {
    return this.#ask<wire.Signalled>("signal", { id, name, payload, msg_id: options.msgId ?? this.#ids.next() }, this.#patience(options));
  }

  /**
   * Presents a token that a handler has made with ctx.token: its item gets the signal. The same answer again does nothing more. It
   * rejects with "not_found" if there is no such token, "already_completed" after another answer, "ended" if the item has ended
   * without it, and "mailbox_full".
   */
  async presentToken(token: string, answer: TokenAnswer = {}, options: RequestOptions = {}): Promise<wire.TokenPresented> {
    return this.#ask<wire.TokenPresented>("token", { token, result: answer.result, error: answer.error }, this.#patience(options));
  }

  /** The questions that items ask, those last touched first. Without the role read: those that one may answer; `mine`: only those. */
  async *approvals(filter: wire.Approvals = {}, options: RequestOptions = {}): AsyncGenerator<wire.Approval, void, void> {
    for (let cursor = filter.cursor; ; ) {
      const request: wire.Approvals = { limit: 1000, ...filter };
      if (cursor) request.cursor = cursor;
      const page = await this.#query<wire.ApprovalsReply>("approvals", request, options);
      yield* page.approvals;
      cursor = page.next_cursor;
      if (!cursor) return;
    }
  }

  /** The last question that an item has asked, whole: with `answered`, if somebody has answered it. */
  async approval(id: string, options: RequestOptions = {}): Promise<wire.Approval> {
    return this.#query<wire.Approval>("approval", { id }, options);
  }

  /**
   * Answers the question that an item asks, once; without its number the last, which is looked up first. The same answer again does nothing more. It rejects with "already_completed" if
   * somebody was first, "forbidden", "bad_request" for a value that does not match the form, "wrong_state" if nothing is asked, and
   * "ended".
   */
  async answer(id: string, answer: Omit<wire.Answer, "id" | "number"> & { number?: number }, options: RequestOptions = {}): Promise<wire.AnswerReply> {
    const number = answer.number ?? (await this.approval(id, options)).number;
    return this.#ask<wire.AnswerReply>("answer", { id, ...answer, number }, this.#patience(options));
  }

  /** Asks that an item be not run, or no longer. was_running: its handler is being told. */
  async cancel(id: string, reason?: string, options: RequestOptions = {}): Promise<wire.Cancelled> {
    return this.#ask<wire.Cancelled>("cancel", { id, reason }, this.#patience(options));
  }

  /**
   * Opens a batch: an item that waits for the items submitted with its id in `batch`, and completes once their
   * number is settled, by `count` or by `sealBatch`, and the last of them has ended. `get` and `wait` show how far it has come, `cancel`
   * cancels what of it has not ended. A `callback` is submitted with it and runs when it has ended. One batch is made, however often
   * the request has to be repeated.
   */
  async openBatch(batch: Omit<wire.Batch, "seal" | "callback"> & { callback?: Submission } = {}, options: RequestOptions = {}): Promise<wire.BatchReply> {
    const callback = batch.callback && this.#signed(batch.callback);
    const reply = await this.#ask<wire.BatchReply>("batch", { ...batch, callback, id: batch.id ?? this.#ids.next() }, { forMs: this.#set.submitPatienceMs, signal: options.signal });
    if (reply.callback?.error) throw toError(reply.callback.error);
    return reply;
  }

  /** Settles how many items a batch has: count, or as many as it has now. */
  async sealBatch(id: string, count?: number, options: RequestOptions = {}): Promise<wire.BatchReply> {
    return this.#ask<wire.BatchReply>("batch", { id, count, seal: true }, { forMs: this.#set.submitPatienceMs, signal: options.signal });
  }

  /** An item's events, oldest first: the first 10,000. */
  async history(id: string, options: RequestOptions = {}): Promise<wire.HistoryEvent[]> {
    return (await this.#query<wire.HistoryReply>("history", { id }, options)).events;
  }

  /** Who did what, oldest first: cancels, replays, settings and the like, each with `by`. It reaches back as far as the log. */
  async *audit(filter: wire.Audit = {}, options: RequestOptions = {}): AsyncGenerator<wire.HistoryEvent, void, void> {
    for (let cursor = filter.cursor; ; ) {
      const request: wire.Audit = { limit: 1000, ...filter };
      if (cursor) request.cursor = cursor;
      const page = await this.#ask<wire.AuditReply>("audit", request, this.#patience(options));
      yield* page.acts;
      cursor = page.next_cursor;
      if (!cursor) return;
    }
  }

  /** The last records of an item's log, oldest first: at most 10,000, by default 1,000. */
  async logs(id: string, options: RequestOptions & { limit?: number } = {}): Promise<wire.LogRecord[]> {
    const request: wire.Logs = { id };
    if (options.limit !== undefined) request.limit = options.limit;
    return (await this.#ask<wire.LogsReply>("logs", request, this.#patience(options))).records ?? [];
  }

  /**
   * What an item's run has written as its output, chunk by chunk; with `follow`, until the item has ended. A chunk with
   * `reset` begins what another run writes: what came before is void. Nothing is skipped while the connection is repaired.
   */
  async *output(id: string, options: OutputOptions = {}): AsyncGenerator<Output, void, void> {
    const request: RequestOptions = options.signal ? { signal: options.signal } : {};
    let item = await this.get(id, request);
    for (let hops = 0; item.state === "merged" && item.merged_into && hops < maxMergeHops; hops++) item = await this.get(item.merged_into, request);
    let forMs = this.#patience(request).forMs;
    yield* readOutput({
      nc: this.link.nc,
      subject: this.names.output(item.type, item.id),
      page: async (after, signal) => {
        const page = await this.#ask<wire.OutputReply>("output", { id: item.id, after }, { forMs, explain: this.#explain, signal });
        if (options.follow) forMs = Infinity;
        return page;
      },
      ended: (signal) => this.wait(item.id, { signal }),
    }, options);
  }

  /**
   * The events of the log, live and in order, from now on or from a position or a
   * time. Nothing is skipped while the connection is repaired.
   */
  events(options: EventsOptions = {}): AsyncGenerator<wire.HistoryEvent, void, void> {
    const ask: AskEvents = (request, first, holdMs, signal) =>
      this.#ask<wire.EventsReply>("events", request, { forMs: first ? this.#set.patienceMs : Infinity, signal }, holdMs);
    return readEvents(ask, options);
  }

  /**
   * The live item of a type that holds a dedup key: the one that a submission with
   * this key would be a duplicate of. A key that nobody holds is "not_found"; that
   * includes one that a completed item keeps for its dedup window. It reads the
   * bucket of taken keys, some milliseconds behind the engine, and asks the engine
   * where it can't, or where the bucket does not show yet what this client was told.
   * The answer is a hint: the submission alone decides.
   */
  async holder(type: string, key: string, options: RequestOptions = {}): Promise<wire.Holder> {
    const holder = await this.#bucket.holder(type, key, this.#seen);
    if (holder === undefined) return this.#query<wire.Holder>("held", { type, key }, options);
    if (holder === null) throw new StreamwrightError("not_found", `no live item of type ${type} holds the dedup key ${JSON.stringify(key)}`);
    return holder;
  }

  /**
   * Which item holds a dedup key of a type: at once, and again whenever the holder
   * or its state has changed. null: the key is free. States that come and go within
   * some milliseconds may be left out. It ends with the signal.
   */
  watchHolder(type: string, key: string, options: RequestOptions = {}): AsyncGenerator<wire.Holder | null, void, void> {
    const ask: AskHolder = async (first, signal) => {
      const request = { type, key, min_position: this.position || undefined };
      try {
        return await this.#ask<wire.Holder>("held", request, { forMs: first ? this.#set.patienceMs : Infinity, signal });
      } catch (err) {
        if (err instanceof StreamwrightError && err.code === "not_found") return null;
        throw err;
      }
    };
    return watchHolder(this.link, `$KV.${this.names.bucket("dedup")}.${dedupEntry(type, key)}`, ask, options.signal);
  }

  /**
   * Forgets a type that nothing uses, with its settings and its pause. It is "wrong_state" while the type has
   * items, a schedule or a worker, and "set_in_file" while engine.toml has a table for it.
   */
  async removeType(type: string, options: RequestOptions = {}): Promise<void> {
    await this.#ask<wire.Changed>("type_remove", { type }, this.#patience(options));
  }

  /** When a schedule of such a timing would tick next, each tick with the offset of its zone. It needs no schedule. */
  async ticks(timing: wire.Ticks, options: RequestOptions = {}): Promise<string[]> {
    return (await this.#ask<wire.TicksReply>("ticks", timing, this.#patience(options))).ticks;
  }

  /** Any other request of the protocol (docs/reference/PROTOCOL.md), such as "stats" or "pause". */
  request<T>(endpoint: string, body: unknown = {}, options: RequestOptions = {}): Promise<T> {
    return this.#ask<T>(endpoint, body, this.#patience(options));
  }

  /** An item's params, from the object store if they are there. */
  params(item: wire.Item, options: RequestOptions = {}): Promise<unknown> {
    return this.#document(item.params, options);
  }

  /** A completed item's result, from the object store if it is there. */
  result(item: wire.Item, options: RequestOptions = {}): Promise<unknown> {
    return this.#document(item.result, options);
  }

  async #document(doc: unknown, options: RequestOptions): Promise<unknown> {
    const ref = blobRef(doc);
    if (!ref) return doc;
    const bytes = await retry(`get ${ref.name}`, this.#patience(options), () => this.documents.get(ref, options.signal));
    return JSON.parse(Buffer.from(bytes).toString("utf8"));
  }

  /** Closes the connection, if connect made it. Requests under way fail. */
  async close(): Promise<void> {
    if (this.owned && !this.connection.isClosed()) await this.connection.close();
  }

  readonly #explain = (err: StreamwrightError): Promise<StreamwrightError> => this.link.explained(err);

  #patience(options: RequestOptions): Patience {
    return { forMs: Math.max(this.#set.patienceMs, this.#failoverMs), explain: this.#explain, signal: options.signal };
  }

  /** A query that sees at least what this client has been told. */
  #query<T>(endpoint: string, body: object, options: RequestOptions): Promise<T> {
    return this.#ask<T>(endpoint, { min_position: this.position || undefined, ...body }, this.#patience(options));
  }

  /**
   * Sends a request, which the engine may hold for a time before it answers, until it
   * is answered. Each try gets more time than the one before: an engine that has died
   * is soon left, and a slow one is not asked the same again and again.
   */
  #ask<T>(endpoint: string, body: unknown, patience: Patience, holdMs: number = 0): Promise<T> {
    const most = this.#set.tryTimeoutMs;
    const once = onlyOnce.has(endpoint);
    let tryMs = patience.forMs === 0 || once ? most : firstTryMs / 2;
    return retry(endpoint, { onRetry: this.#set.onRetry, explain: this.#explain, unansweredMs: most, once, ...patience }, () => {
      tryMs = Math.min(2 * tryMs, most);
      return this.#once<T>(endpoint, body, patience.signal, holdMs + tryMs);
    });
  }

  async #once<T>(endpoint: string, body: unknown, signal?: AbortSignal, tryMs: number = this.#set.tryTimeoutMs): Promise<T> {
    const text = toJson(body);
    if (text === undefined) throw new StreamwrightError("bad_request", `the ${endpoint} request has no form in JSON`);
    const reply = JSON.parse(await this.link.request(this.names.api(endpoint), text, tryMs, signal)) as T;
    if (!this.#ownPatience) this.#failoverMs = failoverMs;
    const { position } = (reply ?? {}) as { position?: unknown };
    if (typeof position === "string") this.saw(position); // what is asked next sees it
    return reply;
  }
}
