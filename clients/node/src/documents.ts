import { createHash, randomUUID } from "node:crypto";

import { headers } from "@nats-io/nats-core";
import { DeliverPolicy, jetstream, jetstreamManager, JetStreamApiError, type JetStreamClient, type JetStreamManager } from "@nats-io/jetstream";

import { StreamwrightError } from "./errors.js";
import { isId } from "./ids.js";
import type { Link } from "./link.js";
import type { Names } from "./names.js";

/** Documents up to this go with their message; larger ones to the object store. */
export const maxInlineBytes = 256 * 1024;
/** The bound of one document in the object store. */
export const defaultMaxDocument = 64 * 1024 * 1024;

const chunkBytes = 128 * 1024;
const putWindow = 8; // chunks on their way
const requestMs = 10_000;
const freshMs = 15 * 60_000; // how long an object that is there spares a put: less than the engine's sweep
const readIdleMs = 10_000; // between two chunks
const messageNotFound = 10037;
const maxRefBytes = 1024;
const maxNameBytes = 128;

/** What stands in place of a large document: `{"$blob": {...}}`. */
export interface BlobRef {
  name: string;
  size: number;
  digest: string;
}

interface ObjectInfo {
  name: string;
  bucket: string;
  nuid: string;
  size: number;
  chunks: number;
  digest: string;
  deleted?: boolean;
  options?: { max_chunk_size: number };
}

/** The reference that a document is, undefined for an ordinary document. */
export function blobRef(doc: unknown): BlobRef | undefined {
  if (typeof doc !== "object" || doc === null || Array.isArray(doc)) return undefined;
  const keys = Object.keys(doc);
  if (keys.length !== 1 || keys[0] !== "$blob") return undefined;
  const ref = (doc as { $blob: unknown }).$blob as Partial<BlobRef> | null;
  const text = JSON.stringify(doc);
  const fits =
    text.length <= maxRefBytes && ref !== null && typeof ref === "object" && Object.keys(ref).length === 3 &&
    typeof ref.name === "string" && ref.name.length <= maxNameBytes && isId(ref.name.slice(0, 26)) && /^.{26}\.[A-Za-z0-9._-]+$/.test(ref.name) &&
    Number.isSafeInteger(ref.size) && ref.size! >= 0 && typeof ref.digest === "string" && /^SHA-256=[A-Za-z0-9_-]{43}=$/.test(ref.digest);
  if (!fits) {
    throw new StreamwrightError("bad_params", `the reference to the object store can't be read: ${text.slice(0, 200)}`);
  }
  return { name: ref.name!, size: ref.size!, digest: ref.digest! };
}

function digestOf(bytes: Uint8Array): { digest: string; short: string } {
  const sum = createHash("sha256").update(bytes).digest();
  const text = sum.toString("base64").replaceAll("+", "-").replaceAll("/", "_");
  return { digest: `SHA-256=${text}`, short: sum.subarray(0, 8).toString("hex") };
}

/** Large documents, in the engine's object store (docs/BLOBS.md). */
export class Documents {
  readonly #js: JetStreamClient;
  #manager: Promise<JetStreamManager> | undefined;
  readonly #bucket: string;

  constructor(
    private readonly link: Link,
    names: Names,
    readonly maxBytes: number = defaultMaxDocument,
  ) {
    this.#js = jetstream(link.nc);
    this.#bucket = names.bucket("blobs");
  }

  get #stream(): string {
    return `OBJ_${this.#bucket}`;
  }

  #jsm(): Promise<JetStreamManager> {
    this.#manager ??= jetstreamManager(this.link.nc, { checkAPI: false });
    return this.#manager;
  }

  #metaSubject(name: string): string {
    const key = Buffer.from(name).toString("base64").replaceAll("+", "-").replaceAll("/", "_");
    return `$O.${this.#bucket}.M.${key}`;
  }

  /**
   * Puts a document of an item and returns what stands in its place. The same
   * bytes have the same name, so a put may be repeated; one that is there already
   * is not sent again.
   */
  async put(id: string, kind: "params" | "result", bytes: Uint8Array): Promise<{ $blob: BlobRef }> {
    if (bytes.length > this.maxBytes) {
      throw new StreamwrightError("too_large", `the ${kind} of item ${id} have ${bytes.length} bytes: at most ${this.maxBytes} go to the object store; keep the document elsewhere`);
    }
    const { digest, short } = digestOf(bytes);
    const ref: BlobRef = { name: `${id}.${kind}.${short}`, size: bytes.length, digest };
    try {
      if (!(await this.#has(ref))) await this.#send(ref, bytes);
    } catch (err) {
      throw this.#failed(`put the ${kind} of item ${id}`, err);
    }
    return { $blob: ref };
  }

  async #has(ref: BlobRef): Promise<boolean> {
    const known = await this.#info(ref.name);
    return known !== undefined && !known.info.deleted && known.info.size === ref.size && known.info.digest === ref.digest &&
      Math.abs(Date.now() - known.at.getTime()) < freshMs;
  }

  async #info(name: string): Promise<{ info: ObjectInfo; at: Date } | undefined> {
    const jsm = await this.#jsm();
    try {
      const msg = await jsm.streams.getMessage(this.#stream, { last_by_subj: this.#metaSubject(name) });
      return msg ? { info: msg.json<ObjectInfo>(), at: msg.time } : undefined;
    } catch (err) {
      if (err instanceof JetStreamApiError && err.code === messageNotFound) return undefined;
      throw err;
    }
  }

  async #send(ref: BlobRef, bytes: Uint8Array): Promise<void> {
    const nuid = randomUUID().replaceAll("-", "");
    const subject = `$O.${this.#bucket}.C.${nuid}`;
    let flying: Promise<unknown>[] = [];
    let chunks = 0;
    for (let at = 0; at < bytes.length; at += chunkBytes, chunks++) {
      flying.push(this.#js.publish(subject, bytes.subarray(at, at + chunkBytes), { timeout: requestMs }));
      if (flying.length === putWindow) {
        await Promise.all(flying);
        flying = [];
      }
    }
    await Promise.all(flying);
    const info: ObjectInfo = { name: ref.name, bucket: this.#bucket, nuid, size: ref.size, chunks, digest: ref.digest, options: { max_chunk_size: chunkBytes } };
    const rollup = headers();
    rollup.set("Nats-Rollup", "sub");
    await this.#js.publish(this.#metaSubject(ref.name), JSON.stringify(info), { headers: rollup, timeout: requestMs });
  }

  /** Gets the bytes that a reference stands for, whole and checked. */
  async get(ref: BlobRef, signal?: AbortSignal): Promise<Uint8Array> {
    if (ref.size > this.maxBytes) {
      throw new StreamwrightError("too_large", `the object ${ref.name} has ${ref.size} bytes: at most ${this.maxBytes} are read; set maxDocument`);
    }
    let bytes: Uint8Array;
    try {
      const known = await this.#info(ref.name);
      if (!known || known.info.deleted) throw new StreamwrightError("blob_gone", `the object store has no object ${ref.name}`);
      if (known.info.size !== ref.size || known.info.digest !== ref.digest) throw damaged(ref);
      bytes = ref.size === 0 ? new Uint8Array() : await this.#read(ref, known.info.nuid, signal);
    } catch (err) {
      throw this.#failed(`get ${ref.name}`, err);
    }
    if (digestOf(bytes).digest !== ref.digest) throw damaged(ref);
    return bytes;
  }

  async #read(ref: BlobRef, nuid: string, signal?: AbortSignal): Promise<Uint8Array> {
    const consumer = await this.#js.consumers.get(this.#stream, {
      filter_subjects: [`$O.${this.#bucket}.C.${nuid}`],
      deliver_policy: DeliverPolicy.All,
    });
    const out = new Uint8Array(ref.size);
    const messages = await consumer.consume({ max_messages: 16 });
    let idle: NodeJS.Timeout | undefined;
    const watch = (): void => {
      clearTimeout(idle);
      idle = setTimeout(() => messages.stop(), readIdleMs);
    };
    const stop = (): void => messages.stop();
    signal?.addEventListener("abort", stop, { once: true });
    let at = 0;
    try {
      watch();
      for await (const m of messages) {
        if (at + m.data.length > ref.size) throw damaged(ref);
        out.set(m.data, at);
        at += m.data.length;
        if (at === ref.size) break;
        watch();
      }
    } finally {
      clearTimeout(idle);
      signal?.removeEventListener("abort", stop);
      messages.stop();
      void consumer.delete().catch(() => {}); // it goes by itself, later
    }
    if (signal?.aborted) throw signal.reason;
    if (at < ref.size) throw new StreamwrightError("unavailable", `the object ${ref.name} did not come to its end in time`);
    return out;
  }

  #failed(what: string, err: unknown): unknown {
    if (err instanceof JetStreamApiError) {
      return new StreamwrightError("unavailable", `${what}: the object store ${this.#bucket} does not take or give it now (${err.message})`, { cause: err });
    }
    return this.link.failed(what, err);
  }
}

function damaged(ref: BlobRef): StreamwrightError {
  return new StreamwrightError("blob_damaged", `the bytes of the object ${ref.name} are not those of its reference`);
}
