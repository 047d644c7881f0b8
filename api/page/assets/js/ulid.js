// Ids that the page chooses, so that a request that is made twice does one thing.

import { now } from './format.js';

const ALPHABET = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';

// ulid is a new id: the time in ten characters, then sixteen at random.
export function ulid() {
  let [out, t] = ['', Math.floor(now())];
  for (let i = 0; i < 10; i++) {
    out = ALPHABET[t % 32] + out;
    t = Math.floor(t / 32);
  }
  return out + [...crypto.getRandomValues(new Uint8Array(16))].map((b) => ALPHABET[b % 32]).join('');
}
