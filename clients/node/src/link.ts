import {
  AuthorizationError,
  ClosedConnectionError,
  DrainingConnectionError,
  NoRespondersError,
  PermissionViolationError,
  RequestError,
  TimeoutError,
  type Msg,
  type NatsConnection,
} from "@nats-io/nats-core";

import { NoEngineError, StreamwrightError, textOf } from "./errors.js";
import { defaultNamespace, type Names } from "./names.js";
import type { NodesReply } from "./wire.gen.js";

const findMs = 2_000; // for the engine to say where its streams are
const explainMs = 1_000; // for a node to say why nobody has answered
const maxExplained = 1_000; // characters of that in an error

/**
 * A NATS connection and what has become of it. Requests end with the connection
 * that they were sent on, for their replies would not come any more.
 */
export class Link {
  /** Counts connections: what belongs to an earlier one is void. */
  epoch = 0;
  connected = true;
  closed = false;
  #lost = new AbortController();
  readonly #listeners = new Set<() => void>();

  #domain: { epoch: number; name: string } | undefined;

  constructor(
    readonly nc: NatsConnection,
    private readonly names: Names,
  ) {
    this.closed = nc.isClosed();
    this.connected = !this.closed;
    void this.#watch();
  }

  /** Calls fn after each change of connected and closed; returns how to stop that. */
  onChange(fn: () => void): () => void {
    this.#listeners.add(fn);
    return () => this.#listeners.delete(fn);
  }

  async #watch(): Promise<void> {
    for await (const s of this.nc.status()) {
      if (s.type === "disconnect") this.#set(false, false);
      else if (s.type === "reconnect") this.#set(true, false);
      else if (s.type === "close") break;
    }
    this.#set(false, true);
  }

  #set(connected: boolean, closed: boolean): void {
    if (connected === this.connected && closed === this.closed) return;
    if (this.connected && !connected) this.epoch++;
    this.connected = connected;
    this.closed = closed;
    if (connected) this.#lost = new AbortController();
    else this.#lost.abort();
    for (const fn of [...this.#listeners]) fn();
  }

  /** Names the server for an error's text, without what is secret in a URL. */
  where(): string {
    return this.connected ? this.nc.getServer() : "the NATS server (connection lost)";
  }

  /**
   * Sends one request and returns the body of a reply that is no refusal. A
   * refusal, like everything else that goes wrong, is a StreamwrightError.
   */
  async request(subject: string, body: string, timeoutMs: number, signal?: AbortSignal): Promise<string> {
    if (this.closed) throw new StreamwrightError("internal", "the connection is closed: connect anew");
    if (!this.connected) throw new StreamwrightError("unavailable", `${subject}: the connection to NATS is lost and is being repaired`);
    const most = this.nc.info?.max_payload ?? 0;
    const size = Buffer.byteLength(body);
    if (most > 0 && size > most) {
      throw new StreamwrightError("too_large", `the request to ${subject} has ${size} bytes: the NATS server takes at most ${most}`);
    }
    const reply = await this.#raced(subject, this.nc.request(subject, body, { timeout: timeoutMs }), signal);
    const refused = refusal(reply);
    if (refused) throw refused;
    if (reply.data.length === 0) throw new StreamwrightError("internal", `the engine's reply to ${subject} is empty`);
    return reply.string();
  }

  /**
   * The subject of a request to the JetStream that has the engine's streams. A
   * user in an account of its own has them under a domain, which the engine
   * knows: it is asked once for each connection. While none answers, what it said
   * last counts.
   */
  async jetstream(request: string): Promise<string> {
    if (this.names.domain === "" && this.#domain?.epoch !== this.epoch) {
      const { epoch } = this;
      try {
        const info = JSON.parse(await this.request(this.names.api("info"), "{}", findMs)) as { js_domain?: string };
        this.#domain = { epoch, name: info.js_domain ?? "" };
      } catch {
        // The request that follows fails as well, or does not need to know.
      }
    }
    return this.names.jetstream(request, this.#domain?.name);
  }

  /** Waits for a reply, the loss of the connection, or the signal. */
  async #raced(subject: string, reply: Promise<Msg>, signal?: AbortSignal): Promise<Msg> {
    const lost = this.#lost.signal;
    let stop: () => void = () => {};
    const ended = new Promise<never>((_, reject) => {
      const onLost = (): void => reject(new StreamwrightError("unavailable", `${subject}: the connection to NATS was lost`));
      const onAbort = (): void => reject(signal!.reason);
      lost.addEventListener("abort", onLost, { once: true });
      signal?.addEventListener("abort", onAbort, { once: true });
      stop = (): void => {
        lost.removeEventListener("abort", onLost);
        signal?.removeEventListener("abort", onAbort);
      };
      if (signal?.aborted) onAbort();
    });
    reply.catch(() => {}); // it may come to its end unheard
    ended.catch(() => {});
    try {
      return await Promise.race([reply, ended]);
    } catch (err) {
      throw signal?.aborted ? signal.reason : this.failed(subject, err);
    } finally {
      stop();
    }
  }

  /**
   * The error of a request that is given up. If nobody has taken it or answered, and a
   * node is there that could not, the error says what that one knows.
   */
  async explained(err: StreamwrightError): Promise<StreamwrightError> {
    const unheard = err instanceof NoEngineError;
    if (!unheard && err.code !== "timeout") return err;
    try {
      const r = JSON.parse(await this.request(this.names.api("nodes"), "", explainMs)) as NodesReply;
      const said = `${r.answered} says: ${(r.warnings ?? []).join("; ").slice(0, maxExplained)}`;
      if (unheard) {
        return new StreamwrightError("unavailable", `no node owns the log at ${this.where()}, so nothing is decided: \`engine cluster\` shows all nodes; ${said}`, { cause: err });
      }
      return (r.streams ?? []).some((s) => s.spare < 0) ? new StreamwrightError("timeout", `${err.message}; ${said}`, { cause: err }) : err;
    } catch {
      return err; // nobody is there
    }
  }

  #whyNone(): string {
    const ns = this.names.namespace;
    if (ns === defaultNamespace) return "is `engine serve` running there?";
    return `is there a namespace ${ns} (\`engine namespace list\`), and is \`engine serve\` running there?`;
  }

  /** What the NATS client says of one try, with a code. */
  failed(what: string, err: unknown): unknown {
    if (err instanceof StreamwrightError) return err;
    const refuse = (code: string, text: string): StreamwrightError => new StreamwrightError(code, text, { cause: err });
    if (err instanceof NoRespondersError || (err instanceof RequestError && err.isNoResponders())) {
      return new NoEngineError("unavailable", `no engine answers ${what} at ${this.where()}: ${this.#whyNone()}`, { cause: err });
    }
    const cause = err instanceof RequestError ? err.cause : err;
    if (cause instanceof TimeoutError) return refuse("timeout", `no reply to ${what} from ${this.where()} in time`);
    if (cause instanceof ClosedConnectionError || cause instanceof DrainingConnectionError) {
      return refuse("internal", "the connection is closed: connect anew");
    }
    if (cause instanceof PermissionViolationError || cause instanceof AuthorizationError) {
      return refuse("forbidden", `${what}: the NATS user may not do that (${textOf(cause)})`);
    }
    return refuse("unavailable", `${what} at ${this.where()}: ${textOf(err)}`);
  }
}

/**
 * Whether a message on one of a worker's own subjects is the engine's. Others are
 * answers of the NATS server to somebody who has named that subject for a reply.
 */
export function fromEngine(msg: Msg): boolean {
  return !msg.reply && !msg.headers?.code && !msg.headers?.keys().some((k) => /^(status$|nats-)/i.test(k));
}

/**
 * The error that a reply carries. An error reply is an object with nothing but
 * "error": an item has a field of that name, too.
 */
export function refusal(reply: Msg): StreamwrightError | undefined {
  const body = reply.string();
  if (/^\s*\{"error"/.test(body)) {
    const all = JSON.parse(body) as { error?: { code?: string; message?: string; retry_after_ms?: number } };
    const e = all.error;
    if (Object.keys(all).length === 1 && e?.code) return toError({ code: e.code, message: e.message ?? "", retry_after_ms: e.retry_after_ms });
  }
  const text = reply.headers?.get("Nats-Service-Error");
  return text ? new StreamwrightError("internal", `the engine answered: ${text}`) : undefined;
}

/** The error of a reply's JSON. */
export function toError(e: { code: string; message: string; retry_after_ms?: number | undefined }): StreamwrightError {
  return new StreamwrightError(e.code, e.message, { retryAfterMs: e.retry_after_ms });
}
