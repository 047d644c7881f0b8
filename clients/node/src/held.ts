import type { Link } from "./link.js";
import type { Names } from "./names.js";
import type { Holder } from "./wire.gen.js";

const bucketMs = 1_000; // for one entry of the bucket
const bucketAgainMs = 10_000; // after the bucket did not answer, it is left alone for so long

/** How often a watched key is looked at when nothing shows that its holder has changed. */
const lookMs = 1_000;

/** A dedup key's form in the bucket of taken keys: a KV key may not hold any byte. */
export function dedupEntry(type: string, key: string): string {
  return `${type}.${Buffer.from(key, "utf8").toString("base64url")}`;
}

/** Reads the KV bucket of taken dedup keys, by direct get. */
export class DedupBucket {
  #again = 0;

  constructor(
    private readonly link: Link,
    private readonly names: Names,
  ) {}

  /** The holder of a key, null if it is free, undefined if the bucket can't say and the engine is to be asked. */
  async holder(type: string, key: string, seen: bigint): Promise<Holder | null | undefined> {
    if (Date.now() < this.#again || type === "" || key === "" || /[.*>\s]/.test(type)) return undefined;
    const bucket = this.names.bucket("dedup");
    const subject = await this.link.jetstream(`DIRECT.GET.KV_${bucket}.$KV.${bucket}.`);
    if (subject.startsWith(`$JS.${this.names.importDomain}.`)) return undefined; // an account without JetStream
    try {
      const shown = await this.#entry(`${subject}_.position`);
      const { position } = (shown ? JSON.parse(shown) : {}) as { position?: string };
      if (!position || !/^[0-9]{1,20}$/.test(position) || BigInt(position) < seen) return undefined;
      const entry = await this.#entry(subject + dedupEntry(type, key));
      return entry === undefined ? null : (JSON.parse(entry) as Holder);
    } catch {
      this.#again = Date.now() + bucketAgainMs; // meanwhile the engine is asked
      return undefined;
    }
  }

  /** An entry's value, undefined if there is none. */
  async #entry(subject: string): Promise<string | undefined> {
    const reply = await this.link.nc.request(subject, "", { timeout: bucketMs });
    const status = reply.headers?.code ?? 0;
    if (status === 404) return undefined;
    if (status !== 0) throw new Error(`the bucket of taken dedup keys answers ${status}`);
    if (reply.headers?.get("KV-Operation") || reply.headers?.get("Nats-Marker-Reason")) return undefined;
    return reply.string();
  }
}

/** Asks who holds a key, null for nobody; later questions are tried for ever. */
export type AskHolder = (first: boolean, signal: AbortSignal) => Promise<Holder | null>;

/** Tells the holder of a key at once, and each change of it. subject is the key's in the bucket. */
export async function* watchHolder(link: Link, subject: string, ask: AskHolder, signal?: AbortSignal): AsyncGenerator<Holder | null, void, void> {
  if (signal?.aborted) return;
  const over = new AbortController();
  let changed = false;
  let wake: () => void = () => {};
  const poke = (): void => {
    changed = true;
    wake();
  };
  const stop = (): void => {
    over.abort(signal?.reason);
    wake();
  };
  signal?.addEventListener("abort", stop, { once: true });
  // What is no subject is refused by the engine. A user who may not subscribe is told so by the question.
  const sub = /\s|\.$/.test(subject) ? undefined : link.nc.subscribe(subject, { callback: (err) => (err ? undefined : poke()) });
  try {
    let last: string | undefined;
    for (let first = true; !signal?.aborted; first = false) {
      changed = false;
      const holder = await ask(first, over.signal);
      const text = JSON.stringify(holder);
      if (text !== last && !signal?.aborted) yield holder;
      last = text;
      if (changed || signal?.aborted) continue;
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, lookMs);
        wake = (): void => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  } catch (err) {
    if (!signal?.aborted) throw err;
  } finally {
    signal?.removeEventListener("abort", stop);
    over.abort();
    if (!link.closed) sub?.unsubscribe();
  }
}
