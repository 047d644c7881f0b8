import { randomBytes } from "node:crypto";

const digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"; // Crockford's base 32
const randomBits = 80n;

function encode(value: bigint, length: number): string {
  let text = "";
  for (let i = 0; i < length; i++, value >>= 5n) text = digits[Number(value & 31n)] + text;
  return text;
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
      this.#random = BigInt(`0x${randomBytes(10).toString("hex")}`);
    } else if (++this.#random >> randomBits) {
      this.#time++; // the millisecond's 80 bits ran over: begin the next
      this.#random = 0n;
    }
    return encode(this.#time, 10) + encode(this.#random, 16);
  }
}

const idPattern = /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/;

/** Whether a text is an item's id. */
export function isId(text: string): boolean {
  return idPattern.test(text.toUpperCase());
}
