import { createHash, randomUUID } from "node:crypto";

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
const messageNotFound = 10037;
const maxRefBytes = 1024;
const maxNameBytes = 128;
const maxDescriptions = 64; // of one name that are looked at

/** What stands in place of a large document: `{"$blob": {...}}`. */
export interface BlobRef {
  name: string;
  size: number;
  digest: string;
}

/** What the server says of a request, if it is wrong. */
interface ApiReply {
  error?: { code: number; err_code?: number; description: string };
}

class StoreError extends Error {}

/** A message as the server gives it. */
interface Stored {
  subject: string;
  seq: number;
  data?: string; // in base64
  time: string;
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
  metadata?: Record<string, string>;
}

/**
 * Where a description says which messages its chunks are: the first sequence, and
 * how far each is behind the one before. Their subject alone does not tell:
 * anybody who may put objects may put other chunks between them.
 */
const placesKey = "chunks";

function readPlaces(info: ObjectInfo): number[] | undefined {
  const text = info.metadata?.[placesKey];
  if (typeof text !== "string" || !/^[1-9]\d*( [1-9]\d*)*$/.test(text)) return undefined;
  let last = 0;
  return text.split(" ").map((step) => (last += Number(step)));
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

/** Large documents, in the engine's object store (docs/guides/BLOBS.md). */
export class Documents {
  readonly #bucket: string;

  constructor(
    private readonly link: Link,
    names: Names,
    readonly maxBytes: number = defaultMaxDocument,
  ) {
    this.#bucket = names.bucket("blobs");
  }

  get #stream(): string {
    return `OBJ_${this.#bucket}`;
  }

  /** A message of the bucket; undefined if there is none. */
  async #stored(which: object, signal?: AbortSignal): Promise<Stored | undefined> {
    const subject = await this.link.jetstream(`STREAM.MSG.GET.${this.#stream}`);
    const reply = JSON.parse(await this.link.request(subject, JSON.stringify(which), requestMs, signal)) as { message?: Stored } & ApiReply;
    if (reply.error?.err_code === messageNotFound) return undefined;
    if (reply.error || !reply.message) throw new StoreError(reply.error?.description ?? "no message");
    return reply.message;
  }

  /** Publishes a message, waits until it is stored, and returns its sequence. */
  async #publish(subject: string, data: Uint8Array | string): Promise<number> {
    const reply = await this.link.nc.request(subject, data, { timeout: requestMs });
    const { error, seq } = reply.json<ApiReply & { seq?: number }>();
    if (error || seq === undefined) throw new StoreError(error?.description ?? "no sequence");
    return seq;
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
  async put(id: string, kind: "params" | "result" | "children", bytes: Uint8Array): Promise<{ $blob: BlobRef }> {
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
    const known = await this.#find(ref);
    return known.info !== undefined && Math.abs(Date.now() - known.at!.getTime()) < freshMs;
  }

  /**
   * The first description that fits a reference. Anybody who may put objects may
   * put another description under the name, so the last one says nothing.
   */
  async #find(ref: BlobRef): Promise<{ info?: ObjectInfo; at?: Date; other?: boolean }> {
    let other = false;
    for (let seq = 1, n = 0; n < maxDescriptions; n++) {
      const msg = await this.#stored({ seq, next_by_subj: this.#metaSubject(ref.name) });
      if (!msg) break;
      seq = msg.seq + 1;
      let info: ObjectInfo | undefined;
      try {
        info = JSON.parse(Buffer.from(msg.data ?? "", "base64").toString()) as ObjectInfo;
      } catch {
        continue; // describes nothing
      }
      if (typeof info?.nuid !== "string" || !/^[A-Za-z0-9_=-]{1,64}$/.test(info.nuid) || info.deleted) continue;
      if (info.size === ref.size && info.digest === ref.digest) return { info, at: new Date(msg.time) };
      other = true;
    }
    return { other };
  }

  async #send(ref: BlobRef, bytes: Uint8Array): Promise<void> {
    const nuid = `${ref.name.slice(0, 26)}-${randomUUID().replaceAll("-", "")}`; // the item's id says whose the chunks are
    const subject = `$O.${this.#bucket}.C.${nuid}`;
    let flying: Promise<number>[] = [];
    const seqs: number[] = [];
    for (let at = 0; at < bytes.length; at += chunkBytes) {
      flying.push(this.#publish(subject, bytes.subarray(at, at + chunkBytes)));
      if (flying.length === putWindow) {
        seqs.push(...(await Promise.all(flying)));
        flying = [];
      }
    }
    seqs.push(...(await Promise.all(flying)));
    const info: ObjectInfo = { name: ref.name, bucket: this.#bucket, nuid, size: ref.size, chunks: seqs.length, digest: ref.digest, options: { max_chunk_size: chunkBytes } };
    if (seqs.length > 0) info.metadata = { [placesKey]: seqs.map((seq, i) => seq - (seqs[i - 1] ?? 0)).join(" ") };
    await this.#publish(this.#metaSubject(ref.name), JSON.stringify(info));
  }

  /** Gets the bytes that a reference stands for, whole and checked. */
  async get(ref: BlobRef, signal?: AbortSignal): Promise<Uint8Array> {
    if (ref.size > this.maxBytes) {
      throw new StreamwrightError("too_large", `the object ${ref.name} has ${ref.size} bytes: at most ${this.maxBytes} are read; set maxDocument`);
    }
    let bytes: Uint8Array;
    try {
      const known = await this.#find(ref);
      if (!known.info) throw known.other ? damaged(ref) : new StreamwrightError("blob_gone", `the object store has no object ${ref.name}`);
      bytes = ref.size === 0 ? new Uint8Array() : await this.#read(ref, known.info, signal);
    } catch (err) {
      throw this.#failed(`get ${ref.name}`, err);
    }
    if (digestOf(bytes).digest !== ref.digest) throw damaged(ref);
    return bytes;
  }

  async #read(ref: BlobRef, info: ObjectInfo, signal?: AbortSignal): Promise<Uint8Array> {
    const out = new Uint8Array(ref.size);
    const subject = `$O.${this.#bucket}.C.${info.nuid}`;
    const places = readPlaces(info);
    for (let at = 0, seq = 0, n = 0; at < ref.size; n++) {
      if (places && n >= places.length) throw damaged(ref);
      const chunk = await this.#stored(places ? { seq: places[n] } : { seq: seq + 1, next_by_subj: subject }, signal);
      if (!chunk || chunk.subject !== subject) throw damaged(ref);
      const bytes = Buffer.from(chunk.data ?? "", "base64");
      if (at + bytes.length > ref.size) throw damaged(ref);
      out.set(bytes, at);
      at += bytes.length;
      seq = chunk.seq;
    }
    return out;
  }

  #failed(what: string, err: unknown): unknown {
    if (err instanceof StoreError) {
      return new StreamwrightError("unavailable", `${what}: the object store ${this.#bucket} does not take or give it now (${err.message})`, { cause: err });
    }
    return this.link.failed(what, err);
  }
}

function damaged(ref: BlobRef): StreamwrightError {
  return new StreamwrightError("blob_damaged", `the bytes of the object ${ref.name} are not those of its reference`);
}
