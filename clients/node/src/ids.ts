import { createHash, randomBytes } from "node:crypto";

const digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"; // Crockford's base 32
const secretDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"; // RFC 4648's
const randomBits = 80n;

function encode(value: bigint, length: number, alphabet: string): string {
  let text = "";
  for (let i = 0; i < length; i++, value >>= 5n) text = alphabet[Number(value & 31n)] + text;
  return text;
}

function random(bytes: number): bigint {
  return BigInt(`0x${randomBytes(bytes).toString("hex")}`);
}

/**
 * Makes ULIDs that rise within a process, so that items submitted one after the
 * other sort that way, also within a millisecond and when the clock goes back.
 */
export class IdSource {
  #time = 0n;
  #random = 0n;

  next(now: number = Date.now()): string {
    const time = BigInt(now);
    if (time > this.#time) {
      this.#time = time;
      this.#random = random(10);
    } else if (++this.#random >> randomBits) {
      this.#time++; // the millisecond's 80 bits ran over: begin the next
      this.#random = 0n;
    }
    return encode(this.#time, 10, digits) + encode(this.#random, 16, digits);
  }
}

const idPattern = /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/;

/** Whether a text is an item's id. */
export function isId(text: string): boolean {
  return idPattern.test(text.toUpperCase());
}

/** A new token for an item, ID-SECRET, and its hash, which is all that the engine is told. */
export function newWaitToken(id: string): { text: string; hash: string } {
  const text = `${id}-${encode(random(20), 32, secretDigits)}`;
  return { text, hash: createHash("sha256").update(text).digest("hex") };
}
