// Mutual proof that this browser and the gateway hold the same secret. The secret is never sent: an
// impostor that has taken the gateway's port learns nothing that it could use elsewhere.

import { hmac } from "./hmac.js";

const HASH = /^[0-9a-f]{64}$/;
const LINK_ID = 32;
const BROWSER_ID = 16;

const { subtle } = crypto; // undefined over plain HTTP in a local network
const encode = (text) => new TextEncoder().encode(text);
const toHex = (bytes) => [...bytes].map((b) => b.toString(16).padStart(2, "0")).join("");
const fromHex = (text) => Uint8Array.from(text.match(/../g), (pair) => parseInt(pair, 16));

/** A key from these bytes. If the browser supports it, no script can read it, not even ours. */
const hidden = (bytes) =>
  subtle ? subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]) : bytes;

async function mac(key, ...words) {
  const text = encode(words.join("\n"));
  return toHex(
    key instanceof Uint8Array ? hmac(key, text) : new Uint8Array(await subtle.sign("HMAC", key, text)),
  );
}

/** The id and key of the link with this token. */
export async function linkKey(token) {
  const id = await mac(encode(token), "segue link id");
  const secret = await mac(encode(token), "segue link secret");
  return { id: id.slice(0, LINK_ID), key: fromHex(secret), isLink: true };
}

/** The proof on one connection. Keys are tried in order. */
export class Proof {
  #keys;
  #tried = null;
  #nonce = "";

  /** `keys`: each key with its id. */
  constructor(keys) {
    this.#keys = [...keys];
  }

  /** The last key that was tried. */
  get tried() {
    return this.#tried;
  }

  /** The frame that tries the next key; null if there are no more. */
  greeting() {
    this.#tried = this.#keys.shift() ?? null;
    if (this.#tried === null) return null;
    this.#nonce = toHex(crypto.getRandomValues(new Uint8Array(32)));
    return { do: "greet", key: this.#tried.id, nonce: this.#nonce };
  }

  /** The frame that proves this browser to the gateway; null if the gateway's own proof is
   * wrong. A link that was not needed is proven, too, so that nobody else can use it. */
  async answer({ nonce, proof }) {
    if (this.#tried === null || !HASH.test(nonce)) return null;
    if (proof !== (await this.#mac("segue server", nonce))) return null;
    const frame = { do: "prove", proof: await this.#mac("segue browser", nonce) };
    const link = this.#keys.find((key) => key.isLink);
    if (link) frame.link = { key: link.id, proof: await this.#mac("segue browser", nonce, link) };
    return frame;
  }

  /** This browser's id and key after the gateway has paired it through a link. */
  async paired({ nonce }) {
    const id = await this.#mac("segue browser id", nonce);
    const secret = await this.#mac("segue browser secret", nonce);
    return { id: id.slice(0, BROWSER_ID), key: await hidden(fromHex(secret)) };
  }

  #mac(purpose, nonce, { key } = this.#tried) {
    return mac(key, purpose, location.origin, this.#nonce, nonce);
  }
}
