// Mutual proof that this browser and the gateway hold the same secret. The secret is never sent: an
// impostor that has taken the gateway's port learns nothing that it could use elsewhere.

import { hmac } from "./hmac.js";

/** @import * as frames from "../frames.js" */
/** A secret with its id.
 * @typedef {{ id: string, key: CryptoKey | Uint8Array<ArrayBuffer>, isLink?: boolean }} OwnKey */

const HASH = /^[0-9a-f]{64}$/;
const LINK_ID = 32;
const BROWSER_ID = 16;

// There is none over plain HTTP in a local network.
const { subtle } = /** @type {{ subtle?: SubtleCrypto }} */ (crypto);
/** @param {string} text */
const encode = (text) => new TextEncoder().encode(text);
/** @param {Uint8Array} bytes */
const toHex = (bytes) => [...bytes].map((b) => b.toString(16).padStart(2, "0")).join("");
/** @param {string} text */
const fromHex = (text) => Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));

/** A key from these bytes. If the browser supports it, no script can read it, not even ours.
 * @param {Uint8Array<ArrayBuffer>} bytes */
const hidden = async (bytes) =>
  subtle ? subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]) : bytes;

/** @param {OwnKey["key"]} key
 * @param {string[]} words */
async function mac(key, ...words) {
  const text = encode(words.join("\n"));
  if (key instanceof Uint8Array) return toHex(hmac(key, text));
  return toHex(new Uint8Array(await crypto.subtle.sign("HMAC", key, text)));
}

/** The id and key of the link with this token.
 * @param {string} token
 * @returns {Promise<OwnKey>} */
export async function linkKey(token) {
  const id = await mac(encode(token), "segue link id");
  const secret = await mac(encode(token), "segue link secret");
  return { id: id.slice(0, LINK_ID), key: fromHex(secret), isLink: true };
}

/** The proof on one connection. Keys are tried in order. */
export class Proof {
  #keys;
  /** @type {OwnKey | null} */
  #tried = null;
  #nonce = "";

  /** @param {OwnKey[]} keys */
  constructor(keys) {
    this.#keys = [...keys];
  }

  /** The last key that was tried. */
  get tried() {
    return this.#tried;
  }

  /** The frame that tries the next key; null if there are no more.
   * @returns {frames.Greet | null} */
  greeting() {
    this.#tried = this.#keys.shift() ?? null;
    if (this.#tried === null) return null;
    this.#nonce = toHex(crypto.getRandomValues(new Uint8Array(32)));
    return { do: "greet", key: this.#tried.id, nonce: this.#nonce };
  }

  /** The frame that proves this browser to the gateway; null if the gateway's own proof is
   * wrong. A link that was not needed is proven, too, so that nobody else can use it.
   * @param {frames.Proof} frame
   * @returns {Promise<frames.Prove | null>} */
  async answer({ nonce, proof }) {
    const tried = this.#tried;
    if (tried === null || !HASH.test(nonce)) return null;
    if (proof !== (await this.#mac(tried, "segue server", nonce))) return null;
    /** @type {frames.Prove} */
    const frame = { do: "prove", proof: await this.#mac(tried, "segue browser", nonce) };
    const link = this.#keys.find((key) => key.isLink);
    if (link) frame.link = { key: link.id, proof: await this.#mac(link, "segue browser", nonce) };
    return frame;
  }

  /** This browser's id and key after the gateway has paired it through that link.
   * @param {OwnKey} link
   * @param {frames.Proof} frame
   * @returns {Promise<OwnKey>} */
  async paired(link, { nonce }) {
    const id = await this.#mac(link, "segue browser id", nonce);
    const secret = await this.#mac(link, "segue browser secret", nonce);
    return { id: id.slice(0, BROWSER_ID), key: await hidden(fromHex(secret)) };
  }

  /** @param {OwnKey} key
   * @param {string} purpose
   * @param {string} nonce */
  #mac({ key }, purpose, nonce) {
    return mac(key, purpose, location.origin, this.#nonce, nonce);
  }
}
