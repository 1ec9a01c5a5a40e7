// HMAC-SHA-256 (RFC 2104, FIPS 180-4). Browsers have it built in, but not for a page loaded over
// plain HTTP from another machine of the local network.

const BLOCK = 64;

/** The first `count` primes, from which SHA-256 derives its constants.
 * @param {number} count */
function primes(count) {
  /** @type {number[]} */
  const found = [];
  for (let n = 2; found.length < count; n++) if (found.every((p) => n % p)) found.push(n);
  return found;
}

/** @param {number} x */
const fraction = (x) => ((x % 1) * 2 ** 32) | 0;
const START = primes(8).map((p) => fraction(p ** (1 / 2)));
const ROUNDS = primes(64).map((p) => fraction(p ** (1 / 3)));
/** @type {(x: number, n: number) => number} */
const rotate = (x, n) => (x >>> n) | (x << (32 - n));

/** @param {Uint8Array} bytes */
export function sha256(bytes) {
  const padded = new Uint8Array(Math.ceil((bytes.length + 9) / BLOCK) * BLOCK);
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  const words = new DataView(padded.buffer);
  words.setBigUint64(padded.length - 8, BigInt(bytes.length) * 8n);
  const state = [...START];
  for (let at = 0; at < padded.length; at += BLOCK) mix(state, words, at);
  const hash = new DataView(new ArrayBuffer(32));
  for (const [i, word] of state.entries()) hash.setInt32(4 * i, word);
  return new Uint8Array(hash.buffer);
}

/** Mix the block at that position into the state.
 * @param {number[]} state
 * @param {DataView} words
 * @param {number} at */
function mix(state, words, at) {
  const w = new Int32Array(64);
  for (let i = 0; i < 16; i++) w[i] = words.getInt32(at + 4 * i);
  for (let i = 16; i < 64; i++) {
    const s0 = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ (w[i - 15] >>> 3);
    const s1 = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ (w[i - 2] >>> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  let [a, b, c, d, e, f, g, h] = state;
  for (let i = 0; i < 64; i++) {
    const s1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
    const t1 = (h + s1 + ((e & f) ^ (~e & g)) + ROUNDS[i] + w[i]) | 0;
    const s0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
    const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    [a, b, c, d, e, f, g, h] = [(t1 + t2) | 0, a, b, c, (d + t1) | 0, e, f, g];
  }
  for (const [i, word] of [a, b, c, d, e, f, g, h].entries()) state[i] = (state[i] + word) | 0;
}

/** @param {Uint8Array} key
 * @param {Uint8Array} bytes */
export function hmac(key, bytes) {
  const block = new Uint8Array(BLOCK);
  block.set(key.length > BLOCK ? sha256(key) : key);
  const inner = sha256(joined(block.map((b) => b ^ 0x36), bytes));
  return sha256(joined(block.map((b) => b ^ 0x5c), inner));
}

/** @param {Uint8Array} first
 * @param {Uint8Array} second */
function joined(first, second) {
  const both = new Uint8Array(first.length + second.length);
  both.set(first);
  both.set(second, first.length);
  return both;
}
